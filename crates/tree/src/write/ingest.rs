//! Ingests: sorted entries become tables, without a memtable.
//!
//! The entries of an ingest have one SeqNo, which is given after the tables are written. The
//! manifest records it as the global SeqNo of each table, and readers see it in place of the one in
//! the file.
//!
//! ```text
//! L0  |       [------]    [--]        new table:    [--]       goes to L0
//! L5  |  [---]                                  [--]           to L5: nothing in its way
//! L6  |  [--------][-------]                                   deeper levels overlap it
//! ```
//! A table goes as deep as nothing that it overlaps lies at its level or above it. It does not go
//! above the first level that has tables, except to L0: compactions choose where levels begin.

use super::output::{OutputPlan, TableOutputs};
use super::ranges::RangesToWrite;
use crate::tree::Tree;
use crate::version::{LEVELS, Span, TreeEdit, Version, ends_before};
use flagstone_base::{EntryCheck, EntryRef, Moment, Result, SeqNo, Trailer};
use flagstone_sst::{Learned, TableMeta};
use std::sync::Arc;

const DEEPEST: u8 = LEVELS as u8 - 1;

/// How the tables of an ingest are written.
#[derive(Clone, Debug)]
pub struct IngestOptions {
    /// The SeqNo in the files. No other entry has it, and it is above those of all entries that
    /// were there when the ingest began: without the manifest, a repair goes by it.
    pub file_seqno: SeqNo,
    /// Every table carries these.
    pub attachments: Vec<(u32, Vec<u8>)>,
    /// A table has at most this many entries, which bounds the memory of the unfinished one.
    pub entries_max: u64,
    /// Several trees are written at once. Their files get no threads.
    pub is_one_of_many: bool,
}

/// The tables that an ingest writes for one tree. Dropping it abandons them: the sweep removes the
/// files.
pub struct Ingest {
    outputs: TableOutputs,
    tree: Arc<Tree>,
    options: IngestOptions,
}

impl Ingest {
    /// Starts an ingest whose first key is `first`. Creates no file yet.
    pub fn start(tree: &Arc<Tree>, first: &[u8], options: IngestOptions) -> Self {
        let plan = OutputPlan {
            level: likely_level(tree.view().version(), first),
            table_bytes: tree.options().table_bytes,
            attachments: options.attachments.iter().cloned().collect(),
            learned: Learned::Nothing,
            ranges: RangesToWrite::none(),
            fences: Vec::new(),
        };
        let outputs = TableOutputs::new(tree, plan).of_ingest(options.is_one_of_many);
        Self { outputs, tree: Arc::clone(tree), options }
    }

    /// Finishes the current table, and checks it, if it is full. `key` is the next key. Returns
    /// whether its put creates a file.
    ///
    /// # Errors
    /// Io; OutOfSpace; Corruption if an entry changed in memory, or the file is not as it was
    /// written. Drop the ingest then.
    pub fn cut_before(&mut self, key: &[u8]) -> Result<bool> {
        if self.outputs.entries() >= self.options.entries_max {
            self.outputs.cut_at(key)?
        } else {
            self.outputs.cut_before(key)?
        }
        if !self.outputs.is_between_tables() {
            return Ok(false);
        }
        self.check_finished()?;
        Ok(true)
    }

    /// Adds a put, which ends at `expiry` if that is given. Keys must ascend strictly, and
    /// [`Ingest::cut_before`] must have been called for this one.
    ///
    /// # Errors
    /// InvalidInput for keys out of order; otherwise as [`Ingest::cut_before`].
    pub fn put(&mut self, key: &[u8], value: &[u8], expiry: Option<Moment>) -> Result<()> {
        let trailer = Trailer::of_put(self.options.file_seqno, expiry);
        let entry = EntryRef { key, trailer, value };
        let check = self.outputs.checks().map(|seed| EntryCheck::of_entry(&entry, seed));
        self.outputs.add(entry, check)
    }

    /// Finishes the last table. Returns an edit with all tables, which are synced. Their names are
    /// not: [`TreeContext::sync_names`] syncs those of all trees. The edit gets levels by
    /// [`choose_levels`] and a SeqNo by [`TreeEdit::set_seqno`]. Pass it to the manifest, then to
    /// [`Tree::install`] or [`Tree::abandon`].
    ///
    /// [`TreeContext::sync_names`]: crate::TreeContext::sync_names
    ///
    /// # Errors
    /// As [`Ingest::cut_before`].
    pub fn finish(mut self) -> Result<TreeEdit> {
        self.outputs.finish()?;
        self.check_finished()?;
        let mut edit = TreeEdit::new(self.tree.id());
        edit.added = self.outputs.into_added();
        Ok(edit)
    }

    /// Reads finished tables back. They do not stay open: they have no SeqNo yet.
    fn check_finished(&mut self) -> Result<()> {
        while self.outputs.read_back_one()?.is_some() {}
        Ok(())
    }
}

/// Gives the tables of an ingest into `tree` the deepest levels that they can have. Nothing else
/// may be installed before `edit` is. If the tree is being compacted, `may_go_down` must be false:
/// then they go to L0, since an output of the compaction could overlap them elsewhere.
pub fn choose_levels(tree: &Tree, edit: &mut TreeEdit, may_go_down: bool) {
    let view = tree.view();
    for (level, meta) in &mut edit.added {
        *level = if may_go_down { deepest_level(view.version(), meta) } else { 0 };
    }
}

/// Returns the level that a table which begins at `first` probably gets. It decides about
/// compression alone.
fn likely_level(version: &Version, first: &[u8]) -> u8 {
    let is_after = version.tables().all(|(_, table)| ends_before(table.meta().upper(), first));
    if is_after { DEEPEST } else { 0 }
}

/// Returns the deepest level that a table newer than all others can have.
fn deepest_level(version: &Version, meta: &TableMeta) -> u8 {
    let span = Span::of(meta);
    if version.l0_runs().iter().any(|run| !span.within(run).is_empty()) {
        return 0;
    }
    let levels = 1..=DEEPEST;
    let mut with_tables = levels.filter(|&level| !version.level(usize::from(level)).is_empty());
    let Some(first) = with_tables.next() else { return DEEPEST };
    let is_in_the_way = |&level: &u8| !span.within(version.level(usize::from(level))).is_empty();
    match (first..=DEEPEST).find(is_in_the_way) {
        None => DEEPEST,
        Some(level) if level > first => level - 1,
        Some(_) => 0,
    }
}
