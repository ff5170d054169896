//! Tests of whole documents: suites, comparisons with other parsers, random values, fixed and
//! hostile bytes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests may")]

mod bson_corpus;
mod extended;
mod filters;
mod golden;
mod hostile;
mod json_patches;
mod jsonpath;
mod oracles;
mod patches;
mod pointers;
mod random;
mod real;
#[cfg(feature = "serde")]
mod structs;
mod suite;
mod times;

use std::path::PathBuf;

/// Returns a folder of shared test data: the environment variable `name`, or else
/// `shared/{folder}` in the working directory or a parent of it.
fn shared(name: &str, folder: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(name) {
        return Some(path.into());
    }
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|dir| dir.join("shared").join(folder)).find(|dir| dir.is_dir())
}

/// Returns the seed of a random test and prints it, so that the run can be repeated.
fn seed(test: &str) -> u64 {
    let given = std::env::var("FLAGSTONE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(test)
    });
    println!("{test}: FLAGSTONE_SEED={seed}");
    seed
}
