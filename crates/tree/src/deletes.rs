//! The deletes in a memtable, and the bytes of tables that they affect.

use crate::ranges::RangeSet;
use crate::version::{Version, ends_before};
use flagstone_base::SeqNo;

/// The deletes in a tree's active memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletesInMemory {
    /// The SeqNo of the newest entry of any kind.
    pub newest: SeqNo,
    /// Whether the memtable has a deleted range.
    pub has_ranges: bool,
    /// The number of tombstones of single keys.
    pub tombstones: u64,
}

/// Bytes of tables that deletes affect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedBytes {
    /// Bytes of the tables that lie entirely within one deleted range.
    pub whole: u64,
    /// Bytes of all tables that deletes may affect, wholly or in part.
    pub touched: u64,
}

/// Returns the bytes of tables of `version` that `ranges` affect. `all` is set if single keys were
/// deleted too: these may be in any table.
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
