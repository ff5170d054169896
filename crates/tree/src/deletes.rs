//! The deletes in a memtable, and the tables under them.

use crate::ranges::RangeSet;
use crate::version::{Version, ends_before};
use flagstone_base::SeqNo;

/// Deletes in a tree's active memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletesInMemory {
    /// The newest entry of any kind.
    pub newest: SeqNo,
    /// Whether a range was deleted.
    pub has_ranges: bool,
    /// How many keys were deleted one by one.
    pub tombstones: u64,
}

/// Bytes of tables under deletes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedBytes {
    /// Of tables all of whose keys one deleted range holds.
    pub whole: u64,
    /// Of these, and of those that deletes may take a part of.
    pub touched: u64,
}

/// What deleted `ranges` concern of the tables of `version`; `all`: keys were deleted one by one, which may be anywhere.
pub(crate) fn deleted_bytes(version: &Version, ranges: &RangeSet, all: bool) -> DeletedBytes {
    let mut found = DeletedBytes::default();
    for meta in version.tables().map(|(_, table)| table.meta()) {
        let begins_in = ranges.piece(&meta.smallest);
        if begins_in.is_some_and(|piece| ends_before(meta.upper(), piece.end)) {
            found.whole += meta.bytes;
        }
        let next = ranges.piece_ending_behind(&meta.smallest);
        let is_met = next.is_some_and(|piece| !ends_before(meta.upper(), piece.start));
        if all || is_met {
            found.touched += meta.bytes;
        }
    }
    found
}
