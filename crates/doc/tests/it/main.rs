//! The tests of documents as a whole: suites, oracles, random values, fixed bytes, hostile bytes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests may")]

mod golden;
mod hostile;
mod oracles;
mod patches;
mod random;
mod real;
#[cfg(feature = "serde")]
mod structs;
mod suite;

use std::path::PathBuf;

/// A folder of shared test data: from the environment variable `name`, else `shared/{folder}` in or
/// above the working directory.
fn shared(name: &str, folder: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(name) {
        return Some(path.into());
    }
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|dir| dir.join("shared").join(folder)).find(|dir| dir.is_dir())
}

/// The seed of a random test, printed so that it can be run again.
fn seed(test: &str) -> u64 {
    let given = std::env::var("FLAGSTONE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(test)
    });
    println!("{test}: FLAGSTONE_SEED={seed}");
    seed
}
