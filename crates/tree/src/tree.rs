//! The tree: its current view, and the only place where an edit becomes current.
//!
//! Locks, in order: `installing` (one edit at a time) before `swapping` (a new view, a few lines).
//! The lock of the dead ranges comes after `swapping` and after that of a memtable; a new view is
//! stored under it.
//! Readers take neither: they load the view. Neither is held across I/O. A table's own lock is held
//! while its first reader opens it.

use crate::bounds::KeyBounds;
use crate::context::TreeContext;
use crate::counters::{AtomicCounters, TreeCounters};
use crate::dead_ranges::DeadRanges;
use crate::deletes::{DeletedBytes, DeletesInMemory, deleted_bytes};
use crate::memtable::{Memtable, MemtableSize};
use crate::merge::{AllRanges, Retention};
use crate::options::TreeOptions;
use crate::pick::{Job, Policy, Pressure, pick_space, pressure};
use crate::read_load::ReadLoad;
use crate::space::{Rules, Space, SpaceCache};
use crate::version::{LEVELS, TreeEdit, Version};
use crate::view::{MemtableRef, View};
use crate::work_slot::WorkSlot;
use flagstone_base::sorted::{SortedMap, SortedSet};
use flagstone_base::{FileNumber, Result, SeqNo, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use flagstone_env::sync::{ArcSwap, Guard};
use flagstone_sst::{Table, TableOptions};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// One LSM-tree: one partition of a keyspace.
pub struct Tree {
    id: TreeId,
    context: Arc<TreeContext>,
    options: TreeOptions,
    /// How the next table is written.
    tables: Mutex<TableOptions>,
    view: ArcSwap<View>,
    pub(crate) dead_ranges: Arc<DeadRanges>,
    installing: Mutex<()>,
    swapping: Mutex<()>,
    pub(crate) flush_slot: WorkSlot,
    pub(crate) compaction_slot: WorkSlot,
    keep_tombstones: AtomicBool,
    /// See [`Tree::set_floor`]. ZERO if there is none.
    floor: AtomicU64,
    /// Tables that a flush or compaction opened and checked, until they are installed.
    ready: Mutex<SortedMap<FileNumber, Arc<Table>>>,
    pub(crate) counters: AtomicCounters,
    pub(crate) reads: ReadLoad,
    /// See [`Tree::stall_fill`].
    stall_fill: AtomicU32,
    spaces: SpaceCache,
    /// The trees that have replaced this one.
    successors: OnceLock<Box<[Arc<Self>]>>,
}

/// Statistics of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// The number of the level, 0 to 6.
    pub level: u8,
    /// The number of tables.
    pub tables: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of their keys and values before compression.
    pub raw_bytes: u64,
    /// The number of puts, tombstones and merge operands.
    pub entries: u64,
    /// The number of tombstones among the entries.
    pub deletes: u64,
    /// The number of puts with an expiry among the entries.
    pub expiring: u64,
    /// The number of deleted ranges.
    pub range_deletes: u64,
}

/// Statistics of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// The levels, L0 to L6.
    pub levels: Vec<LevelStats>,
    /// Memory of the memtables, in bytes.
    pub memtable_bytes: u64,
    /// The number of entries in the memtables.
    pub memtable_entries: u64,
    /// The work done since the tree was opened.
    pub counters: TreeCounters,
}

/// The amount of data that a check of a tree read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeReport {
    /// The number of tables.
    pub tables: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// The number of entries in the tables.
    pub entries: u64,
}

impl Tree {
    /// Creates a tree with the tables of `version` and an empty memtable.
    pub fn new(
        id: TreeId,
        context: Arc<TreeContext>,
        options: TreeOptions,
        version: Version,
    ) -> Arc<Self> {
        let dead_ranges = Arc::default();
        let active =
            Memtable::new(&context, options.fold.as_ref(), &dead_ranges, MemtableSize::default());
        let view = View { active, sealed: Vec::new(), version: version.shared() };
        Self::with_view(id, context, options, view, dead_ranges)
    }

