//! How fast compactions and flushes run while writers write: no faster than needed.
//!
//! A job that takes all it can get, and then leaves writers alone, shows as a sawtooth in their
//! rate. So a job pauses between its steps of about 1 MiB.
//!
//! A **compaction** pauses longer the better the shape of its trees is:
//!
//! ```text
//! score of the worst tree:   1.0    1.25    1.5 ..
//! share of time it works:    3/10   13/20   all of it
//! ```
//! Trees fill while jobs pause, until the work done equals the work that comes in.
//!
//! A **flush** must end before memtables have grown from half of their share to where writers are
//! delayed, and before the log has grown from where it counts as long to its limit. While the part
//! of the flush that is done exceeds the part of that growth, it pauses as long as it works, up to
//! a limit:
//!
//! ```text
//!   half                  now                       delays
//!    |------- grown -------|                           |
//!    |--------------- done ---------------|            |   ahead: it pauses
//! ```
//! So a flush pauses less when memtables are fuller, and a flush that frees much memory pauses less
//! than one of many small ones.

use crate::core::Core;
use crate::stall::free_bytes;
use flagstone_base::SeqNo;
use flagstone_env::Progress;
use flagstone_env::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The share of the time that a compaction works at a score of 1 or less.
const SHARE_MIN: f64 = 0.3;
/// From this score on a compaction works all the time.
const SCORE_ALL: f64 = 1.5;
/// A longer step lost the processor to other threads, which have had their time already.
const STEP_MAX: Duration = Duration::from_millis(20);

/// The share of the time that compaction jobs work, common to all of them.
#[derive(Default)]
pub(crate) struct Pace {
    /// In thousandths. 0, the initial value, means all of the time.
    share: AtomicU32,
}

impl Pace {
    /// Sets the pace by the `score` of the tree in the worst shape; `None` if writers are idle.
    pub(super) fn set(&self, score: Option<f64>) {
        let share = score.map_or(1.0, |score| {
            let urgency = ((score - 1.0) / (SCORE_ALL - 1.0)).clamp(0.0, 1.0);
            SHARE_MIN + (1.0 - SHARE_MIN) * urgency
        });
        self.share.store((share * 1000.0) as u32, Ordering::Relaxed);
    }

    /// Returns what a job does after a step that took `step`.
    pub(super) fn rest_after(&self, step: Duration) -> Progress {
        match self.share.load(Ordering::Relaxed) {
            0 | 1000.. => Progress::Again,
            share => Progress::Rest(step.min(STEP_MAX) * (1000 - share) / share),
        }
    }
}

/// Sizes that grow while a flush runs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FilledBytes {
    memtables: u64,
    log: u64,
}

/// The pace of one flush. It pauses only while writers are active and no thread waits for it, and
/// if there is time.
#[derive(Debug)]
pub(super) struct FlushPace {
    /// Up to these sizes there is no hurry.
    from: FilledBytes,
    /// The flush must end before one of these sizes is reached.
    to: FilledBytes,
    rest_max: Duration,
    /// Bytes of memory being flushed.
    bytes: u64,
    /// The newest write that was visible after the last step.
    seen: SeqNo,
}

impl FlushPace {
    /// The pace of a flush of `bytes` of memory that starts now.
    pub(super) fn new(core: &Core, bytes: u64) -> Self {
        let options = &core.setup().options;
        let (share, log) = (options.memtable_share(), options.wal_bytes_long());
        // A flush that started before the log was long leaves the oldest part of the log to the
        // next flush, and must not delay that.
        let log_to = if core.history.log_bytes() > log { options.wal_bytes_max() } else { log };
        Self {
            from: FilledBytes { memtables: share / 2, log },
            to: FilledBytes { memtables: free_bytes(share), log: log_to },
            // Writers at 1 GB/s fill a sixteenth of the memtables' share in this time.
            rest_max: Duration::from_nanos(share / 16),
            bytes,
            seen: core.history.visible(),
        }
    }

    /// Returns whether the flush may pause after this step: something was written since the last
    /// step, and no thread waits for the flush.
    pub(super) fn may_rest(&mut self, core: &Core) -> bool {
        let visible = core.history.visible();
        let is_used = std::mem::replace(&mut self.seen, visible) < visible;
        let is_awaited = core.stall.stopped.is_any() || core.work.is_flush_awaited();
        // With `memtable_bytes` the user asks for memtables that are no larger.
        is_used && !is_awaited && core.setup().options.memtable_bytes.is_none()
    }

