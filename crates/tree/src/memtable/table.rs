//! One memtable: insert, get, and the counts that decide when it is sealed and flushed.

use super::ordered::{Ordered, OrderedWriter, Ranked, Runs};
use super::shortcuts::{self, Combining};
use super::store::{MemtableSize, Store, StoreWriter};
use super::versions::StoredVersion;
use crate::arena::ChunkPool;
use crate::context::TreeContext;
use crate::dead_ranges::DeadRanges;
use crate::fold::Fold;
use crate::ranges::{OwnedRange, RangeSet};
use crate::write_load::{Waits, WriteLoad};
use flagstone_base::check::changed;
use flagstone_base::flip::{self, Site};
use flagstone_base::hash::{RemixedKey, remix};
use flagstone_base::{EntryCheck, EntryRef, Error, ErrorKind, Kind, Result, SeqNo, Slice, Trailer};
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use flagstone_env::sync::{ArcSwapOption, Guard};
use flagstone_env::sync::{Mutex, MutexGuard};
use flagstone_sst::RangeDelete;
use std::sync::{Arc, OnceLock};

/// No SeqNo: the value of `first` before the first reservation.
const NONE: u64 = u64::MAX;

/// Entries in memory, from the SeqNo after one seal to that of the next.
pub(crate) struct Memtable {
    context: Arc<TreeContext>,
    fold: Option<Arc<dyn Fold>>,
    /// Those of the tree whose writers insert here.
    dead_ranges: Arc<DeadRanges>,
    store: Store,
    ordered: ArcSwapOption<Ordered>,
    ranges: ArcSwapOption<Ranges>,
    writer: Mutex<Writer>,
    references: References,
    /// The SeqNo of the first entry reserved; `NONE` before that.
    first: AtomicU64,
    last: AtomicU64,
    entries: AtomicU64,
    tombstones: AtomicU64,
    /// The memory charged to `context.memtable_bytes`.
    charged: AtomicU64,
    has_shortcuts: AtomicBool,
    seal_seqno: AtomicU64,
    /// The trees that have not flushed it yet, and whether there were ever several.
    holders: AtomicUsize,
    is_shared: AtomicBool,
}

#[derive(Default)]
struct Writer {
    store: StoreWriter,
    ordered: OrderedWriter,
    ranges_charged: u64,
    /// The number of deleted ranges, and the sum of their checks.
    ranges_count: u64,
    ranges_sum: u64,
    is_uncharged: bool,
    /// The writers that had to wait for one another, if some had.
    waits: Option<Box<Waits>>,
}

/// The number of batches that were numbered for a memtable and are not inserted yet, and whether it
/// is sealed. In one word: once it is sealed and nothing is under way, it stays so.
#[derive(Default)]
struct References(AtomicUsize);

/// The bit that says that the memtable is sealed.
const SEALED: usize = 1 << (usize::BITS - 1);

