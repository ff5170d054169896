//! Limits how fast files are read and copied besides the work of callers, in bytes a second.

use flagstone_env::sync::{Condvar, Mutex};
use std::time::Duration;

/// Bytes a second; 0 for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u64);

/// How often a pause checks whether the database is still open.
const CHECK_EVERY: Duration = Duration::from_millis(50);

impl Rate {
    /// Returns how long to pause after `bytes` that took `took`.
    pub(crate) fn rest(self, bytes: u64, took: Duration) -> Duration {
        if self.0 == 0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(bytes as f64 / self.0 as f64).saturating_sub(took)
    }
}

/// Pauses in the caller's thread.
///
/// # Errors
/// The error of `check`, which is called repeatedly.
pub(crate) fn rest<E>(time: Duration, check: impl Fn() -> Result<(), E>) -> Result<(), E> {
    let (nothing, never_notified) = (Mutex::new(()), Condvar::new());
    let mut left = time;
    while left > Duration::ZERO {
        check()?;
        let step = left.min(CHECK_EVERY);
        never_notified.wait_for(&mut nothing.lock(), step);
        left -= step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_step_rests_less() {
        let rate = Rate(1000);
        let seconds = Duration::from_secs_f64;
        assert_eq!(rate.rest(500, seconds(0.1)), seconds(0.4));
        assert_eq!(rate.rest(500, seconds(0.6)), Duration::ZERO);
        assert_eq!(Rate(0).rest(u64::MAX, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_rest_ends_when_its_check_fails() {
        // An hour.
        assert_eq!(rest(Duration::from_secs(3600), || Err("closed")), Err("closed"));
        assert_eq!(rest::<()>(Duration::ZERO, || Err(())), Ok(()));
    }
}
