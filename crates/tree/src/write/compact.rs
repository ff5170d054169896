//! Compactions: tables become fewer or deeper tables.

use super::key::write_next_key;
use super::output::{OutputPlan, TableOutputs, check_count, is_enough};
use super::ranges::RangesToWrite;
use crate::counters::TreeCounters;
use crate::merge::{AllRanges, MergeCursor, MergeSource, Retention, RunCursor};
use crate::options::Direction;
use crate::pick::{Job, coarse, crosses, expired_tables, fences, is_contiguous, table_bytes_max};
use crate::ranges::RangeSet;
use crate::tree::Tree;
use crate::version::{LEVELS, Run, Span, TableHandle, TreeEdit, Version, ends_before};
use flagstone_base::sorted::{SortedMap, SortedSet, sort_by};
use flagstone_base::{FileNumber, Moment, Result, SeqNo};
use flagstone_sst::{CursorOptions, Learned, RangeDelete};
use std::ops::Bound;
use std::sync::Arc;

/// A compaction in progress. Dropping it before it is finished abandons it.
pub struct Compaction {
    tree: Arc<Tree>,
    job: Job,
    version: Arc<Version>,
    snapshots: Vec<SeqNo>,
    visible: SeqNo,
    expire_through: Moment,
    work: Option<RunningCompaction>,
    is_finished: bool,
}

struct RunningCompaction {
    merge: MergeCursor,
    ranges: AllRanges,
    retention: Retention,
    outputs: TableOutputs,
    below: RunsBelow,
    entries_read: u64,
    /// The number of entries to read, if it is checked.
    expected: Option<u64>,
    is_written: bool,
}

impl Compaction {
    /// Starts `job`. `snapshots` are all live ones, and `visible` is the newest SeqNo a reader can
    /// have. Returns `None` if a compaction of the tree is running, or the job is out of date. Does
    /// no work yet.
    pub fn start(tree: &Arc<Tree>, job: Job, snapshots: &[SeqNo], visible: SeqNo) -> Option<Self> {
        if !tree.compaction_slot.take() {
            return None;
        }
        let version = Arc::clone(tree.view().version());
        let job = without_shared_moves(&version, job, tree);
        let is_open = fits(&version, &job) && may_drop(tree, &version, &job, visible);
        if !is_open || tree.floor().is_some_and(|floor| crosses(&version, &job, floor)) {
            tree.compaction_slot.give_up();
            return None;
        }
        Some(Self {
            tree: Arc::clone(tree),
            job,
            version,
            snapshots: snapshots.to_vec(),
            visible,
            expire_through: Moment::ZERO,
            work: None,
            is_finished: false,
        })
    }

    /// Returns this compaction with all puts that have expired at `moment` written as tombstones.
    /// No reader may judge by an earlier moment: neither now, nor once the edit is installed.
    #[must_use]
    pub fn expiring_through(mut self, moment: Moment) -> Self {
        self.expire_through = moment;
        self
    }

    /// The job of the compaction.
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// The version that the inputs are from.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Does about 1 MiB of work. Returns an edit when the compaction is finished: the tables and
    /// their names are synced; pass the edit to the manifest, then to [`Tree::install`] or
    /// [`Tree::abandon`].
    ///
    /// # Errors
    /// Io; OutOfSpace; Corruption of an input, or of an entry on its way. The files of the
    /// compaction are then removed; drop it.
    pub fn step(&mut self) -> Result<Option<TreeEdit>> {
        if self.is_finished {
            return Ok(None);
        }
        let done = match (self.job.is_move, self.job.dropped_at) {
            (true, _) => Ok(Some(self.moved())),
            (false, Some(moment)) => Ok(Some(self.dropped(moment))),
            (false, None) => self.try_step(),
        };
        match &done {
            Ok(None) => {}
            Ok(Some(edit)) => {
                self.is_finished = true;
                self.tree.compaction_slot.wait_for(edit);
            }
            Err(_) => {
                if let Some(mut work) = self.work.take() {
                    work.outputs.remove_files();
                }
                self.inputs().for_each(|table| table.strike());
            }
        }
        done
    }

    /// Returns the edit that moves the inputs down unchanged.
    fn moved(&self) -> TreeEdit {
        let mut edit = TreeEdit::new(self.tree.id());
        for table in self.inputs() {
            edit.removed.push(table.number());
            edit.added.push((self.job.output_level, table.meta().clone()));
        }
        let tables_moved = edit.added.len() as u64;
        self.tree.counters.add(TreeCounters { tables_moved, ..TreeCounters::default() });
        edit
    }

