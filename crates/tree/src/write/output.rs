//! The tables that a flush or compaction writes: cut by size, never between entries of one key.

use crate::merge::Retention;
use crate::options::OutputCheck;
use crate::ranges::RangeSet;
use crate::tree::Tree;
use flagstone_base::check::changed;
use flagstone_base::flip::{self, Site};
use flagstone_base::{Compression, EntryCheck, EntryRef, FileNumber, Result, SeqNo, Slice};
use flagstone_sst::{RangeDelete, TableBuilder, TableIdent, TableMeta};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A step handles about so many bytes of entries.
const STEP_BYTES: u64 = 1 << 20;

/// Which tables are written, and how.
pub(super) struct OutputPlan {
    pub(super) level: u8,
    pub(super) compression: Compression,
    pub(super) table_bytes: u64,
    pub(super) attachments: BTreeMap<u32, Vec<u8>>,
    /// Deleted ranges to be written, each cut at the bounds of the tables.
    pub(super) ranges: Vec<RangeDelete>,
    /// The first keys of the tables of the level that stay, sorted: no new table reaches over one.
    pub(super) fences: Vec<Vec<u8>>,
}

/// Tables being written.
pub(super) struct Outputs {
    tree: Arc<Tree>,
    plan: OutputPlan,
    builder: Option<TableBuilder>,
    /// Where the table being written begins: behind every key of the one before.
    lower: Slice,
    /// Every file made, so that a failure can remove them.
    created: Vec<FileNumber>,
    finished: Vec<TableMeta>,
    /// The first fence behind `lower`.
    fence: usize,
    /// How many of `finished` were read back and checked.
    checked: usize,
}

impl Outputs {
    pub(super) fn new(tree: &Arc<Tree>, mut plan: OutputPlan) -> Self {
        plan.ranges.sort_by(|a, b| a.start.cmp(&b.start));
        Self {
            tree: Arc::clone(tree),
            plan,
            builder: None,
            lower: Slice::default(),
            created: Vec::new(),
            finished: Vec::new(),
            fence: 0,
            checked: 0,
        }
    }

    /// The most bytes of one key's operands that are held at once.
    pub(super) fn fold_bytes(&self) -> usize {
        self.tree.options().fold_bytes
    }

    /// The seed of the keyspace, if entries carry checks.
    pub(super) fn checks(&self) -> Option<u64> {
        let tree = &self.tree;
        tree.context().entry_checks.then_some(tree.options().hash_seed)
    }

    /// Ends the current table before `key` when it is full, or a table that stays lies between.
    pub(super) fn cut_before(&mut self, key: &[u8]) -> Result<()> {
        let is_passed = self.plan.fences.get(self.fence).is_some_and(|f| f.as_slice() <= key);
        let is_full = |b: &TableBuilder| b.bytes_estimated() >= self.plan.table_bytes;
        let must_end = is_passed || self.builder.as_ref().is_some_and(is_full);
        if must_end { self.finish_table(Some(key)) } else { Ok(()) }
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
        let file = context.files.or_close_some(|| context.disk.create_streamed(&path))?;
        self.created.push(number);
        let salt = (context.random.next_u64() as u32).max(1);
        let ident = TableIdent { database: context.database, number, salt };
        let (tree, compression) = (&self.tree, self.plan.compression);
        let options = tree.options().table_options(tree.id(), compression, context.entry_checks);
        let mut builder = TableBuilder::new(file, ident, options)?;
        for (id, bytes) in &self.plan.attachments {
            builder.attach(*id, bytes);
        }
        Ok(self.builder.insert(builder))
    }

    /// Ends the current table; the next one begins at `next`, or there is none. Deleted ranges behind a
    /// table that stays go to tables of their own.
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

