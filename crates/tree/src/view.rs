//! The memtables and the version of one moment, which a reader pins.

use crate::memtable::Memtable;
use crate::version::Version;
use flagstone_base::{EntryCheck, EntryRef, Moment, Result, SeqNo};
use std::sync::Arc;

/// The sources of a tree at one moment. A view keeps memtables in memory and files on disk.
pub struct View {
    pub(crate) active: Arc<Memtable>,
    /// The sealed memtables, newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

impl View {
    /// The watermark of the tables. A reader at a SeqNo below it that is not registered as a
    /// snapshot may miss versions: it must take a new SeqNo and a new view.
    #[inline]
    pub fn watermark(&self) -> SeqNo {
        self.version.watermark()
    }

    /// Returns whether the tree of the view was replaced by others, by a split or a merge: a reader
    /// must look up the tree of its key again.
    #[inline]
    pub fn is_retired(&self) -> bool {
        self.watermark() == SeqNo::MAX
    }

    /// The moment through which tables were rid of expired entries. A reader that judges by an
    /// earlier moment, and is not registered with it, must take a new moment and a new view.
    #[inline]
    pub fn expired_through(&self) -> Moment {
        self.version.expired_through()
    }

    /// The tables of the view.
    pub const fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// The memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}

/// A counted reference to the memtable that a batch was numbered for. While it exists, that
/// memtable is not flushed. Dropping it releases the reference.
pub struct MemtableRef {
    table: Option<Arc<Memtable>>,
    is_first: bool,
}

impl MemtableRef {
    pub(crate) fn new(table: &Arc<Memtable>, first: SeqNo) -> Self {
        let is_first = table.reserve(first);
        Self { table: Some(Arc::clone(table)), is_first }
    }

    /// Returns whether this is the first reservation in the memtable.
    #[inline]
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Adds an entry of any kind. `key_hash` is [`flagstone_base::hash::key_hash`] of the key or,
    /// for a range delete, of its start. Takes one short lock; callable from any thread. Returns
    /// true if the key has many merge operands that cannot be combined (at 32, and again at 64,
    /// 128, and so on): the next write of the key should write its value.
    ///
    /// # Errors
    /// Busy if the memtable has no addresses left: beyond about 8 GiB.
    #[inline]
    pub fn insert(&self, entry: EntryRef<'_>, key_hash: u64) -> Result<bool> {
        match &self.table {
            Some(table) => table.insert(entry, key_hash, None),
            None => Ok(false),
        }
    }

    /// As [`MemtableRef::insert`], for an entry that has carried its `check` since it was written,
    /// including its SeqNo.
    ///
    /// # Errors
    /// As [`MemtableRef::insert`].
    #[inline]
    pub fn insert_checked(
        &self,
        entry: EntryRef<'_>,
        key_hash: u64,
        check: EntryCheck,
    ) -> Result<bool> {
        match &self.table {
            Some(table) => table.insert(entry, key_hash, Some(check)),
            None => Ok(false),
        }
    }

    /// Releases the reference. Returns true if a sealed memtable can now be flushed.
    pub fn release(mut self) -> bool {
        self.table.take().is_some_and(|table| table.release())
    }
}

impl Drop for MemtableRef {
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            let _was_last = table.release();
        }
    }
}