    /// Returns the edit that drops the inputs unread.
    fn dropped(&self, moment: Moment) -> TreeEdit {
        let mut edit = TreeEdit::new(self.tree.id());
        edit.removed = self.job.inputs.iter().map(|input| input.1).collect();
        (edit.watermark, edit.expired_through) = (self.visible, moment);
        edit.untraced_through = self.inputs().map(|table| table.meta().seqnos().1).max();
        let tables_expired = edit.removed.len() as u64;
        self.tree.counters.add(TreeCounters { tables_expired, ..TreeCounters::default() });
        edit
    }

    fn inputs(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        let wanted: SortedSet<FileNumber> = self.job.inputs.iter().map(|input| input.1).collect();
        let tables = self.version.tables().map(|(_, table)| table);
        tables.filter(move |table| wanted.contains(&table.number()))
    }

    fn try_step(&mut self) -> Result<Option<TreeEdit>> {
        let mut work = match self.work.take() {
            Some(work) => work,
            None => self.begin()?,
        };
        let result = work.step();
        if !matches!(result, Ok(true)) {
            self.work = Some(work);
            result?;
            return Ok(None);
        }
        let written = work.outputs.bytes();
        let mut edit = work.outputs.into_edit(&work.retention)?;
        edit.removed = self.job.inputs.iter().map(|input| input.1).collect();
        self.tree.counters.add(TreeCounters {
            compactions: 1,
            compaction_bytes_read: self.inputs().map(|table| table.meta().bytes).sum(),
            compaction_bytes_written: written,
            ..TreeCounters::default()
        });
        Ok(Some(edit))
    }

    fn begin(&self) -> Result<RunningCompaction> {
        let options = self.tree.options();
        let mut retention = Retention::new(
            &self.snapshots,
            self.visible,
            options.fold.clone(),
            self.tree.keeps_tombstones(),
        )
        .expiring(self.expire_through);
        let mut attachments = SortedMap::new();
        self.inputs().for_each(|table| table.forget_damage());
        let ranges = AllRanges::of_tables(self.inputs())?;
        for table in self.inputs() {
            let attached = table.open()?.attachments().map_err(|error| table.noted(error))?;
            for (id, bytes) in attached {
                attachments.get_or_insert_with(id, || bytes.to_vec());
            }
        }
        if !ranges.set().is_empty() {
            retention.set_dropped();
        }
        let below = RunsBelow::new(&self.version, &self.job);
        let plan = OutputPlan {
            level: self.job.output_level,
            table_bytes: table_bytes_max(&self.version, options),
            attachments,
            learned: self.learned()?,
            ranges: RangesToWrite::new(&ranges, &mut retention, |piece| {
                below.is_empty_under(piece)
            }),
            fences: self.fences(),
        };
        let (merge, entries) = self.merge(ranges.set(), &retention)?;
        // Of a table that reaches across the bounds only a part is read.
        let is_whole = self.inputs().all(|table| !options.reaches_across(table.meta()));
        let expected = (self.tree.context().entry_checks && is_whole).then_some(entries);
        let (outputs, is_written, entries_read) = (TableOutputs::new(&self.tree, plan), false, 0);
        Ok(RunningCompaction {
            merge,
            ranges,
            retention,
            outputs,
            below,
            entries_read,
            expected,
            is_written,
        })
    }

    /// Returns the dictionary of an input, or else of the newest table of the last level, if that
    /// is where the outputs go.
    fn learned(&self) -> Result<Learned> {
        let options = self.tree.table_options();
        if usize::from(self.job.output_level) != LEVELS - 1 || !options.bottom_dictionary {
            return Ok(Learned::Nothing);
        }
        let of = |handle: &TableHandle| -> Result<Option<Learned>> {
            let table = handle.open()?;
            let bytes = table.dictionary().map_err(|error| handle.noted(error))?;
            let (share, compression) =
                (table.properties().dictionary_share, options.bottom_compression);
            Ok(bytes.map(|bytes| Learned::of_table(bytes, share, compression)))
        };
        for input in self.inputs() {
            if let Some(learned) = of(input)? {
                return Ok(learned);
            }
        }
        // Damage to a table that is no input does not stop the compaction.
        let newest = self.version.level(LEVELS - 1).iter().max_by_key(|table| table.number());
        Ok(newest.and_then(|table| of(table).ok().flatten()).unwrap_or_default())
    }

    /// Returns the fences of the tree, and the first keys of the tables of the output level that
    /// lie between the inputs and stay.
    fn fences(&self) -> Vec<Vec<u8>> {
        let Some(span) = Span::over(self.inputs().map(|table| table.meta())) else {
            return Vec::new();
        };
        let options = self.tree.options();
        let mut fences = fences(&self.version, options);
        fences.retain(|fence| span.lower < *fence && !ends_before(span.upper(), fence));
        let mut fences = coarse(fences, self.job.bytes, options);
        if self.job.output_level > 0 {
            let inputs: SortedSet<FileNumber> = self.inputs().map(|table| table.number()).collect();
            let run = self.version.level(usize::from(self.job.output_level));
            let stay = run[span.within(run)].iter().filter(|t| !inputs.contains(&t.number()));
            fences.extend(stay.map(|table| table.meta().smallest.clone()));
            sort_by(&mut fences, Ord::cmp);
            fences.dedup();
        }
        fences
    }