    /// Writes what lies before `next`, of the entries and of the deleted ranges.
    fn finish_part(&mut self, next: Option<&[u8]>) -> Result<()> {
        let mut pieces = Vec::new();
        for range in &self.plan.ranges {
            let start = (&*range.start).max(&*self.lower);
            let end = next.map_or(&*range.end, |next| next.min(&*range.end));
            if start < end {
                pieces.push((Slice::copy_of(start), Slice::copy_of(end), range.seqno));
            }
        }
        if self.builder.is_none() && !pieces.is_empty() {
            self.begin()?;
        }
        if let Some(mut builder) = self.builder.take() {
            for (start, end, seqno) in &pieces {
                builder.add_range_delete(start, end, *seqno)?;
            }
            self.finished.push(builder.finish()?);
        }
        if let Some(next) = next {
            self.lower = Slice::copy_of(next);
            self.plan.ranges.retain(|range| &*range.end > next);
        }
        Ok(())
    }

    /// Reads one finished table back; false when all were.
    pub(super) fn check_one(&mut self) -> Result<bool> {
        let Some(meta) = self.finished.get(self.checked) else { return Ok(false) };
        let table = self.tree.context().open_table(meta)?;
        match self.tree.options().check {
            OutputCheck::Tail => {}
            OutputCheck::Stored => table.verify_stored()?,
            OutputCheck::Entries => {
                let _report = table.verify()?;
            }
        }
        self.tree.set_ready(table);
        self.checked += 1;
        Ok(true)
    }

    /// Ends the last table; nothing is added behind this.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.finish_table(None)
    }

    /// The finished tables, whose names survive a power cut now.
    pub(super) fn into_added(mut self) -> Result<Vec<(u8, TableMeta)>> {
        let context = self.tree.context();
        if !self.created.is_empty()
            && let Err(error) = context.files.or_close_some(|| context.disk.sync_dir(&context.dir))
        {
            self.remove_files();
            return Err(error);
        }
        self.created.clear();
        let level = self.plan.level;
        Ok(std::mem::take(&mut self.finished).into_iter().map(|meta| (level, meta)).collect())
    }

    /// Bytes of the tables finished so far.
    pub(super) fn bytes(&self) -> u64 {
        self.finished.iter().map(|meta| meta.bytes).sum()
    }

    /// After a failure: removes every file made. What cannot be removed is left to the sweep.
    pub(super) fn remove_files(&mut self) {
        self.builder = None;
        let context = Arc::clone(self.tree.context());
        for number in self.created.drain(..) {
            self.tree.forget_ready(number);
            if context.disk.remove(&context.table_path(number)).is_err() {
                context.obsolete.note(number);
            }
        }
    }
}

impl Drop for Outputs {
    /// Given up: no I/O here, the sweep removes the files.
    fn drop(&mut self) {
        for number in self.created.drain(..) {
            self.tree.forget_ready(number);
            self.tree.context().obsolete.note(number);
        }
    }
}

/// The deleted ranges of the inputs as they are written: of each stripe only the newest over a key.
pub(super) fn ranges_to_write(
    all: &RangeSet,
    retention: &Retention,
    is_useless: impl Fn(&RangeDelete) -> bool,
) -> Vec<RangeDelete> {
    let mut stripes: BTreeMap<SeqNo, Vec<RangeDelete>> = BTreeMap::new();
    let mut kept = Vec::new();
    for range in all.all() {
        match retention.boundary(range.seqno) {
            Some(boundary) => stripes.entry(boundary).or_default().push(range),
            None => kept.push(range),
        }
    }
    for (boundary, ranges) in stripes {
        let may_go = retention.is_oldest(boundary) && !retention.keeps_tombstones();
        let set = RangeSet::new(ranges);
        kept.extend(set.pieces().filter(|piece| !(may_go && is_useless(piece))));
    }
    kept
}

/// Whether a step has done enough.
pub(super) const fn is_enough(bytes: u64) -> bool {
    bytes >= STEP_BYTES
}

/// Whether as many entries were read as there are, if that is known.
pub(super) fn check_count(read: u64, expected: Option<u64>) -> Result<()> {
    match expected.filter(|expected| *expected != read) {
        Some(expected) => {
            Err(changed(format_args!("{read} entries were met, expected {expected}")))
        }
        None => Ok(()),
    }
}
