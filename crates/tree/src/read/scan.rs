//! Keys in order, at one point in time, either way.

use crate::memtable::{MemCursor, Shortcuts};
use crate::merge::{MergeCursor, RangeSource, RunCursor, Source, fold_operands};
use crate::options::Direction;
use crate::reads::SCAN_WEIGHT;
use crate::tree::Tree;
use crate::version::{Run, Span, TableHandle};
use crate::view::View;
use flagstone_base::{KeyRange, Kind, Result, SeqNo, Slice};
use flagstone_sst::CursorOptions;
use std::ops::Bound;
use std::sync::Arc;

/// After so many entries a scan looks whether its view is still the current one.
const ENTRIES_PER_CHECK: u32 = 256;
/// After so many keys deleted by one range a scan leaves the range in one jump.
const COVERED_BEFORE_JUMP: u32 = 8;

/// How a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// Whether the blocks it reads stay in the cache.
    pub fill_cache: bool,
    /// How many scans, this one included, go on at once and share the memory for what is read ahead.
    pub scans: usize,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { fill_cache: true, scans: 1 }
    }
}

/// Walks the live keys of a range as they were at a SeqNo.
///
/// The caller keeps that SeqNo registered as a snapshot while the scan lives: the scan moves on to
/// the current view whenever its own is old, so it pins memory and files only for a short while.
pub struct TreeScan {
    tree: Arc<Tree>,
    range: KeyRange,
    at: SeqNo,
    direction: Direction,
    options: ScanOptions,
    /// Boxed: it is taken out for every step.
    pinned: Option<Box<Pinned>>,
    /// The key it stands at, or stood at last.
    key: Vec<u8>,
    has_key: bool,
    /// Room for the next key.
    spare: Vec<u8>,
    value: Value,
    is_done: bool,
    until_check: u32,
    covered_keys: u32,
}

/// The value of the key a scan stands at.
enum Value {
    /// That of the entry the cursors stand at: nothing is counted or copied unless it is asked for.
    Current,
    /// One that the cursors have left behind, or that was folded.
    Made(Slice),
}

/// The cursors over one view.
struct Pinned {
    view: Arc<View>,
    merge: MergeCursor,
    ranges: Vec<RangeSource>,
}

impl Tree {
    /// A scan of the keys of `range` as they were at `at`, which the caller has registered as a
    /// snapshot. Costs nothing before the first [`TreeScan::advance`].
    pub fn scan(
        self: &Arc<Self>,
        range: KeyRange,
        at: SeqNo,
        direction: Direction,
        options: ScanOptions,
    ) -> TreeScan {
        self.reads.note(SCAN_WEIGHT);
        let is_done = range.is_empty();
        TreeScan {
            tree: Arc::clone(self),
            range,
            at,
            direction,
            options,
            pinned: None,
            key: Vec::new(),
            has_key: false,
            spare: Vec::new(),
            value: Value::Made(Slice::default()),
            is_done,
            until_check: 0,
            covered_keys: 0,
        }
    }
}

impl TreeScan {
    /// Goes to the next live key; false at the end of the range.
    ///
    /// # Errors
    /// Io or Corruption of a table; Unsupported when an operand is met without a fold. The next
    /// call tries the same key again.
    pub fn advance(&mut self) -> Result<bool> {
        if self.is_done {
            return Ok(false);
        }
        loop {
            let mut pinned = self.pin()?;
            let step = match self.direction {
                Direction::Forward => self.step_forward(&mut pinned),
                Direction::Reverse => self.step_back(&mut pinned),
            };
            match step {
                Ok(Step::Found) => {
                    self.pinned = Some(pinned);
                    return Ok(true);
                }
                Ok(Step::Absent) => self.pinned = Some(pinned),
                Ok(Step::End) => {
                    self.is_done = true;
                    self.value = Value::Made(Slice::default());
                    return Ok(false);
                }
                Err(error) => {
                    // The cursors are dropped: the next call seeks anew.
                    self.value = Value::Made(Slice::default());
                    return Err(error);
                }
            }
        }
    }

    /// The key it stands at; empty before the first [`TreeScan::advance`].
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of the key it stands at; shares the memory of its block, copies out of a memtable.
    #[inline]
    pub fn value(&self) -> Slice {
        match (&self.value, &self.pinned) {
            (Value::Made(value), _) => value.clone(),
            (Value::Current, Some(pinned)) => pinned.merge.value(),
            (Value::Current, None) => Slice::default(),
        }
    }