    /// Returns a cursor over the inputs, run by run, without the tables that one deleted range
    /// hides completely, and the number of entries in them.
    fn merge(&self, ranges: &RangeSet, retention: &Retention) -> Result<(MergeCursor, u64)> {
        let wanted: SortedSet<FileNumber> = self.job.inputs.iter().map(|input| input.1).collect();
        let use_cache = !self.tree.context().entry_checks;
        let options = CursorOptions { use_cache, ..CursorOptions::COMPACTION };
        let (mut sources, mut entries) = (Vec::new(), 0);
        for run in self.version.newest_first() {
            let is_read = |table: &&Arc<TableHandle>| {
                wanted.contains(&table.number()) && !is_deleted(table, ranges, retention)
            };
            let part: Run = run.iter().filter(is_read).map(Arc::clone).collect();
            if !part.is_empty() {
                entries += part.iter().map(|table| table.meta().entries).sum::<u64>();
                let reaches = part.iter().any(|t| self.tree.options().reaches_across(t.meta()));
                let cursor = RunCursor::new(part, Direction::Forward, options);
                sources.push(MergeSource::Run(cursor).within(self.tree.options(), reaches));
            }
        }
        let mut merge = MergeCursor::new(sources, Direction::Forward);
        merge.seek(first_of(&self.tree))?;
        Ok((merge, entries))
    }
}

impl RunningCompaction {
    /// Returns true when everything is written and checked.
    fn step(&mut self) -> Result<bool> {
        if self.is_written {
            return Ok(!self.outputs.check_one()?);
        }
        let Self { merge, ranges, retention, outputs, below, entries_read, .. } = self;
        let (ranges, mut bytes) = (ranges.set(), 0);
        while !is_enough(bytes) {
            let is_bottom = |key: &[u8]| below.is_bottom(key);
            let is_left = merge.entry().is_some_and(|entry| !outputs.is_behind(entry.key));
            let moved = if is_left {
                write_next_key(merge, outputs, retention, ranges, is_bottom)?
            } else {
                None
            };
            match moved {
                Some(moved) => {
                    bytes += moved.bytes;
                    *entries_read += moved.entries;
                }
                None => {
                    check_count(*entries_read, self.expected)?;
                    outputs.finish()?;
                    self.is_written = true;
                    break;
                }
            }
        }
        outputs.note_written();
        Ok(false)
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        if !self.is_finished {
            self.tree.compaction_slot.give_up();
        }
    }
}

/// Returns `job`, unless it moves tables that reach across the bounds of `tree`. A move would keep
/// the keys of another tree in them. Such tables are left out or, if there are no others, written
/// again.
fn without_shared_moves(version: &Version, mut job: Job, tree: &Tree) -> Job {
    if !job.is_move || !tree.options().has_bounds() {
        return job;
    }
    let tables = version.tables().map(|(_, table)| table.meta());
    let reaching = tables.filter(|meta| tree.options().reaches_across(meta));
    let reaching: SortedMap<FileNumber, u64> = reaching.map(|m| (m.number, m.bytes)).collect();
    let is_shared = |input: &(u8, FileNumber)| reaching.contains_key(&input.1);
    if job.inputs.iter().all(is_shared) {
        job.is_move = false;
        return job;
    }
    // The inputs of a move do not overlap, so each may be left out.
    for (_, number) in job.inputs.extract_if(.., |input| is_shared(input)) {
        job.bytes = job.bytes.saturating_sub(reaching[&number]);
    }
    job
}

/// Returns whether `job` can be done in `version`: its inputs are there, and with them everything
/// that they overlap on the way down. A job that was picked before another compaction finished may
/// not fit.
fn fits(version: &Version, job: &Job) -> bool {
    let mut wanted: SortedSet<(u8, FileNumber)> = job.inputs.iter().copied().collect();
    let numbers: SortedSet<FileNumber> = job.inputs.iter().map(|input| input.1).collect();
    let is_input = |table: &Arc<TableHandle>| numbers.contains(&table.number());
    for (level, table) in version.tables() {
        // A table that is dropped goes nowhere.
        if !wanted.remove(&(level, table.number())) || job.dropped_at.is_some() {
            continue;
        }
        let span = Span::of(table.meta());
        if level == 0 && job.output_level > 0 && !is_oldest(version, table, &numbers) {
            return false;
        }
        let on_the_way = usize::from(level) + 1..=usize::from(job.output_level).min(LEVELS - 1);
        for run in on_the_way.map(|level| version.level(level)) {
            if !run[span.within(run)].iter().all(is_input) {
                return false;
            }
        }
    }
    if job.output_level == 0 && job.dropped_at.is_none() && !is_contiguous(version, &numbers) {
        return false;
    }
    wanted.is_empty() && !numbers.is_empty() && usize::from(job.output_level) < LEVELS
}