impl References {
    fn take(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn take_unless_sealed(&self) -> bool {
        let more = |word| (word & SEALED == 0).then_some(word + 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    /// Returns true for the last reference of a sealed memtable.
    fn release(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) == SEALED | 1
    }

    fn seal(&self) {
        self.0.fetch_or(SEALED, Ordering::SeqCst);
    }

    fn are_complete(&self) -> bool {
        self.0.load(Ordering::SeqCst) == SEALED
    }
}

/// Deleted ranges: sets, each at least [`SET_GROWTH`] times as long as the next, and the few that
/// were added since the last set was made. So a range is copied into few sets, and a reader looks
/// into few.
struct Ranges {
    sets: Vec<Arc<RangeSet>>,
    tail: Vec<OwnedRange>,
    /// The set of the tail, made by the first scan.
    tail_set: OnceLock<Arc<RangeSet>>,
}

const SET_GROWTH: usize = 8;
/// So many ranges become a set.
const TAIL_MAX: usize = 16;

impl Memtable {
    /// Creates an empty memtable, expected to grow to `expected`. It takes no memory before the
    /// first insert. `fold` combines merge operands of a key; `dead_ranges` are those of its tree.
    pub(crate) fn new(
        context: &Arc<TreeContext>,
        fold: Option<&Arc<dyn Fold>>,
        dead_ranges: &Arc<DeadRanges>,
        expected: MemtableSize,
    ) -> Arc<Self> {
        let store = StoreWriter::expecting(expected);
        Arc::new(Self {
            context: Arc::clone(context),
            fold: fold.map(Arc::clone),
            dead_ranges: Arc::clone(dead_ranges),
            store: Store::new(),
            ordered: ArcSwapOption::empty(),
            ranges: ArcSwapOption::empty(),
            writer: Mutex::new(Writer { store, ..Writer::default() }),
            references: References::default(),
            first: AtomicU64::new(NONE),
            last: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            tombstones: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            has_shortcuts: AtomicBool::new(false),
            seal_seqno: AtomicU64::new(0),
            holders: AtomicUsize::new(1),
            is_shared: AtomicBool::new(false),
        })
    }

    /// Takes a reference for a batch whose first entry is `first`, under the numbering lock.
    /// Returns true for the first batch.
    pub(crate) fn reserve(&self, first: SeqNo) -> bool {
        self.references.take();
        self.first.fetch_min(first.get(), Ordering::AcqRel) == NONE
    }

    /// Takes a reference for a change that readers cannot see. Returns false, and takes none, if
    /// the memtable is sealed and must not be changed.
    pub(crate) fn hold(&self) -> bool {
        self.references.take_unless_sealed()
    }

    /// Releases a reference. Returns true if it was the last one of a sealed memtable.
    pub(crate) fn release(&self) -> bool {
        self.references.release()
    }

    /// Seals the memtable: no entry above `seqno` is added. Called under the numbering lock.
    pub(crate) fn seal(&self, seqno: SeqNo) {
        self.seal_seqno.store(seqno.get(), Ordering::SeqCst);
        self.references.seal();
    }

    /// Returns whether the memtable is sealed and everything reserved was inserted. Then it stays
    /// complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.references.are_complete()
    }

    /// The last SeqNo assigned before the memtable was sealed.
    pub(crate) fn seal_seqno(&self) -> SeqNo {
        SeqNo::new(self.seal_seqno.load(Ordering::SeqCst))
    }

    /// The smallest SeqNo that is, or will be, in the memtable.
    pub(crate) fn first(&self) -> Option<SeqNo> {
        match self.first.load(Ordering::Acquire) {
            NONE => None,
            first => Some(SeqNo::new(first)),
        }
    }

    /// The largest SeqNo inserted.
    pub(crate) fn last(&self) -> SeqNo {
        SeqNo::new(self.last.load(Ordering::Acquire))
    }

    /// The number of entries, deleted ranges included.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// The number of tombstones inserted.
    pub(crate) fn tombstones(&self) -> u64 {
        self.tombstones.load(Ordering::Relaxed)
    }

    /// Returns whether the memtable has a deleted range.
    pub(crate) fn has_ranges(&self) -> bool {
        self.ranges.load().is_some()
    }

    /// The number of distinct keys, and the bytes of memory.
    pub(crate) fn size(&self) -> MemtableSize {
        MemtableSize { keys: self.writer.lock().store.keys(), bytes: self.bytes() }
    }

    /// Bytes of memory that the memtable holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Gives the sealed memtable to `trees` in place of its tree. Each flushes its part of it.
    pub(crate) fn share(&self, trees: usize) {
        self.is_shared.fetch_or(trees > 1, Ordering::AcqRel);
        self.holders.fetch_add(trees.saturating_sub(1), Ordering::AcqRel);
    }

    /// Returns whether the memtable has keys of several trees.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire)
    }

    /// The number of trees that have not flushed it yet, at least 1.
    pub(crate) fn holders(&self) -> u64 {
        self.holders.load(Ordering::Acquire).max(1) as u64
    }

    /// Stops charging for the memory of the memtable, whose entries are in tables now. Only readers
    /// may still hold it, and what a cursor pins must neither make other memtables be sealed early
    /// nor stop writers.
    pub(crate) fn stop_charging(&self) {
        if self.holders.fetch_sub(1, Ordering::AcqRel) > 1 {
            // Another tree has entries of it to flush.
            return;
        }
        let mut writer = self.writer.lock();
        writer.is_uncharged = true;
        let charged = self.charged.swap(0, Ordering::Relaxed);
        self.context.memtable_bytes.fetch_sub(charged, Ordering::Relaxed);
    }

