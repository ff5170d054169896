//! Back-pressure: writers slow down early by a little, so that they need not stop later.
//!
//! ```text
//! fill of the memtables' share:   0 .. 3/4   free
//!                                 3/4 .. 1   a delay that grows with the square of the excess
//!                                 1          stop until a flush has made room
//! ```
//! Tables that wait for compaction add a fill of their own. A delay is a wait on a bell, with a
//! time limit and outside all locks. The bell rings when a flush or a compaction ends, and when a
//! large write is done for which another one waits.

use crate::event::StallCause;
use flagstone_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use flagstone_env::sync::{FairMutex, Mutex};
use std::time::Duration;

/// The fill, in thousandths, from which on writers are delayed. For the effect of earlier delays,
/// or of none, see docs/decisions/background.md.
const DELAY_FROM: u32 = 750;
/// The fill, in thousandths, at which writers stop.
pub(crate) const STOP: u32 = 1000;
/// The delay just below the stop, a choice that was not measured. Longer delays show in the tail,
/// shorter ones leave more to the stop.
const DELAY_MAX: Duration = Duration::from_millis(1);

/// How strongly writers are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Write now.
    Free,
    /// Wait this long, then write.
    Delay(Duration),
    /// Wait until the fill is below [`STOP`].
    Stop(StallCause),
}

/// How full memtables and trees are, and the writers that wait for that to change.
#[derive(Default)]
pub(crate) struct Stall {
    /// The fill of the tree whose writers are held back most. From [`DELAY_FROM`] on every writer
    /// checks its own trees.
    compaction_fill: AtomicU32,
    /// Counts all large writes.
    pub(crate) large: Turns,
    /// Counts the large writes that are updates: they hold their keys.
    pub(crate) updates: Turns,
    /// The number of writers that wait for their turn at the head of a line.
    pub(crate) awaiting: AtomicU32,
    pub(crate) stopped: Stopped,
    /// How often writers were stopped, and for how long they were stopped or delayed.
    pub(crate) stalls: AtomicU64,
    pub(crate) stall_nanos: AtomicU64,
    /// When the log reached its limit because of trees whose flush fails, if it has.
    log_full_since: Mutex<Option<Duration>>,
}

/// Writers that take turns.
#[derive(Default)]
pub(crate) struct Turns {
    /// Bytes of those that were admitted and are not in a memtable yet.
    pub(crate) bytes: AtomicU64,
    /// Held by the writer at the head of the line.
    pub(crate) door: FairMutex<()>,
}

/// Writers that are stopped: their number, and when the first of them stopped.
#[derive(Default)]
pub(crate) struct Stopped(Mutex<(usize, Duration)>);

impl Stopped {
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
    /// Sets the largest fill of any tree for tables that wait for compaction, in thousandths.
    /// Returns the previous one.
    pub(crate) fn set_compaction_fill(&self, fill: u32) -> u32 {
        self.compaction_fill.swap(fill, Ordering::Relaxed)
    }

    /// Returns whether no writer needs to wait when the memtables hold `bytes` of their `share`.
    #[inline]
    pub(crate) fn is_free(&self, bytes: u64, share: u64) -> bool {
        let compaction = self.compaction_fill.load(Ordering::Relaxed);
        bytes <= free_bytes(share) && compaction < DELAY_FROM
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

/// The bytes that memtables may hold of their `share` before writers are delayed.
pub(crate) const fn free_bytes(share: u64) -> u64 {
    share / 1000 * DELAY_FROM as u64
}

/// Returns what a writer must do when the memtables hold `bytes` of their `share`, and its own
/// trees have the fill `compaction` for tables that wait for compaction.
pub(crate) fn pressure_at(bytes: u64, share: u64, compaction: u32) -> Pressure {
    let memory = u32::try_from(u128::from(bytes) * 1000 / u128::from(share.max(1)));
    let memory = memory.unwrap_or(u32::MAX);
    let (fill, cause) = if memory >= compaction {
        (memory, StallCause::Memory)
    } else {
        (compaction, StallCause::Compaction)
    };
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
        let (stopped, at) = (Stopped::default(), Duration::from_secs);
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
        stall.set_compaction_fill(900);
        assert!(!stall.is_free(0, 1000));
        stall.set_compaction_fill(0);
        assert!(stall.is_free(0, 1000) && !stall.is_free(800, 1000));
    }
}
