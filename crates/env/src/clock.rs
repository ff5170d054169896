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
#[derive(Debug)]
pub struct ManualClock {
    nanos: AtomicU64,
    /// The wall clock when the monotonic clock was 0. Wraps if the wall clock was behind it.
    wall_start: AtomicU64,
}

impl Default for ManualClock {
    fn default() -> Self {
        let wall_start = Duration::from_secs(1_700_000_000).as_nanos() as u64;
        Self { nanos: AtomicU64::new(0), wall_start: AtomicU64::new(wall_start) }
    }
}

impl ManualClock {
    /// Moves both times forward.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Sets the wall clock to `time` since 1970: it jumps, and the monotonic clock does not.
    pub fn set_wall(&self, time: Duration) {
        let start = (time.as_nanos() as u64).wrapping_sub(self.nanos.load(Ordering::Relaxed));
        self.wall_start.store(start, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Duration {
        let passed = self.nanos.load(Ordering::Relaxed);
        Duration::from_nanos(self.wall_start.load(Ordering::Relaxed).wrapping_add(passed))
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
        let wall = Duration::from_secs(1_700_000_000) + clock.monotonic();
        assert_eq!(clock.wall(), wall);
        clock.set_wall(Duration::from_millis(2));
        clock.advance(Duration::from_millis(1));
        assert_eq!(
            (clock.wall(), clock.monotonic()),
            (Duration::from_millis(3), Duration::from_millis(6))
        );
        let system = SystemClock::default();
        assert!(system.monotonic() <= system.monotonic());
    }
}
