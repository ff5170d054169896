//! A cursor over a memtable in the order of entries, forwards or backwards.

use super::ordered::{Ranked, Runs};
use super::store::Store;
use super::table::Memtable;
use super::versions::{KeyAt, StoredVersion, VersionAt};
use crate::options::Direction;
use crate::ranges::RangeSet;
use flagstone_base::heap::{heapify, sift_down};
use flagstone_base::{EntryCheck, EntryRef, Kind, SeqNo};
use std::ops::Bound;
use std::sync::Arc;

/// The number of keys, in each run, that are prefetched ahead of need. Consecutive keys are
/// anywhere in the arena, so without this a walk is a chain of cache misses.
const PREFETCH: usize = 4;

/// The position of the cursor in one sorted run.
struct RunPosition {
    rank: Ranked,
    run: usize,
    at: usize,
}

/// Which combined operands a cursor may return in place of the operands that they combine.
#[derive(Clone)]
pub(crate) enum Shortcuts {
    /// For a reader: those of which these ranges, of this memtable and of newer ones, delete
    /// nothing.
    Read(Vec<Arc<RangeSet>>),
    /// For a flush: those that this function accepts, given the key, the newest SeqNo and the SeqNo
    /// below the oldest.
    Rewrite(Arc<Accepts>),
}

/// The history of a key in an interval of SeqNos.
#[derive(Clone, Copy)]
pub(crate) struct History<'a> {
    pub(crate) key: &'a [u8],
    /// Nothing newer belongs to the interval.
    pub(crate) newest: SeqNo,
    /// Neither this SeqNo nor anything older belongs to the interval.
    pub(crate) above: Option<SeqNo>,
}

impl History<'_> {
    /// Returns whether the interval may have an entry between the two SeqNos.
    pub(crate) fn overlaps(&self, (oldest, newest): (SeqNo, SeqNo)) -> bool {
        oldest <= self.newest && self.above.is_none_or(|above| newest > above)
    }
}

type Accepts = dyn Fn(&[u8], SeqNo, SeqNo) -> bool + Send + Sync;

/// Visits the entries not above a SeqNo; for a reader, the entries of each key down to its newest
/// value. It sees the keys that were in the memtable when it was created.
pub(crate) struct MemCursor {
    table: Arc<Memtable>,
    direction: Direction,
    at: SeqNo,
    /// Backwards: entries at or below this SeqNo are skipped.
    above: Option<SeqNo>,
    shortcuts: Shortcuts,
    runs: Runs,
    heap: Vec<RunPosition>,
    key: Option<KeyAt>,
    /// The current version, or END if there is no current entry.
    version: VersionAt,
    /// Backwards: the newer versions of the key, the next one last.
    newer: Vec<VersionAt>,
}

impl MemCursor {
    /// Creates a cursor without a position. Sorts at most 511 keys.
    pub(crate) fn new(
        table: Arc<Memtable>,
        at: SeqNo,
        direction: Direction,
        shortcuts: Shortcuts,
    ) -> Self {
        let runs = table.sorted_runs();
        let (heap, newer) = (Vec::with_capacity(runs.len()), Vec::new());
        let (key, version) = (None, VersionAt::END);
        Self { table, direction, at, above: None, shortcuts, runs, heap, key, version, newer }
    }

    /// Returns another cursor over the same memtable, on the first entry of `history` in its
    /// direction. The entries that it visits after those of `history` are meaningless.
    pub(crate) fn again(&self, direction: Direction, history: History<'_>) -> Self {
        let (table, shortcuts) = (Arc::clone(&self.table), self.shortcuts.clone());
        let mut cursor = Self::new(table, history.newest.min(self.at), direction, shortcuts);
        cursor.above = history.above;
        cursor.seek(Bound::Included(history.key));
        cursor
    }

    /// Moves to the first entry, in its direction, of a key within `from`.
    pub(crate) fn seek(&mut self, from: Bound<&[u8]>) {
        self.heap.clear();
        self.newer.clear();
        let store = self.table.store();
        let is_forward = self.direction == Direction::Forward;
        let below = match from {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(self.runs.below(key, !is_forward, store)),
            Bound::Excluded(key) => Some(self.runs.below(key, is_forward, store)),
        };
        for run in 0..self.runs.len() {
            let keys = self.runs.get(run);
            let end = if is_forward { 0 } else { keys.len() };
            let border = below.as_ref().map_or(end, |below| below[run]);
            let at = if is_forward { Some(border) } else { border.checked_sub(1) };
            if let Some((at, &rank)) = at.and_then(|at| Some((at, keys.get(at)?))) {
                self.heap.push(RunPosition { rank, run, at });
            }
        }
        let direction = self.direction;
        heapify(&mut self.heap, |a, b| before(direction, a, b, store));
        self.next_key();
    }

