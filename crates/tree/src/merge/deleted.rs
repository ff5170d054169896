//! The deleted ranges of memtables and tables: searched source by source, or all at once.

use crate::ranges::RangeSet;
use crate::version::{Run, TableHandle, ends_before};
use flagstone_base::{Result, SeqNo};
use flagstone_sst::RangeDelete;
use std::cell::Cell;
use std::sync::Arc;

/// The deleted ranges of one source, for keys that are looked up in order. Sources without deleted
/// ranges have none.
pub(crate) struct RangeSource {
    owner: RangeOwner,
    /// The place where the last key was found.
    near: Cell<usize>,
}

enum RangeOwner {
    /// One of the range sets of a memtable.
    Memory(Arc<RangeSet>),
    /// The tables of a run that have deleted ranges; sorted, disjoint.
    Run(Vec<Arc<TableHandle>>),
}

impl RangeSource {
    fn new(owner: RangeOwner) -> Self {
        Self { owner, near: Cell::new(0) }
    }

    /// Creates the source of one of the range sets of a memtable.
    pub(crate) fn of_memory(set: Arc<RangeSet>) -> Self {
        Self::new(RangeOwner::Memory(set))
    }

    /// Creates the source of a run, or returns `None` if the run has no deleted ranges. Opens no
    /// table.
    pub(crate) fn of_run(run: &Run) -> Option<Self> {
        let with_ranges = run.iter().filter(|table| table.meta().range_deletes > 0);
        let tables: Vec<_> = with_ranges.map(Arc::clone).collect();
        (!tables.is_empty()).then(|| Self::new(RangeOwner::Run(tables)))
    }

    fn set(&self, key: &[u8]) -> Result<Option<&RangeSet>> {
        match &self.owner {
            RangeOwner::Memory(set) => Ok(Some(set)),
            RangeOwner::Run(tables) => {
                let place = tables.partition_point(|t| ends_before(t.meta().upper(), key));
                tables.get(place).map(|table| table.ranges()).transpose()
            }
        }
    }

    /// Returns the newest SeqNo, not above `at`, of a deleted range over `key`, or ZERO if there is
    /// none.
    pub(crate) fn covering(&self, key: &[u8], at: SeqNo) -> Result<SeqNo> {
        Ok(self.set(key)?.map_or(SeqNo::ZERO, |set| set.covering_near(key, at, &self.near)))
    }

    /// Returns the piece over `key` if its SeqNo is exactly `seqno`.
    pub(crate) fn piece(&self, key: &[u8], seqno: SeqNo) -> Result<Option<RangeDelete<'_>>> {
        let piece = self.set(key)?.and_then(|set| set.piece(key));
        Ok(piece.filter(|piece| piece.seqno == seqno))
    }
}

/// The deleted ranges of several sources as one set: shared with the source if only one has any,
/// otherwise a union.
#[derive(Clone)]
pub(crate) enum AllRanges {
    /// The set of a memtable, or a union.
    Set(Arc<RangeSet>),
    /// A table whose ranges were read.
    Table(Arc<TableHandle>),
}

impl Default for AllRanges {
    fn default() -> Self {
        Self::Set(Arc::default())
    }
}

impl AllRanges {
    /// Returns the deleted ranges of memtables.
    pub(crate) fn of_memory(mut sets: Vec<Arc<RangeSet>>) -> Self {
        match sets.len() {
            0 | 1 => sets.pop().map_or_else(Self::default, Self::Set),
            _ => Self::Set(union(sets.iter().map(|set| &**set))),
        }
    }

    /// Returns the deleted ranges of tables.
    ///
    /// # Errors
    /// Any error of opening a table or reading its deleted ranges.
    pub(crate) fn of_tables<'a>(
        tables: impl Iterator<Item = &'a Arc<TableHandle>>,
    ) -> Result<Self> {
        let some: Vec<_> = tables.filter(|table| table.meta().range_deletes > 0).collect();
        for table in &some {
            table.ranges()?;
        }
        Ok(match some[..] {
            [] => Self::default(),
            [only] => Self::Table(Arc::clone(only)),
            _ => Self::Set(union(some.into_iter().map(|table| table.known_ranges()))),
        })
    }

    /// All deleted ranges as one set.
    pub(crate) fn set(&self) -> &RangeSet {
        match self {
            Self::Set(set) => set,
            Self::Table(table) => table.known_ranges(),
        }
    }
}

fn union<'a>(sets: impl Iterator<Item = &'a RangeSet>) -> Arc<RangeSet> {
    Arc::new(RangeSet::union(&sets.collect::<Vec<_>>()))
}
