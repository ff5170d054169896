//! What the bodies share: the outcome of a run, a bound on memory, inputs of two parts.

use std::cell::Cell;
use std::fmt::Display;

thread_local! {
    static OUTCOME: Cell<u64> = const { Cell::new(0) };
}

/// Notes the outcome of a body. Numbers in the text do not count. Without edge counters, an input
/// with a new outcome is worth keeping.
pub(super) fn note(what: impl Display) {
    let letters: Vec<u8> = what.to_string().bytes().filter(|b| !b.is_ascii_digit()).collect();
    OUTCOME.set(flagstone_base::hash::key_hash(&letters, OUTCOME.get()));
}

/// Returns a hash of the outcomes since the last call.
pub(super) fn take_outcome() -> u64 {
    OUTCOME.replace(0)
}

/// Runs `work`, which decodes `len` bytes, and asserts that it takes at most `times` as much memory
/// plus some KB.
pub(super) fn bounded<T>(len: usize, times: usize, what: &str, work: impl FnOnce() -> T) -> T {
    let (done, bytes) = flagstone_testkit::memory::peak(work);
    if let Some(bytes) = bytes {
        let most = len.saturating_mul(times) + (256 << 10);
        assert!(bytes <= most, "{what} of {len} bytes took {bytes} bytes: expected at most {most}");
    }
    done
}

/// Splits `bytes` by the length of two bytes at their start.
pub(super) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

/// Joins two runs of bytes so that [`split`] separates them.
pub(super) fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u16).to_le_bytes()[..], first, second].concat()
}
