//! The tables that a flush or compaction writes: cut by size, never between entries of one key.

use super::ranges::RangesToWrite;
use crate::bounds::HashBounds;
use crate::merge::Retention;
use crate::options::OutputCheck;
use crate::tree::Tree;
use crate::version::{LEVELS, TreeEdit};
use flagstone_base::check::changed;
use flagstone_base::flip::{self, Site};
use flagstone_base::sorted::SortedMap;
use flagstone_base::{EntryCheck, EntryRef, FileNumber, Result};
use flagstone_sst::{BuilderOptions, Learned, Table, TableBuilder, TableIdent, TableMeta};
use std::sync::Arc;

/// A step processes about this many bytes of entries.
const STEP_BYTES: u64 = 1 << 20;

/// Which tables to write, and how.
pub(super) struct OutputPlan {
    pub(super) level: u8,
    pub(super) table_bytes: u64,
    pub(super) attachments: SortedMap<u32, Vec<u8>>,
    /// What is known about dictionaries: from older tables, then from each table written.
    pub(super) learned: Learned,
    /// The deleted ranges to write, cut at the bounds of the tables.
    pub(super) ranges: RangesToWrite,
    /// The first keys of the tables of the level that stay, sorted: no new table reaches across
    /// one.
    pub(super) fences: Vec<Vec<u8>>,
}

/// The tables of a flush or compaction in progress.
pub(super) struct TableOutputs {
    tree: Arc<Tree>,
    plan: OutputPlan,
    builder: Option<TableBuilder>,
    /// The lower bound of the current table: above every key of the table before.
    lower: Vec<u8>,
    /// Every file created, so that a failure can remove them.
    created: Vec<FileNumber>,
    finished: Vec<TableMeta>,
    /// The first fence after `lower`.
    fence: usize,
    /// The number of tables of `finished` that were read back and checked.
    checked: usize,
    /// Another thread may append to the files.
    is_streamed: bool,
    /// The tables replace others, or a memtable: until then they take space in addition.
    replaces: bool,
}

impl TableOutputs {
    pub(super) fn new(tree: &Arc<Tree>, mut plan: OutputPlan) -> Self {
        let bounds = tree.options().bounds.as_ref();
        if let Some(bounds) = bounds {
            plan.ranges = plan.ranges.beginning_at(bounds.lower());
        }
        Self {
            tree: Arc::clone(tree),
            plan,
            builder: None,
            lower: bounds.map_or_else(Vec::new, |bounds| bounds.lower().to_vec()),
            created: Vec::new(),
            finished: Vec::new(),
            fence: 0,
            checked: 0,
            is_streamed: true,
            replaces: true,
        }
    }

    /// Returns these tables for an ingest, which replace nothing. If they are written beside those
    /// of many other trees, their files get no threads.
    pub(super) fn of_ingest(mut self, is_one_of_many: bool) -> Self {
        (self.is_streamed, self.replaces) = (!is_one_of_many, false);
        self
    }

    /// Returns whether `key` lies above the bounds of the tree.
    #[inline]
    pub(super) fn is_behind(&self, key: &[u8]) -> bool {
        self.tree.options().bounds.as_ref().is_some_and(|bounds| bounds.is_behind(key))
    }

