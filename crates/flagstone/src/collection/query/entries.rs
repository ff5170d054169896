//! The entries of an index that a plan reads: range by range, or merged.

use super::access::IndexAccess;
use super::ask::Need;
use super::merge::{RangeMerge, Rest};
use super::source::QuerySource;
use crate::collection::index::{IndexScan, Order};
use crate::index::EntryParts;
use flagstone_base::Result;
use flagstone_base::bytes::assign;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// The entries of an access.
pub(super) enum AccessEntries<'t> {
    Ranges(RangeEntries<'t>),
    Merged(MergedEntries<'t>),
}

impl<'t> AccessEntries<'t> {
    /// The entries of the ranges, in their order or in reverse.
    pub(super) fn in_ranges(
        access: &Arc<IndexAccess>,
        source: &QuerySource<'t>,
        order: Order,
    ) -> Self {
        Self::Ranges(RangeEntries::new(access, source, order, 0..access.ranges.len()))
    }

    /// The entries in the order that is needed, if they have it: merged, if they have it only then.
    pub(super) fn in_order(
        access: &Arc<IndexAccess>,
        source: &QuerySource<'t>,
        need: Need,
    ) -> Self {
        let order = access.direction(need);
        match &access.merge {
            Some(merge) => Self::Merged(MergedEntries::new(access, source, order, merge)),
            None => Self::in_ranges(access, source, order),
        }
    }

    /// Moves to the next entry. Returns false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Ranges(entries) => entries.advance(),
            Self::Merged(entries) => entries.advance(),
        }
    }

    /// Moves to entries that follow and are quick to reach, as
    /// [`Scan::visit_near`](flagstone_engine::Scan::visit_near).
    #[inline]
    pub(super) fn visit_near(
        &mut self,
        most: usize,
        visit: impl FnMut(&EntryParts<'_>) -> bool,
    ) -> usize {
        match self {
            Self::Ranges(entries) => entries.visit_near(most, visit),
            Self::Merged(_) => 0,
        }
    }

    /// The stored key of the document.
    pub(super) fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |entry| entry.primary_key())
    }

    /// The current entry.
    #[inline]
    pub(super) fn entry(&self) -> Option<&IndexScan<'t>> {
        match self {
            Self::Ranges(entries) => entries.entry(),
            Self::Merged(entries) => entries.entry(),
        }
    }

    /// Releases memory while nobody reads, as [`Scan::park`](flagstone_engine::Scan::park).
    pub(super) fn park(&mut self) {
        let streams = match self {
            Self::Ranges(entries) => std::slice::from_mut(entries),
            Self::Merged(entries) => entries.streams.as_mut_slice(),
        };
        let scans = streams.iter_mut().filter_map(|entries| entries.scan.as_mut());
        scans.for_each(|scan| scan.park());
    }

    /// The number of entries read so far.
    pub(super) fn read(&self) -> u64 {
        match self {
            Self::Ranges(entries) => entries.read(),
            Self::Merged(entries) => entries.streams.iter().map(RangeEntries::read).sum(),
        }
    }
}

/// The entries of the ranges of an index, in their order or in reverse.
pub(super) struct RangeEntries<'t> {
    access: Arc<IndexAccess>,
    source: QuerySource<'t>,
    order: Order,
    /// The ranges that are still to be read.
    left: Range<usize>,
    scan: Option<Box<IndexScan<'t>>>,
    /// A transaction has noted what it rests on.
    is_noted: bool,
    read: u64,
}

impl<'t> RangeEntries<'t> {
    /// Those of a part of the ranges.
    fn new(
        access: &Arc<IndexAccess>,
        source: &QuerySource<'t>,
        order: Order,
        left: Range<usize>,
    ) -> Self {
        let (access, source) = (Arc::clone(access), source.clone());
        Self { access, source, order, left, scan: None, is_noted: false, read: 0 }
    }

