//! How many passwords are checked at a time: each takes some milliseconds of a processor, and may
//! be sent by anybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a check waits for others.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The checks that run.
#[derive(Debug)]
pub(super) struct Checks {
    running: Mutex<usize>,
    ended: Condvar,
    most: usize,
    refused: AtomicU64,
}

/// A check as long as it runs.
pub(super) struct Check<'c>(&'c Checks);

impl Default for Checks {
    /// Half of the processors are left to those who are known.
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from).div_ceil(2))
    }
}

impl Checks {
    fn new(most: usize) -> Self {
        let (running, ended) = (Mutex::default(), Condvar::new());
        Self { running, ended, most, refused: AtomicU64::new(0) }
    }

    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a check; `None` if there are too many for long.
    pub(super) fn begin(&self) -> Option<Check<'_>> {
        let deadline = Instant::now() + WAIT_MAX;
        let mut running = self.running();
        while *running >= self.most {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            let waited = self.ended.wait_timeout(running, left);
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *running += 1;
        Some(Check(self))
    }

    /// Returns how many checks were refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        *self.0.running() -= 1;
        self.0.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_too_many_waits_and_is_refused() {
        let checks = Checks::new(2);
        let (first, second) = (checks.begin(), checks.begin());
        assert!(first.is_some() && second.is_some());
        assert!(checks.begin().is_none() && checks.refused() == 1);
        std::thread::scope(|threads| {
            let third = threads.spawn(|| checks.begin().is_some());
            drop(first);
            assert!(third.join().unwrap());
        });
        assert!(checks.begin().is_some() && checks.refused() == 1);
    }
}
