//! Write stalls: how full memtables and trees are, and what that means for writers. Writers slow
//! down early by a little, so that they need not stop later.
//!
//! ```text
//! fill, in thousandths:   0 .. 750      free
//!                         750 .. 1000   a delay that grows with the square of the excess
//!                         1000          stop until a flush or a compaction has ended
//! ```
//! Memtables have the fill of their share. A tree has a fill for the runs that wait for compaction,
//! and for its garbage if there is too much; it counts for writers of that tree.
//! `commit/throttle` delays and stops the writers.

use crate::event::StallCause;
use crate::options::Options;
use crate::queue::{Queue, Work};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use flagstone_tree::Tree;
use std::time::Duration;

/// The fill from which on writers are delayed. For the effect of earlier delays, or of none, see
/// docs/decisions/background.md.
const DELAY_FROM: u32 = 750;
/// The fill at which writers stop.
pub(crate) const STOP: u32 = 1000;
/// The delay just below the stop, a choice that was not measured. Longer delays show in the tail,
/// shorter ones leave more to the stop.
const DELAY_MAX: Duration = Duration::from_millis(1);
/// Writers stop at this many runs in the first level of a tree, since reads look into each run.
const L0_RUNS_STOP: usize = 64;
/// Writers are delayed from this many runs on. It is twice what a tree has when its turn to be
/// merged comes: the trees of a keyspace fill at the same rate and wait for one another.
const L0_RUNS_FREE: usize = 24;

/// Whether a write may wait: for memory, for compactions or for an ingest. If not, it returns Busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It waits.
    Yes,
    /// It returns Busy.
    No,
}

/// What a writer must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Write now.
    Free,
    /// Wait this long, then write.
    Delay(Duration),
    /// Wait until the fill is below [`STOP`].
    Stop(StallCause),
}

/// The write stalls of an open database.
#[derive(Default)]
pub(crate) struct Stall {
    /// The fill of the fullest tree. From [`DELAY_FROM`] on every writer checks its own trees.
    fullest_tree: AtomicU32,
    pub(crate) stopped: StoppedWriters,
    /// How often writers were stopped, and for how long they were stopped or delayed.
    pub(crate) stalls: AtomicU64,
    nanos: AtomicU64,
    /// When the log reached its limit because of trees whose flush fails, if it has.
    log_full_since: Mutex<Option<Duration>>,
}

/// Writers that are stopped: their number, and when the first of them stopped.
#[derive(Default)]
pub(crate) struct StoppedWriters(Mutex<(usize, Duration)>);

impl StoppedWriters {
    /// Adds a writer at the time `now`. Returns whether it is the only one.
    pub(crate) fn enter(&self, now: Duration) -> bool {
        let mut stopped = self.0.lock();
        stopped.0 += 1;
        if stopped.0 == 1 {
            stopped.1 = now;
        }
        stopped.0 == 1
    }

    /// Removes a writer at the time `now`. After the last one, returns for how long there were any.
    pub(crate) fn leave(&self, now: Duration) -> Option<Duration> {
        let mut stopped = self.0.lock();
        stopped.0 -= 1;
        (stopped.0 == 0).then(|| now.saturating_sub(stopped.1))
    }

    pub(crate) fn is_any(&self) -> bool {
        self.0.lock().0 > 0
    }
}

impl Stall {
    /// Returns whether no writer needs to wait when the memtables hold `bytes` of their `share`.
    #[inline]
    pub(crate) fn is_free(&self, bytes: u64, share: u64) -> bool {
        let fullest_tree = self.fullest_tree.load(Ordering::Relaxed);
        bytes <= free_bytes(share) && fullest_tree < DELAY_FROM
    }

    /// Sets the fill of `tree`, which has changed. Returns whether its writers wait less now.
    pub(crate) fn set_fill(
        &self,
        work: &Work,
        queue: &mut Queue,
        tree: &Tree,
        options: &Options,
    ) -> bool {
        let is_wasteful = queue.spaces.is_wasteful(tree.id(), options);
        let fill = fill_of_runs(tree.l0_runs());
        let fill = if is_wasteful { fill.max(queue.spaces.fill) } else { fill };
        let before = tree.set_stall_fill(fill);
        if fill == 0 {
            queue.fills.remove(&tree.id());
        } else {
            queue.fills.insert(tree.id(), fill);
        }
        self.note_fullest(work, queue);
        fill < before
    }