    /// Moves to the next entry. Returns false at the end.
    fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(scan) = &mut self.scan {
                let has_next = scan.advance()?;
                if !self.is_noted {
                    self.note_use();
                }
                if has_next {
                    self.read += 1;
                    return Ok(true);
                }
            }
            let next = match self.order {
                Order::Forward => self.left.next(),
                Order::Reverse => self.left.next_back(),
            };
            let Some(next) = next else {
                self.scan = None;
                self.note_use();
                return Ok(false);
            };
            let reader = IndexAccess::reader(&self.source);
            let range = &self.access.ranges[next];
            let scan = self.access.index.scan(reader, range, self.order)?;
            self.scan = Some(Box::new(scan));
        }
    }

    /// Notes what was used, once something was: if the index is gone before that, another plan is
    /// made.
    #[cold]
    fn note_use(&mut self) {
        if !std::mem::replace(&mut self.is_noted, true) {
            self.access.note_use(&self.source);
        }
    }

    /// Moves to entries that follow and are quick to reach, as
    /// [`Scan::visit_near`](flagstone_engine::Scan::visit_near).
    #[inline]
    fn visit_near(&mut self, most: usize, visit: impl FnMut(&EntryParts<'_>) -> bool) -> usize {
        let visited = self.scan.as_mut().map_or(0, |scan| scan.visit_near(most, visit));
        self.read += visited as u64;
        visited
    }

    /// The current entry.
    #[inline]
    fn entry(&self) -> Option<&IndexScan<'t>> {
        self.scan.as_deref()
    }

    const fn read(&self) -> u64 {
        self.read
    }
}

/// The entries of several streams, merged: each document once.
pub(super) struct MergedEntries<'t> {
    merge: RangeMerge,
    order: Order,
    streams: Vec<RangeEntries<'t>>,
    /// The streams that are at an entry, the one whose entry is last first.
    waiting: Vec<usize>,
    is_open: bool,
    /// The last entry that was returned, if a document may have several.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

impl<'t> MergedEntries<'t> {
    fn new(
        access: &Arc<IndexAccess>,
        source: &QuerySource<'t>,
        order: Order,
        merge: &RangeMerge,
    ) -> Self {
        let stream = |(_, ranges): &(usize, Range<usize>)| {
            RangeEntries::new(access, source, order, ranges.clone())
        };
        let streams = merge.streams.iter().map(stream).collect();
        let (waiting, last) = (Vec::new(), access.may_repeat.then(Default::default));
        Self { merge: merge.clone(), order, streams, waiting, is_open: false, last }
    }

    fn advance(&mut self) -> Result<bool> {
        if !std::mem::replace(&mut self.is_open, true) {
            for stream in 0..self.streams.len() {
                self.advance_one(stream)?;
            }
        } else if let Some(current) = self.waiting.pop() {
            self.advance_one(current)?;
        }
        while let Some(next) = self.waiting.last().copied() {
            if !self.is_passed(next) {
                let Self { streams, last, merge, .. } = self;
                if let (Some(last), Some(at)) = (last, rest(streams, merge, next)) {
                    assign(&mut last.0, at.0);
                    assign(&mut last.1, at.1);
                }
                return Ok(true);
            }
            self.waiting.pop();
            self.advance_one(next)?;
        }
        Ok(false)
    }

    /// Moves a stream to its next entry, and puts it where that belongs.
    fn advance_one(&mut self, stream: usize) -> Result<()> {
        if !self.streams[stream].advance()? {
            return Ok(());
        }
        let Self { streams, waiting, merge, order, .. } = self;
        let Some(at) = rest(streams, merge, stream) else { return Ok(()) };
        let is_behind = |other: &usize| {
            rest(streams, merge, *other)
                .is_some_and(|other| merge.compare(other, at, *order) == Ordering::Greater)
        };
        let place = waiting.partition_point(is_behind);
        waiting.insert(place, stream);
        Ok(())
    }

    /// Returns whether the entry of a stream is at or before the position after which entries
    /// count, or repeats the last one.
    fn is_passed(&self, stream: usize) -> bool {
        let Some(at) = rest(&self.streams, &self.merge, stream) else { return true };
        let is_before = |position: &(Vec<u8>, Vec<u8>)| {
            self.merge.compare(at, (&position.0, &position.1), self.order) != Ordering::Greater
        };
        self.merge.after.as_ref().is_some_and(is_before)
            || self.last.as_ref().is_some_and(|last| at == (&*last.0, &*last.1))
    }

    fn entry(&self) -> Option<&IndexScan<'t>> {
        self.streams[*self.waiting.last()?].entry()
    }
}

/// The entry of a stream, without what it has in common with the others of the stream.
fn rest<'e>(
    streams: &'e [RangeEntries<'_>],
    merge: &RangeMerge,
    stream: usize,
) -> Option<Rest<'e>> {
    let entry = streams.get(stream)?.entry()?;
    let (prefix, _) = merge.streams.get(stream)?;
    Some((entry.components().get(*prefix..)?, entry.primary_key()))
}
