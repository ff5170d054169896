//! How a scan passes dead keys in a row: it skips dead ranges, and records them.

use super::held::{ScanCursors, ScanResources};
use super::walk::{ScanOptions, ScanWalk};
use crate::dead_ranges::{DeadRangeWatch, Finding, Skip};
use crate::options::Direction;
use flagstone_base::key::successor;
use flagstone_base::{KeyRange, Result, SeqNo};
use std::ops::Bound;
use std::sync::Arc;

/// After this many dead keys in a row a scan looks for a dead range, and after that many it watches
/// the tree in order to record one. Under assertions few, so that small histories meet them.
const DEAD_BEFORE_LOOK: u32 = if cfg!(debug_assertions) { 2 } else { 8 };
const DEAD_BEFORE_WATCH: u32 = if cfg!(debug_assertions) { 4 } else { 64 };
/// A dead range that is skipped counts as this many keys, so that a chain of them becomes one.
const DEAD_OF_RANGE: u32 = 8;

/// Dead keys in a row.
pub(super) struct DeadRun {
    /// How many there were.
    pub(super) keys: u32,
    /// The dead keys of earlier runs that are not counted in the tree yet.
    passed: u64,
    /// After this many a dead range is looked for.
    pub(super) next_look: u32,
    /// After this many a watch is opened, if none is.
    next_watch: u32,
    /// The scan has not found a live key yet.
    is_first: bool,
    /// The key at which the run begins: the bound of the scan, the end of a dead range that the
    /// scan has skipped, or the key at the first look. A backward scan stores the key after that
    /// one. `None` before the first look, and for a backward scan without a bound.
    from: Option<Vec<u8>>,
    watch: Option<DeadRangeWatch>,
    /// The run is recorded when it ends, by a second walk, since others write.
    is_late: bool,
    /// Dead ranges are neither skipped nor recorded.
    is_off: bool,
}

impl DeadRun {
    pub(super) const FIRST: Self = Self {
        keys: 0,
        passed: 0,
        next_look: DEAD_BEFORE_LOOK,
        next_watch: DEAD_BEFORE_WATCH,
        is_first: true,
        from: None,
        watch: None,
        is_late: false,
        is_off: false,
    };
}

impl ScanWalk {
    /// Returns whether several trees, or others than the first one, hold the keys of the scan.
    pub(super) const fn is_divided(&self) -> bool {
        !self.is_in_one_tree() || self.dead.is_off
    }

    const fn is_in_one_tree(&self) -> bool {
        self.others.is_empty() && self.moved.is_none()
    }

    /// Where the scan begins: the first key or, backwards, the key behind the last one, if it has a
    /// bound.
    pub(super) fn first_place(&self) -> Option<Vec<u8>> {
        match (self.direction, &self.range) {
            (Direction::Forward, KeyRange { start, .. }) => Some(match start {
                Bound::Included(start) => start.clone(),
                Bound::Excluded(start) => successor(start),
                Bound::Unbounded => Vec::new(),
            }),
            (Direction::Reverse, KeyRange { end, .. }) => match end {
                Bound::Included(end) => Some(successor(end)),
                Bound::Excluded(end) => Some(end.clone()),
                Bound::Unbounded => None,
            },
        }
    }

    /// Moves the cursors behind the dead ranges that the next key, from `from` on, lies in. Returns
    /// whether there are any.
    pub(super) fn skip_dead_ranges(
        &mut self,
        pinned: &mut ScanCursors,
        from: Option<Vec<u8>>,
    ) -> Result<bool> {
        let (moment, direction) = (self.options.moment, self.direction);
        let mut keys = 0;
        let skip =
            self.tree.dead_ranges.skip(from.as_deref(), direction, self.at, moment, &mut keys);
        #[cfg(debug_assertions)]
        self.assert_dead(from.as_deref(), &skip, keys);
        let to = match skip {
            Skip::Not => return Ok(false),
            Skip::To(key) => Some(key).filter(|key| match direction {
                Direction::Forward => self.range.ends_behind(key),
                Direction::Reverse => self.range.starts_below(key),
            }),
            Skip::All => None,
        };
        pinned.is_handled = false;
        let Some(to) = to else {
            pinned.merge.finish();
            return Ok(true);
        };
        pinned.merge.seek(match direction {
            Direction::Forward => Bound::Included(&to[..]),
            Direction::Reverse => Bound::Excluded(&to[..]),
        })?;
        if self.dead.keys == 0 {
            // The rest is recorded next to the dead ranges.
            self.dead.from = Some(to);
        }
        self.dead.keys = self.dead.keys.saturating_add(DEAD_OF_RANGE);
        self.dead.next_look = self.dead.keys.saturating_add(1);
        Ok(true)
    }