    /// Returns whether the memtable has shortcuts.
    pub(crate) fn has_shortcuts(&self) -> bool {
        self.has_shortcuts.load(Ordering::Acquire)
    }

    /// Adds an entry. `key_hash` is the hash of its key that the router uses. `check` is what the
    /// entry has carried since it was written; without one, the check is computed here. Returns
    /// true if the key has many operands that cannot be combined: the next writer of the key should
    /// write its value.
    ///
    /// # Errors
    /// Busy if the arena has no addresses left, which takes more than 8 GiB.
    pub(crate) fn insert(
        &self,
        entry: EntryRef<'_>,
        key_hash: u64,
        check: Option<EntryCheck>,
    ) -> Result<bool> {
        let computed = || EntryCheck::of_trailer(key_hash, entry.trailer, entry.value);
        let check = if self.context.entry_checks {
            check.unwrap_or_else(computed)
        } else {
            EntryCheck::default()
        };
        let mut room = Vec::new();
        let entry = flip::arrived(Site::Memtable, entry, &mut room);
        let mut writer = match self.writer.try_lock() {
            Some(writer) => writer,
            None => self.wait_to_write(entry.key),
        };
        let (mut is_long, mut is_more) = (false, true);
        if entry.kind() == Kind::RangeDelete {
            writer.ranges_count += 1;
            writer.ranges_sum = writer.ranges_sum.wrapping_add(u64::from(check.to_u32()));
            self.insert_range(&mut writer, entry);
        } else {
            (is_long, is_more) = self.insert_key(&mut writer, entry, key_hash, check)?;
            if entry.kind() == Kind::Delete {
                add_alone(&self.tombstones, 1);
            } else if self.dead_ranges.concern(entry.key) {
                self.dead_ranges.note(entry.key);
            }
        }
        self.charge(&writer);
        // Both under the lock, for `last_settled`: scans skip a memtable without entries.
        add_alone(&self.entries, u64::from(is_more));
        let last = self.last.load(Ordering::Relaxed).max(entry.seqno().get());
        self.last.store(last, Ordering::Release);
        drop(writer);
        Ok(is_long)
    }

    /// Returns the largest SeqNo inserted so far. A cursor that is created later sees all these
    /// entries, and later writers find what was set before the call, such as a watch of the dead
    /// ranges.
    pub(crate) fn last_settled(&self) -> SeqNo {
        let _writer = self.writer.lock();
        self.last()
    }

