//! Back-pressure: writers slow down a little and early, so that they need not stop late.
//!
//! ```text
//! fill of the memtables' share:   0 .. 3/4   free
//!                                 3/4 .. 1   a delay that grows with the square of the excess
//!                                 1          stop until a flush has made room
//! ```
//! Tables waiting for compaction add a fill of their own. Delays are waits with a time limit on a
//! bell, outside all locks; a flush or a compaction that ends rings it, and a large write that another
//! one waits for.

use crate::event::StallCause;
use flagstone_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use flagstone_env::sync::{FairMutex, Mutex};
use std::time::Duration;

/// A fill, in thousandths, from which on writers are delayed; what earlier delays and none at all do
/// stands in docs/decisions/background.md.
const DELAY_FROM: u32 = 750;
/// A fill at which they stop.
pub(crate) const STOP: u32 = 1000;
/// The delay just below the stop: a choice not measured yet. Longer delays show in the tail, shorter
/// ones leave more to the stop.
const DELAY_MAX: Duration = Duration::from_millis(1);

/// What a writer must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Go on.
    Free,
    /// Wait this long, then go on.
    Delay(Duration),
    /// Wait until it is less.
    Stop(StallCause),
}

/// How full things are, and which writers wait for that to change.
#[derive(Default)]
pub(crate) struct Stall {
    /// That of the tree whose writers are held back most: others look at their own trees then.
    compaction_fill: AtomicU32,
    /// All large writes.
    pub(crate) large: Turns,
    /// Those of them that are updates: they hold their keys.
    pub(crate) updates: Turns,
    /// How many writers wait for their turn at the head of a line.
    pub(crate) awaiting: AtomicU32,
    pub(crate) stopped: Stopped,
    /// How often writers were stopped, and for how long they were stopped or delayed.
    pub(crate) stalls: AtomicU64,
    pub(crate) stall_nanos: AtomicU64,
    /// Since when the log is at its bound for trees whose flush fails.
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

/// Writers that are stopped: how many, and since when there are any.
#[derive(Default)]
pub(crate) struct Stopped(Mutex<(usize, Duration)>);

impl Stopped {
    /// Counts one more, at the time `now`; whether there was none.
    pub(crate) fn enter(&self, now: Duration) -> bool {
        let mut stopped = self.0.lock();
        stopped.0 += 1;
        if stopped.0 == 1 {
            stopped.1 = now;
        }
        stopped.0 == 1
    }

    /// Counts one less; if it was the last, for how long there were any.
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
    /// Sets the largest fill of what waits for compaction in any tree, in thousandths; returns what it was.
    pub(crate) fn set_compaction_fill(&self, fill: u32) -> u32 {
        self.compaction_fill.swap(fill, Ordering::Relaxed)
    }

    /// Whether no writer need wait when the memtables hold `bytes` of their `share`.
    #[inline]
    pub(crate) fn is_free(&self, bytes: u64, share: u64) -> bool {
        let compaction = self.compaction_fill.load(Ordering::Relaxed);
        bytes <= free_bytes(share) && compaction < DELAY_FROM
    }

    /// The log is at its bound at the time `now`; true if it was not before.
    pub(crate) fn note_full_log(&self, now: Duration) -> bool {
        let mut since = self.log_full_since.lock();
        since.is_none() && since.replace(now).is_none()
    }

    /// No flush fails any more; since when the log was at its bound, if it was.
    pub(crate) fn note_log_is_free(&self) -> Option<Duration> {
        self.log_full_since.lock().take()
    }
}

/// What memtables hold of their `share` before writers are delayed.
pub(crate) const fn free_bytes(share: u64) -> u64 {
    share / 1000 * DELAY_FROM as u64
}

/// What a writer must do when the memtables hold `bytes` of their `share`, and what waits for compaction in its own
/// trees has the fill `compaction`.
pub(crate) fn graded(bytes: u64, share: u64, compaction: u32) -> Pressure {
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
        assert_eq!(graded(700, 1000, 0), Pressure::Free);
        let Pressure::Delay(early) = graded(800, 1000, 0) else { panic!() };
        let Pressure::Delay(late) = graded(990, 1000, 0) else { panic!() };
        assert!(Duration::ZERO < early && early < late && late <= DELAY_MAX);
        assert_eq!(graded(1000, 1000, 0), Pressure::Stop(StallCause::Memory));
    }

    #[test]
    fn waiting_tables_hold_writers_back_too() {
        assert!(matches!(graded(0, 1000, 900), Pressure::Delay(_)));
        assert_eq!(graded(0, 1000, 1000), Pressure::Stop(StallCause::Compaction));
        assert_eq!(graded(0, 1000, 0), Pressure::Free);
        let stall = Stall::default();
        stall.set_compaction_fill(900);
        assert!(!stall.is_free(0, 1000));
        stall.set_compaction_fill(0);
        assert!(stall.is_free(0, 1000) && !stall.is_free(800, 1000));
    }
}
