//! The deleted ranges that a flush or compaction writes: which ranges, and which part of them each
//! table gets.
//!
//! ```text
//! pieces     |-- open --|          written from the last table on, cut at its end
//!                |-next-|  |--|    begin after that end
//! tables  ...][ lower ... next )[
//! ```
//!
//! A table gets the parts of pieces within its bounds. Pieces refer to borders of ranges in a set
//! that the work has in any case. So the ranges to write take 24 bytes a piece besides that set,
//! and no key is copied before it is encoded.

use crate::merge::{AllRanges, Retention};
use crate::ranges::{Piece, RangeSet};
use flagstone_base::sorted::{SortedMap, sort_by};
use flagstone_base::{Result, SeqNo};
use flagstone_sst::{RangeDelete, TableBuilder};
use std::cmp::Reverse;

/// The deleted ranges that are left to write, in the order of keys.
pub(super) struct RangesToWrite {
    all: AllRanges,
    /// Ordered by start, then newest first.
    pieces: Vec<Piece>,
    /// The first piece that begins after everything written.
    next: usize,
    /// The pieces before `next` that reach beyond the end of the last table. There are few: at most
    /// one of each stripe, and those of unpublished commits.
    open: Vec<Piece>,
    /// The pieces from `next` up to this one begin before the last key passed to `bytes_before`;
    /// and their encoded length.
    counted: usize,
    counted_bytes: u64,
}

impl RangesToWrite {
    /// No deleted ranges.
    pub(super) fn none() -> Self {
        let (all, pieces, open) = (AllRanges::default(), Vec::new(), Vec::new());
        Self { all, pieces, next: 0, open, counted: 0, counted_bytes: 0 }
    }

    /// Keeps, of the ranges of each stripe, only the newest over a key. Drops those of the oldest
    /// stripe for which `is_useless` returns true: nothing may tell of them any more.
    pub(super) fn new(
        all: &AllRanges,
        retention: &mut Retention,
        is_useless: impl Fn(RangeDelete<'_>) -> bool,
    ) -> Self {
        let set = all.set();
        let mut stripes: SortedMap<SeqNo, Vec<u32>> = SortedMap::new();
        let mut pieces = Vec::new();
        for (number, range) in (0..).zip(set.iter()) {
            match retention.boundary(range.seqno) {
                Some(boundary) => stripes.get_or_insert_with(boundary, Vec::new).push(number),
                None => pieces.push(set.whole(number)),
            }
        }
        for (boundary, numbers) in stripes {
            let may_go = retention.is_oldest(boundary) && !retention.keeps_tombstones();
            let mut newest = set.newest_of(numbers);
            newest.retain(|piece| {
                let range = set.named(*piece);
                let goes = may_go && is_useless(range);
                if goes {
                    retention.set_untraced(range.seqno);
                }
                !goes
            });
            if pieces.is_empty() {
                pieces = newest;
            } else {
                pieces.append(&mut newest);
            }
        }
        let order = |piece: &Piece| {
            let range = set.named(*piece);
            (range.start, Reverse(range.seqno))
        };
        sort_by(&mut pieces, |a, b| order(a).cmp(&order(b)));
        let all = all.clone();
        Self { all, pieces, next: 0, open: Vec::new(), counted: 0, counted_bytes: 0 }
    }

    /// Returns the ranges from `lower` on, for tables that begin there.
    pub(super) fn beginning_at(mut self, lower: &[u8]) -> Self {
        let set = self.all.set();
        let begun = self.pieces.partition_point(|piece| set.named(*piece).start < lower);
        let reaches = |piece: &&Piece| set.named(**piece).end > lower;
        let mut open: Vec<Piece> = self.pieces[..begun].iter().filter(reaches).copied().collect();
        sort_newest_first(&mut open, set);
        self.open = open;
        (self.next, self.counted) = (begun, begun);
        self
    }

    /// Estimates the bytes of a table that the pieces take which begin before `key` and after the
    /// last table. Keys must ascend.
    #[inline]
    pub(super) fn bytes_before(&mut self, key: &[u8]) -> u64 {
        while self.counted < self.pieces.len() && self.counted_range().start < key {
            self.count_one();
        }
        self.counted_bytes
    }

    /// Returns where a table must end because the ranges that begin in it fill `bytes_max`: after
    /// its last key, and before its end `next`.
    pub(super) fn cut(
        &mut self,
        last_key: Option<&[u8]>,
        next: Option<&[u8]>,
        bytes_max: u64,
    ) -> Option<&[u8]> {
        while self.counted < self.pieces.len() {
            let start = self.counted_range().start;
            if next.is_some_and(|next| start >= next) {
                return None;
            }
            if self.counted_bytes >= bytes_max
                && last_key.is_none_or(|last| last < start)
                && self.start_before_counted().is_some_and(|before| before < start)
            {
                return Some(self.counted_range().start);
            }
            self.count_one();
        }
        None
    }

    /// Returns whether any piece has a part from `lower` up to `next`.
    pub(super) fn is_any(&self, lower: &[u8], next: Option<&[u8]>) -> bool {
        let set = self.all.set();
        let pending = self.open.iter().chain(self.pieces.get(self.next));
        pending.map(|piece| clipped(set.named(*piece), lower, next)).any(|part| part.is_some())
    }

    /// Writes the parts from `lower`, the end of the last table, up to `next`, the end of this one.
    pub(super) fn write(
        &mut self,
        lower: &[u8],
        next: Option<&[u8]>,
        builder: &mut TableBuilder,
    ) -> Result<()> {
        let set = self.all.set();
        let begins = |piece: &&Piece| next.is_none_or(|next| set.named(**piece).start < next);
        let begun = self.pieces[self.next..].iter().take_while(begins).count();
        let begun = &self.pieces[self.next..self.next + begun];
        for piece in self.open.iter().chain(begun) {
            if let Some(part) = clipped(set.named(*piece), lower, next) {
                builder.add_range_delete(part.start, part.end, part.seqno)?;
            }
        }
        let is_open = |piece: &Piece| next.is_some_and(|next| set.named(*piece).end > next);
        self.open.retain(is_open);
        self.open.extend(begun.iter().filter(|piece| is_open(piece)));
        sort_newest_first(&mut self.open, set);
        self.next += begun.len();
        (self.counted, self.counted_bytes) = (self.next, 0);
        Ok(())
    }

    fn counted_range(&self) -> RangeDelete<'_> {
        self.all.set().named(self.pieces[self.counted])
    }

    /// The start of the last piece that is counted.
    fn start_before_counted(&self) -> Option<&[u8]> {
        let counted = self.pieces[self.next..self.counted].last()?;
        Some(self.all.set().named(*counted).start)
    }

    fn count_one(&mut self) {
        let range = self.counted_range();
        self.counted_bytes += (range.start.len() + range.end.len() + 12) as u64;
        self.counted += 1;
    }
}

fn sort_newest_first(pieces: &mut [Piece], set: &RangeSet) {
    sort_by(pieces, |a, b| set.named(*b).seqno.cmp(&set.named(*a).seqno));
}

/// Returns the part of `range` from `lower` up to `next`.
fn clipped<'a>(
    range: RangeDelete<'a>,
    lower: &'a [u8],
    next: Option<&'a [u8]>,
) -> Option<RangeDelete<'a>> {
    let start = range.start.max(lower);
    let end = next.map_or(range.end, |next| next.min(range.end));
    (start < end).then_some(RangeDelete { start, end, seqno: range.seqno })
}