    /// The same value in place: cheaper where it is only looked at.
    #[inline]
    pub fn value_bytes(&self) -> &[u8] {
        match (&self.value, &self.pinned) {
            (Value::Made(value), _) => value,
            (Value::Current, Some(pinned)) => pinned.merge.entry().map_or(&[], |e| e.value),
            (Value::Current, None) => &[],
        }
    }

    /// The next live key and its value; `None` at the end.
    ///
    /// # Errors
    /// As [`TreeScan::advance`].
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail and go on")]
    pub fn next(&mut self) -> Result<Option<(Slice, Slice)>> {
        if self.advance()? { Ok(Some((Slice::copy_of(&self.key), self.value()))) } else { Ok(None) }
    }

    /// Lets go of memtables and tables but keeps the place and its entry: for a scan that will wait a
    /// while.
    pub fn park(&mut self) {
        self.value = Value::Made(Slice::copy_of(self.value_bytes()));
        self.pinned = None;
    }

    /// The cursors, over the current view if theirs is old, standing behind the current key.
    #[inline]
    fn pin(&mut self) -> Result<Box<Pinned>> {
        if let Some(pinned) = self.pinned.take() {
            if self.until_check > 0 {
                return Ok(pinned);
            }
            self.until_check = ENTRIES_PER_CHECK;
            if self.tree.is_current(&pinned.view) {
                return Ok(pinned);
            }
        }
        self.pin_anew()
    }

    #[cold]
    fn pin_anew(&mut self) -> Result<Box<Pinned>> {
        self.until_check = ENTRIES_PER_CHECK;
        let mut pinned = self.open(self.tree.view());
        let bound = |bound: &Bound<Vec<u8>>| bound.clone();
        let from = match (self.has_key, self.direction) {
            (true, _) => Bound::Excluded(self.key.clone()),
            (false, Direction::Forward) => bound(&self.range.start),
            (false, Direction::Reverse) => bound(&self.range.end),
        };
        pinned.merge.seek(from.as_ref().map(Vec::as_slice))?;
        Ok(pinned)
    }

    fn open(&self, view: Arc<View>) -> Box<Pinned> {
        let (mut sources, mut ranges) = (Vec::new(), Vec::new());
        let mut deleted = Vec::new();
        for table in view.memtables() {
            // What came later than it sees, it need not walk over.
            if table.entries() > 0 && table.first().is_some_and(|first| first <= self.at) {
                let own = table.ranges();
                if !own.is_empty() {
                    deleted.push(Arc::clone(&own));
                }
                let shortcuts = Shortcuts::Read(deleted.clone());
                let cursor = MemCursor::new(Arc::clone(table), self.at, self.direction, shortcuts);
                sources.push(Source::Memory(cursor));
                ranges.extend(RangeSource::of_memory(own));
            }
        }
        let options = CursorOptions { fill_cache: self.options.fill_cache, ..CursorOptions::SCAN };
        let runs = view.version.newest_first().count();
        let options = options.shared_by(runs * self.options.scans);
        for run in view.version.newest_first() {
            let within = Span::within_range(&self.range, run);
            if within.is_empty() {
                continue;
            }
            let part = self.seen(crate::merge::part(run, within));
            if part.is_empty() {
                continue;
            }
            ranges.extend(RangeSource::of_run(&part));
            sources.push(Source::Run(RunCursor::new(part, self.direction, options)));
        }
        Box::new(Pinned { view, merge: MergeCursor::new(sources, self.direction), ranges })
    }

    /// The tables of `part` that hold something it sees.
    fn seen(&self, part: Run) -> Run {
        let is_seen = |table: &&Arc<TableHandle>| table.meta().seqnos().0 <= self.at;
        if part.iter().all(|table| is_seen(&table)) {
            return part;
        }
        part.iter().filter(is_seen).map(Arc::clone).collect()
    }

