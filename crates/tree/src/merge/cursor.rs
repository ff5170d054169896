//! A cursor that merges many sorted sources: in key order, newest first within a key (backwards:
//! reversed).

use super::run_cursor::RunCursor;
use crate::bounds::HashBounds;
use crate::memtable::{History, MemCursor};
use crate::options::{Direction, TreeOptions};
use flagstone_base::bytes::order;
use flagstone_base::hash::key_hash;
use flagstone_base::heap::{heapify, replace_first, sift_down};
use flagstone_base::key::key_front;
use flagstone_base::{EntryCheck, EntryRef, Result, SeqNo, Slice};
use flagstone_sst::Near;
use std::cmp::Ordering;
use std::ops::Bound;
use std::path::Path;

/// Only one source at a time, the next one, holds a block whose value is at least this long.
const HUGE_VALUE: usize = 1 << 20;

/// A memtable or a run of tables.
pub(crate) enum MergeSource {
    Memory(MemCursor),
    Run(RunCursor),
    /// One that has keys of other hash partitions, too.
    Part(Box<PartitionSource>),
}

/// The entries of a source whose keys have the hashes of one partition.
pub(crate) struct PartitionSource {
    source: MergeSource,
    hashes: HashBounds,
    seed: u64,
}

// Not inlined into the functions of `Source`, which would call themselves.
impl PartitionSource {
    #[inline(never)]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.source.entry()
    }

    #[inline(never)]
    fn value(&self) -> Slice {
        self.source.value()
    }

    #[inline(never)]
    fn memory(&self) -> Option<&MemCursor> {
        self.source.memory()
    }

    fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        self.source.seek(from)?;
        self.skip_others()
    }

    #[inline(never)]
    fn next(&mut self) -> Result<()> {
        self.source.next()?;
        self.skip_others()
    }

    fn skip_others(&mut self) -> Result<()> {
        while !self.is_own() {
            self.source.next()?;
        }
        Ok(())
    }

    /// Returns whether the current entry is one of the partition, or the source has ended.
    fn is_own(&self) -> bool {
        if let MergeSource::Run(cursor) = &self.source
            && cursor.meta().is_some_and(|meta| self.hashes.contains_table(meta))
        {
            return true;
        }
        let is_own = |entry: EntryRef<'_>| self.hashes.contains(key_hash(entry.key, self.seed));
        self.source.entry().is_none_or(is_own)
    }
}

impl MergeSource {
    /// Returns the part of this source that is of the tree with these `options`, if it may have
    /// keys of others, as `reaches` tells. Bounds of keys are up to the caller.
    pub(crate) fn within(self, options: &TreeOptions, reaches: bool) -> Self {
        match options.hashes.filter(|_| reaches) {
            Some(hashes) => Self::Part(Box::new(PartitionSource {
                source: self,
                hashes,
                seed: options.hash_seed,
            })),
            None => self,
        }
    }

    /// The cursor over a memtable, if it is one.
    #[inline]
    fn memory(&self) -> Option<&MemCursor> {
        match self {
            Self::Memory(cursor) => Some(cursor),
            Self::Run(_) => None,
            Self::Part(part) => part.memory(),
        }
    }

    fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        match self {
            Self::Memory(cursor) => cursor.seek(from),
            Self::Run(cursor) => cursor.seek(from)?,
            Self::Part(part) => part.seek(from)?,
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match self {
            Self::Memory(cursor) => cursor.next(),
            Self::Run(cursor) => cursor.next()?,
            Self::Part(part) => part.next()?,
        }
        Ok(())
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        match self {
            Self::Memory(cursor) => cursor.entry(),
            Self::Run(cursor) => cursor.entry(),
            Self::Part(part) => part.entry(),
        }
    }

    fn block_bytes(&self) -> u64 {
        match self {
            Self::Memory(_) => 0,
            Self::Run(cursor) => cursor.block_bytes(),
            Self::Part(part) => part.source.block_bytes(),
        }
    }

    /// Releases a huge block. Returns whether a block is released.
    fn release_block(&mut self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Run(cursor) => cursor.release_block(),
            Self::Part(part) => part.source.release_block(),
        }
    }

    fn table(&self) -> Option<(&Path, u64)> {
        match self {
            Self::Memory(_) => None,
            Self::Run(cursor) => cursor.table(),
            Self::Part(part) => part.source.table(),
        }
    }

    fn reload_block(&mut self) -> Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Run(cursor) => cursor.reload_block(),
            Self::Part(part) => part.source.reload_block(),
        }
    }

    fn again(&self, direction: Direction, history: History<'_>) -> Result<Self> {
        Ok(match self {
            Self::Memory(cursor) => Self::Memory(cursor.again(direction, history)),
            Self::Run(cursor) => Self::Run(cursor.again(direction, history)?),
            // All of `history` is of one key.
            Self::Part(part) => part.source.again(direction, history)?,
        })
    }

    #[inline]
    fn value(&self) -> Slice {
        match self {
            Self::Memory(cursor) => {
                cursor.entry().map(|entry| Slice::copy_of(entry.value)).unwrap_or_default()
            }
            Self::Run(cursor) => cursor.value(),
            Self::Part(part) => part.value(),
        }
    }
}

