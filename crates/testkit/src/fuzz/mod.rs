//! Hostile bytes. Each format has a body, which feeds any bytes to the public reader and asserts
//! what must hold. A mutator creates such bytes from real ones, and a loop runs both (`cargo xtask
//! fuzz TARGET`).
//!
//! ```text
//! seeds: real encoders ---------\              a new place in the code: kept, mutated further
//! corpus: testkit/corpus/TARGET --> mutate --> body --> a panic: minimized, written to a file
//! ```
//!
//! Formats with checksums are tried twice: as they are, and with every checksum accepted, so that
//! damage reaches the code after the checks.

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

/// A format and its fuzzing.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name on the command line and of the folder in the corpus.
    pub name: &'static str,
    /// A description of its bytes.
    pub about: &'static str,
    /// Reads any bytes. Panics if something does not hold.
    pub body: fn(&[u8]),
    /// Returns real bytes to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Whether the body also runs with every checksum accepted.
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

/// Returns the target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

thread_local! {
    static OUTCOME: Cell<u64> = const { Cell::new(0) };
}

/// Notes the outcome of a body. Numbers in the text do not count. Without edge counters, an input
/// with a new outcome is worth keeping.
fn note(what: impl Display) {
    let letters: Vec<u8> = what.to_string().bytes().filter(|b| !b.is_ascii_digit()).collect();
    OUTCOME.set(flagstone_base::hash::key_hash(&letters, OUTCOME.get()));
}

/// Returns a hash of the outcomes since the last call.
fn take_outcome() -> u64 {
    OUTCOME.replace(0)
}

/// Runs `work`, which decodes `len` bytes, and asserts that it takes at most `times` as much memory
/// plus some KB.
fn bounded<T>(len: usize, times: usize, what: &str, work: impl FnOnce() -> T) -> T {
    let (done, bytes) = crate::memory::peak(work);
    if let Some(bytes) = bytes {
        let most = len.saturating_mul(times) + (256 << 10);
        assert!(bytes <= most, "{what} of {len} bytes took {bytes} bytes: expected at most {most}");
    }
    done
}

/// Splits `bytes` by the length of two bytes at their start.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

/// Joins two runs of bytes so that [`split`] separates them.
fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u16).to_le_bytes()[..], first, second].concat()
}
