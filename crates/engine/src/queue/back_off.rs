//! Retries of failed work, with a longer delay after each failure.

use flagstone_base::{Error, ErrorKind};
use std::time::Duration;

/// The delay after the first failure. Each later delay is twice the one before.
const DELAY_MIN: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(60);
/// The longest delay is shorter while the disk is full: it may have space again at any moment.
const DELAY_MAX_FULL: Duration = Duration::from_secs(2);
/// The number of failures from which on a failure counts as lasting. A first one may be temporary.
const LASTING: u32 = 2;
/// Writers wait for a retry that is at most this far off.
const NEAR: Duration = Duration::from_secs(1);

/// The failures of one kind of work since it last succeeded.
#[derive(Clone, Debug)]
pub(crate) struct BackOff {
    failures: u32,
    error: Error,
    /// When the next attempt is due.
    until: Duration,
    /// The delay is not over.
    pub(crate) is_pausing: bool,
}

impl BackOff {
    /// The back-off after the failure `error` at the time `now`; `before` is the one before it, if
    /// any.
    pub(crate) fn after(before: Option<&Self>, error: &Error, now: Duration) -> Self {
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        let until = now + delay(failures, error.kind());
        Self { failures, error: error.clone(), until, is_pausing: true }
    }

    /// The delay before the next attempt.
    pub(crate) fn delay(&self) -> Duration {
        delay(self.failures, self.error.kind())
    }

    pub(crate) fn error(&self) -> &Error {
        &self.error
    }

    /// The last error, if the work has failed at least twice.
    pub(crate) fn lasting_error(&self) -> Option<&Error> {
        (self.failures >= LASTING).then_some(&self.error)
    }

    /// Returns whether the work has failed at least twice, and the next attempt is too far off to
    /// wait for.
    pub(crate) fn is_far_off(&self, now: Duration) -> bool {
        let is_far = self.is_pausing && self.until.saturating_sub(now) > NEAR;
        self.failures >= LASTING && is_far
    }

    /// The number of failures.
    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the last error if a caller that has waited since there were `seen` failures should
    /// stop waiting: the work has failed again, and not for the first time, or the next attempt is
    /// far off.
    pub(crate) fn hopeless_error(&self, seen: u32, now: Duration) -> Option<&Error> {
        let has_failed_again = self.failures >= LASTING && self.failures > seen;
        (has_failed_again || self.is_far_off(now)).then_some(&self.error)
    }
}

fn delay(failures: u32, kind: ErrorKind) -> Duration {
    let max = if kind == ErrorKind::OutOfSpace { DELAY_MAX_FULL } else { DELAY_MAX };
    // 200 ms doubled nine times is more than a minute.
    (DELAY_MIN * (1 << failures.saturating_sub(1).min(9))).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(kind: ErrorKind) -> Vec<u64> {
        (1..=40).map(|failures| delay(failures, kind).as_millis() as u64).collect()
    }

    #[test]
    fn delays_double_up_to_a_minute_and_up_to_two_seconds_on_a_full_disk() {
        let delays_of_damage = delays(ErrorKind::Corruption);
        assert_eq!(delays_of_damage[..5], [200, 400, 800, 1600, 3200]);
        assert_eq!(delays_of_damage[8..11], [51_200, 60_000, 60_000]);
        assert_eq!(delays_of_damage[39], 60_000);
        assert_eq!(delays(ErrorKind::OutOfSpace)[..6], [200, 400, 800, 1600, 2000, 2000]);
    }

    #[test]
    fn a_waiter_learns_of_the_second_failure_or_of_a_far_off_attempt() {
        let (error, now) = (Error::new(ErrorKind::Io, "it failed"), Duration::from_secs(9));
        let mut back_off = BackOff::after(None, &error, now);
        assert!(back_off.hopeless_error(0, now).is_none(), "the first");
        back_off = BackOff::after(Some(&back_off), &error, now);
        assert!(
            back_off.hopeless_error(1, now).is_some() && back_off.hopeless_error(2, now).is_none()
        );
        for _ in 0..3 {
            back_off = BackOff::after(Some(&back_off), &error, now);
        }
        assert!(back_off.hopeless_error(5, now).is_some(), "3.2 s");
        assert!(back_off.hopeless_error(5, now + Duration::from_millis(2500)).is_none());
    }
}