    /// Records that a live key was found.
    #[inline]
    pub(super) fn end_run(&mut self) {
        if self.dead.keys == 0 && !self.dead.is_first {
            return;
        }
        if self.dead.from.is_some() || self.dead.watch.is_some() || self.dead.is_late {
            self.restart_run();
            return;
        }
        self.dead.passed += u64::from(self.dead.keys);
        (self.dead.keys, self.dead.is_first) = (0, false);
        (self.dead.next_look, self.dead.next_watch) = (DEAD_BEFORE_LOOK, DEAD_BEFORE_WATCH);
    }

    #[cold]
    fn restart_run(&mut self) {
        if self.dead.watch.is_some() || self.dead.is_late {
            let key = std::mem::take(&mut self.key);
            self.record_dead_range(Some(&key));
            self.key = key;
        }
        self.count_dead();
        let is_off = self.dead.is_off;
        self.dead = DeadRun { is_first: false, is_off, ..DeadRun::FIRST };
    }

    /// Counts the dead keys so far in the statistics of the tree.
    pub(super) fn count_dead(&mut self) {
        let passed = std::mem::take(&mut self.dead.passed) + u64::from(self.dead.keys);
        if passed > 0 && !self.dead.is_off {
            self.tree.counters.pass(passed);
        }
    }

    /// Ends the watch, if one is open, without a dead range.
    pub(super) fn end_watch(&mut self) {
        self.dead.watch = None;
    }

    /// Records what the run has passed up to the live key `until` or the end: what the watch, if
    /// one is open, has found.
    pub(super) fn record_dead_range(&mut self, until: Option<&[u8]>) {
        let is_late = std::mem::take(&mut self.dead.is_late);
        let watch = self.dead.watch.take();
        if self.is_divided() {
            return;
        }
        let until = until.map_or_else(|| self.last_bound(), Bound::Excluded);
        match watch {
            Some(watch) => {
                let (at, moment) = (self.at, self.options.moment);
                watch.close(&Finding { until, at, moment, keys: u64::from(self.dead.keys) });
            }
            None if is_late => self.record_again(until),
            None => {}
        }
    }

    /// The bound at which the scan ends.
    fn last_bound(&self) -> Bound<&[u8]> {
        let bound = match self.direction {
            Direction::Forward => &self.range.end,
            Direction::Reverse => &self.range.start,
        };
        bound.as_ref().map(Vec::as_slice)
    }

    /// Walks over the run again, up to `until`, as of the newest entry of the tree, and records
    /// what is dead then. For a scan beside writers whose SeqNo is older: what it has found says
    /// nothing about newer entries, and readers to come are interested in those.
    #[cold]
    fn record_again(&self, until: Bound<&[u8]>) {
        let (dead_ranges, direction) = (&self.tree.dead_ranges, self.direction);
        // What other scans have recorded, though it holds for later readers only.
        let (from, moment) = (self.dead.from.as_deref(), self.options.moment);
        let from = match dead_ranges.skip(from, direction, SeqNo::MAX, moment, &mut 0) {
            Skip::Not => self.dead.from.clone(),
            Skip::To(key) => Some(key),
            Skip::All => return,
        };
        let from = from.as_deref();
        let range = match direction {
            Direction::Forward => {
                KeyRange::of(from.map_or(Bound::Unbounded, Bound::Included), until)
            }
            Direction::Reverse => {
                KeyRange::of(until, from.map_or(Bound::Unbounded, Bound::Excluded))
            }
        };
        if range.is_empty() {
            return;
        }
        let Some(watch) = dead_ranges.watch(from, direction) else { return };
        // In this order: what is inserted from now on is noted, what was inserted before is seen.
        let view = self.tree.view();
        let newest = view.active.last_settled();
        if view.is_retired() || !view.sealed.iter().all(|table| table.is_complete()) {
            return;
        }
        let newest = view.memtables().map(|table| table.last()).fold(newest, SeqNo::max);
        let at = newest.max(view.version.flushed_through());
        let options = ScanOptions { scans: 1, ..self.options };
        let mut walk = Self::new(Arc::clone(&self.tree), range, at, direction, options);
        walk.dead.is_off = true;
        let found = walk.advance(&mut ScanResources::new(&self.tree.context().cache));
        let keys = walk.dead.passed + u64::from(walk.dead.keys);
        let (true, Ok(is_found)) = (walk.is_in_one_tree() && keys > 0, found) else { return };
        let until = if is_found { Bound::Excluded(walk.key()) } else { until };
        watch.close(&Finding { until, at, moment: self.options.moment, keys });
    }