    /// Notes the fill of the fullest tree. While a flush keeps failing every writer checks its own
    /// trees.
    pub(crate) fn note_fullest(&self, work: &Work, queue: &Queue) {
        let fullest = queue.fills.values().copied().max().unwrap_or(0);
        let is_stuck = work.stuck() > 0;
        self.fullest_tree.store(if is_stuck { STOP } else { fullest }, Ordering::Relaxed);
    }

    /// Notes that a writer was delayed or stopped for this long.
    pub(crate) fn note_waited(&self, took: Duration) {
        self.nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// For how long writers were delayed or stopped, all of them together.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    /// Notes that the log is at its limit at the time `now`. Returns true if it was not before.
    pub(crate) fn note_full_log(&self, now: Duration) -> bool {
        let mut since = self.log_full_since.lock();
        since.is_none() && since.replace(now).is_none()
    }

    /// Notes that no flush fails any more. Returns when the log reached its limit, if it had.
    pub(crate) fn note_log_is_free(&self) -> Option<Duration> {
        self.log_full_since.lock().take()
    }
}

/// The fill of a tree with `runs` runs in its first level: from 750 (no delay) at the free count to
/// 1,000 (stop).
fn fill_of_runs(runs: usize) -> u32 {
    let excess = runs.saturating_sub(L0_RUNS_FREE) as u32;
    if excess == 0 { 0 } else { 750 + 250 * excess / (L0_RUNS_STOP - L0_RUNS_FREE) as u32 }
}

/// The bytes that memtables may hold of their `share` before writers are delayed.
pub(crate) const fn free_bytes(share: u64) -> u64 {
    share / 1000 * DELAY_FROM as u64
}

/// Returns what a writer must do when the memtables hold `bytes` of their `share`, and the fullest
/// of its own trees has the fill `tree`.
pub(crate) fn pressure_at(bytes: u64, share: u64, tree: u32) -> Pressure {
    let memory = u32::try_from(u128::from(bytes) * 1000 / u128::from(share.max(1)));
    let memory = memory.unwrap_or(u32::MAX);
    let (fill, cause) =
        if memory >= tree { (memory, StallCause::Memory) } else { (tree, StallCause::Compaction) };
    if fill >= STOP {
        return Pressure::Stop(cause);
    }
    if fill <= DELAY_FROM {
        return Pressure::Free;
    }
    let excess = f64::from(fill - DELAY_FROM) / f64::from(STOP - DELAY_FROM);
    Pressure::Delay(DELAY_MAX.mul_f64(excess * excess))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_lasts_from_the_first_writer_to_the_last() {
        let (stopped, at) = (StoppedWriters::default(), Duration::from_secs);
        assert!(stopped.enter(at(1)) && !stopped.enter(at(9)));
        assert_eq!(stopped.leave(at(10)), None);
        assert!(stopped.is_any());
        assert_eq!(stopped.leave(at(11)), Some(at(10)));
        assert!(!stopped.is_any() && stopped.enter(at(20)));
        assert_eq!(stopped.leave(at(21)), Some(at(1)));
    }

    #[test]
    fn pressure_grows_with_the_fill_and_stops_at_the_share() {
        assert_eq!(pressure_at(700, 1000, 0), Pressure::Free);
        let Pressure::Delay(early) = pressure_at(800, 1000, 0) else { panic!() };
        let Pressure::Delay(late) = pressure_at(990, 1000, 0) else { panic!() };
        assert!(Duration::ZERO < early && early < late && late <= DELAY_MAX);
        assert_eq!(pressure_at(1000, 1000, 0), Pressure::Stop(StallCause::Memory));
    }

    #[test]
    fn waiting_tables_hold_writers_back_too() {
        assert!(matches!(pressure_at(0, 1000, 900), Pressure::Delay(_)));
        assert_eq!(pressure_at(0, 1000, 1000), Pressure::Stop(StallCause::Compaction));
        assert_eq!(pressure_at(0, 1000, 0), Pressure::Free);
        let stall = Stall::default();
        stall.fullest_tree.store(900, Ordering::Relaxed);
        assert!(!stall.is_free(0, 1000));
        stall.fullest_tree.store(0, Ordering::Relaxed);
        assert!(stall.is_free(0, 1000) && !stall.is_free(800, 1000));
    }
}
