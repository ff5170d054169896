//! A table of a version: the manifest's record, and the open file once it is needed.

use super::sampled::SampleSlot;
use crate::context::TreeContext;
use crate::damage::{Damage, is_damage, strikes_max};
use crate::ranges::RangeSet;
use flagstone_base::hash::RemixedKey;
use flagstone_base::{Error, FileNumber, Result, SeqNo, Trailer, TreeId};
use flagstone_env::ReadFile;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use flagstone_sst::{OnMiss, ReadOnMiss, Sample, StoredValue, Table, TableMeta};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

static NO_RANGES: RangeSet = RangeSet::EMPTY;

/// A table of one or more versions, of one tree or, after a split, of two. It is opened when it is
/// first read.
pub struct TableHandle {
    meta: TableMeta,
    /// The number of its tree.
    tree: AtomicU32,
    context: Arc<TreeContext>,
    table: OnceLock<Arc<Table>>,
    ranges: OnceLock<RangeSet>,
    sample: SampleSlot,
    /// Locked while the file is opened or its deleted ranges are read, so that both happen only
    /// once.
    opening: Mutex<()>,
    /// The trees whose current version holds the table. At 0 no later version will: the file is
    /// removed after its last reader.
    holders: AtomicU32,
    /// The last damage found in the table, and whether it was reported.
    damage: Mutex<Option<Error>>,
    is_told: AtomicBool,
    /// The number of compactions that failed because of this table.
    strikes: AtomicU32,
    is_quarantined: AtomicBool,
}

impl TableHandle {
    pub(crate) fn new(
        context: &Arc<TreeContext>,
        tree: TreeId,
        meta: TableMeta,
        opened: Option<Arc<Table>>,
    ) -> Arc<Self> {
        let table = opened.map_or_else(OnceLock::new, OnceLock::from);
        Arc::new(Self {
            meta,
            tree: AtomicU32::new(tree.0),
            context: Arc::clone(context),
            table,
            ranges: OnceLock::new(),
            sample: SampleSlot::default(),
            opening: Mutex::new(()),
            holders: AtomicU32::new(1),
            damage: Mutex::default(),
            is_told: AtomicBool::new(false),
            strikes: AtomicU32::new(0),
            is_quarantined: AtomicBool::new(false),
        })
    }

    /// The manifest's record of the table.
    pub const fn meta(&self) -> &TableMeta {
        &self.meta
    }

    pub(crate) const fn number(&self) -> FileNumber {
        self.meta.number
    }

    /// Returns the open table. The first call opens the file with one read of its tail.
    ///
    /// # Errors
    /// Any error of opening the table: Io, Corruption, Unsupported. The next call tries again.
    #[inline]
    pub fn open(&self) -> Result<&Arc<Table>> {
        self.open_with::<ReadOnMiss>()
    }

    #[inline]
    fn open_with<M: OnMiss>(&self) -> Result<&Arc<Table>, M::Stop> {
        match self.table.get() {
            Some(table) => Ok(table),
            None => M::read(|| self.open_slowly()),
        }
    }

    #[cold]
    fn open_slowly(&self) -> Result<&Arc<Table>> {
        let _one = self.opening.lock();
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = self.context.open_table(&self.meta).map_err(|error| self.noted(error))?;
        Ok(self.table.get_or_init(|| table))
    }

    /// Opens the file with another descriptor, past the page cache where the system supports that.
    pub(crate) fn open_apart(&self) -> Result<Arc<dyn ReadFile>> {
        let path = self.context.table_path(self.meta.number);
        self.context.files.or_close_some(|| self.context.disk.open_direct(&path))
    }

    /// Returns the deleted ranges of the table. The first call reads them. A table without any is
    /// not opened.
    pub(crate) fn ranges(&self) -> Result<&RangeSet> {
        self.ranges_with::<ReadOnMiss>()
    }

    /// As [`TableHandle::ranges`], with `M` for ranges that were never read.
    #[inline]
    pub(crate) fn ranges_with<M: OnMiss>(&self) -> Result<&RangeSet, M::Stop> {
        if self.meta.range_deletes == 0 {
            return Ok(&NO_RANGES);
        }
        match self.ranges.get() {
            Some(ranges) => Ok(ranges),
            None => M::read(|| self.read_ranges()),
        }
    }

