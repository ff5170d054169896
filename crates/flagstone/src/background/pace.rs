//! How fast compactions and flushes go while writers write: no faster than is needed.
//!
//! A job that takes all it can get, then leaves writers alone, shows as a saw in their rate. So between
//! its steps of about 1 MiB it rests.
//!
//! A **compaction** rests the longer the less its trees are out of shape:
//!
//! ```text
//! score of the worst tree:   1.0    1.25    1.5 ..
//! works so much of the time: 3/10   13/20   all of it
//! ```
//! Trees fill while jobs rest, until the work done is the work that comes in.
//!
//! A **flush** has to be done before memtables have grown from half of their share to where writers are
//! delayed, and the log from its bound to a quarter above it. While more of the flush is done than has grown
//! of that, it works half of the time:
//!
//! ```text
//!   half                  now                       delays
//!    |------- grown -------|                           |
//!    |--------------- done ---------------|            |   ahead: it rests
//! ```
//! So memtables that are fuller leave it less rest, and a flush that frees much gets less than one of many.

use flagstone_env::Progress;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The share of the time that a compaction works at a score of 1 or less.
const SHARE_MIN: f64 = 0.3;
/// From this score on it works all the time.
const SCORE_ALL: f64 = 1.5;
/// A step that took longer lost the processor to others, who have had their time already.
const STEP_MAX: Duration = Duration::from_millis(20);

/// The share of the time that compaction jobs work, for all of them.
#[derive(Default)]
pub(crate) struct Pace {
    /// In thousandths; 0, as at the beginning: all of it.
    share: AtomicU32,
}

impl Pace {
    /// Sets the pace by the `score` of the tree that is most out of shape; `None`: nobody writes.
    pub(super) fn set(&self, score: Option<f64>) {
        let share = score.map_or(1.0, |score| {
            let urgency = ((score - 1.0) / (SCORE_ALL - 1.0)).clamp(0.0, 1.0);
            SHARE_MIN + (1.0 - SHARE_MIN) * urgency
        });
        self.share.store((share * 1000.0) as u32, Ordering::Relaxed);
    }

    /// What a job does behind a step that took so long.
    pub(super) fn rest_after(&self, step: Duration) -> Progress {
        match self.share.load(Ordering::Relaxed) {
            0 | 1000.. => Progress::Again,
            share => Progress::Rest(step.min(STEP_MAX) * (1000 - share) / share),
        }
    }
}

/// Something that grows while a flush runs, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    /// No flush is needed before.
    from: u64,
    /// The flush has to be done by then.
    to: u64,
}

impl Growth {
    pub(super) const fn new(from: u64, to: u64) -> Self {
        Self { from, to }
    }

    /// The part of it that has come, at most 1.
    fn part(self, now: u64) -> f64 {
        part(now.saturating_sub(self.from), self.to.saturating_sub(self.from))
    }
}

fn part(of: u64, whole: u64) -> f64 {
    if of >= whole { 1.0 } else { of as f64 / whole as f64 }
}

/// What a flush that nobody waits for does behind a step.
#[derive(Debug)]
pub(super) struct FlushPace {
    pub(super) memtables: Growth,
    pub(super) log: Growth,
    /// What is flushed.
    pub(super) bytes: u64,
    /// The longest rest.
    pub(super) rest_max: Duration,
}

impl FlushPace {
    /// Behind a step that took so long, with so many bytes done, held by memtables and by the log.
    pub(super) fn rest_after(&self, step: Duration, done: u64, held: u64, log: u64) -> Progress {
        let grown = self.memtables.part(held).max(self.log.part(log));
        match part(done, self.bytes) > grown {
            true => Progress::Rest(step.min(STEP_MAX).min(self.rest_max)),
            false => Progress::Again,
        }
    }
}

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

    #[test]
    fn a_flush_rests_while_it_is_ahead_of_memtables_and_log() {
        let pace = FlushPace {
            memtables: Growth::new(500, 750),
            log: Growth::new(1000, 2000),
            bytes: 100,
            rest_max: Duration::from_secs(1),
        };
        let rest = Progress::Rest(STEP);
        let again = Progress::Again;
        for (done, held, log, expected) in [
            (1, 500, 1000, rest),
            (0, 500, 1000, again),
            (50, 600, 1000, rest),
            (50, 650, 1000, again),
            (50, 400, 900, rest),
            (50, 500, 1400, rest),
            (50, 500, 1600, again),
            // Where the deadline is reached it never rests.
            (200, 750, 1000, again),
            (200, 500, 2500, again),
        ] {
            assert_eq!(pace.rest_after(STEP, done, held, log), expected, "{done} {held} {log}");
        }
        // Memtables that are over it from the beginning.
        let late = FlushPace { memtables: Growth::new(800, 750), ..pace };
        assert_eq!(late.rest_after(STEP, 90, 800, 1000), again);
    }

    #[test]
    fn a_flush_rests_no_longer_than_it_may() {
        let pace = |rest_max| FlushPace {
            memtables: Growth::new(0, 10),
            log: Growth::new(0, 10),
            bytes: 2,
            rest_max,
        };
        let micros = Duration::from_micros(100);
        assert_eq!(pace(micros).rest_after(STEP, 1, 0, 0), Progress::Rest(micros));
        let long = Duration::from_secs(9);
        assert_eq!(pace(long).rest_after(long, 1, 0, 0), Progress::Rest(STEP_MAX));
    }
}
