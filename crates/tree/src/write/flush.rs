//! Flushes: sealed memtables become tables of L0.
//!
//! A flush of deleted ranges may also remove the tables that they hide from every reader, without
//! reading them: its one edit empties a tree. It needs the right to compact for that, so that no
//! compaction takes the same tables.

use super::compact::{first_of, is_deleted};
use super::key::{entry_bytes, write_next_key};
use super::output::{OutputPlan, TableOutputs, check_count, is_enough};
use super::ranges::RangesToWrite;
use crate::counters::TreeCounters;
use crate::memtable::{MemCursor, Memtable, Shortcuts};
use crate::merge::{AllRanges, MergeCursor, MergeSource, Retention};
use crate::options::Direction;
use crate::pick::{coarse, fences};
use crate::ranges::RangeSet;
use crate::tree::Tree;
use crate::version::{TableHandle, TreeEdit, Version};
use crate::write_load::WriteLoad;
use flagstone_base::{FileNumber, Moment, Result, SeqNo};
use flagstone_sst::Learned;
use std::sync::Arc;

/// Small memtables are flushed together up to this many bytes.
const TOGETHER_BYTES: u64 = 64 << 20;

/// A flush in progress. Dropping it before it is finished abandons it.
pub struct Flush {
    tree: Arc<Tree>,
    tables: Vec<Arc<Memtable>>,
    /// The number of entries in its memtables, and of those read.
    entries: u64,
    entries_done: u64,
    snapshots: Vec<SeqNo>,
    visible: SeqNo,
    expire_through: Moment,
    attachments: Vec<(u32, Vec<u8>)>,
    /// The flush holds the right to compact, too.
    may_remove: bool,
    work: Option<RunningFlush>,
    is_finished: bool,
}

struct RunningFlush {
    merge: MergeCursor,
    ranges: AllRanges,
    retention: Retention,
    outputs: TableOutputs,
    /// Tables that the deleted ranges hide.
    removed: Vec<FileNumber>,
    /// No table stays: nothing is older than what is written.
    is_bottom: bool,
    /// The number of entries to read, if it is known and checked.
    expected: Option<u64>,
    is_written: bool,
}

impl Flush {
    /// Starts a flush of the oldest sealed memtables that can be flushed and were sealed at or
    /// before `through`: trees whose edits belong together are flushed to the same SeqNo.
    /// `snapshots` are all live ones, and `visible` is the newest SeqNo a reader can have. Every
    /// table carries the `attachments`. Returns `None` if there is nothing to flush or a flush is
    /// running. Does no work yet.
    pub fn start(
        tree: &Arc<Tree>,
        through: SeqNo,
        snapshots: &[SeqNo],
        visible: SeqNo,
        attachments: &[(u32, Vec<u8>)],
    ) -> Option<Self> {
        if !tree.flush_slot.take() {
            return None;
        }
        let (mut tables, mut bytes) = (Vec::new(), 0);
        for table in tree.view().sealed.iter().rev() {
            bytes += table.bytes();
            let fits = table.is_complete() && table.seal_seqno() <= through;
            if !fits || (!tables.is_empty() && bytes > TOGETHER_BYTES) {
                break;
            }
            tables.push(Arc::clone(table));
        }
        if tables.is_empty() {
            tree.flush_slot.give_up();
            return None;
        }
        Some(Self {
            tree: Arc::clone(tree),
            entries: tables.iter().map(|table| table.entries()).sum(),
            entries_done: 0,
            tables,
            snapshots: snapshots.to_vec(),
            visible,
            expire_through: Moment::ZERO,
            attachments: attachments.to_vec(),
            may_remove: false,
            work: None,
            is_finished: false,
        })
    }

    /// Returns this flush with all puts that have expired at `moment` written as tombstones. No
    /// reader may judge by an earlier moment: neither now, nor once the edit is installed.
    #[must_use]
    pub fn expiring_through(mut self, moment: Moment) -> Self {
        self.expire_through = moment;
        self
    }

    /// Whether the flush has deleted ranges.
    pub fn has_ranges(&self) -> bool {
        self.tables.iter().any(|table| table.has_ranges())
    }

