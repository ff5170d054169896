//! The deleted ranges of a memtable or of a run of tables, asked key by key.

use crate::ranges::RangeSet;
use crate::version::{Run, TableHandle, ends_before};
use flagstone_base::{Result, SeqNo};
use flagstone_sst::RangeDelete;
use std::sync::Arc;

/// Deleted ranges of one source; only sources that have some are kept.
pub(crate) enum RangeSource {
    Memory(Arc<RangeSet>),
    /// Sorted, disjoint; only the tables that have deleted ranges.
    Run(Vec<Arc<TableHandle>>),
}

impl RangeSource {
    /// The deleted ranges of a memtable, if it has any.
    pub(crate) fn of_memory(ranges: Arc<RangeSet>) -> Option<Self> {
        (!ranges.is_empty()).then_some(Self::Memory(ranges))
    }

    /// The deleted ranges of a run, if it has any; opens nothing.
    pub(crate) fn of_run(run: &Run) -> Option<Self> {
        let with_ranges = run.iter().filter(|table| table.meta().range_deletes > 0);
        let tables: Vec<_> = with_ranges.map(Arc::clone).collect();
        (!tables.is_empty()).then_some(Self::Run(tables))
    }

    fn set(&self, key: &[u8]) -> Result<Option<&RangeSet>> {
        match self {
            Self::Memory(set) => Ok(Some(set)),
            Self::Run(tables) => {
                let place = tables.partition_point(|t| ends_before(t.meta().upper(), key));
                tables.get(place).map(|table| table.ranges()).transpose()
            }
        }
    }

    /// The newest SeqNo, not above `at`, at which a range over `key` was deleted.
    pub(crate) fn covering(&self, key: &[u8], at: SeqNo) -> Result<SeqNo> {
        Ok(self.set(key)?.map_or(SeqNo::ZERO, |set| set.covering(key, at)))
    }

    /// The piece over `key` that was deleted at exactly `seqno`.
    pub(crate) fn piece(&self, key: &[u8], seqno: SeqNo) -> Result<Option<RangeDelete>> {
        let piece = self.set(key)?.and_then(|set| set.piece(key));
        Ok(piece.filter(|piece| piece.seqno == seqno))
    }
}
