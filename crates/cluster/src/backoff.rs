//! Waits between attempts.

use flagstone_env::{Random, SystemRandom};
use std::time::Duration;

/// The first wait, at most.
const FIRST: Duration = Duration::from_micros(500);
/// The longest wait.
const LONGEST: Duration = Duration::from_millis(50);

/// Counts attempts, and waits ever longer between them, by chance: two that disturb each other
/// part.
pub(crate) struct Backoff {
    done: u32,
    most: u32,
}

impl Backoff {
    /// For at most this many attempts.
    pub(crate) const fn of(most: u32) -> Self {
        Self { done: 1, most }
    }

    /// Waits for the next attempt. Returns false if there is none.
    pub(crate) fn again(&mut self) -> bool {
        if self.done >= self.most {
            return false;
        }
        let longest = FIRST.saturating_mul(1 << self.done.min(16)).min(LONGEST);
        let micros = longest.as_micros() as u64;
        std::thread::sleep(Duration::from_micros(SystemRandom.next_u64() % micros));
        self.done += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_end() {
        let mut backoff = Backoff::of(3);
        assert_eq!((0..9).filter(|_| backoff.again()).count(), 2);
    }
}
