//! Finds the work that is due after a commit.

use super::batch::Write;
use super::targets::Targets;
use crate::core::Core;
use crate::due::Due;
use crate::reads::Reads;
use flagstone_base::{Kind, SeqNo};
use std::ops::RangeInclusive;

/// Once in this many SeqNos, and after every large write, a commit checks how long the log is and
/// whether it needs a spare segment. Both take a lock of the log.
const CHECK_EVERY: u64 = 64;
/// The least bytes of a write that is followed by such a check.
const LARGE_PAYLOAD: usize = 16 << 10;

/// Returns what is due after a commit that got the SeqNos `seqnos`.
#[inline]
pub(super) fn due_after(
    reads: &Reads,
    write: &Write<'_>,
    targets: &Targets<'_>,
    seqnos: RangeInclusive<SeqNo>,
) -> Due {
    let Core { memory, work, .. } = &*reads.core;
    let options = &reads.core.setup().options;
    let mut due = Due::FLUSHES.when(fold_long_chains(reads, write));
    let bytes = memory.memtable_bytes();
    // While a flush runs no other memtable is sealed for its size; the end of the flush checks
    // again.
    let is_full = bytes >= options.memtable_share() / 2 && !work.is_flush_pending();
    due |= Due::MEMORY.when(is_full || memory.is_crossed(bytes));
    if let Some(limit) = options.memtable_bytes {
        due |= Due::SEAL_LARGE.when(targets.trees().any(|tree| tree.active_bytes() >= limit));
    }
    due |= Due::RANGES.when(write.ops.iter().any(|op| op.kind == Kind::RangeDelete));
    due | Due::CHECK
        .when(is_check_due(*seqnos.start(), *seqnos.end()) || write.len() > LARGE_PAYLOAD)
}

/// Stores the folded values of those keys of `write` that have many operands. Returns true when
/// a memtable can be flushed now.
#[inline]
fn fold_long_chains(reads: &Reads, write: &Write<'_>) -> bool {
    reads.core.long_chains.is_any() && fold_noted(reads, write)
}

#[cold]
fn fold_noted(reads: &Reads, write: &Write<'_>) -> bool {
    let merges = write.ops.iter().filter(|op| op.kind == Kind::Merge);
    merges.fold(false, |is_complete, op| {
        let keyspace = &write.keyspaces[usize::from(op.keyspace)];
        reads.fold_chain(keyspace, write.bytes(&op.key), op.hash) | is_complete
    })
}

/// Returns whether one of the SeqNos of a commit is a multiple of [`CHECK_EVERY`].
const fn is_check_due(first: SeqNo, last: SeqNo) -> bool {
    last.get() / CHECK_EVERY != (first.get() - 1) / CHECK_EVERY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_due_whatever_the_size_of_the_batches() {
        for (start, size) in [(1, 1), (2, 2), (2, 64), (5, 30), (1, 1000)] {
            let due = |batch: &u64| {
                let first = start + batch * size;
                is_check_due(SeqNo::new(first), SeqNo::new(first + size - 1))
            };
            let count = (0..640).filter(due).count() as u64;
            assert!(count >= (640 * size / CHECK_EVERY).min(640), "{size} from {start}: {count}");
        }
    }
}