    /// Lets the flush remove tables that its deleted ranges hide from every reader, if it has such
    /// ranges and no compaction runs. None can start until the edit is installed or abandoned.
    #[must_use]
    pub fn removing_hidden(mut self) -> Self {
        self.may_remove =
            self.work.is_none() && self.has_ranges() && self.tree.compaction_slot.take();
        self
    }

    /// How much the writers of its memtables waited for one another.
    pub fn load(&self) -> WriteLoad {
        self.tables.iter().map(|table| table.load()).fold(WriteLoad::default(), WriteLoad::and)
    }

    /// The memory of its memtables, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes()).sum()
    }

    /// The fraction of its entries that were read and written, 0 to 1.
    pub fn part_done(&self) -> f64 {
        self.entries_done as f64 / self.entries.max(1) as f64
    }

    /// Returns whether all entries are written. What remains is to check the tables.
    pub fn is_written(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.is_written)
    }

    /// Does about 1 MiB of work. Returns an edit when the flush is finished: the tables and their
    /// names are synced; pass the edit to the manifest, then to [`Tree::install`] or
    /// [`Tree::abandon`].
    ///
    /// # Errors
    /// Io; OutOfSpace; Corruption if an entry changed in memory since it was inserted. The files of
    /// the flush are then removed; drop it and start again later.
    pub fn step(&mut self) -> Result<Option<TreeEdit>> {
        if self.is_finished {
            return Ok(None);
        }
        let done = self.try_step();
        if done.is_err()
            && let Some(mut work) = self.work.take()
        {
            work.outputs.remove_files();
        }
        done
    }

    fn try_step(&mut self) -> Result<Option<TreeEdit>> {
        let mut work = match self.work.take() {
            Some(work) => work,
            None => self.begin()?,
        };
        let result = work.step(&mut self.entries_done);
        let is_done = matches!(result, Ok(true));
        if !is_done {
            self.work = Some(work);
            result?;
            return Ok(None);
        }
        let written = work.outputs.bytes();
        let mut edit = work.outputs.into_edit(&work.retention)?;
        edit.removed = work.removed;
        edit.flushed_through = self.tables.last().map(|table| table.seal_seqno());
        self.tree.counters.add(TreeCounters {
            flushes: 1,
            flush_bytes_written: written,
            ..TreeCounters::default()
        });
        self.is_finished = true;
        self.tree.flush_slot.wait_for(&edit);
        if self.may_remove {
            self.tree.compaction_slot.wait_for(&edit);
        }
        Ok(Some(edit))
    }

    fn begin(&self) -> Result<RunningFlush> {
        let options = self.tree.options();
        let sets: Vec<_> = self.tables.iter().map(|table| table.range_sets()).collect();
        let mut expected = None;
        if self.tree.context().entry_checks {
            for (table, sets) in self.tables.iter().zip(&sets) {
                table.check_ranges(sets, options.hash_seed)?;
            }
            // Of a memtable of several trees only a part is read.
            let is_whole = !self.tables.iter().any(|table| table.is_shared());
            let walked = || self.tables.iter().map(|table| table.entries_to_walk()).sum();
            expected = is_whole.then(walked).flatten();
        }
        let ranges = AllRanges::of_memory(sets.into_iter().flatten().collect());
        let version = Arc::clone(self.tree.view().version());
        let (mut retention, removed) = self.retention(&version, ranges.set());
        let is_bottom = self.may_remove && version.tables().count() == removed.len();
        // A newer deleted range replaces an older one, and combined operands replace those that
        // they combine.
        if !ranges.set().is_empty() || self.tables.iter().any(|table| table.has_shortcuts()) {
            retention.set_dropped();
        }
        let mut merge = self.merge(&retention, &ranges);
        merge.seek(first_of(&self.tree))?;
        let plan = OutputPlan {
            level: 0,
            table_bytes: options.table_bytes / 4,
            attachments: self.attachments.iter().cloned().collect(),
            learned: Learned::Nothing,
            ranges: RangesToWrite::new(&ranges, &mut retention, |_| is_bottom),
            fences: coarse(fences(&version, options), self.bytes(), options),
        };
        let outputs = TableOutputs::new(&self.tree, plan);
        let is_written = false;
        Ok(RunningFlush {
            merge,
            ranges,
            retention,
            outputs,
            removed,
            is_bottom,
            expected,
            is_written,
        })
    }

    /// Returns the rules of what to keep, and the tables of `version` that one of `ranges` hides
    /// from every reader. Tombstones may go only if no table stays below them.
    fn retention(&self, version: &Version, ranges: &RangeSet) -> (Retention, Vec<FileNumber>) {
        let fold = &self.tree.options().fold;
        let rules = |keep| {
            Retention::new(&self.snapshots, self.visible, fold.clone(), keep)
                .expiring(self.expire_through)
        };
        let keep = true;
        let retention = rules(keep);
        if !self.may_remove {
            return (retention, Vec::new());
        }
        let is_hidden = |table: &&Arc<TableHandle>| is_deleted(table, ranges, &retention);
        let tables = version.tables().map(|(_, table)| table);
        let removed: Vec<_> = tables.filter(is_hidden).map(|table| table.number()).collect();
        let is_bottom = version.tables().count() == removed.len();
        (rules(!is_bottom || self.tree.keeps_tombstones()), removed)
    }

    /// Returns everything in the memtables, with combined operands in place of those that no reader
    /// distinguishes.
    fn merge(&self, retention: &Retention, ranges: &AllRanges) -> MergeCursor {
        let (stripes, ranges) = (retention.stripes().clone(), ranges.clone());
        let shortcuts = Shortcuts::Rewrite(Arc::new(move |key: &[u8], newest, below: SeqNo| {
            let oldest = below.plus(1);
            let boundary = stripes.boundary(newest);
            let is_one_stripe = boundary == stripes.boundary(oldest);
            boundary.is_some_and(|at| is_one_stripe && ranges.set().covering(key, at) <= oldest)
        }));
        let cursor = |table: &Arc<Memtable>| {
            let (table, shortcuts, is_shared) =
                (Arc::clone(table), shortcuts.clone(), table.is_shared());
            let cursor = MemCursor::new(table, SeqNo::MAX, Direction::Forward, shortcuts);
            MergeSource::Memory(cursor).within(self.tree.options(), is_shared)
        };
        let sources = self.tables.iter().map(cursor).collect();
        MergeCursor::new(sources, Direction::Forward)
    }
}

