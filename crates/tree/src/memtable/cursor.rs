//! A walk over a memtable in the order of entries, forwards or backwards.

use super::ordered::{Ranked, Runs};
use super::store::{KeyAt, Store, VersionAt, Versions};
use super::table::Memtable;
use crate::options::Direction;
use flagstone_base::heap::{heapify, sift_down};
use flagstone_base::{EntryRef, SeqNo};
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

/// Walks the entries not above a SeqNo: the keys that were there when the cursor was made.
pub(crate) struct MemCursor {
    table: Arc<Memtable>,
    direction: Direction,
    at: SeqNo,
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
    pub(crate) fn new(table: Arc<Memtable>, at: SeqNo, direction: Direction) -> Self {
        let runs = table.sorted_runs();
        let (heap, newer) = (Vec::with_capacity(runs.len()), Vec::new());
        Self { table, direction, at, runs, heap, key: None, version: VersionAt::END, newer }
    }

    /// A cursor over the same memtable that stands nowhere.
    pub(crate) fn again(&self, direction: Direction) -> Self {
        Self::new(Arc::clone(&self.table), self.at, direction)
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
            Direction::Forward => {
                let mut versions = Versions::resume(self.table.store(), self.version);
                let _current = versions.next();
                self.version = versions.place();
            }
            Direction::Reverse => self.version = self.newer.pop().unwrap_or(VersionAt::END),
        }
        if self.version.is_end() {
            self.next_key();
        }
    }

    /// Goes to the next key that has a version not above `self.at`.
    fn next_key(&mut self) {
        while let Some(rank) = self.pop() {
            self.key = Some(rank.at());
            let mut versions = self.table.versions(rank);
            self.version = versions.place();
            while let Some(version) = versions.next()
                && version.trailer.seqno() > self.at
            {
                self.version = versions.place();
            }
            if self.version.is_end() {
                continue;
            }
            if self.direction == Direction::Reverse {
                let mut versions = Versions::resume(self.table.store(), self.version);
                loop {
                    let place = versions.place();
                    if versions.next().is_none() {
                        break;
                    }
                    self.newer.push(place);
                }
                self.version = self.newer.pop().unwrap_or(VersionAt::END);
            }
            return;
        }
        self.key = None;
        self.version = VersionAt::END;
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
        self.direction == Direction::Forward && self.table.store().is_oldest(self.version)
    }

    /// The current entry.
    #[inline]
    pub(crate) fn entry(&self) -> Option<EntryRef<'_>> {
        let store = self.table.store();
        let key = store.key(self.key?);
        let version = Versions::resume(store, self.version).next()?;
        Some(EntryRef { key, trailer: version.trailer, value: version.value })
    }
}

fn before(direction: Direction, a: &Place, b: &Place, store: &Store) -> bool {
    let order = a.rank.compare(&b.rank, store);
    if direction == Direction::Forward { order.is_lt() } else { order.is_gt() }
}
