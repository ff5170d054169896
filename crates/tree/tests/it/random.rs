//! Random numbers for tests, with a seed from `FLAGSTONE_SEED` or the clock, which is always
//! printed.

use flagstone_env::{Random, SeededRandom, SystemRandom};

pub(crate) struct Rng(SeededRandom);

impl Rng {
    pub(crate) fn new(test: &str) -> Self {
        let seed = match std::env::var("FLAGSTONE_SEED") {
            Ok(text) => text.parse().expect("FLAGSTONE_SEED is a number"),
            Err(_) => SystemRandom.next_u64() >> 32,
        };
        println!("{test}: FLAGSTONE_SEED={seed}");
        Self(SeededRandom::new(seed))
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
}
