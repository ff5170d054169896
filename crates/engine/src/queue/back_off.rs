//! What failed is tried again, later each time.

use flagstone_base::{Error, ErrorKind};
use std::time::Duration;

/// The first delay; each is twice the one before ..
const DELAY_MIN: Duration = Duration::from_millis(200);
/// .. up to this, ..
const DELAY_MAX: Duration = Duration::from_secs(60);
/// .. or this while the disk is full: it may have room soon, and nobody says when.
const DELAY_MAX_FULL: Duration = Duration::from_secs(2);
/// A first failure may be of the moment.
const LASTING: u32 = 2;
/// Writers wait for an attempt that is no further off.
const NEAR: Duration = Duration::from_secs(1);

/// The failures of one kind of work since it last succeeded.
#[derive(Clone, Debug)]
pub(crate) struct BackOff {
    failures: u32,
    error: Error,
    /// When the next attempt is due.
    until: Duration,
    /// The delay is not over.
    pub(crate) rests: bool,
}

impl BackOff {
    /// After the failure `error` at the time `now`; `before` is what was there before it.
    pub(crate) fn after(before: Option<&Self>, error: &Error, now: Duration) -> Self {
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        let until = now + delay(failures, error.kind());
        Self { failures, error: error.clone(), until, rests: true }
    }

    /// How long to rest.
    pub(crate) fn delay(&self) -> Duration {
        delay(self.failures, self.error.kind())
    }

    /// What went wrong.
    pub(crate) fn error(&self) -> &Error {
        &self.error
    }

    /// What went wrong, if that was not the first time.
    pub(crate) fn lasting(&self) -> Option<&Error> {
        (self.failures >= LASTING).then_some(&self.error)
    }

    /// How often it failed.
    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// What went wrong, for somebody who waits since there were `seen` failures, if it is no use to wait longer: it
    /// failed once more, not for the first time, or the next attempt is far off.
    pub(crate) fn hopeless(&self, seen: u32, now: Duration) -> Option<&Error> {
        let is_far = self.rests && self.until.saturating_sub(now) > NEAR;
        (self.failures >= LASTING && (self.failures > seen || is_far)).then_some(&self.error)
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
    fn who_waits_is_told_of_the_second_failure_or_that_the_next_attempt_is_far_off() {
        let (error, now) = (Error::new(ErrorKind::Io, "it failed"), Duration::from_secs(9));
        let mut back_off = BackOff::after(None, &error, now);
        assert!(back_off.hopeless(0, now).is_none(), "the first");
        back_off = BackOff::after(Some(&back_off), &error, now);
        assert!(back_off.hopeless(1, now).is_some() && back_off.hopeless(2, now).is_none());
        for _ in 0..3 {
            back_off = BackOff::after(Some(&back_off), &error, now);
        }
        assert!(back_off.hopeless(5, now).is_some(), "3.2 s");
        assert!(back_off.hopeless(5, now + Duration::from_millis(2500)).is_none());
    }
}
