//! The seeds and sizes of random tests, which the environment can set.

use flagstone_env::{Random, SystemRandom};

/// Returns the seed of a random test: `FLAGSTONE_SEED` if it is set, a new one in long runs, else
/// `usual`. Prints the seed, so that a failed test shows how to repeat it.
pub fn seed(test: &str, usual: u64) -> u64 {
    let asked = std::env::var("FLAGSTONE_SEED").ok();
    let seed = match asked.and_then(|text| text.trim().parse().ok()) {
        Some(seed) => seed,
        None if is_long() => SystemRandom.next_u64() >> 16,
        None => usual,
    };
    eprintln!("{test}: FLAGSTONE_SEED={seed}");
    seed
}

/// Returns whether `FLAGSTONE_LONG` asks for long runs.
pub fn is_long() -> bool {
    std::env::var("FLAGSTONE_LONG").is_ok_and(|text| !text.is_empty() && text != "0")
}

/// Returns `quick`, or `long` if long runs are asked for.
pub fn rounds(quick: u64, long: u64) -> u64 {
    if is_long() { long } else { quick }
}