/// Returns whether the tables of `job`, if they are to be dropped unread, have nothing that a
/// reader needs: a newer version may have other tables, and an entry may not be published yet.
fn may_drop(tree: &Tree, version: &Version, job: &Job, visible: SeqNo) -> bool {
    let Some(moment) = job.dropped_at else { return true };
    let expired = expired_tables(version, moment);
    let is_expired = |input: &(u8, FileNumber)| {
        let table = expired.iter().find(|(level, table)| (*level, table.number()) == *input);
        table.is_some_and(|(_, table)| table.meta().seqnos().1 <= visible)
    };
    !tree.keeps_tombstones() && job.inputs.iter().all(is_expired)
}

/// Returns whether all older tables of L0 that `table` overlaps are among `inputs` too.
fn is_oldest(version: &Version, table: &TableHandle, inputs: &SortedSet<FileNumber>) -> bool {
    let is_here = |run: &&Run| run.iter().any(|other| other.number() == table.number());
    let older = version.l0_runs().iter().take_while(|run| !is_here(run));
    let mut overlapping = older.flat_map(|run| &run[Span::of(table.meta()).within(run)]);
    overlapping.all(|other| inputs.contains(&other.number()))
}

/// The bound from which on flushes and compactions of `tree` read entries.
pub(super) fn first_of(tree: &Tree) -> Bound<&[u8]> {
    match &tree.options().bounds {
        Some(bounds) if !bounds.lower().is_empty() => Bound::Included(bounds.lower()),
        _ => Bound::Unbounded,
    }
}

/// Returns whether one deleted range hides everything in `table` from every reader.
pub(super) fn is_deleted(table: &TableHandle, ranges: &RangeSet, retention: &Retention) -> bool {
    let meta = table.meta();
    let (oldest, newest) = meta.seqnos();
    ranges.piece(&meta.smallest).is_some_and(|piece| {
        ends_before(meta.upper(), piece.end)
            && newest < piece.seqno
            && retention.boundary(oldest).is_some()
            && retention.boundary(oldest) == retention.boundary(piece.seqno)
    })
}

/// The runs below the output: only they can have older entries.
struct RunsBelow {
    levels: Vec<(Run, usize)>,
}

impl RunsBelow {
    fn new(version: &Version, job: &Job) -> Self {
        let inputs: SortedSet<FileNumber> = job.inputs.iter().map(|input| input.1).collect();
        let is_input = |table: &Arc<TableHandle>| inputs.contains(&table.number());
        let seqnos = version.tables().filter(|(_, table)| is_input(table));
        let newest = seqnos.map(|(_, table)| table.meta().seqnos().1).max().unwrap_or(SeqNo::MAX);
        // A job that goes down takes everything older in L0 that it overlaps. A job within L0 may
        // leave older tables there.
        let l0 = match job.output_level {
            0 => version.l0_runs(),
            _ => &[],
        };
        let is_newer = |table: &Arc<TableHandle>| table.meta().seqnos().0 > newest;
        let older = |run: &Run| -> Run {
            let stay = |table: &&Arc<TableHandle>| !is_input(table) && !is_newer(table);
            run.iter().filter(stay).map(Arc::clone).collect()
        };
        let deeper = (usize::from(job.output_level) + 1..LEVELS).map(|at| version.level(at));
        let runs = l0.iter().map(older).chain(deeper.cloned());
        Self { levels: runs.filter(|run| !run.is_empty()).map(|run| (run, 0)).collect() }
    }

    /// Returns whether no deeper run can have `key`. Keys must ascend.
    fn is_bottom(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().all(|(run, at)| {
            while run.get(*at).is_some_and(|table| ends_before(table.meta().upper(), key)) {
                *at += 1;
            }
            run.get(*at).is_none_or(|table| table.meta().smallest.as_slice() > key)
        })
    }

    /// Returns whether no deeper run can have a key of `range`.
    fn is_empty_under(&self, range: RangeDelete<'_>) -> bool {
        let span = Span { lower: range.start.to_vec(), upper: Bound::Excluded(range.end.to_vec()) };
        self.levels.iter().all(|(run, _)| span.within(run).is_empty())
    }
}