    /// Creates a tree whose readers begin with a view. The writers of its active memtable note keys
    /// in the dead ranges.
    pub(crate) fn with_view(
        id: TreeId,
        context: Arc<TreeContext>,
        options: TreeOptions,
        view: View,
        dead_ranges: Arc<DeadRanges>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            context,
            tables: Mutex::new(options.tables),
            options,
            view: ArcSwap::from_pointee(view),
            dead_ranges,
            installing: Mutex::new(()),
            swapping: Mutex::new(()),
            flush_slot: WorkSlot::default(),
            compaction_slot: WorkSlot::default(),
            keep_tombstones: AtomicBool::new(false),
            floor: AtomicU64::new(0),
            ready: Mutex::default(),
            counters: AtomicCounters::default(),
            reads: ReadLoad::default(),
            stall_fill: AtomicU32::new(0),
            spaces: SpaceCache::default(),
            successors: OnceLock::new(),
        })
    }

    /// The number of the tree in its database.
    pub const fn id(&self) -> TreeId {
        self.id
    }

    /// The options that the tree was created with.
    pub const fn options(&self) -> &TreeOptions {
        &self.options
    }

    /// How the next table of the tree is written.
    pub fn table_options(&self) -> TableOptions {
        *self.tables.lock()
    }

    /// Changes how tables are written from the next one on.
    pub fn set_table_options(&self, tables: TableOptions) {
        *self.tables.lock() = tables;
    }

    /// [`Tree::options`], with the options of tables as they are now.
    pub fn current_options(&self) -> TreeOptions {
        TreeOptions { tables: self.table_options(), ..self.options.clone() }
    }

    /// The context that the tree shares with all other trees of the database.
    pub const fn context(&self) -> &Arc<TreeContext> {
        &self.context
    }

    /// Returns the current sources, without a lock. A reader takes the visible SeqNo before the
    /// view.
    #[inline]
    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// As [`Tree::view`], for a short read: it changes no counter that other threads use.
    #[inline]
    pub fn peek(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    pub(crate) fn is_current(&self, view: &Arc<View>) -> bool {
        Arc::ptr_eq(&self.view.load(), view)
    }

    /// Takes a reference to the active memtable for a batch whose first entry in this tree is
    /// `first`. Must be called under the lock that numbers batches, so that no seal comes between.
    pub fn reserve(&self, first: SeqNo) -> MemtableRef {
        MemtableRef::new(&self.view.load().active, first)
    }

    /// Records that `key` has `value` at `seqno`, the SeqNo of its newest entry at that time, so
    /// that reads need not fold older merge operands. `key_hash` is as for inserts. The value is
    /// kept only in memory, and only if that entry is in the active memtable; results of reads do
    /// not change. Returns true if the memtable was sealed meanwhile and can now be flushed.
    pub fn note_folded(
        &self,
        key: &[u8],
        key_hash: u64,
        seqno: SeqNo,
        value: Option<&[u8]>,
    ) -> bool {
        let active = Arc::clone(&self.view.load().active);
        // The memtable must not change during a flush.
        if !active.hold() {
            return false;
        }
        active.add_state(key, key_hash, seqno, value);
        active.release()
    }

    /// Seals the active memtable and begins a new one. Returns false if nothing was reserved in it.
    /// `seal_seqno` is the last SeqNo assigned. Must be called under the lock that numbers batches.
    pub fn seal(&self, seal_seqno: SeqNo) -> bool {
        let _one = self.swapping.lock();
        let view = self.view.load_full();
        if view.active.first().is_none() {
            return false;
        }
        view.active.seal(seal_seqno);
        // The size of the previous memtable: its hash table need not grow under load.
        let (fold, size) = (self.options.fold.as_ref(), view.active.size());
        let active = Memtable::new(&self.context, fold, &self.dead_ranges, size);
        let sealed = [std::slice::from_ref(&view.active), &view.sealed].concat();
        let version = Arc::clone(&view.version);
        let next = Arc::new(View { active, sealed, version });
        let is_ingest = false;
        self.dead_ranges.change(is_ingest, || self.view.store(next));
        self.dead_ranges.forget_idle();
        true
    }

    /// Memory of the active memtable, in bytes.
    pub fn active_bytes(&self) -> u64 {
        self.view.load().active.bytes()
    }

    /// Counts a writer of `key` as one that had to wait for others, for tests.
    #[doc(hidden)]
    pub fn note_wait(&self, key: &[u8]) {
        self.view.load().active.note_wait(key);
    }

    /// Memory of the sealed memtables, in bytes.
    pub fn sealed_bytes(&self) -> u64 {
        self.view.load().sealed.iter().map(|table| table.bytes()).sum()
    }

    /// The deletes in the active memtable.
    pub fn deletes_in_memory(&self) -> DeletesInMemory {
        let active = &self.view.load().active;
        DeletesInMemory {
            newest: active.last(),
            has_ranges: active.has_ranges(),
            tombstones: active.tombstones(),
        }
    }

    /// Bytes of the tables that the deletes in the active memtable affect.
    pub fn deleted_bytes(&self) -> DeletedBytes {
        let view = self.view.load();
        let ranges = AllRanges::of_memory(view.active.range_sets());
        deleted_bytes(&view.version, ranges.set(), view.active.tombstones() > 0)
    }

    /// The number of sealed memtables that wait for their flush.
    pub fn sealed_count(&self) -> usize {
        self.view.load().sealed.len()
    }

    /// Returns whether a sealed memtable with entries up to `through` is not flushed yet.
    pub fn is_unflushed_through(&self, through: SeqNo) -> bool {
        self.view.load().sealed.last().is_some_and(|table| table.seal_seqno() <= through)
    }

    /// Returns whether [`crate::Flush::start`] would find work now.
    pub fn flushable(&self) -> bool {
        let view = self.view.load();
        self.flush_slot.is_free() && view.sealed.last().is_some_and(|table| table.is_complete())
    }

    /// Returns whether the tree has any table.
    pub fn has_tables(&self) -> bool {
        self.view.load().version.tables().next().is_some()
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        self.view.load().version.tables().map(|(_, table)| table.meta().bytes).sum()
    }

    /// The smallest SeqNo that is not in tables yet: the log must be kept from there on. `None` if
    /// all entries are in tables.
    pub fn oldest_unflushed(&self) -> Option<SeqNo> {
        self.view.load().memtables().filter_map(|table| table.first()).min()
    }

    /// Sets the SeqNo at which tables may be ingested later, although newer entries are written
    /// meanwhile; `None` when no more come. No entry may have this SeqNo, all older ones must be in
    /// tables, and no write may be under way.
    ///
    /// Compactions and flushes keep all tombstones, and those of entries that have expired. Tables
    /// with newer entries stay in L0, where the ingested tables come below them.
    pub fn set_floor(&self, floor: Option<SeqNo>) {
        self.set_keep_tombstones(floor.is_some());
        self.floor.store(floor.unwrap_or_default().get(), Ordering::SeqCst);
    }

    /// The SeqNo at which tables may be ingested later. Load it after the version it is used for:
    /// without a floor then, the version had no newer tables.
    pub fn floor(&self) -> Option<SeqNo> {
        Some(SeqNo::new(self.floor.load(Ordering::SeqCst))).filter(|floor| *floor > SeqNo::ZERO)
    }

    /// Sets whether compactions keep every tombstone. A floor sets it, too.
    pub fn set_keep_tombstones(&self, keep: bool) {
        self.keep_tombstones.store(keep, Ordering::SeqCst);
    }

    pub(crate) fn keeps_tombstones(&self) -> bool {
        self.keep_tombstones.load(Ordering::SeqCst)
    }

    /// Keeps an open table for the edit that will add it.
    pub(crate) fn set_ready(&self, table: Arc<Table>) {
        self.ready.lock().insert(table.number(), table);
    }

    pub(crate) fn forget_ready(&self, number: FileNumber) {
        self.ready.lock().remove(&number);
    }

    /// Checks whether [`Tree::install`] would accept `edit`, provided that nothing else is
    /// installed before it.
    ///
    /// # Errors
    /// Corruption if the edit does not fit.
    pub fn check(&self, edit: &TreeEdit) -> Result<()> {
        self.view.load().version.apply(&self.context, edit).map(|_next| ())
    }

    /// Makes `edit` current: readers see the new tables, and flushed memtables and removed tables
    /// are released. Must be called after the manifest has synced the edit, in the manifest's
    /// order. Returns the version that the edit produced.
    ///
    /// # Errors
    /// Corruption if the edit does not fit; nothing has changed then.
    pub fn install(&self, edit: &TreeEdit) -> Result<Arc<Version>> {
        let _one = self.installing.lock();
        let old = self.view.load_full();
        let mut ready = HashMap::new();
        for (_, meta) in &edit.added {
            ready.extend(self.ready.lock().remove(&meta.number).map(|table| (meta.number, table)));
        }
        let version = Arc::new(old.version.apply_with(&self.context, edit, &mut ready)?);
        edit.added.iter().for_each(|(_, meta)| self.context.unfinished.forget(meta.number));
        let kept: SortedSet<FileNumber> = edit.added.iter().map(|(_, m)| m.number).collect();
        let gone: SortedSet<FileNumber> = edit.removed.iter().copied().collect();
        for (_, table) in old.version.tables() {
            if gone.contains(&table.number()) && !kept.contains(&table.number()) {
                table.set_removed();
            }
        }
        let through = edit.flushed_through.unwrap_or_default();
        let swapping = self.swapping.lock();
        let view = self.view.load_full();
        let unflushed = |table: &&Arc<Memtable>| table.seal_seqno() > through;
        let sealed = view.sealed.iter().filter(unflushed).map(Arc::clone).collect();
        let (active, current) = (Arc::clone(&view.active), Arc::clone(&version));
        let next = Arc::new(View { active, sealed, version: current });
        let is_ingest = edit.added.iter().any(|(_, meta)| {
            // Not one that was only moved.
            meta.global_seqno.is_some() && !gone.contains(&meta.number)
        });
        self.dead_ranges.change(is_ingest, || self.view.store(next));
        drop(swapping);
        let flushed = view.sealed.iter().filter(|table| !unflushed(table));
        flushed.for_each(|table| table.stop_charging());
        if edit.flushed_through.is_some() {
            self.reads.flushed(edit.added.iter().map(|(_, meta)| meta.entries).sum());
        }
        self.context.scans.park_scans_of(self.id);
        self.flush_slot.end(edit);
        self.compaction_slot.end(edit);
        Ok(version)
    }

    /// Abandons an edit that the manifest refused: its new files will be removed, and the work may
    /// be started again.
    pub fn abandon(&self, edit: &TreeEdit) {
        for (_, meta) in &edit.added {
            if !edit.removed.contains(&meta.number) {
                self.ready.lock().remove(&meta.number);
                self.context.unfinished.forget(meta.number);
                self.context.obsolete.note(meta.number);
            }
        }
        self.flush_slot.end(edit);
        self.compaction_slot.end(edit);
    }

    /// Releases everything, after the tree's keyspace was dropped. Its tables are removed as soon
    /// as no reader holds them.
    pub fn discard(&self) {
        let _one = self.installing.lock();
        let _swap = self.swapping.lock();
        let view = self.view.load_full();
        view.version.tables().for_each(|(_, table)| table.set_removed());
        view.memtables().for_each(|table| table.stop_charging());
        let (active, version) = (
            Memtable::new(&self.context, None, &self.dead_ranges, MemtableSize::default()),
            Arc::new(Version::empty()),
        );
        self.view.store(Arc::new(View { active, sealed: Vec::new(), version }));
        self.spaces.end_sharing();
        self.context.scans.park_scans_of(self.id);
    }

    /// Leads readers to `successors`, which have everything that the tree had.
    pub(crate) fn lead_to(&self, successors: &[Arc<Self>]) {
        let _one = self.installing.lock();
        let _swap = self.swapping.lock();
        let _only_once = self.successors.set(successors.into());
        let active = Memtable::new(&self.context, None, &self.dead_ranges, MemtableSize::default());
        let version = Arc::new(Version::retired());
        self.view.store(Arc::new(View { active, sealed: Vec::new(), version }));
        self.spaces.end_sharing();
        self.context.scans.park_scans_of(self.id);
    }

    /// The trees that have replaced this one by a split or a merge, if any have.
    pub fn successors(&self) -> Option<&[Arc<Self>]> {
        self.successors.get().map(|trees| &**trees)
    }

    /// Returns the tree that holds `key` now, in place of this one or of those that have replaced
    /// it. `None` if this tree was not replaced.
    pub(crate) fn successor_of(&self, key: &[u8]) -> Option<Arc<Self>> {
        self.successor(&|bounds| bounds.contains(key))
    }

    /// Returns the tree that holds the last keys below `end`, or the last keys of all, as
    /// [`Tree::successor_of`] does.
    pub(crate) fn successor_below(&self, end: Option<&[u8]>) -> Option<Arc<Self>> {
        self.successor(&|bounds| bounds.holds_last_below(end))
    }

    /// Returns the last one in the line of successors whose bounds `is_wanted` accepts.
    fn successor(&self, is_wanted: &dyn Fn(&KeyBounds) -> bool) -> Option<Arc<Self>> {
        let is_it = |tree: &&Arc<Self>| match &tree.options.bounds {
            Some(bounds) => is_wanted(bounds),
            None => true,
        };
        let mut found = self.successors()?.iter().find(is_it)?;
        while let Some(later) = found.successors() {
            found = later.iter().find(is_it)?;
        }
        Some(Arc::clone(found))
    }

    /// Returns whether the tree has a table that reaches across its bounds.
    pub fn shares_tables(&self) -> bool {
        let view = self.view.load();
        self.options.has_bounds()
            && view.version.tables().any(|(_, table)| self.options.reaches_across(table.meta()))
    }

    /// Keeps flushes of the tree from starting until [`Tree::let_flush`] is called. Returns false
    /// if one is running.
    pub fn stop_flushes(&self) -> bool {
        self.flush_slot.take()
    }

    /// Ends what [`Tree::stop_flushes`] began.
    pub fn let_flush(&self) {
        self.flush_slot.give_up();
    }

    /// Estimates how much of the tables is live, with these `snapshots`, and `visible` as the
    /// newest SeqNo a reader can have. Reads the samples of new tables, unless hardly anything
    /// can be garbage.
    pub fn space(&self, snapshots: &[SeqNo], visible: SeqNo) -> Space {
        let view = self.view.load();
        let space = self.spaces.get(view.version(), snapshots, || {
            self.rules(view.version(), snapshots, visible).estimate_tree(view.version())
        });
        view.version().set_wasteful(space.is_wasteful());
        space
    }

    /// Returns the compaction that frees the most for its cost, and what it frees, or `None` if
    /// none frees a good part of its inputs.
    pub fn pick_space(&self, snapshots: &[SeqNo], visible: SeqNo) -> Option<(Job, Space)> {
        let view = self.view.load();
        let rules = self.rules(view.version(), snapshots, visible);
        pick_space(view.version(), &self.options, &rules)
    }

    fn rules(&self, version: &Version, snapshots: &[SeqNo], visible: SeqNo) -> Rules {
        let retention = Retention::new(snapshots, visible, None, self.keeps_tombstones());
        let keys_max = self.spaces.keys_max(&self.context);
        Rules::new(retention, &self.options, version, keys_max)
    }

    /// Counts a read of `weight`.
    #[inline]
    pub(crate) fn note_read(&self, weight: u32) {
        if self.reads.note(weight) {
            self.reads.judge(self.view.load().memtables().map(|table| table.entries()).sum());
        }
    }

    /// Returns whether reads outweighed writes lately: then [`Policy::Leveling`] is the best
    /// policy.
    pub fn is_read_heavy(&self) -> bool {
        self.reads.is_heavy()
    }

    /// The number of overlapping runs in L0.
    pub fn l0_runs(&self) -> usize {
        self.view.load().version.l0_runs().len()
    }

    /// Returns how far the tree is from the shape that `policy` wants.
    pub fn pressure(&self, policy: Policy) -> Pressure {
        pressure(&self.view.load().version, &self.options, policy)
    }

    /// How much writers of this tree are slowed because of compactions that it needs, in
    /// thousandths of a stop, as [`Tree::set_stall_fill`] set it. The tree only stores the value.
    #[inline]
    pub fn stall_fill(&self) -> u32 {
        self.stall_fill.load(Ordering::Relaxed)
    }

    /// Sets what [`Tree::stall_fill`] returns, and returns the previous value.
    pub fn set_stall_fill(&self, fill: u32) -> u32 {
        self.stall_fill.swap(fill, Ordering::Relaxed)
    }

    /// Returns about how many keys the tree holds: a key that was overwritten may count more than
    /// once. Cheap: reads counters only.
    pub fn approximate_entries(&self) -> u64 {
        let view = self.view.load();
        let memtables = view.memtables().map(|table| table.entries()).sum::<u64>();
        view.version.live_entries() + memtables
    }

    /// Returns the statistics of the tree.
    pub fn stats(&self) -> TreeStats {
        let view = self.view.load();
        let mut levels = Vec::with_capacity(LEVELS);
        for level in 0..LEVELS {
            let mut stats = LevelStats { level: level as u8, ..LevelStats::default() };
            for table in view.version.tables_of(level) {
                // Each of the trees that hold a table counts a part of it.
                let (meta, trees) = (table.meta(), u64::from(table.holders().max(1)));
                stats.tables += 1;
                stats.bytes += meta.bytes / trees;
                let raw = meta.key_bytes_raw.saturating_add(meta.value_bytes_raw);
                stats.raw_bytes = stats.raw_bytes.saturating_add(raw / trees);
                stats.entries += meta.entries / trees;
                stats.deletes += meta.deletes / trees;
                stats.expiring += meta.expiries.count / trees;
                stats.range_deletes += meta.range_deletes;
            }
            levels.push(stats);
        }
        TreeStats {
            levels,
            // So does each of those that share a memtable.
            memtable_bytes: view.memtables().map(|table| table.bytes() / table.holders()).sum(),
            memtable_entries: view.memtables().map(|table| table.entries() / table.holders()).sum(),
            counters: self.counters.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand keyspaces of four partitions are forty thousand trees. Maps and the allocator
    /// come in addition.
    #[test]
    fn a_tree_that_was_never_written_takes_less_than_1600_bytes() {
        let memtable = size_of::<Memtable>();
        let (tree, view) = (size_of::<Tree>(), size_of::<View>());
        assert!(tree + view + memtable < 1600, "{tree} + {view} + {memtable}");
        let versions = [(); 2].map(|()| Version::empty().shared());
        assert!(Arc::ptr_eq(&versions[0], &versions[1]), "one for all");
    }
}