    /// Moves to the next entry in its direction.
    pub(crate) fn next(&mut self) {
        match self.direction {
            Direction::Forward => self.version = self.older(self.version),
            Direction::Reverse => self.version = self.newer.pop().unwrap_or(VersionAt::END),
        }
        if self.version.is_end() {
            self.next_key();
        }
    }

    /// Returns the first entry of the current key from `place` on.
    #[inline]
    fn settle(&self, place: VersionAt) -> VersionAt {
        let store = self.table.store();
        store.versions.settle(place, self.at, |newest, below| {
            let Some(key) = self.key.map(|at| store.key(at)) else { return false };
            match &self.shortcuts {
                Shortcuts::Read(ranges) => {
                    ranges.iter().all(|ranges| ranges.covering(key, self.at) <= below.plus(1))
                }
                Shortcuts::Rewrite(accepts) => accepts(key, newest, below),
            }
        })
    }

    /// Returns the next older entry of the current key. A reader needs none that is older than a
    /// value or a tombstone.
    #[inline]
    fn older(&self, place: VersionAt) -> VersionAt {
        let store = self.table.store();
        let is_read = matches!(self.shortcuts, Shortcuts::Read(_));
        let is_operand = |version: StoredVersion<'_>| version.trailer.kind() == Kind::Merge;
        if is_read && !store.versions.version_at(place).is_some_and(is_operand) {
            return VersionAt::END;
        }
        self.settle(store.versions.follow(place))
    }

    /// Moves to the next key that has a version not above `self.at`.
    fn next_key(&mut self) {
        while let Some(rank) = self.pop() {
            self.key = Some(rank.at());
            self.version = self.settle(self.table.store().versions.first(rank.at()));
            if self.version.is_end() {
                continue;
            }
            if self.direction == Direction::Reverse {
                self.collect_newer();
            }
            return;
        }
        self.key = None;
        self.version = VersionAt::END;
    }

    /// Moves to the oldest version of the current key, and keeps the newer ones for later.
    fn collect_newer(&mut self) {
        let mut place = self.version;
        while let Some(version) = self.table.store().versions.version_at(place)
            && self.above.is_none_or(|above| version.trailer.seqno() > above)
        {
            self.newer.push(place);
            place = self.older(place);
        }
        self.version = self.newer.pop().unwrap_or(VersionAt::END);
    }

    /// Takes the next key from the heap of runs.
    fn pop(&mut self) -> Option<Ranked> {
        let top = self.heap.first_mut()?;
        let rank = top.rank;
        let next = match self.direction {
            Direction::Forward => Some(top.at + 1),
            Direction::Reverse => top.at.checked_sub(1),
        };
        match next.and_then(|at| Some((at, *self.runs.get(top.run).get(at)?))) {
            Some((at, rank)) => {
                (top.at, top.rank) = (at, rank);
                let soon = match self.direction {
                    Direction::Forward => at + PREFETCH,
                    Direction::Reverse => at.wrapping_sub(PREFETCH),
                };
                if let Some(rank) = self.runs.get(top.run).get(soon) {
                    self.table.store().prefetch(rank.at());
                }
            }
            None => {
                self.heap.swap_remove(0);
            }
        }
        let (store, direction) = (self.table.store(), self.direction);
        sift_down(&mut self.heap, 0, |a, b| before(direction, a, b, store));
        Some(rank)
    }

    /// Returns whether the current key has no older entry.
    pub(crate) fn is_last_of_key(&self) -> bool {
        self.direction == Direction::Forward && self.table.store().versions.is_oldest(self.version)
    }

    /// The check that the current entry has carried. Meaningless if entries carry no checks.
    #[inline]
    pub(crate) fn check(&self) -> Option<EntryCheck> {
        self.table.store().versions.version_at(self.version).map(|version| version.check)
    }

    /// The current entry, or `None` if there is none.
    #[inline]
    pub(crate) fn entry(&self) -> Option<EntryRef<'_>> {
        let store = self.table.store();
        let key = store.key(self.key?);
        let version = store.versions.version_at(self.version)?;
        Some(EntryRef { key, trailer: version.trailer, value: version.value })
    }
}

fn before(direction: Direction, a: &RunPosition, b: &RunPosition, store: &Store) -> bool {
    let order = a.rank.compare(&b.rank, store);
    if direction == Direction::Forward { order.is_lt() } else { order.is_gt() }
}