    /// The number of entries in the current table.
    pub(super) fn entries(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::entries)
    }

    /// Returns whether the next entry begins a table.
    pub(super) const fn is_between_tables(&self) -> bool {
        self.builder.is_none()
    }

    /// Finishes the current table. The next one begins at `key`.
    pub(super) fn cut_at(&mut self, key: &[u8]) -> Result<()> {
        self.finish_table(Some(key))
    }

    /// The most bytes of one key's operands that are held at once.
    pub(super) fn fold_bytes(&self) -> usize {
        self.tree.options().fold_bytes
    }

    /// The hash seed of the keyspace, if entries carry checks.
    pub(super) fn checks(&self) -> Option<u64> {
        let tree = &self.tree;
        tree.context().entry_checks.then_some(tree.options().hash_seed)
    }

    /// Finishes the current table before `key` if it is full, or if a fence lies between.
    pub(super) fn cut_before(&mut self, key: &[u8]) -> Result<()> {
        let is_passed = self.plan.fences.get(self.fence).is_some_and(|f| f.as_slice() <= key);
        let entries = self.builder.as_ref().map_or(0, TableBuilder::bytes_estimated);
        let is_full = entries + self.plan.ranges.bytes_before(key) >= self.plan.table_bytes;
        if is_passed || is_full { self.finish_table(Some(key)) } else { Ok(()) }
    }

    /// Adds an entry to the current table, with its check.
    pub(super) fn add(&mut self, entry: EntryRef<'_>, check: Option<EntryCheck>) -> Result<()> {
        let mut room = Vec::new();
        let entry = flip::arrived(Site::Output, entry, &mut room);
        match &mut self.builder {
            Some(builder) => builder.add_checked(entry, check),
            None => self.begin()?.add_checked(entry, check),
        }
    }

    fn begin(&mut self) -> Result<&mut TableBuilder> {
        let context = self.tree.context();
        let number = (context.next_file)();
        let path = context.table_path(number);
        let file = context.files.or_close_some(|| {
            if self.is_streamed {
                context.disk.create_streamed(&path)
            } else {
                context.disk.create(&path)
            }
        })?;
        self.created.push(number);
        let salt = (context.random.next_u64() as u32).max(1);
        let ident = TableIdent { database: context.database, number, salt };
        let is_bottom = usize::from(self.plan.level) == LEVELS - 1;
        let tree = &self.tree;
        let options = BuilderOptions {
            tables: tree.table_options(),
            ..tree.options().builder_options(tree.id(), is_bottom, context.entry_checks)
        };
        let mut builder = TableBuilder::new(file, ident, options)?;
        builder.learn(self.plan.learned.clone());
        for (id, bytes) in self.plan.attachments.iter() {
            builder.attach(*id, bytes);
        }
        Ok(self.builder.insert(builder))
    }

    /// Finishes the current table. The next one begins at `next`, or there is none. Deleted ranges
    /// beyond a fence go to tables of their own.
    fn finish_table(&mut self, next: Option<&[u8]>) -> Result<()> {
        while let Some(fence) = self.plan.fences.get(self.fence)
            && next.is_none_or(|next| fence.as_slice() <= next)
        {
            let fence = fence.clone();
            self.finish_part(Some(&fence))?;
            self.fence += 1;
        }
        self.finish_part(next)
    }

    /// Writes the entries and deleted ranges before `next`, in several tables if many ranges begin
    /// after the last entry.
    fn finish_part(&mut self, next: Option<&[u8]>) -> Result<()> {
        let bytes_max = self.plan.table_bytes;
        loop {
            let last = self.builder.as_ref().and_then(|builder| builder.last_key());
            let cut = self.plan.ranges.cut(last, next, bytes_max).map(<[u8]>::to_vec);
            let Some(cut) = cut else { return self.finish_one(next) };
            self.finish_one(Some(&cut))?;
        }
    }

    fn finish_one(&mut self, next: Option<&[u8]>) -> Result<()> {
        if self.builder.is_none() && self.plan.ranges.is_any(&self.lower, next) {
            self.begin()?;
        }
        if let Some(mut builder) = self.builder.take() {
            self.plan.ranges.write(&self.lower, next, &mut builder)?;
            self.plan.learned = builder.learned();
            let mut meta = builder.finish()?;
            meta.hashes = self.tree.options().hashes.map(HashBounds::ends);
            if self.replaces {
                self.tree.context().unfinished.note(meta.number, meta.bytes);
            }
            self.finished.push(meta);
        }
        if let Some(next) = next.filter(|next| *next > self.lower.as_slice()) {
            self.lower.clear();
            self.lower.extend_from_slice(next);
        }
        Ok(())
    }

    /// Counts the bytes of the current table as space on disk.
    pub(super) fn note_written(&self) {
        if let (Some(builder), Some(number)) = (&self.builder, self.created.last()) {
            self.tree.context().unfinished.note(*number, builder.bytes_estimated());
        }
    }

    /// Reads one finished table back and checks it. Returns false if all were checked.
    pub(super) fn check_one(&mut self) -> Result<bool> {
        let Some(table) = self.read_back_one()? else { return Ok(false) };
        self.tree.set_ready(table);
        Ok(true)
    }

    /// As [`Outputs::check_one`], but returns the open table, or `None` if all were checked.
    pub(super) fn read_back_one(&mut self) -> Result<Option<Arc<Table>>> {
        let Some(meta) = self.finished.get(self.checked) else { return Ok(None) };
        let table = self.tree.context().open_table(meta)?;
        match self.tree.options().check {
            OutputCheck::Stored => table.verify_stored()?,
            OutputCheck::Entries => {
                let _report = table.verify()?;
            }
        }
        self.checked += 1;
        Ok(Some(table))
    }

    /// Finishes the last table. Nothing may be added afterwards.
    pub(super) fn finish(&mut self) -> Result<()> {
        let tree = Arc::clone(&self.tree);
        // Deleted ranges may reach further.
        self.finish_table(tree.options().bounds.as_ref().and_then(|bounds| bounds.upper()))
    }

    /// Syncs the directory, so that the names of the tables survive a power cut. Returns an edit
    /// that adds the finished tables, and says how far `retention` dropped entries.
    pub(super) fn into_edit(mut self, retention: &Retention) -> Result<TreeEdit> {
        if !self.created.is_empty()
            && let Err(error) = self.tree.context().sync_names()
        {
            self.remove_files();
            return Err(error);
        }
        let mut edit = TreeEdit::new(self.tree.id());
        edit.watermark = retention.watermark();
        edit.expired_through = retention.expired_through();
        edit.untraced_through = retention.untraced_through();
        edit.added = self.into_added();
        Ok(edit)
    }

    /// Returns the finished tables, whose names need not be synced yet.
    pub(super) fn into_added(mut self) -> Vec<(u8, TableMeta)> {
        self.created.clear();
        let level = self.plan.level;
        std::mem::take(&mut self.finished).into_iter().map(|meta| (level, meta)).collect()
    }

    /// Bytes of the tables finished so far.
    pub(super) fn bytes(&self) -> u64 {
        self.finished.iter().map(|meta| meta.bytes).sum()
    }

    /// Removes every file created, after a failure. Files that cannot be removed are left to the
    /// sweep.
    pub(super) fn remove_files(&mut self) {
        self.builder = None;
        let context = Arc::clone(self.tree.context());
        for number in self.created.drain(..) {
            self.tree.forget_ready(number);
            context.unfinished.forget(number);
            if context.disk.remove(&context.table_path(number)).is_err() {
                context.obsolete.note(number);
            }
        }
    }
}

impl Drop for TableOutputs {
    /// The work was abandoned. No I/O here; the sweep removes the files.
    fn drop(&mut self) {
        for number in self.created.drain(..) {
            self.tree.forget_ready(number);
            self.tree.context().unfinished.forget(number);
            self.tree.context().obsolete.note(number);
        }
    }
}

/// Returns whether a step has processed enough.
pub(super) const fn is_enough(bytes: u64) -> bool {
    bytes >= STEP_BYTES
}

/// Checks that as many entries were read as expected, if that is known.
pub(super) fn check_count(read: u64, expected: Option<u64>) -> Result<()> {
    match expected.filter(|expected| *expected != read) {
        Some(expected) => {
            Err(changed(format_args!("{read} entries were met, expected {expected}")))
        }
        None => Ok(()),
    }
}
