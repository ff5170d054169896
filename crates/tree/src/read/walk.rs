//! The position of a scan, and how it moves from one key to the next.

use super::dead_run::DeadRun;
use super::held::{ScanCursors, ScanResources, ScanValue};
use crate::memtable::{MemCursor, Shortcuts};
use crate::merge::{MergeCursor, MergeSource, RangeSource, RunCursor, fold_operands};
use crate::options::Direction;
use crate::tree::Tree;
use crate::version::{Run, Span, TableHandle};
use crate::view::View;
use flagstone_base::bytes::{assign, same};
use flagstone_base::key::key_front;
use flagstone_base::{Error, KeyRange, Kind, Moment, Result, SeqNo, Slice};
use flagstone_sst::CursorOptions;
use std::ops::Bound;
use std::sync::Arc;

/// After this many entries a scan checks whether its view is still current.
const ENTRIES_PER_CHECK: u32 = 256;
/// After this many keys deleted by one range a scan skips the rest of the range.
const COVERED_BEFORE_JUMP: u32 = 8;
/// The most visits that are skipped after one that found nothing.
const SKIPPED_MAX: u32 = 63;
/// After a value of at least this many bytes the memory of the scan is counted again.
const LARGE_VALUE: usize = 64 << 10;

/// The options of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// Whether blocks that the scan reads are inserted into the cache.
    pub fill_cache: bool,
    /// The number of scans, including this one, that run at the same time and share the memory for
    /// reading ahead. If it is more than one, the caller must call `TreeScan::show` before it asks
    /// for a value.
    pub scans: usize,
    /// The moment by which expiries are judged, registered with the SeqNo of the scan.
    pub moment: Moment,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { fill_cache: true, scans: 1, moment: Moment::ZERO }
    }
}

/// The part of a scan that only its own thread accesses.
pub(super) struct ScanWalk {
    pub(super) tree: Arc<Tree>,
    /// The further trees of a scan whose tree was split by hashes: it merges all.
    pub(super) others: Vec<Arc<Tree>>,
    /// The keys of `range` that lie in the tree.
    pub(super) range: KeyRange,
    /// Set once the tree was replaced.
    pub(super) moved: Option<Box<Moved>>,
    pub(super) at: SeqNo,
    pub(super) direction: Direction,
    pub(super) options: ScanOptions,
    /// The current key, or the last one.
    pub(super) key: Vec<u8>,
    has_key: bool,
    /// The buffer for the next key.
    spare: Vec<u8>,
    /// A value that was folded, or that the cursors have passed, until it is moved to `Held`.
    made: Slice,
    /// The value is kept whether the caller asks for it or not.
    is_kept: bool,
    is_done: bool,
    /// The memory that the scan holds is counted.
    is_settled: bool,
    until_check: u32,
    covered_keys: u32,
    /// The dead keys that it is passing.
    pub(super) dead: DeadRun,
    /// The number of visits that were skipped after the last one that found nothing, and how many
    /// of them are left.
    skipped: u32,
    to_skip: u32,
}

/// The way of a scan whose tree was replaced: through all trees that have replaced it.
pub(super) struct Moved {
    /// The tree in which the scan began. It leads to the others.
    origin: Arc<Tree>,
    /// All keys of the scan.
    range: KeyRange,
}

impl ScanWalk {
    pub(super) fn new(
        tree: Arc<Tree>,
        range: KeyRange,
        at: SeqNo,
        direction: Direction,
        options: ScanOptions,
    ) -> Self {
        let bounds = &tree.options().bounds;
        let range = match bounds {
            Some(bounds) => bounds.clip(&range),
            None => range,
        };
        let is_done = range.is_empty();
        Self {
            tree,
            others: Vec::new(),
            range,
            moved: None,
            at,
            direction,
            options,
            key: Vec::new(),
            has_key: false,
            spare: Vec::new(),
            made: Slice::default(),
            is_kept: false,
            is_done,
            is_settled: true,
            until_check: 0,
            covered_keys: 0,
            dead: DeadRun::FIRST,
            skipped: 0,
            to_skip: 0,
        }
    }

