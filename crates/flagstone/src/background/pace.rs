//! How fast flushes and compactions go while writers write: as fast as what waits for them is urgent.
//!
//! A job that takes all it can get, then leaves writers alone, shows as a saw in their rate. So between
//! its steps of about 1 MiB it rests, the longer the less urgent it is:
//!
//! ```text
//! compaction: score of the worst tree   1.0    1.25    1.5 ..
//!             works so much of the time 3/10   13/20   all of it
//! flush:      memtables, of their share 1/2    5/8     3/4 ..
//!             works so much of the time 1/2    3/4     all of it
//! ```
//! Trees and memtables fill while jobs rest, until the work done is the work that comes in. A flush that
//! somebody waits for does not rest (`flush.rs`).

use flagstone_env::Progress;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// All of the time.
const ALL: u32 = 1000;
/// A step that took longer lost the processor to others, who have had their time already.
const STEP_MAX: Duration = Duration::from_millis(20);

/// The share of the time that a job works, by how urgent it is.
struct Ramp {
    /// Up to this urgency it works the `least` share, in thousandths; from `to` on all of the time.
    from: f64,
    to: f64,
    least: u32,
}

/// By the score of the tree that is most out of shape.
const COMPACTION: Ramp = Ramp { from: 1.0, to: 1.5, least: 300 };
/// By the fill of the memtables' share of the memory. A flush begins at half of it; from three
/// quarters on writers are delayed.
const FLUSH: Ramp = Ramp { from: 0.5, to: 0.75, least: 500 };

impl Ramp {
    /// In thousandths.
    fn share(&self, urgency: f64) -> u32 {
        let way = ((urgency - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.least + (f64::from(ALL - self.least) * way) as u32
    }
}

/// What a job that works so many thousandths of the time does behind a step that took so long.
fn behind(share: u32, step: Duration) -> Progress {
    match share {
        ALL.. => Progress::Again,
        share => Progress::Rest(step.min(STEP_MAX) * (ALL - share) / share),
    }
}

/// The share of the time that compaction jobs work, for all of them.
pub(crate) struct Pace {
    /// In thousandths.
    share: AtomicU32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { share: AtomicU32::new(ALL) }
    }
}

impl Pace {
    /// Sets the pace by the `score` of the tree that is most out of shape; `None`: nobody writes.
    pub(super) fn set(&self, score: Option<f64>) {
        let share = score.map_or(ALL, |score| COMPACTION.share(score));
        self.share.store(share, Ordering::Relaxed);
    }

    /// What a job does behind a step that took so long.
    pub(super) fn behind(&self, step: Duration) -> Progress {
        behind(self.share.load(Ordering::Relaxed), step)
    }
}

/// What a flush does behind a step that took so long, when memtables hold this part of their share.
pub(super) fn behind_flush(fill: f64, step: Duration) -> Progress {
    behind(FLUSH.share(fill), step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(9);

    #[test]
    fn a_compaction_rests_less_the_more_urgent_it_is() {
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
    fn a_flush_rests_less_the_fuller_memtables_are() {
        assert_eq!(behind_flush(0.1, STEP), Progress::Rest(STEP));
        assert_eq!(behind_flush(0.5, STEP), Progress::Rest(STEP));
        assert_eq!(behind_flush(0.625, STEP), Progress::Rest(STEP / 3));
        assert_eq!(behind_flush(0.75, STEP), Progress::Again);
        assert_eq!(behind_flush(1.2, STEP), Progress::Again);
    }

    #[test]
    fn no_compaction_rests_while_nobody_writes() {
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
