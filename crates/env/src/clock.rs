//! Clocks: monotonic time for durations, and wall time for expiry and the time stamps of events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync {
    /// The time since some fixed moment. It never goes back.
    fn monotonic(&self) -> Duration;

    /// The time since 1970-01-01 00:00 UTC by the wall clock. It may jump.
    fn wall(&self) -> Duration;
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// A clock for tests that moves only when [`ManualClock::advance`] is called.
#[derive(Debug, Default)]
pub struct ManualClock {
    nanos: AtomicU64,
}

impl ManualClock {
    /// Moves both times forward.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Duration {
        Duration::from_secs(1_700_000_000) + self.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_it_is_moved() {
        let clock = ManualClock::default();
        assert_eq!(clock.monotonic(), clock.monotonic());
        clock.advance(Duration::from_millis(5));
        assert_eq!(clock.monotonic(), Duration::from_millis(5));
        let system = SystemClock::default();
        assert!(system.monotonic() <= system.monotonic());
    }
}
