//! A timer for the next checks of tables for expired entries.

use flagstone_base::Moment;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The shortest and the longest wait for a check. A snapshot may keep expired entries, and the wall
/// clock may be set.
const CHECK_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// The value that means no moment.
const NONE: u64 = u64::MAX;

/// Knows when trees must be checked for expired entries.
pub(crate) struct ExpiryTimer {
    /// The first moment, in milliseconds, noted since [`ExpiryTimer::arm`] was last called.
    next: AtomicU64,
    /// The checks for which jobs wait, each due before the one before it.
    waiting: Mutex<Vec<TimedCheck>>,
}

/// A check of all trees by a job that waits for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedCheck {
    /// How long the job waits.
    pub(super) wait: Duration,
    /// When the wait ends, on the monotonic clock.
    due: Duration,
}

impl Default for ExpiryTimer {
    fn default() -> Self {
        Self { next: AtomicU64::new(NONE), waiting: Mutex::default() }
    }
}

impl ExpiryTimer {
    /// Asks for a check at `at`, when entries expire.
    pub(super) fn note(&self, at: Moment) {
        self.next.fetch_min(at.millis(), Ordering::AcqRel);
    }

    /// Returns the check that the caller must start a job for, or `None` if no job is needed. `now`
    /// is the time of the expiry clock, `clock` that of the monotonic one. No job is needed if
    /// another one is due before, because each checks all trees. So jobs do not multiply.
    pub(super) fn arm(&self, now: Moment, clock: Duration) -> Option<TimedCheck> {
        let next = self.next.swap(NONE, Ordering::AcqRel);
        if next == NONE {
            return None;
        }
        let wait = Duration::from_millis(next.saturating_sub(now.millis()));
        let wait = wait.clamp(CHECK_AFTER.0, CHECK_AFTER.1);
        let check = TimedCheck { wait, due: clock.saturating_add(wait) };
        let mut waiting = self.waiting.lock();
        if waiting.last().is_some_and(|first| first.due <= check.due) {
            return None;
        }
        waiting.push(check);
        Some(check)
    }

    /// Called when the job of `check` starts.
    pub(super) fn disarm(&self, check: TimedCheck) {
        self.waiting.lock().retain(|other| *other != check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(n: u64) -> Moment {
        Moment::from_millis(n * 1000)
    }

    /// What `timer` waits for when both clocks say `now`, in seconds.
    fn arm(timer: &ExpiryTimer, now: u64) -> Option<TimedCheck> {
        timer.arm(second(now), Duration::from_secs(now))
    }

    fn wait(check: Option<TimedCheck>) -> Option<u64> {
        check.map(|check| check.wait.as_secs())
    }

    #[test]
    fn one_job_waits_for_the_first_moment() {
        let timer = ExpiryTimer::default();
        assert_eq!(arm(&timer, 100), None);
        timer.note(second(105));
        timer.note(second(109));
        let first = arm(&timer, 100);
        assert_eq!(wait(first), Some(5));
        assert_eq!(arm(&timer, 100), None);
        timer.note(second(106));
        assert_eq!(arm(&timer, 100), None, "the job before checks it");
        timer.note(second(90));
        let earlier = arm(&timer, 100);
        assert_eq!(wait(earlier), Some(1), "an earlier one needs a job");
        [first, earlier].into_iter().flatten().for_each(|check| timer.disarm(check));
        timer.note(second(900_000));
        assert_eq!(wait(arm(&timer, 100)), Some(3600));
    }

    #[test]
    fn jobs_do_not_multiply_when_an_earlier_moment_comes_between() {
        let timer = ExpiryTimer::default();
        let (mut jobs, mut most): (Vec<TimedCheck>, usize) = (Vec::new(), 0);
        for now in (0..1000).map(|n| n * 100) {
            // Entries that expire in an hour, in ten hours, and soon.
            for at in [now + 3600, now + 36_000, now + 100] {
                timer.note(second(at));
                jobs.extend(arm(&timer, now));
            }
            most = most.max(jobs.len());
            let is_due = |check: &TimedCheck| check.due.as_secs() <= now + 100;
            let (due, rest): (Vec<TimedCheck>, Vec<TimedCheck>) =
                jobs.into_iter().partition(is_due);
            jobs = rest;
            for job in due {
                timer.disarm(job);
                timer.note(second(now + 3600));
                jobs.extend(arm(&timer, now + 100));
            }
        }
        assert_eq!(most, 2);
        assert_eq!(timer.waiting.lock().len(), jobs.len());
    }

    #[test]
    fn a_job_that_waits_is_not_replaced_when_an_earlier_one_has_run() {
        let timer = ExpiryTimer::default();
        timer.note(second(3600));
        let late = arm(&timer, 0).unwrap();
        timer.note(second(100));
        let early = arm(&timer, 0).unwrap();
        timer.disarm(early);
        timer.note(second(3600));
        assert_eq!(arm(&timer, 100), None, "the late job still waits");
        timer.disarm(late);
        timer.note(second(7200));
        assert_eq!(wait(arm(&timer, 3600)), Some(3600));
        timer.note(second(7200));
        assert_eq!(arm(&timer, 3600), None);
    }
}