/// Merges sources, which all go in the same direction.
pub(crate) struct MergeCursor {
    sources: Vec<MergeSource>,
    /// A heap of the sources that have an entry.
    heap: Vec<Standing>,
    direction: Direction,
    /// A source may be on a huge value, or has released one.
    has_huge: bool,
}

/// A source that has an entry, and the front of its key, which decides most comparisons.
#[derive(Clone, Copy)]
struct Standing {
    /// Out of date in a heap of one.
    front: u64,
    place: usize,
}

impl MergeCursor {
    /// Creates a cursor without a position.
    pub(crate) fn new(sources: Vec<MergeSource>, direction: Direction) -> Self {
        let heap = Vec::with_capacity(sources.len());
        Self { sources, heap, direction, has_huge: false }
    }

    /// Returns another cursor over the same sources, on the first entry of `history` in its
    /// direction. Entries beyond `history` are incomplete.
    pub(crate) fn again(&self, direction: Direction, history: History<'_>) -> Result<Self> {
        let mut again = Self::new(Vec::with_capacity(self.sources.len()), direction);
        for source in &self.sources {
            let mut source = source.again(direction, history)?;
            again.has_huge |= is_huge(&source) && source.release_block();
            again.sources.push(source);
        }
        again.rebuild();
        again.hold_one_huge()?;
        Ok(again)
    }

    /// Moves behind the last entry, in its direction.
    pub(crate) fn finish(&mut self) {
        self.heap.clear();
    }

