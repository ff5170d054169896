//! How many documents there are, for statistics.

use crate::failure::Outcome;
use flagstone::{Collection, Space};

/// The most documents that statistics count by reading them, in one reply.
pub(super) const COUNTED_MAX: u64 = 10_000;

/// Returns how many documents there are: exactly while there are few, and `left` says how many more
/// may be read. Otherwise by counters alone, where documents that were overwritten or have expired
/// count until they are compacted.
pub(super) fn documents_of(collection: &Collection, left: &mut u64) -> Outcome<u64> {
    let about = collection.approximate_count();
    match left.checked_sub(about) {
        Some(rest) => {
            *left = rest;
            Ok(collection.count()?)
        }
        None => Ok(about),
    }
}
