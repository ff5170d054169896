//! A scan over the partitions of a keyspace: a merge of all with hash routing, one after another
//! with range routing.

use super::merge::Merge;
use super::pin::Pin;
use crate::history::ReadPoint;
use crate::keyspace_core::KeyspaceCore;
use crate::partition::{Layout, Route};
use flagstone_base::{KeyRange, Moment, Result, Slice};
use flagstone_tree::{Direction, ScanOptions, Tree, TreeScan};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// An iterator over entries as of one moment. It ends after an error.
///
/// A scan does not keep flushed memtables or compacted tables while it is read. While it waits,
/// they are taken from it when they are out of date, or when others need the memory, and the next
/// read finds its position again. So any number of scans may wait for as long as they like: each
/// keeps its position and its current entry.
pub struct Scan {
    core: Arc<KeyspaceCore>,
    pin: Pin,
    /// Moved to the scan of the last tree once that begins.
    range: KeyRange,
    direction: Direction,
    unordered: bool,
    fills_cache: bool,
    with_expired: bool,
    state: ScanState,
}

enum ScanState {
    Unstarted,
    Merged(Merge),
    /// The scan of the current tree, and the trees after it.
    Chained(Option<Box<TreeScan>>, VecDeque<Arc<Tree>>),
    Ended,
}

impl Scan {
    pub(crate) fn new(core: &Arc<KeyspaceCore>, range: KeyRange, pin: Pin) -> Self {
        Self {
            core: Arc::clone(core),
            pin,
            range,
            direction: Direction::Forward,
            unordered: false,
            fills_cache: true,
            with_expired: false,
            state: ScanState::Unstarted,
        }
    }

    /// Reverses the scan, to return entries from the last to the first. Must be called before the
    /// first entry is taken.
    #[must_use]
    pub fn rev(mut self) -> Self {
        self.reverse();
        self
    }