impl RunningFlush {
    /// Returns true when everything is written and checked. Counts the entries read.
    fn step(&mut self, entries_done: &mut u64) -> Result<bool> {
        if self.is_written {
            return Ok(!self.outputs.check_one()?);
        }
        let mut bytes = 0;
        while !is_enough(bytes) {
            // Nothing of a key with only one entry can be dropped if there are no deleted ranges,
            // unless it has expired.
            if self.ranges.set().is_empty()
                && let Some(entry) = self.merge.only_entry()
                && !self.outputs.is_behind(entry.key)
                && !self.retention.is_expired(entry.trailer)
            {
                bytes += entry_bytes(&entry);
                *entries_done += 1;
                self.outputs.cut_before(entry.key)?;
                let check = self.outputs.checks().and_then(|seed| self.merge.check(seed));
                self.outputs.add(entry, check)?;
                self.merge.next()?;
                continue;
            }
            let is_bottom = self.is_bottom;
            let is_left = self.merge.entry().is_some_and(|e| !self.outputs.is_behind(e.key));
            let moved = if is_left {
                write_next_key(
                    &mut self.merge,
                    &mut self.outputs,
                    &mut self.retention,
                    self.ranges.set(),
                    |_| is_bottom,
                )?
            } else {
                None
            };
            let Some(moved) = moved else {
                check_count(*entries_done, self.expected)?;
                self.outputs.finish()?;
                self.is_written = true;
                break;
            };
            bytes += moved.bytes;
            *entries_done += moved.entries;
        }
        self.outputs.note_written();
        Ok(false)
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        if !self.is_finished {
            self.tree.flush_slot.give_up();
            if self.may_remove {
                self.tree.compaction_slot.give_up();
            }
        }
    }
}