    /// Visits the entries of a key as [`Table::get`] does, with `M` for what is not in memory.
    /// `filter_hash` is the hash that the filter knows the key by, if that is not `hash`, the hash
    /// of the whole key.
    #[inline]
    pub(crate) fn get<M: OnMiss>(
        &self,
        RemixedKey { key, hash }: RemixedKey<'_>,
        filter_hash: Option<u64>,
        at: SeqNo,
        visit: &mut dyn FnMut(Trailer, StoredValue<'_>) -> ControlFlow<()>,
    ) -> Result<(), M::Stop> {
        let file = self.open_with::<M>()?;
        let noted = |stop| M::noted(stop, |error| self.noted(error));
        if let Some(hash) = filter_hash
            && !file.may_contain_with::<M>(hash).map_err(noted)?
        {
            return Ok(());
        }
        file.get_with::<M>(key, hash, at, visit).map_err(noted)
    }

    #[cold]
    fn read_ranges(&self) -> Result<&RangeSet> {
        let table = self.open()?;
        // Other readers wait, so that the ranges are not in memory once for each of them.
        let _one = self.opening.lock();
        if let Some(ranges) = self.ranges.get() {
            return Ok(ranges);
        }
        let stored = table.range_deletes().map_err(|error| self.noted(error))?;
        Ok(self.ranges.get_or_init(|| {
            let set = RangeSet::decoded(&stored);
            self.context.cache.pin(set.bytes());
            set
        }))
    }

    /// Returns the deleted ranges if [`TableHandle::ranges`] has read them, otherwise none.
    pub(crate) fn known_ranges(&self) -> &RangeSet {
        self.ranges.get().unwrap_or(&NO_RANGES)
    }

    /// Records an error of reading the table if it is damage. Returns the error.
    #[cold]
    pub(crate) fn noted(&self, error: Error) -> Error {
        if is_damage(&error) {
            *self.damage.lock() = Some(error.clone());
            if !self.is_told.swap(true, Ordering::AcqRel) {
                self.context.damages.note(self.damage_by(&error));
            }
        }
        error
    }

    /// Forgets recorded damage. Called when a compaction begins to read the table.
    pub(crate) fn forget_damage(&self) {
        *self.damage.lock() = None;
    }

    /// Counts a failed compaction that read this table and found it damaged. After a few, the table
    /// is quarantined: no compaction takes it until the database is opened again.
    pub(crate) fn strike(&self) {
        let Some(error) = self.damage.lock().clone() else { return };
        let strikes = self.strikes.fetch_add(1, Ordering::AcqRel) + 1;
        if strikes >= strikes_max(&error) && !self.is_quarantined.swap(true, Ordering::AcqRel) {
            let damage = self.damage_by(&error);
            self.context.damages.note(Damage { is_quarantined: true, ..damage });
        }
    }

    /// Returns whether compactions skip the table. It still counts as covering its keys.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.is_quarantined.load(Ordering::Acquire)
    }

    /// The damage of the table, if any was found.
    pub(crate) fn damage(&self) -> Option<Error> {
        self.damage.lock().clone()
    }

    fn damage_by(&self, error: &Error) -> Damage {
        let tree = TreeId(self.tree.load(Ordering::Relaxed));
        let (meta, error) = (self.meta.clone(), error.clone());
        Damage { tree, meta, error, is_quarantined: false }
    }

    /// Returns the sample with about one key in two to the power of `shift`, or `None` if there is
    /// none.
    pub(crate) fn sample(&self, shift: u8) -> Option<Arc<Sample>> {
        self.sample.get(shift, &self.context.cache, || {
            let table = self.open()?;
            Ok(table.sample(shift)?.zip(table.sample_shift()))
        })
    }

    /// Notes that one tree holds the table no more.
    pub(crate) fn set_removed(&self) {
        self.holders.fetch_sub(1, Ordering::AcqRel);
    }

    /// Notes that `tree` holds the table, too.
    pub(crate) fn hold(&self, tree: TreeId) {
        self.tree.store(tree.0, Ordering::Relaxed);
        self.holders.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of trees that hold the table.
    pub(crate) fn holders(&self) -> u32 {
        self.holders.load(Ordering::Acquire)
    }
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        self.sample.clear(&self.context.cache);
        if let Some(ranges) = self.ranges.get() {
            self.context.cache.unpin(ranges.bytes());
        }
        if *self.holders.get_mut() == 0 {
            if let Some(table) = self.table.get() {
                table.forget_blocks();
            }
            self.context.obsolete.note(self.meta.number);
        }
    }
}

impl fmt::Display for TableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.meta, f)
    }
}

impl fmt::Debug for TableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.meta, f)
    }
}
