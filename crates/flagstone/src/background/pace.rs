//! How fast compactions go while writers write: as fast as what waits for them is urgent.
//!
//! A compaction that takes all it can get, then leaves writers alone, shows as a saw in their rate. So
//! between its steps of about 1 MiB a job rests, the longer the less its trees are out of shape:
//!
//! ```text
//! score of the worst tree:   1.0    1.25    1.5 ..
//! works so much of the time: 3/10   13/20   all of it
//! ```
//! Trees fill while jobs rest, until the work done is the work that comes in.

use flagstone_env::Progress;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The share of the time that a job works at a score of 1 or less.
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
    pub(super) fn behind(&self, step: Duration) -> Progress {
        match self.share.load(Ordering::Relaxed) {
            0 | 1000.. => Progress::Again,
            share => Progress::Rest(step.min(STEP_MAX) * (1000 - share) / share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(9);

    #[test]
    fn a_job_rests_less_the_more_urgent_it_is() {
        let pace = Pace::default();
        let behind = |score: f64| {
            pace.set(Some(score));
            pace.behind(STEP)
        };
        assert_eq!(behind(0.5), Progress::Rest(STEP * 7 / 3));
        assert_eq!(behind(1.0), Progress::Rest(STEP * 7 / 3));
        let Progress::Rest(rest) = behind(1.25) else { panic!("no rest") };
        assert!(rest < STEP);
        assert_eq!(behind(1.5), Progress::Again);
        assert_eq!(behind(9.0), Progress::Again);
    }

    #[test]
    fn nobody_rests_while_nobody_writes() {
        let pace = Pace::default();
        assert_eq!(pace.behind(STEP), Progress::Again);
        pace.set(Some(1.0));
        pace.set(None);
        assert_eq!(pace.behind(STEP), Progress::Again);
    }

    #[test]
    fn a_step_that_lost_the_processor_is_not_paid_for_twice() {
        let pace = Pace::default();
        pace.set(Some(1.0));
        assert_eq!(pace.behind(Duration::from_secs(3)), Progress::Rest(STEP_MAX * 7 / 3));
    }
}