    pub(super) const fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// The number of scans that are merged, including this one.
    pub(super) const fn scans(&self) -> usize {
        self.options.scans
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(super) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns whether the caller may ask for the value without calling [`ScanResources::show`].
    #[inline]
    pub(super) const fn is_kept(&self) -> bool {
        self.is_kept
    }

    #[inline]
    pub(super) const fn is_settled(&self) -> bool {
        self.is_settled
    }

    pub(super) const fn set_settled(&mut self) {
        self.is_settled = true;
    }

    /// Moves to the next live key.
    #[inline]
    pub(super) fn advance(&mut self, held: &mut ScanResources) -> Result<bool> {
        held.begin();
        held.is_shown = self.options.scans <= 1;
        loop {
            let mut pinned = self.pin(held)?;
            // After an error the cursors are dropped: the next call seeks the place again.
            match self.step(&mut pinned)? {
                WalkStep::Found => {
                    self.end_run();
                    held.pinned = Some(pinned);
                    held.value = ScanValue::Current;
                    return Ok(true);
                }
                WalkStep::Made => {
                    self.end_run();
                    held.pinned = Some(pinned);
                    held.value = ScanValue::Made(std::mem::take(&mut self.made));
                    return Ok(true);
                }
                WalkStep::Absent => {
                    self.dead.keys = self.dead.keys.saturating_add(1);
                    if self.dead.keys >= self.dead.next_look {
                        self.pass_dead(&mut pinned)?;
                    }
                    held.pinned = Some(pinned);
                }
                WalkStep::End if self.go_on() => {}
                WalkStep::End => {
                    self.record_dead_range(None);
                    self.count_dead();
                    (self.is_done, self.is_settled) = (true, false);
                    return Ok(false);
                }
            }
        }
    }

    /// Moves to the live keys that follow in the block of the current one, at most `most`, as long
    /// as `visit` returns true for key and value: false leaves the key as the next one. Returns how
    /// many were visited. An entry that needs another source or another block ends the visit, so 0
    /// does not mean the end of the range.
    #[inline]
    pub(super) fn visit_near(
        &mut self,
        held: &mut ScanResources,
        most: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> usize {
        let is_current = matches!(held.value, ScanValue::Current) && self.has_key;
        let is_merged = self.options.scans > 1;
        let Some(pinned) = held.pinned.as_mut().filter(|pinned| {
            is_current && !is_merged && pinned.is_handled && pinned.ranges.is_empty()
        }) else {
            return 0;
        };
        if self.direction != Direction::Forward {
            return 0;
        }
        if most == 0 || self.to_skip > 0 {
            self.to_skip = self.to_skip.saturating_sub(1);
            return 0;
        }
        let (range, at, moment) = (&self.range, self.at, self.options.moment);
        // Most keys differ from the bound in their first eight bytes.
        let end = range.end_front();
        let most = most.min(self.until_check as usize);
        let visited = pinned.merge.visit_near(most, |entry| {
            let is_near = entry.kind() == Kind::Put
                && entry.seqno() <= at
                && !entry.trailer.is_expired_at(moment)
                && entry.value.len() < LARGE_VALUE
                && end.is_none_or(|end| key_front(entry.key) < end || range.ends_behind(entry.key));
            is_near && visit(entry.key, entry.value)
        });
        if visited == 0 {
            // If sources alternate, a visit costs a step forward and a step back.
            self.skipped = (2 * self.skipped + 1).min(SKIPPED_MAX);
            self.to_skip = self.skipped;
            return 0;
        }
        self.skipped = 0;
        self.until_check -= visited as u32;
        let len = pinned.merge.entry().map_or(0, |entry| {
            assign(&mut self.key, entry.key);
            entry.value.len()
        });
        held.begin();
        held.is_shown = true;
        held.value = ScanValue::Current;
        self.note_value(len);
        visited
    }

    /// Reads the value of the current key again, after it was released.
    #[cold]
    pub(super) fn find_again(&mut self, held: &mut ScanResources) -> Result<()> {
        let (view, others) = self.views();
        let key = std::mem::take(&mut self.key);
        self.has_key = false;
        let mut pinned = self.open(view, others);
        let found = pinned.merge.seek(Bound::Included(&key));
        let found = found.and_then(|()| self.step(&mut pinned));
        let is_same = self.key == key;
        (self.key, self.has_key) = (key, true);
        held.value = match found? {
            WalkStep::Found if is_same => ScanValue::Current,
            WalkStep::Made if is_same => ScanValue::Made(std::mem::take(&mut self.made)),
            // The keyspace was dropped, which the caller will report.
            _ => return Err(Error::invalid("the entry of a scan is gone")),
        };
        held.pinned = Some(pinned);
        self.is_settled = false;
        Ok(())
    }

    #[inline]
    fn step(&mut self, pinned: &mut ScanCursors) -> Result<WalkStep> {
        match self.direction {
            Direction::Forward => self.step_forward(pinned),
            Direction::Reverse => self.step_back(pinned),
        }
    }

    /// Returns the cursors, positioned after the current key. Opens new ones over the current view
    /// if theirs is out of date.
    #[inline]
    fn pin(&mut self, held: &mut ScanResources) -> Result<Box<ScanCursors>> {
        if let Some(pinned) = held.pinned.take() {
            if self.until_check > 0 {
                return Ok(pinned);
            }
            (self.until_check, self.is_settled) = (ENTRIES_PER_CHECK, false);
            if self.tree.is_current(&pinned.view) && self.are_current(&pinned.others) {
                return Ok(pinned);
            }
        }
        self.pin_again()
    }

    #[cold]
    fn pin_again(&mut self) -> Result<Box<ScanCursors>> {
        (self.until_check, self.is_settled) = (ENTRIES_PER_CHECK, false);
        let (view, others) = self.views();
        let mut pinned = self.open(view, others);
        let bound = |bound: &Bound<Vec<u8>>| bound.clone();
        let from = match (self.has_key, self.direction) {
            (true, _) => Bound::Excluded(self.key.clone()),
            (false, Direction::Forward) => bound(&self.range.start),
            (false, Direction::Reverse) => bound(&self.range.end),
        };
        if !self.has_key && self.tree.dead_ranges.is_used() && !self.is_divided() {
            let from = self.first_place();
            if self.skip_dead_ranges(&mut pinned, from)? {
                return Ok(pinned);
            }
        }
        pinned.merge.seek(from.as_ref().map(Vec::as_slice))?;
        Ok(pinned)
    }

    /// Returns whether `views` are those of the further trees now.
    fn are_current(&self, views: &[Arc<View>]) -> bool {
        self.others.iter().zip(views).all(|(tree, view)| tree.is_current(view))
    }

    /// Returns the current views of the tree, and of the further ones. If the tree was replaced,
    /// moves to the one that has the position of the scan, or to all parts of it.
    fn views(&mut self) -> (Arc<View>, Vec<Arc<View>>) {
        loop {
            let view = self.tree.view();
            let others: Vec<Arc<View>> = self.others.iter().map(|tree| tree.view()).collect();
            if !view.is_retired() && others.iter().all(|view| !view.is_retired()) {
                return (view, others);
            }
            if !self.divide() {
                self.follow();
            }
        }
    }

    /// Replaces those of the trees that were split by hashes by their parts. Returns whether there
    /// were any.
    fn divide(&mut self) -> bool {
        let parts_of = |tree: &Arc<Tree>| {
            let parts = tree.successors()?;
            parts.iter().all(|part| part.options().hashes.is_some()).then(|| parts.to_vec())
        };
        let (mut trees, mut is_divided) = (Vec::new(), false);
        for tree in std::iter::once(&self.tree).chain(&self.others) {
            let parts = parts_of(tree);
            is_divided |= parts.is_some();
            trees.extend(parts.unwrap_or_else(|| vec![Arc::clone(tree)]));
        }
        if is_divided {
            let others = trees.split_off(1);
            self.others = others;
            self.tree = trees.swap_remove(0);
        }
        is_divided
    }

    #[cold]
    fn follow(&mut self) {
        let (tree, range) = (&self.tree, &self.range);
        let first = || Box::new(Moved { origin: Arc::clone(tree), range: range.clone() });
        let Moved { origin, range } = &**self.moved.get_or_insert_with(first);
        let next = match (self.has_key, self.direction) {
            (true, _) => origin.successor_of(&self.key),
            (false, Direction::Forward) => match &self.range.start {
                Bound::Included(key) | Bound::Excluded(key) => origin.successor_of(key),
                Bound::Unbounded => origin.successor_of(b""),
            },
            (false, Direction::Reverse) => match &self.range.end {
                Bound::Included(key) => origin.successor_of(key),
                Bound::Excluded(end) => origin.successor_below(Some(end)),
                Bound::Unbounded => origin.successor_below(None),
            },
        };
        let range = range.clone();
        self.move_to(next, &range);
    }

    fn move_to(&mut self, next: Option<Arc<Tree>>, range: &KeyRange) {
        let Some(next) = next else { return };
        let bounds = &next.options().bounds;
        self.range = bounds.as_ref().map_or_else(|| range.clone(), |bounds| bounds.clip(range));
        self.tree = next;
    }

    /// At the end of a tree: moves to the next of the trees that have replaced the first one.
    /// Returns false if nothing of the range is left.
    fn go_on(&mut self) -> bool {
        let Some(Moved { origin, range }) = self.moved.as_deref() else { return false };
        let Some(bounds) = &self.tree.options().bounds else { return false };
        let next = match self.direction {
            Direction::Forward => {
                let upper = bounds.upper().filter(|upper| range.ends_behind(upper));
                upper.and_then(|upper| origin.successor_of(upper))
            }
            Direction::Reverse => {
                let lower = Some(bounds.lower()).filter(|lower| range.starts_below(lower));
                lower.and_then(|lower| origin.successor_below(Some(lower)))
            }
        };
        if next.is_none() {
            return false;
        }
        let range = range.clone();
        self.move_to(next, &range);
        // The next key is the first one of the tree, in the direction of the scan.
        (self.has_key, self.until_check) = (false, 0);
        !self.range.is_empty()
    }

    pub(super) fn open(&self, view: Arc<View>, others: Vec<Arc<View>>) -> Box<ScanCursors> {
        let all = || std::iter::once(&view).chain(&others);
        let runs: usize = all().map(|view| view.version.newest_first().count()).sum();
        // Few sources are the rule: a vector that grows begins with room for four large ones.
        let memtables: usize = all().map(|view| view.memtables().count()).sum();
        let (mut sources, mut ranges) = (Vec::with_capacity(memtables + runs), Vec::new());
        self.open_tree(&self.tree, &view, runs, &mut sources, &mut ranges);
        for (tree, view) in self.others.iter().zip(&others) {
            self.open_tree(tree, view, runs, &mut sources, &mut ranges);
        }
        let merge = MergeCursor::new(sources, self.direction);
        Box::new(ScanCursors { view, others, merge, ranges, is_handled: false })
    }

    /// Adds the sources of `tree` in its `view`. `runs` is the number of the runs of all trees.
    fn open_tree(
        &self,
        tree: &Tree,
        view: &View,
        runs: usize,
        sources: &mut Vec<MergeSource>,
        ranges: &mut Vec<RangeSource>,
    ) {
        let mut deleted = Vec::new();
        for table in view.memtables() {
            // Skip a memtable whose entries are all newer than the scan.
            if table.entries() > 0 && table.first().is_some_and(|first| first <= self.at) {
                let own = table.range_sets();
                deleted.extend(own.iter().map(Arc::clone));
                let shortcuts = Shortcuts::Read(deleted.clone());
                let cursor = MemCursor::new(Arc::clone(table), self.at, self.direction, shortcuts);
                let source = MergeSource::Memory(cursor).within(tree.options(), table.is_shared());
                sources.push(source);
                ranges.extend(own.into_iter().map(RangeSource::of_memory));
            }
        }
        let options = CursorOptions { fill_cache: self.options.fill_cache, ..CursorOptions::SCAN };
        let options = options.shared_by(runs * self.options.scans);
        for run in view.version.newest_first() {
            let within = Span::within_range(&self.range, run);
            if within.is_empty() {
                continue;
            }
            let part = self.seen(run.part(within));
            if part.is_empty() {
                continue;
            }
            ranges.extend(RangeSource::of_run(&part));
            let reaches = tree.options().hashes.is_some()
                && part.iter().any(|table| tree.options().reaches_across(table.meta()));
            let cursor = RunCursor::new(part, self.direction, options);
            sources.push(MergeSource::Run(cursor).within(tree.options(), reaches));
        }
    }

    /// Returns the tables of `part` that have entries visible to the scan.
    fn seen(&self, part: Run) -> Run {
        let is_seen = |table: &&Arc<TableHandle>| table.meta().seqnos().0 <= self.at;
        if part.iter().all(|table| is_seen(&table)) {
            return part;
        }
        part.iter().filter(is_seen).map(Arc::clone).collect()
    }

    /// Processes the next key forwards.
    fn step_forward(&mut self, pinned: &mut ScanCursors) -> Result<WalkStep> {
        if std::mem::take(&mut pinned.is_handled) {
            pinned.merge.next()?;
        }
        let entry = loop {
            let Some(entry) = pinned.merge.entry() else { return Ok(WalkStep::End) };
            if !self.range.ends_behind(entry.key) {
                return Ok(WalkStep::End);
            }
            let is_old = self.has_key && same(entry.key, &self.key);
            if !is_old && entry.seqno() <= self.at {
                break entry;
            }
            self.until_check = self.until_check.saturating_sub(1);
            pinned.merge.next()?;
        };
        let (kind, seqno, len) = (entry.kind(), entry.seqno(), entry.value.len());
        let is_expired = entry.trailer.is_expired_at(self.options.moment);
        let covered = covering(&pinned.ranges, entry.key, self.at)?;
        self.until_check = self.until_check.saturating_sub(1);
        if kind == Kind::Merge && seqno >= covered {
            return self.fold_forward(pinned, covered);
        }
        assign(&mut self.key, entry.key);
        self.has_key = true;
        pinned.is_handled = true;
        if seqno < covered {
            return self.leave_range(pinned, covered);
        }
        self.covered_keys = 0;
        if kind != Kind::Put || is_expired {
            return Ok(WalkStep::Absent);
        }
        self.note_value(len);
        Ok(WalkStep::Found)
    }

    /// Records that the scan is on a value of `len` bytes.
    #[inline]
    fn note_value(&mut self, len: usize) {
        self.is_settled &= len < LARGE_VALUE;
        self.is_kept = ScanResources::is_kept(len);
    }

    fn fold_forward(&mut self, pinned: &mut ScanCursors, covered: SeqNo) -> Result<WalkStep> {
        let key = pinned.merge.entry().map_or_else(Vec::new, |entry| entry.key.to_vec());
        let (mut base, mut operands) = (None, Vec::new());
        while let Some(entry) = pinned.merge.entry()
            && entry.key == key
            && entry.seqno() >= covered
        {
            match entry.kind() {
                Kind::Merge => operands.push(pinned.merge.value()),
                Kind::Put if !entry.trailer.is_expired_at(self.options.moment) => {
                    base = Some(pinned.merge.value());
                }
                Kind::Put | Kind::Delete | Kind::RangeDelete => {}
            }
            if entry.kind() != Kind::Merge {
                break;
            }
            pinned.merge.next()?;
        }
        self.finish_key(key, base, &operands)
    }

    /// Processes the next key backwards: its entries come oldest first.
    fn step_back(&mut self, pinned: &mut ScanCursors) -> Result<WalkStep> {
        while let Some(entry) = pinned.merge.entry()
            && entry.seqno() > self.at
        {
            if !self.range.starts_before(entry.key) {
                return Ok(WalkStep::End);
            }
            self.until_check = self.until_check.saturating_sub(1);
            pinned.merge.next()?;
        }
        let Some(entry) = pinned.merge.entry() else { return Ok(WalkStep::End) };
        if !self.range.starts_before(entry.key) {
            return Ok(WalkStep::End);
        }
        // Not `self.key`: after an error the scan continues where it was.
        let mut key = std::mem::take(&mut self.spare);
        key.clear();
        key.extend_from_slice(entry.key);
        let covered = covering(&pinned.ranges, &key, self.at)?;
        let (mut base, mut operands, mut is_alive) = (None, Vec::new(), false);
        while let Some(entry) = pinned.merge.entry()
            && entry.key == key
        {
            if entry.seqno() <= self.at && entry.seqno() >= covered {
                is_alive = true;
                match entry.kind() {
                    Kind::Merge => operands.push(pinned.merge.value()),
                    kind => {
                        operands.clear();
                        let is_expired = entry.trailer.is_expired_at(self.options.moment);
                        let is_here = kind == Kind::Put && !is_expired;
                        base = is_here.then(|| pinned.merge.value());
                    }
                }
            }
            self.until_check = self.until_check.saturating_sub(1);
            pinned.merge.next()?;
        }
        if !is_alive {
            self.set_key(key);
            return self.leave_range(pinned, covered);
        }
        operands.reverse();
        self.finish_key(key, base, &operands)
    }

    fn set_key(&mut self, key: Vec<u8>) {
        self.spare = std::mem::replace(&mut self.key, key);
        self.has_key = true;
    }

    /// Determines the state of `key`. `operands` are newest first.
    fn finish_key(
        &mut self,
        key: Vec<u8>,
        base: Option<Slice>,
        operands: &[Slice],
    ) -> Result<WalkStep> {
        let fold = self.tree.options().fold.as_deref();
        let value = match operands {
            [] => base,
            _ => fold_operands(fold, &key, base.as_deref(), operands)?,
        };
        self.set_key(key);
        self.covered_keys = 0;
        let Some(value) = value else { return Ok(WalkStep::Absent) };
        self.note_value(value.len());
        self.made = value;
        Ok(WalkStep::Made)
    }

    /// Records that the current key is deleted by a range. After several such keys, skips the rest
    /// of the range.
    fn leave_range(&mut self, pinned: &mut ScanCursors, covered: SeqNo) -> Result<WalkStep> {
        self.covered_keys += 1;
        if self.covered_keys < COVERED_BEFORE_JUMP {
            return Ok(WalkStep::Absent);
        }
        self.covered_keys = 0;
        let ScanCursors { merge, ranges, is_handled, .. } = pinned;
        let mut piece = None;
        for source in &*ranges {
            piece = piece.or(source.piece(&self.key, covered)?);
        }
        if let Some(piece) = piece {
            let limit = match self.direction {
                Direction::Forward => Bound::Included(piece.end),
                Direction::Reverse => Bound::Excluded(piece.start),
            };
            merge.skip_older(limit, covered)?;
            // The cursors may be on another entry now.
            *is_handled = false;
        }
        Ok(WalkStep::Absent)
    }
}

/// The result of processing a key.
enum WalkStep {
    /// A live key, whose entry the cursors are on.
    Found,
    /// A live key, whose value was folded or copied from the cursors.
    Made,
    Absent,
    End,
}

#[inline]
fn covering(ranges: &[RangeSource], key: &[u8], at: SeqNo) -> Result<SeqNo> {
    let mut newest = SeqNo::ZERO;
    for source in ranges {
        newest = newest.max(source.covering(key, at)?);
    }
    Ok(newest)
}
