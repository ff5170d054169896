//! A timer for the next check of tables for expired entries.

use flagstone_base::Moment;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The shortest and the longest wait between two checks. A snapshot may keep expired entries, and
/// the wall clock may be set.
const CHECK_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// The value that means no moment.
const NONE: u64 = u64::MAX;

/// Knows when trees must be checked for expired entries.
pub(crate) struct ExpiryTimer {
    /// The first moment, in milliseconds, that no job waits for yet.
    next: AtomicU64,
    /// The first moment that a job waits for, in milliseconds.
    armed: AtomicU64,
}

impl Default for ExpiryTimer {
    fn default() -> Self {
        Self { next: AtomicU64::new(NONE), armed: AtomicU64::new(NONE) }
    }
}

impl ExpiryTimer {
    /// Asks for a check at `at`, when entries expire.
    pub(super) fn note(&self, at: Moment) {
        self.next.fetch_min(at.millis(), Ordering::AcqRel);
    }

    /// Returns how long a new job must wait from `now` on, or `None` if no job is needed.
    pub(super) fn arm(&self, now: Moment) -> Option<Duration> {
        let next = self.next.swap(NONE, Ordering::AcqRel);
        if next == NONE || self.armed.fetch_min(next, Ordering::AcqRel) <= next {
            return None;
        }
        let wait = Duration::from_millis(next.saturating_sub(now.millis()));
        Some(wait.clamp(CHECK_AFTER.0, CHECK_AFTER.1))
    }

    /// Called when the job starts.
    pub(super) fn disarm(&self) {
        self.armed.store(NONE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_waits_for_the_first_moment() {
        let timer = ExpiryTimer::default();
        let (now, at) = (Moment::from_millis(100_000), Moment::from_millis);
        assert_eq!(timer.arm(now), None);
        timer.note(at(105_000));
        timer.note(at(109_000));
        assert_eq!(timer.arm(now), Some(Duration::from_secs(5)));
        assert_eq!(timer.arm(now), None);
        timer.note(at(106_000));
        assert_eq!(timer.arm(now), None, "the job before sees to it");
        timer.note(at(90_000));
        assert_eq!(timer.arm(now), Some(Duration::from_secs(1)), "an earlier one comes first");
        timer.disarm();
        timer.note(at(900_000_000));
        assert_eq!(timer.arm(now), Some(Duration::from_secs(3600)));
    }
}