    /// Waits for other writers, as a writer of `key`.
    #[cold]
    fn wait_to_write(&self, key: &[u8]) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        writer.waits.get_or_insert_default().note(key);
        writer
    }

    /// Counts a writer of `key` that has waited for others, for tests.
    pub(crate) fn note_wait(&self, key: &[u8]) {
        drop(self.wait_to_write(key));
    }

    /// How much its writers waited for one another. Nothing if it has keys of several trees: those
    /// have come of a split since.
    pub(crate) fn load(&self) -> WriteLoad {
        if self.is_shared() {
            return WriteLoad::default();
        }
        let waits = self.writer.lock().waits.as_deref().cloned();
        WriteLoad::new(self.entries(), waits.unwrap_or_default())
    }

    /// Adds the state of `key` at `seqno` next to its merge operands. The memtable must have an
    /// entry of `key` at `seqno`.
    pub(crate) fn add_state(&self, key: &[u8], key_hash: u64, seqno: SeqNo, value: Option<&[u8]>) {
        let mut writer = self.writer.lock();
        let Some(at) = self.store.find(key, remix(key_hash)) else { return };
        let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
        let key_hash = self.context.entry_checks.then_some(key_hash);
        if key_hash.is_some_and(|hash| !self.store.versions.is_sound(at, seqno, hash)) {
            // The value may have been folded from an entry that changed in memory. The flush
            // reports that.
            return;
        }
        let (trailer, value) = (Trailer::new(seqno, kind), value.unwrap_or_default());
        self.has_shortcuts.store(true, Ordering::Release);
        let (bump, state) = (writer.store.bump(), StoredVersion::new(trailer, value, key_hash));
        self.store.versions.add_state(bump, &self.context.chunks, at, state);
        self.store.versions.tally(at).store(0, Ordering::Relaxed);
        self.charge(&writer);
    }

    fn charge(&self, writer: &Writer) {
        let bytes = self.store.bytes() + writer.ranges_charged + 16 * writer.store.keys() as u64;
        let before = self.charged.load(Ordering::Relaxed);
        if bytes > before && !writer.is_uncharged {
            self.charged.store(bytes, Ordering::Relaxed);
            self.context.memtable_bytes.fetch_add(bytes - before, Ordering::Relaxed);
        }
    }

    /// Returns whether the key has many uncombined operands, and whether the memtable has one entry
    /// more.
    fn insert_key(
        &self,
        writer: &mut Writer,
        entry: EntryRef<'_>,
        key_hash: u64,
        check: EntryCheck,
    ) -> Result<(bool, bool)> {
        let version = StoredVersion { trailer: entry.trailer, check, value: entry.value };
        let hash = remix(key_hash);
        let pool = &self.context.chunks;
        let Some(inserted) = self.store.insert(&mut writer.store, pool, entry.key, hash, version)
        else {
            return Err(Error::new(
                ErrorKind::Busy,
                "a memtable has no addresses left: it must be flushed before more is written",
            ));
        };
        let is_more = !inserted.linked.has_replaced;
        if inserted.is_new {
            let rank = Ranked::new(entry.key, inserted.at);
            writer.ordered.push(rank, &self.store, &self.ordered);
        }
        if entry.kind() != Kind::Merge {
            if !inserted.is_new {
                self.store.versions.tally(inserted.at).store(0, Ordering::Relaxed);
            }
            return Ok((false, is_more));
        }
        let Some(fold) = self.fold.as_deref() else { return Ok((false, is_more)) };
        let (versions, key) = (&self.store.versions, entry.key);
        let key_hash = self.context.entry_checks.then_some(key_hash);
        let combining = Combining { versions, pool, fold, key, key_hash };
        let merged = shortcuts::after_merge(&combining, writer.store.bump(), &inserted);
        if merged.is_combined && !self.has_shortcuts() {
            self.has_shortcuts.store(true, Ordering::Release);
        }
        Ok((merged.is_long, is_more))
    }

    fn insert_range(&self, writer: &mut Writer, entry: EntryRef<'_>) {
        let (start, end) = (Slice::copy_of(entry.key), Slice::copy_of(entry.value));
        let range = OwnedRange { start, end, seqno: entry.seqno() };
        writer.ranges_charged += (entry.key.len() + entry.value.len() + 256) as u64;
        let known = self.ranges.load_full();
        let (mut sets, mut tail) = match &known {
            Some(known) => (known.sets.clone(), known.tail.clone()),
            None => Default::default(),
        };
        tail.push(range);
        if tail.len() == TAIL_MAX {
            let new = set_of(&tail);
            tail.clear();
            let (mut from, mut len) = (sets.len(), new.len());
            while let Some(before) = from.checked_sub(1)
                && sets[before].len() < SET_GROWTH * len
            {
                (from, len) = (before, len + sets[before].len());
            }
            let parts: Vec<&RangeSet> =
                sets[from..].iter().map(|set| &**set).chain([&new]).collect();
            let union = Arc::new(RangeSet::union(&parts));
            sets.truncate(from);
            sets.push(union);
        }
        self.ranges.store(Some(Arc::new(Ranges { sets, tail, tail_set: OnceLock::new() })));
    }

    /// Returns the newest SeqNo, not above `at`, of a deleted range over `key`, or ZERO if there is
    /// none.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], at: SeqNo) -> SeqNo {
        let ranges: Guard<_> = self.ranges.load();
        let Some(ranges) = &*ranges else { return SeqNo::ZERO };
        let in_tail = ranges.tail.iter().filter(|r| r.seqno <= at && r.as_ref().contains(key));
        let newest = in_tail.map(|range| range.seqno).max().unwrap_or(SeqNo::ZERO);
        ranges.sets.iter().fold(newest, |newest, set| newest.max(set.covering(key, at)))
    }

    /// Returns all deleted ranges: most of them in one set, others in a few smaller ones. Callers
    /// share the last set until the next range is deleted. Empty sets are left out.
    pub(crate) fn range_sets(&self) -> Vec<Arc<RangeSet>> {
        let ranges: Guard<_> = self.ranges.load();
        let Some(ranges) = &*ranges else { return Vec::new() };
        let tail_set = ranges.tail_set.get_or_init(|| Arc::new(set_of(&ranges.tail)));
        let sets = ranges.sets.iter().chain([tail_set]);
        sets.filter(|set| !set.is_empty()).map(Arc::clone).collect()
    }

    /// Checks that `sets`, all deleted ranges of the memtable, are as inserted. Nothing may be
    /// inserted meanwhile.
    ///
    /// # Errors
    /// Corruption if one of the ranges changed in memory.
    pub(crate) fn check_ranges(&self, sets: &[Arc<RangeSet>], seed: u64) -> Result<()> {
        let check = |range: RangeDelete<'_>| {
            let entry = EntryRef::new(range.start, range.seqno, Kind::RangeDelete, range.end);
            u64::from(EntryCheck::of_entry(&entry, seed).to_u32())
        };
        let ranges = sets.iter().flat_map(|set| set.iter());
        let found = ranges.map(check).fold(0, u64::wrapping_add);
        if found == self.writer.lock().ranges_sum {
            Ok(())
        } else {
            let count: usize = sets.iter().map(|set| set.len()).sum();
            Err(changed(format_args!("one of {count} deleted ranges of a memtable")))
        }
    }

    /// The number of entries that a walk visits, or `None` if shortcuts replace some of them.
    pub(crate) fn entries_to_walk(&self) -> Option<u64> {
        let ranges = self.writer.lock().ranges_count;
        (!self.has_shortcuts()).then(|| self.entries().saturating_sub(ranges))
    }

    /// Visits the entries of `key` not above `at`, newest first, until `visit` returns false.
    /// Operands that are all at least as new as `covered` may come combined.
    #[inline]
    pub(crate) fn get(
        &self,
        RemixedKey { key, hash }: RemixedKey<'_>,
        at: SeqNo,
        covered: SeqNo,
        mut visit: impl FnMut(EntryRef<'_>) -> bool,
    ) {
        let Some(found) = self.store.find(key, hash) else { return };
        let first = self.store.versions.first(found);
        // Only a reader of the past checks further: `first` is written all the time.
        let is_newer =
            self.store.versions.version_at(first).is_some_and(|v| v.trailer.seqno() > at);
        if is_newer && self.first().is_none_or(|first| first > at) {
            return;
        }
        let accepts = |_, below: SeqNo| covered <= below.plus(1);
        let mut place = self.store.versions.settle(first, at, accepts);
        while let Some(version) = self.store.versions.version_at(place) {
            if !visit(EntryRef { key, trailer: version.trailer, value: version.value }) {
                return;
            }
            place = self.store.versions.settle(self.store.versions.follow(place), at, accepts);
        }
    }

    /// Returns every key inserted so far, in sorted runs.
    pub(super) fn sorted_runs(&self) -> Runs {
        self.ordered.load().as_ref().map_or_else(Runs::default, |o| o.sorted_runs(&self.store))
    }

    pub(super) const fn store(&self) -> &Store {
        &self.store
    }
}

fn set_of(tail: &[OwnedRange]) -> RangeSet {
    RangeSet::new(tail.iter().map(OwnedRange::as_ref).collect())
}

impl Drop for Memtable {
    fn drop(&mut self) {
        let pool: &ChunkPool = &self.context.chunks;
        self.store.give_back(&mut self.writer.get_mut().store, pool);
        self.context.memtable_bytes.fetch_sub(*self.charged.get_mut(), Ordering::Relaxed);
    }
}

/// Adds to a counter that only holders of the writers' lock change: without a locked instruction.
fn add_alone(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It counted as incomplete again for a moment: a flush that began then passed it over, and its
    /// group was taken for flushed without it.
    #[test]
    fn a_change_that_comes_after_the_seal_leaves_a_memtable_complete() {
        let references = References::default();
        references.take();
        assert!(references.take_unless_sealed());
        assert!(!references.release());
        references.seal();
        assert!(!references.take_unless_sealed() && !references.are_complete());
        assert!(references.release() && references.are_complete());
        assert!(!references.take_unless_sealed() && references.are_complete());
    }
}