    /// Skips the dead range that the next key lies in, or watches the tree in order to record one.
    #[cold]
    pub(super) fn pass_dead(&mut self, pinned: &mut ScanCursors) -> Result<()> {
        self.dead.next_look = self.dead.keys.saturating_mul(2);
        if self.is_divided() {
            self.dead.watch = None;
            return Ok(());
        }
        if self.dead.from.is_none() {
            self.dead.from = match (self.dead.is_first, self.direction) {
                (true, _) => self.first_place(),
                (false, Direction::Forward) => Some(self.key.clone()),
                (false, Direction::Reverse) => Some(successor(&self.key)),
            };
        }
        if self.tree.dead_ranges.is_used() {
            let next = match self.direction {
                Direction::Forward => successor(&self.key),
                Direction::Reverse => self.key.clone(),
            };
            self.skip_dead_ranges(pinned, Some(next))?;
        }
        if self.dead.keys >= self.dead.next_watch && self.dead.watch.is_none() {
            self.dead.next_watch = self.dead.keys.saturating_add(DEAD_BEFORE_WATCH);
            if self.is_newest(pinned) {
                self.dead.watch = self.watch(pinned);
            } else {
                // Nor will it be again, for this scan.
                self.dead.next_watch = u32::MAX;
            }
            // Whoever takes the first entry of a queue does so again. Others pass many runs, and
            // would walk over each of them twice.
            self.dead.is_late = self.dead.is_first;
        }
        if self.dead.watch.is_none() {
            self.dead.next_look = self.dead.next_look.min(self.dead.next_watch);
        }
        Ok(())
    }

    /// Returns whether the tree has no entry that is newer than the scan, as far as can be told
    /// without a lock.
    fn is_newest(&self, pinned: &ScanCursors) -> bool {
        let view = &pinned.view;
        view.memtables().all(|table| table.last() <= self.at)
            && view.version.flushed_through() <= self.at
    }

    /// Opens a watch from the beginning of the dead keys. Returns `None` if there is, or may come,
    /// an entry that no writer will note and that the scan does not see.
    fn watch(&self, pinned: &ScanCursors) -> Option<DeadRangeWatch> {
        let (view, at) = (&pinned.view, self.at);
        let watch = self.tree.dead_ranges.watch(self.dead.from.as_deref(), self.direction)?;
        // In this order: what is published or inserted after these calls finds the watch.
        let is_quiet = self.tree.is_current(view)
            && view.active.last_settled() <= at
            && view.sealed.iter().all(|table| table.is_complete())
            // The entries of the sealed memtables and the tables: no table has one that is newer
            // than what was flushed.
            && self.is_newest(pinned);
        is_quiet.then_some(watch)
    }

    /// Reads small dead ranges, and finds nothing.
    #[cfg(debug_assertions)]
    fn assert_dead(&self, from: Option<&[u8]>, skip: &Skip, keys: u64) {
        const KEYS_MAX: u64 = 64;
        if keys > KEYS_MAX || *skip == Skip::Not {
            return;
        }
        let to = match skip {
            Skip::To(key) => Bound::Excluded(key.as_slice()),
            _ => Bound::Unbounded,
        };
        let range = match (self.direction, skip) {
            (Direction::Forward, _) => {
                KeyRange::of(from.map_or(Bound::Unbounded, Bound::Included), to)
            }
            (Direction::Reverse, Skip::To(start)) => {
                let end = from.map_or(Bound::Unbounded, Bound::Excluded);
                KeyRange::of(Bound::Included(start), end)
            }
            (Direction::Reverse, _) => {
                KeyRange::of(Bound::Unbounded, from.map_or(Bound::Unbounded, Bound::Excluded))
            }
        };
        let mut walk =
            Self::new(Arc::clone(&self.tree), range, self.at, Direction::Forward, self.options);
        walk.dead.is_off = true;
        let mut held = ScanResources::new(&self.tree.context().cache);
        // An error is one of the disk.
        if let Ok(true) = walk.advance(&mut held) {
            debug_assert!(walk.moved.is_some(), "a dead range has a live key: {:?}", walk.key);
        }
    }
}
