//! Hostile bytes: a body for each format, which feeds any bytes to the public reader and asserts what must hold; a mutator
//! that makes such bytes from real ones; and the loop that runs the two (`cargo xtask fuzz TARGET`).
//!
//! ```text
//! seeds: real encoders ---\                     a new place in the code: kept and mutated further
//! corpus: crates/testkit/corpus/TARGET --> mutate --> body --> a panic: minimized, written to a file
//! ```
//!
//! Formats with checksums are tried twice, as the bytes are and with every checksum believed, so that damage gets
//! to what stands after the checks.

mod coverage;
mod database;
mod document;
mod edit;
mod json;
mod mutate;
mod patch;
mod run;
mod sort_key;
mod table;

pub use mutate::Mutator;
pub use run::{Failure, Limits, Report, corpus, fuzz, run_once};

use std::cell::Cell;
use std::fmt::Display;

/// A format, and how it is fuzzed.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name on the command line and of its folder in the corpus.
    pub name: &'static str,
    /// What its bytes are.
    pub about: &'static str,
    /// Reads any bytes; panics when what must hold does not.
    pub body: fn(&[u8]),
    /// Real bytes to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Whether it is tried with believed checksums too.
    pub has_checksums: bool,
}

const fn plain(
    name: &'static str,
    about: &'static str,
    body: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, about, body, seeds, has_checksums: false }
}

const fn checked(
    name: &'static str,
    about: &'static str,
    body: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, about, body, seeds, has_checksums: true }
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    checked("table", "a table: frame, index, filter, blocks", table::body, table::seeds),
    checked("log", "segments and the operations in them", database::log, database::log_seeds),
    checked("manifest", "a manifest", database::manifest, database::manifest_seeds),
    plain("current", "the file CURRENT", database::current, database::current_seeds),
    plain("edit", "a tree edit with its tables", edit::body, edit::seeds),
    plain("document", "a document", document::body, document::seeds),
    plain("patch", "a document and patches of it", patch::body, patch::seeds),
    plain("json", "JSON", json::body, json::seeds),
    plain("sort_key", "two sort keys", sort_key::body, sort_key::seeds),
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

thread_local! {
    static OUTCOME: Cell<u64> = const { Cell::new(0) };
}

/// A body tells what came of its bytes; numbers in the text do not count. Where nobody knows which code an input reached,
/// one with a new outcome is worth keeping.
fn note(what: impl Display) {
    let letters: Vec<u8> = what.to_string().bytes().filter(|b| !b.is_ascii_digit()).collect();
    OUTCOME.set(flagstone_base::hash::key_hash(&letters, OUTCOME.get()));
}

/// What was noted since the last call.
fn take_outcome() -> u64 {
    OUTCOME.replace(0)
}

/// Runs `work`, which decodes `len` bytes and must not take more than `times` as many and some KB.
fn bounded<T>(len: usize, times: usize, what: &str, work: impl FnOnce() -> T) -> T {
    let (done, bytes) = crate::memory::peak(work);
    if let Some(bytes) = bytes {
        let most = len.saturating_mul(times) + (256 << 10);
        assert!(bytes <= most, "{what} of {len} bytes took {bytes} bytes: expected at most {most}");
    }
    done
}

/// The bytes before and after a length of two bytes at the start.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

/// Two runs of bytes in one, as [`split`] takes them apart.
fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u16).to_le_bytes()[..], first, second].concat()
}