    pub(crate) fn reverse(&mut self) {
        self.direction = match self.direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        };
        self.state = ScanState::Unstarted;
    }

    /// Returns the entries of one partition after another, which costs less than their order where
    /// keys are spread by their hash. Must be called before the first entry is taken.
    #[must_use]
    pub const fn unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// Reads blocks that are not cached without inserting them into the cache, for a scan of more
    /// than the cache holds. Must be called before the first entry is taken.
    #[must_use]
    pub const fn without_filling_cache(mut self) -> Self {
        self.fills_cache = false;
        self
    }

    /// Returns entries that have expired, too, unless they were removed from tables. Must be called
    /// before the first entry is taken.
    #[must_use]
    pub const fn with_expired(mut self) -> Self {
        self.with_expired = true;
        self
    }

    /// Moves to the next entry. Returns false at the end. With [`Scan::key`] and [`Scan::value`] it
    /// reads without copying keys.
    ///
    /// # Errors
    /// Io, Corruption; InvalidInput if the keyspace was dropped meanwhile. The scan has ended then.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        if matches!(self.state, ScanState::Ended) {
            return Ok(false);
        }
        let advanced = self.try_advance();
        // Checked after reading: a keyspace is dropped before its trees are emptied.
        let readable = self.core.check_readable();
        // The results are not returned directly: they are stored in pieces, and a load of a whole
        // one would wait for these stores.
        if let (Ok(true), Ok(())) = (&advanced, &readable) {
            return Ok(true);
        }
        self.end(readable.and(advanced))
    }

    /// Moves to entries that follow the current one and are quick to reach, at most `most`, and
    /// calls `visit` with key and value of each, as long as it returns true: false leaves the entry
    /// as the next one. Returns how many were visited: the last of them is the current entry then.
    ///
    /// Call it after each [`Scan::advance`]: together they read long ranges faster than `advance`
    /// alone. 0 does not mean the end of the scan. `visit` must not wait for other threads.
    #[inline]
    pub fn visit_near(&mut self, most: usize, visit: impl FnMut(&[u8], &[u8]) -> bool) -> usize {
        match &mut self.state {
            ScanState::Chained(Some(scan), _) if self.core.check_readable().is_ok() => {
                scan.visit_near(most, visit)
            }
            _ => 0,
        }
    }

    /// Ends the scan, because nothing is left or reading failed.
    #[cold]
    fn end(&mut self, ended: Result<bool>) -> Result<bool> {
        self.state = ScanState::Ended;
        ended.map_err(|error| self.pin.parts().reads.reported(error))
    }

    /// The key of the current entry.
    pub fn key(&self) -> &[u8] {
        match &self.state {
            ScanState::Merged(merge) => merge.key(),
            ScanState::Chained(Some(scan), _) => scan.key(),
            _ => &[],
        }
    }

    /// The value of the current entry, in place: cheaper than [`Scan::value`] if it need not be
    /// kept.
    pub fn value_bytes(&self) -> &[u8] {
        match &self.state {
            ScanState::Merged(merge) => merge.value_bytes(),
            ScanState::Chained(Some(scan), _) => scan.value_bytes(),
            _ => &[],
        }
    }

    /// The value of the current entry. It shares the memory of a cached block: copy a value that
    /// you keep for long.
    pub fn value(&self) -> Slice {
        match &self.state {
            ScanState::Merged(merge) => merge.value(),
            ScanState::Chained(Some(scan), _) => scan.value(),
            _ => Slice::default(),
        }
    }

    /// Releases memtables and tables before others need the memory, for a scan that waits for a
    /// slow consumer. The scan keeps its position, its current entry, and what it sees. The next
    /// read costs finding the position again.
    pub fn park(&mut self) {
        match &mut self.state {
            ScanState::Merged(merge) => merge.park(),
            ScanState::Chained(Some(scan), _) => scan.park(),
            ScanState::Chained(None, _) | ScanState::Unstarted | ScanState::Ended => {}
        }
    }

    fn try_advance(&mut self) -> Result<bool> {
        if matches!(self.state, ScanState::Unstarted) {
            self.state = self.start();
        }
        match &mut self.state {
            ScanState::Unstarted | ScanState::Ended => Ok(false),
            ScanState::Merged(merge) => merge.advance(),
            ScanState::Chained(..) => self.advance_chain(),
        }
    }

    fn advance_chain(&mut self) -> Result<bool> {
        loop {
            let ScanState::Chained(current, rest) = &mut self.state else { return Ok(false) };
            if let Some(scan) = current
                && scan.advance()?
            {
                return Ok(true);
            }
            let Some(next) = rest.pop_front() else { return Ok(false) };
            let range = if rest.is_empty() {
                std::mem::replace(&mut self.range, KeyRange::ALL)
            } else {
                self.range.clone()
            };
            let scan = self.scan_of(&next, range, 1);
            if let ScanState::Chained(current, _) = &mut self.state {
                *current = Some(Box::new(scan));
            }
        }
    }

    fn start(&self) -> ScanState {
        if self.range.is_empty() {
            return ScanState::Ended;
        }
        let layout = self.core.layout();
        if !layout.route.is_ordered() && !self.unordered {
            let count = layout.trees.len();
            let scans = layout.trees.iter();
            let scans = scans.map(|tree| self.scan_of(tree, self.range.clone(), count)).collect();
            return ScanState::Merged(Merge::new(scans, self.direction));
        }
        let trees = &layout.trees[self.partitions_of_range(layout)];
        let mut trees: VecDeque<Arc<Tree>> = trees.iter().cloned().collect();
        if matches!(self.direction, Direction::Reverse) {
            trees.make_contiguous().reverse();
        }
        ScanState::Chained(None, trees)
    }

    fn partitions_of_range(&self, layout: &Layout) -> std::ops::RangeInclusive<usize> {
        let last = layout.trees.len() - 1;
        if !matches!(layout.route, Route::Range { .. }) {
            return 0..=last;
        }
        let partition = |bound: &Bound<Vec<u8>>, unbounded| match bound {
            Bound::Included(key) | Bound::Excluded(key) => layout.route.partition(key, 0),
            Bound::Unbounded => unbounded,
        };
        partition(&self.range.start, 0)..=partition(&self.range.end, last)
    }

    /// Starts the scan of one tree, one of `scans` that run at once.
    fn scan_of(&self, tree: &Arc<Tree>, range: KeyRange, scans: usize) -> TreeScan {
        let ReadPoint { seqno, moment } = self.pin.point();
        let moment = if self.with_expired { Moment::ZERO } else { moment };
        let options = ScanOptions { fill_cache: self.fills_cache, scans, moment };
        tree.scan(range, seqno, self.direction, options)
    }
}

impl Iterator for Scan {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(true) => Some(Ok((Slice::copy_of(self.key()), self.value()))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::iter::FusedIterator for Scan {}