    /// Moves to the first entry, in its direction, of a key within `from`.
    pub(crate) fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        self.heap.clear();
        for source in &mut self.sources {
            source.seek(from)?;
            // One after another, so that no two sources hold a huge block at the same time.
            self.has_huge |= is_huge(source) && source.release_block();
        }
        self.rebuild();
        self.hold_one_huge()
    }

    /// Makes the next source hold its huge block, and all others release theirs.
    #[inline]
    fn hold_one_huge(&mut self) -> Result<()> {
        if self.has_huge { self.keep_one_huge() } else { Ok(()) }
    }

    #[cold]
    fn keep_one_huge(&mut self) -> Result<()> {
        let Some(top) = self.heap.first().map(|top| top.place) else { return Ok(()) };
        let mut has_huge = false;
        for (place, source) in self.sources.iter_mut().enumerate() {
            has_huge |= place != top && source.release_block();
        }
        let taken = self.sources[top].reload_block();
        self.has_huge = has_huge || is_huge(&self.sources[top]);
        // After an error the cursor has no position.
        taken.inspect_err(|_| self.heap.clear())
    }

    fn rebuild(&mut self) {
        let Self { sources, heap, direction, .. } = self;
        heap.clear();
        heap.extend(sources.iter().enumerate().filter_map(|(place, source)| {
            Some(Standing { front: key_front(source.entry()?.key), place })
        }));
        heapify(heap, |a, b| before(*direction, sources, a, b));
    }

    /// Moves to the next entry. After an error the cursor has no position.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        let Self { sources, heap, direction, has_huge } = self;
        let Some(&Standing { place, .. }) = heap.first() else { return Ok(()) };
        if let Err(error) = sources[place].next() {
            heap.clear();
            return Err(error);
        }
        let sources = &sources[..];
        let comes_before = |a: &Standing, b: &Standing| before(*direction, sources, a, b);
        match sources[place].entry() {
            Some(entry) => {
                if entry.value.len() >= HUGE_VALUE {
                    *has_huge = true;
                }
                if heap.len() > 1 {
                    let standing = Standing { front: key_front(entry.key), place };
                    replace_first(heap, standing, comes_before);
                }
            }
            None => {
                heap.swap_remove(0);
                sift_down(heap, 0, comes_before);
            }
        }
        self.hold_one_huge()
    }

    /// Moves to the entries that follow in the block of the current one, at most `most`, as long as
    /// all other sources have larger keys, and `visit` returns true for each: false leaves it as
    /// the next entry. Returns how many were visited. Only forwards.
    #[inline]
    pub(crate) fn visit_near(
        &mut self,
        most: usize,
        mut visit: impl FnMut(EntryRef<'_>) -> bool,
    ) -> usize {
        let Self { sources, heap, .. } = self;
        let Some((top, others)) = heap.split_first_mut() else { return 0 };
        let (before, rest) = sources.split_at_mut(top.place);
        let Some((MergeSource::Run(cursor), after)) = rest.split_first_mut() else { return 0 };
        let Some(cursor) = cursor.in_table() else { return 0 };
        let key_of = |other: &Standing| match other.place.checked_sub(top.place + 1) {
            Some(place) => after[place].entry().map(|entry| entry.key),
            None => before[other.place].entry().map(|entry| entry.key),
        };
        // One of the first two is the least of the heap below the top.
        let limit = others.iter().take(2).filter_map(key_of).min();
        let is_first = |key: &[u8]| limit.is_none_or(|limit: &[u8]| order(key, limit).is_lt());
        let mut visited = 0;
        while visited < most {
            let near = cursor.next_near();
            if near == Near::None {
                break;
            }
            let entry = cursor.entry();
            if near == Near::Key && is_first(entry.key) && visit(entry) {
                visited += 1;
                continue;
            }
            // Back within a block that was just read.
            let _cannot_fail = cursor.prev();
            break;
        }
        top.front = key_front(cursor.entry().key);
        visited
    }

    #[inline]
    pub(crate) fn entry(&self) -> Option<EntryRef<'_>> {
        self.sources[self.heap.first()?.place].entry()
    }

    /// The number of the source of the current entry.
    pub(crate) fn source(&self) -> Option<usize> {
        self.heap.first().map(|top| top.place)
    }

    /// The file of the current entry, and the offset of its block. `None` for an entry of a
    /// memtable.
    pub(crate) fn table(&self) -> Option<(&Path, u64)> {
        self.sources[self.heap.first()?.place].table()
    }

    /// The current entry if it is known to be the only one of its key: then the caller need not
    /// copy the key before it moves on. `None` for entries of tables, which do not know.
    #[inline]
    pub(crate) fn only_entry(&self) -> Option<EntryRef<'_>> {
        let (top, others) = self.heap.split_first()?;
        let MergeSource::Memory(cursor) = &self.sources[top.place] else { return None };
        let entry = cursor.entry().filter(|_| cursor.is_last_of_key())?;
        let mut next = others.iter().take(2).filter_map(|other| self.sources[other.place].entry());
        next.all(|other| other.key != entry.key).then_some(entry)
    }

    /// The check of the current entry: the one it has carried since it was written to a memtable,
    /// or one computed from a block with a valid checksum. `seed` is that of the keyspace.
    #[inline]
    pub(crate) fn check(&self, seed: u64) -> Option<EntryCheck> {
        let source = &self.sources[self.heap.first()?.place];
        match source.memory() {
            Some(cursor) => cursor.check(),
            None => Some(EntryCheck::of_entry(&source.entry()?, seed)),
        }
    }

    /// Compares the current entry with its check, for an entry that is not written as it is.
    ///
    /// # Errors
    /// Corruption if the entry changed in its memtable.
    pub(crate) fn verify(&self, seed: u64) -> Result<()> {
        let Some(top) = self.heap.first() else { return Ok(()) };
        let Some(cursor) = self.sources[top.place].memory() else { return Ok(()) };
        match (cursor.check(), cursor.entry()) {
            (Some(check), Some(entry)) => check.verify(&entry, seed),
            _ => Ok(()),
        }
    }

    /// The current value. Shares the memory of its block; a value in a memtable is copied.
    #[inline]
    pub(crate) fn value(&self) -> Slice {
        self.heap.first().map(|top| self.sources[top.place].value()).unwrap_or_default()
    }

    /// Returns whether the current entry is in a memtable.
    #[inline]
    pub(crate) fn is_in_memory(&self) -> bool {
        let top = self.heap.first().map(|top| &self.sources[top.place]);
        top.is_some_and(|source| source.memory().is_some())
    }

    /// Bytes of the current blocks of all sources.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.sources.iter().map(MergeSource::block_bytes).sum()
    }

    /// Skips entries before `limit` that are in tables whose newest SeqNo is below `seqno`.
    pub(crate) fn skip_older(&mut self, limit: Bound<&[u8]>, seqno: SeqNo) -> Result<()> {
        for place in 0..self.sources.len() {
            let lies_before = self.sources[place].entry().is_some_and(|entry| match limit {
                Bound::Included(end) => entry.key < end,
                Bound::Excluded(start) => entry.key >= start,
                Bound::Unbounded => false,
            });
            if let (true, MergeSource::Run(cursor)) = (lies_before, &mut self.sources[place]) {
                cursor.skip_older(limit, seqno)?;
            }
        }
        self.rebuild();
        self.hold_one_huge()
    }
}

fn is_huge(source: &MergeSource) -> bool {
    source.entry().is_some_and(|entry| entry.value.len() >= HUGE_VALUE)
}

#[inline]
fn before(direction: Direction, sources: &[MergeSource], a: &Standing, b: &Standing) -> bool {
    let order = if a.front == b.front {
        match (sources[a.place].entry(), sources[b.place].entry()) {
            (Some(a), Some(b)) => a.order(&b),
            (None, None) => return false,
            (a, _) => return a.is_some(),
        }
    } else {
        a.front.cmp(&b.front)
    };
    match direction {
        Direction::Forward => order == Ordering::Less,
        Direction::Reverse => order == Ordering::Greater,
    }
}