    /// Handles the next key forwards.
    fn step_forward(&mut self, pinned: &mut Pinned) -> Result<Step> {
        loop {
            let Some(entry) = pinned.merge.entry() else { return Ok(Step::End) };
            let is_old = self.has_key && entry.key == self.key.as_slice();
            if !is_old && entry.seqno() <= self.at {
                break;
            }
            if !self.range.ends_behind(entry.key) {
                return Ok(Step::End);
            }
            self.until_check = self.until_check.saturating_sub(1);
            pinned.merge.next()?;
        }
        let Some(entry) = pinned.merge.entry() else { return Ok(Step::End) };
        if !self.range.ends_behind(entry.key) {
            return Ok(Step::End);
        }
        let (kind, seqno) = (entry.kind(), entry.seqno());
        let covered = covering(&pinned.ranges, entry.key, self.at)?;
        self.until_check = self.until_check.saturating_sub(1);
        if kind == Kind::Merge && seqno >= covered {
            return self.fold_forward(pinned, covered);
        }
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.has_key = true;
        if seqno < covered {
            return self.leave_range(pinned, covered);
        }
        self.covered_keys = 0;
        if kind != Kind::Put {
            return Ok(Step::Absent);
        }
        self.value = Value::Current;
        Ok(Step::Found)
    }

    fn fold_forward(&mut self, pinned: &mut Pinned, covered: SeqNo) -> Result<Step> {
        let key = pinned.merge.entry().map_or_else(Vec::new, |entry| entry.key.to_vec());
        let (mut base, mut operands) = (None, Vec::new());
        while let Some(entry) = pinned.merge.entry()
            && entry.key == key
            && entry.seqno() >= covered
        {
            match entry.kind() {
                Kind::Merge => operands.push(pinned.merge.value()),
                Kind::Put => base = Some(pinned.merge.value()),
                Kind::Delete | Kind::RangeDelete => {}
            }
            if entry.kind() != Kind::Merge {
                break;
            }
            pinned.merge.next()?;
        }
        self.finish_key(key, base, &operands)
    }

    /// Handles the next key backwards: its entries come oldest first.
    fn step_back(&mut self, pinned: &mut Pinned) -> Result<Step> {
        while let Some(entry) = pinned.merge.entry()
            && entry.seqno() > self.at
        {
            if !self.range.starts_before(entry.key) {
                return Ok(Step::End);
            }
            self.until_check = self.until_check.saturating_sub(1);
            pinned.merge.next()?;
        }
        let Some(entry) = pinned.merge.entry() else { return Ok(Step::End) };
        if !self.range.starts_before(entry.key) {
            return Ok(Step::End);
        }
        // Not `self.key`: after an error the scan goes on where it stood.
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
                        base = (kind == Kind::Put).then(|| pinned.merge.value());
                    }
                }
            }
            self.until_check = self.until_check.saturating_sub(1);
            pinned.merge.next()?;
        }
        if !is_alive {
            self.stand_on(key);
            return self.leave_range(pinned, covered);
        }
        operands.reverse();
        self.finish_key(key, base, &operands)
    }

    fn stand_on(&mut self, key: Vec<u8>) {
        self.spare = std::mem::replace(&mut self.key, key);
        self.has_key = true;
    }

    /// Settles the state of `key`; `operands` newest first.
    fn finish_key(
        &mut self,
        key: Vec<u8>,
        base: Option<Slice>,
        operands: &[Slice],
    ) -> Result<Step> {
        let fold = self.tree.options().fold.as_deref();
        let value = match operands {
            [] => base,
            _ => fold_operands(fold, &key, base.as_deref(), operands)?,
        };
        self.stand_on(key);
        self.covered_keys = 0;
        Ok(match value {
            Some(value) => {
                self.value = Value::Made(value);
                Step::Found
            }
            None => Step::Absent,
        })
    }

    /// The current key was deleted with its range: after some of them, jumps out of the range.
    fn leave_range(&mut self, pinned: &mut Pinned, covered: SeqNo) -> Result<Step> {
        self.covered_keys += 1;
        if self.covered_keys < COVERED_BEFORE_JUMP {
            return Ok(Step::Absent);
        }
        self.covered_keys = 0;
        let mut piece = None;
        for source in &pinned.ranges {
            piece = piece.or(source.piece(&self.key, covered)?);
        }
        if let Some(piece) = piece {
            let limit = match self.direction {
                Direction::Forward => Bound::Included(&*piece.end),
                Direction::Reverse => Bound::Excluded(&*piece.start),
            };
            pinned.merge.skip_older(limit, covered)?;
        }
        Ok(Step::Absent)
    }
}

/// What handling a key came to.
enum Step {
    Found,
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
