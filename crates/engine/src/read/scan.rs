//! A scan over the partitions of a keyspace: a merge of all with hash routing, one after another
//! with range routing.

use super::merge::Merge;
use super::pin::Pin;
use crate::history::ReadPoint;
use crate::partition::Route;
use crate::space::KeyspaceCore;
use flagstone_base::{KeyRange, Result, Slice};
use flagstone_tree::{Direction, ScanOptions, TreeScan};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// An iterator over entries as of one moment. After an error it ends.
///
/// While it is read it moves on from memtables that were flushed and tables that were compacted under
/// it. While it waits, what it holds is taken from it when it is out of date, or when others need the room; then it looks for its
/// place again. So many scans may wait for as long as they like: each keeps the place, and the entry it stands on.
pub struct Scan {
    core: Arc<KeyspaceCore>,
    pin: Pin,
    range: KeyRange,
    direction: Direction,
    unordered: bool,
    state: State,
}

enum State {
    Unstarted,
    Merged(Merge),
    /// The trees still to come behind the one being read.
    Chained(Option<Box<TreeScan>>, VecDeque<usize>),
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
            state: State::Unstarted,
        }
    }

    /// The same entries, from the last to the first. Call it before the first entry is taken.
    #[must_use]
    pub fn rev(mut self) -> Self {
        self.direction = match self.direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        };
        self.state = State::Unstarted;
        self
    }

    pub(crate) const fn unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// Goes to the next entry; false at the end. With [`Scan::key`] and [`Scan::value`] it reads
    /// without copying keys.
    ///
    /// # Errors
    /// Io, Corruption; InvalidInput when the keyspace was dropped meanwhile. The scan has ended then.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        if matches!(self.state, State::Ended) {
            return Ok(false);
        }
        let advanced = self.try_advance();
        // Behind what was read: it is dropped before its trees are emptied.
        let readable = self.core.check_readable();
        // Results are not passed on whole: they are written in pieces, and a load of all of them waits for these.
        if let (Ok(true), Ok(())) = (&advanced, &readable) {
            return Ok(true);
        }
        self.end(readable.and(advanced))
    }

    /// Nothing is left, or reading failed.
    #[cold]
    fn end(&mut self, ended: Result<bool>) -> Result<bool> {
        self.state = State::Ended;
        ended.map_err(|error| self.pin.parts().reads.told(error))
    }

    /// The key of the entry it stands on.
    pub fn key(&self) -> &[u8] {
        match &self.state {
            State::Merged(merge) => merge.key(),
            State::Chained(Some(scan), _) => scan.key(),
            _ => &[],
        }
    }

    /// The value of the entry it stands on, in place: cheaper than [`Scan::value`] where it is only
    /// looked at.
    pub fn value_bytes(&self) -> &[u8] {
        match &self.state {
            State::Merged(merge) => merge.value_bytes(),
            State::Chained(Some(scan), _) => scan.value_bytes(),
            _ => &[],
        }
    }

    /// The value of the entry it stands on. It shares the memory of a cached block: copy what you
    /// keep for long.
    pub fn value(&self) -> Slice {
        match &self.state {
            State::Merged(merge) => merge.value(),
            State::Chained(Some(scan), _) => scan.value(),
            _ => Slice::default(),
        }
    }

    /// Lets go of memtables and tables, but keeps the place, the entry it stands on, and what it sees, before others need
    /// the room: for a scan that waits for somebody slow. Costs finding the place again later.
    pub fn park(&mut self) {
        match &mut self.state {
            State::Merged(merge) => merge.park(),
            State::Chained(Some(scan), _) => scan.park(),
            State::Chained(None, _) | State::Unstarted | State::Ended => {}
        }
    }

    fn try_advance(&mut self) -> Result<bool> {
        if matches!(self.state, State::Unstarted) {
            self.state = self.start();
        }
        match &mut self.state {
            State::Unstarted | State::Ended => Ok(false),
            State::Merged(merge) => merge.advance(),
            State::Chained(..) => self.advance_chain(),
        }
    }

    fn advance_chain(&mut self) -> Result<bool> {
        loop {
            let State::Chained(current, rest) = &mut self.state else { return Ok(false) };
            if let Some(scan) = current
                && scan.advance()?
            {
                return Ok(true);
            }
            let Some(next) = rest.pop_front() else { return Ok(false) };
            let scan = self.scan_of(next, 1);
            if let State::Chained(current, _) = &mut self.state {
                *current = Some(Box::new(scan));
            }
        }
    }

    fn start(&self) -> State {
        if self.range.is_empty() {
            return State::Ended;
        }
        let ordered = self.core.route.is_ordered();
        if !ordered && !self.unordered {
            let count = self.core.trees.len();
            let scans = (0..count).map(|at| self.scan_of(at, count)).collect();
            return State::Merged(Merge::new(scans, self.direction));
        }
        let mut trees: VecDeque<usize> = self.partitions_of_range().collect();
        if matches!(self.direction, Direction::Reverse) {
            trees.make_contiguous().reverse();
        }
        State::Chained(None, trees)
    }

    fn partitions_of_range(&self) -> std::ops::RangeInclusive<usize> {
        let last = self.core.trees.len() - 1;
        if !matches!(self.core.route, Route::Range { .. }) {
            return 0..=last;
        }
        let partition = |bound: &Bound<Vec<u8>>, unbounded| match bound {
            Bound::Included(key) | Bound::Excluded(key) => self.core.route.partition(key, 0),
            Bound::Unbounded => unbounded,
        };
        partition(&self.range.start, 0)..=partition(&self.range.end, last)
    }

    /// The scan of a tree, one of so many that go on at once.
    fn scan_of(&self, tree: usize, scans: usize) -> TreeScan {
        let (range, ReadPoint { seqno, moment }) = (self.range.clone(), self.pin.point());
        let options = ScanOptions { scans, moment, ..ScanOptions::default() };
        self.core.trees[tree].scan(range, seqno, self.direction, options)
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
