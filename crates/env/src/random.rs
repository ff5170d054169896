//! Random numbers for identities, hash seeds and salts. Not for secrets.

use flagstone_base::hash::remix;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers.
pub trait Random: Send + Sync {
    /// The next random number.
    fn next_u64(&self) -> u64;
}

/// Numbers from the operating system's entropy, through the standard library's hash keys.
#[derive(Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(COUNTER.fetch_add(1, Ordering::Relaxed));
        hasher.write_u32(std::process::id());
        hasher.finish()
    }
}

/// A source for tests, which returns the same numbers for the same seed.
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// A source that depends on `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        // SplitMix64: a Weyl sequence, remixed.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        remix(self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (a, b) = (SeededRandom::new(9), SeededRandom::new(9));
        let numbers: Vec<u64> = (0..100).map(|_| a.next_u64()).collect();
        assert!(numbers.iter().all(|&n| n == b.next_u64()));
        assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
    }
}