    /// Returns what the flush does after a step that took `step`, when `done` bytes are flushed.
    pub(super) fn rest_after(&self, core: &Core, step: Duration, done: f64) -> Progress {
        let (memtables, log) = (core.memory.memtable_bytes(), core.history.log_bytes());
        self.rest_at(FilledBytes { memtables, log }, step, done / self.bytes.max(1) as f64)
    }

    /// The same when memtables and log have grown to `filled` and the part `done` of the flush is
    /// done.
    fn rest_at(&self, filled: FilledBytes, step: Duration, done: f64) -> Progress {
        let memtables = grown(self.from.memtables, self.to.memtables, filled.memtables);
        let log = grown(self.from.log, self.to.log, filled.log);
        if done > memtables.max(log) {
            Progress::Rest(step.min(STEP_MAX).min(self.rest_max))
        } else {
            Progress::Again
        }
    }
}

/// The part of the growth from `from` to `to` that has happened at `now`.
fn grown(from: u64, to: u64, now: u64) -> f64 {
    match now {
        _ if now <= from => 0.0,
        _ if now >= to => 1.0,
        _ => (now - from) as f64 / (to - from) as f64,
    }
}

#[cfg(test)]
mod flush_tests;

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(9);

    #[test]
    fn a_compaction_rests_less_the_more_urgent_it_is() {
        let pace = Pace::default();
        let after = |score: f64| {
            pace.set(Some(score));
            pace.rest_after(STEP)
        };
        assert_eq!(after(0.5), Progress::Rest(STEP * 7 / 3));
        assert_eq!(after(1.0), Progress::Rest(STEP * 7 / 3));
        let Progress::Rest(rest) = after(1.25) else { panic!("no rest") };
        assert!(rest < STEP);
        assert_eq!(after(1.5), Progress::Again);
        assert_eq!(after(9.0), Progress::Again);
    }

    #[test]
    fn no_compaction_rests_while_nobody_writes() {
        let pace = Pace::default();
        assert_eq!(pace.rest_after(STEP), Progress::Again);
        pace.set(Some(1.0));
        pace.set(None);
        assert_eq!(pace.rest_after(STEP), Progress::Again);
    }

    #[test]
    fn a_step_that_lost_the_processor_is_not_paid_for_twice() {
        let pace = Pace::default();
        pace.set(Some(1.0));
        assert_eq!(pace.rest_after(Duration::from_secs(3)), Progress::Rest(STEP_MAX * 7 / 3));
    }

    fn flush_pace(to: FilledBytes, rest_max: Duration) -> FlushPace {
        let from = FilledBytes { memtables: 500, log: 1000 };
        FlushPace { from, to, rest_max, bytes: 1, seen: SeqNo::ZERO }
    }

    #[test]
    fn a_flush_rests_while_it_is_ahead_of_memtables_and_log() {
        let pace = flush_pace(FilledBytes { memtables: 750, log: 2000 }, Duration::from_secs(1));
        let rest = Progress::Rest(STEP);
        let again = Progress::Again;
        for (memtables, log, done, expected) in [
            (500, 1000, 0.01, rest),
            (500, 1000, 0.0, again),
            (600, 1000, 0.5, rest),
            (650, 1000, 0.5, again),
            (400, 900, 0.5, rest),
            (500, 1400, 0.5, rest),
            (500, 1600, 0.5, again),
            (650, 1600, 0.5, again),
            // At the limit it never pauses.
            (750, 1000, 1.0, again),
            (500, 2500, 1.0, again),
        ] {
            let filled = FilledBytes { memtables, log };
            assert_eq!(pace.rest_at(filled, STEP, done), expected, "{filled:?} {done}");
        }
    }

    #[test]
    fn a_flush_that_has_no_time_for_the_log_rests_only_while_that_is_short() {
        let pace = flush_pace(FilledBytes { memtables: 750, log: 1000 }, Duration::from_secs(1));
        let rest = |log| pace.rest_at(FilledBytes { memtables: 500, log }, STEP, 0.99);
        assert_eq!(rest(1000), Progress::Rest(STEP));
        assert_eq!(rest(1001), Progress::Again);
    }

    #[test]
    fn a_flush_rests_no_longer_than_it_may() {
        let rest = |rest_max, step| {
            let pace = flush_pace(FilledBytes { memtables: 750, log: 2000 }, rest_max);
            pace.rest_at(pace.from, step, 0.5)
        };
        let (short, long) = (Duration::from_micros(100), Duration::from_secs(9));
        assert_eq!(rest(short, STEP), Progress::Rest(short));
        assert_eq!(rest(long, long), Progress::Rest(STEP_MAX));
    }
}
