//! A walk over a memtable in the order of entries, forwards or backwards.

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

/// So many keys ahead of need are fetched from memory, in each run: keys in order lie anywhere in
/// the arena, so a walk is a chain of cache misses without it.
const PREFETCH: usize = 4;

/// Where one sorted run stands.
struct Place {
    rank: Ranked,
    run: usize,
    at: usize,
}

/// Which combined operands a cursor may take instead of those that they combine.
#[derive(Clone)]
pub(crate) enum Shortcuts {
    /// A reader's: those of which nothing was deleted by one of these, the ranges of this memtable and
    /// of newer ones.
    Read(Vec<Arc<RangeSet>>),
    /// A writer's: those that it says yes to, knowing the key, the newest SeqNo and the one below the
    /// oldest.
    Rewrite(Arc<Accepts>),
}

/// What happened to a key in a span of time.
#[derive(Clone, Copy)]
pub(crate) struct History<'a> {
    pub(crate) key: &'a [u8],
    /// Nothing newer belongs to it.
    pub(crate) newest: SeqNo,
    /// Nor does this, or what is older.
    pub(crate) above: Option<SeqNo>,
}

impl History<'_> {
    /// Whether something between two SeqNos may belong to it.
    pub(crate) fn overlaps(&self, (oldest, newest): (SeqNo, SeqNo)) -> bool {
        oldest <= self.newest && self.above.is_none_or(|above| newest > above)
    }
}

type Accepts = dyn Fn(&[u8], SeqNo, SeqNo) -> bool + Send + Sync;

/// Walks the entries not above a SeqNo, a reader's of each key down to its newest value: the keys that were
/// there when the cursor was made.
pub(crate) struct MemCursor {
    table: Arc<Memtable>,
    direction: Direction,
    at: SeqNo,
    /// Backwards: what is as old as this is not visited.
    above: Option<SeqNo>,
    shortcuts: Shortcuts,
    runs: Runs,
    heap: Vec<Place>,
    key: Option<KeyAt>,
    /// The current version; END when there is no current entry.
    version: VersionAt,
    /// Backwards: the newer versions of the key, next one last.
    newer: Vec<VersionAt>,
}

impl MemCursor {
    /// A cursor that stands nowhere; sorts at most 511 keys.
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

    /// A cursor over the same memtable at the first entry, in its direction, of `history`. What it visits later is of
    /// no use.
    pub(crate) fn again(&self, direction: Direction, history: History<'_>) -> Self {
        let (table, shortcuts) = (Arc::clone(&self.table), self.shortcuts.clone());
        let mut cursor = Self::new(table, history.newest.min(self.at), direction, shortcuts);
        cursor.above = history.above;
        cursor.seek(Bound::Included(history.key));
        cursor
    }

    /// Goes to the first entry, in its direction, of a key that lies beyond `from`.
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
                self.heap.push(Place { rank, run, at });
            }
        }
        let direction = self.direction;
        heapify(&mut self.heap, |a, b| before(direction, a, b, store));
        self.next_key();
    }

    /// Goes to the next entry in its direction.
    pub(crate) fn next(&mut self) {
        match self.direction {
            Direction::Forward => self.version = self.older(self.version),
            Direction::Reverse => self.version = self.newer.pop().unwrap_or(VersionAt::END),
        }
        if self.version.is_end() {
            self.next_key();
        }
    }

    /// The first entry of the current key from `place` on.
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

    /// The next older entry of the current key; a reader needs none that is older than a value or a
    /// tombstone.
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

    /// Goes to the next key that has a version not above `self.at`.
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

    /// Goes to the oldest version of the current key, and keeps the way back.
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

    /// Takes the next key out of the heap of runs.
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

    /// Whether no older entry of the current key follows.
    pub(crate) fn is_last_of_key(&self) -> bool {
        self.direction == Direction::Forward && self.table.store().versions.is_oldest(self.version)
    }

    /// The check that the current entry has carried; it says nothing without checks.
    #[inline]
    pub(crate) fn check(&self) -> Option<EntryCheck> {
        self.table.store().versions.version_at(self.version).map(|version| version.check)
    }

    /// The current entry.
    #[inline]
    pub(crate) fn entry(&self) -> Option<EntryRef<'_>> {
        let store = self.table.store();
        let key = store.key(self.key?);
        let version = store.versions.version_at(self.version)?;
        Some(EntryRef { key, trailer: version.trailer, value: version.value })
    }
}

fn before(direction: Direction, a: &Place, b: &Place, store: &Store) -> bool {
    let order = a.rank.compare(&b.rank, store);
    if direction == Direction::Forward { order.is_lt() } else { order.is_gt() }
}
