//! Deleted ranges: finds the newest one that covers a key.
//!
//! Many ranges often begin at the same key (a queue that is trimmed again and again), so pieces
//! that each list all their SeqNos could take quadratic memory. Here a piece has only its newest
//! SeqNo. For a reader in the past, to whom that SeqNo is too new, a search goes back through the
//! ranges from the key, as long as any of them can reach the key.

use flagstone_base::sorted::sort_by;
use flagstone_base::{SeqNo, Slice};
use flagstone_sst::{RangeDelete, RangeDeletes};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A deleted range that owns its keys.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRange {
    pub(crate) start: Slice,
    pub(crate) end: Slice,
    pub(crate) seqno: SeqNo,
}

impl OwnedRange {
    #[inline]
    pub(crate) fn as_ref(&self) -> RangeDelete<'_> {
        RangeDelete { start: &self.start, end: &self.end, seqno: self.seqno }
    }
}

/// An immutable set of deleted ranges. Memory: their keys and 32 bytes for each; up to 48 more for
/// each where ranges overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// The starts and ends of all ranges, one after another.
    keys: Vec<u8>,
    /// All ranges, ordered by start.
    all: Vec<Stored>,
    /// Disjoint and sorted pieces, each with the newest SeqNo over it. Adjacent pieces differ in
    /// SeqNo. `None` if the pieces are `all`.
    pieces: Option<Vec<Piece>>,
}

/// A range whose start and end are adjacent in `keys`.
#[derive(Clone, Copy, Debug)]
struct Stored {
    at: u64,
    start_len: u32,
    end_len: u32,
    seqno: SeqNo,
    /// The number of the range with the largest end, among the ranges up to this one.
    furthest: u32,
}

/// A part of the key space with its newest SeqNo, whose borders are borders of ranges of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    start: Border,
    end: Border,
    seqno: SeqNo,
}

/// The start or the end of a range.
#[derive(Clone, Copy, Debug)]
struct Border {
    range: u32,
    is_end: bool,
}

impl RangeSet {
    /// The set without ranges.
    pub(crate) const EMPTY: Self = Self { keys: Vec::new(), all: Vec::new(), pieces: None };

    /// Builds the set of `all`, in O(n log n).
    pub(crate) fn new(mut all: Vec<RangeDelete<'_>>) -> Self {
        sort_by(&mut all, |a, b| a.start.cmp(b.start));
        let size = Size::of(all.iter().copied());
        Self::of_sorted(size, all.into_iter())
    }

    /// Builds the set of a table without an intermediate copy.
    pub(crate) fn decoded(ranges: &RangeDeletes) -> Self {
        Self::of_sorted(Size::of(ranges.iter()), ranges.iter())
    }

    /// Builds the union of `sets` without an intermediate copy.
    pub(crate) fn union(sets: &[&Self]) -> Self {
        let ranges = sets.iter().map(|set| set.len()).sum();
        let bytes = sets.iter().map(|set| set.keys.len()).sum();
        Self::of_sorted(Size { ranges, bytes }, merged(sets))
    }

    /// Builds the set of ranges that come ordered by start.
    fn of_sorted<'a>(size: Size, sorted: impl Iterator<Item = RangeDelete<'a>>) -> Self {
        // More would not fit into memory.
        let ranges = size.ranges.min(u32::MAX as usize);
        let (keys, all) = (Vec::with_capacity(size.bytes), Vec::with_capacity(ranges));
        let mut set = Self { keys, all, pieces: None };
        sorted.take(ranges).for_each(|range| set.push(range));
        let numbers = 0..set.all.len() as u32;
        if !set.is_disjoint(numbers.clone()) {
            let mut pieces = set.newest_of(numbers.collect());
            pieces.shrink_to_fit();
            set.pieces = Some(pieces);
        }
        set
    }

    fn push(&mut self, range: RangeDelete<'_>) {
        let number = self.all.len() as u32;
        let before = self.all.last().map(|last| last.furthest);
        let reaches = |other: &u32| self.range(*other).end > range.end;
        self.all.push(Stored {
            at: self.keys.len() as u64,
            start_len: range.start.len() as u32,
            end_len: range.end.len() as u32,
            seqno: range.seqno,
            furthest: before.filter(reaches).unwrap_or(number),
        });
        self.keys.extend_from_slice(range.start);
        self.keys.extend_from_slice(range.end);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of ranges.
    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes that the set takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let pieces = self.pieces.as_ref().map_or(0, |pieces| pieces.len());
        (self.keys.len() + size_of_val(&*self.all) + pieces * size_of::<Piece>()) as u64
    }

    /// All ranges, ordered by start.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeDelete<'_>> {
        (0..self.all.len() as u32).map(|range| self.range(range))
    }

    /// Range `number`, which must be below [`RangeSet::len`]. Ranges are numbered by start.
    pub(crate) fn range(&self, number: u32) -> RangeDelete<'_> {
        self.named(self.whole(number))
    }

    /// Returns a range as a piece.
    pub(crate) fn whole(&self, number: u32) -> Piece {
        let start = Border { range: number, is_end: false };
        let end = Border { range: number, is_end: true };
        Piece { start, end, seqno: self.all[number as usize].seqno }
    }

    /// Returns the keys and SeqNo of a piece of this set.
    #[inline]
    pub(crate) fn named(&self, piece: Piece) -> RangeDelete<'_> {
        let (start, end) = (self.key(piece.start), self.key(piece.end));
        RangeDelete { start, end, seqno: piece.seqno }
    }

    /// Returns the piece over `key`, with its newest SeqNo.
    pub(crate) fn piece(&self, key: &[u8]) -> Option<RangeDelete<'_>> {
        self.find(key).map(|piece| self.named(piece))
    }

    /// Returns the newest SeqNo, not above `at`, of a range over `key`, or ZERO if there is none.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], at: SeqNo) -> SeqNo {
        if self.all.is_empty() {
            return SeqNo::ZERO;
        }
        self.covering_by(self.find(key), key, at)
    }

    /// As [`RangeSet::covering`], but needs no search if `key` is in the piece found last, or in a
    /// neighbour of it. `near` is a hint that holds the place found last; any value is correct.
    #[inline]
    pub(crate) fn covering_near(&self, key: &[u8], at: SeqNo, near: &Cell<usize>) -> SeqNo {
        if self.all.is_empty() {
            return SeqNo::ZERO;
        }
        let last = near.get();
        let around = [last, last.wrapping_add(1), last.wrapping_sub(1)];
        let found = around.into_iter().find(|behind| self.is_behind(*behind, key));
        let behind = found.unwrap_or_else(|| self.behind(key));
        near.set(behind);
        self.covering_by(self.before(behind, key), key, at)
    }

    fn covering_by(&self, newest: Option<Piece>, key: &[u8], at: SeqNo) -> SeqNo {
        match newest {
            None => SeqNo::ZERO,
            Some(piece) if piece.seqno <= at => piece.seqno,
            Some(_) => {
                let behind = self.all.partition_point(|range| self.start(range) <= key);
                let before = self.all[..behind].iter().rev();
                let reaching =
                    before.take_while(|range| self.end(&self.all[range.furthest as usize]) > key);
                let covering = reaching.filter(|range| range.seqno <= at && self.end(range) > key);
                covering.map(|range| range.seqno).max().unwrap_or(SeqNo::ZERO)
            }
        }
    }

    /// Returns the first piece that ends after `key`.
    pub(crate) fn piece_ending_behind(&self, key: &[u8]) -> Option<RangeDelete<'_>> {
        let ends_before = |piece: &Piece| self.key(piece.end) <= key;
        let at = match &self.pieces {
            Some(pieces) => pieces.partition_point(ends_before),
            None => self.all.partition_point(|range| self.end(range) <= key),
        };
        (at < self.piece_count()).then(|| self.named(self.piece_at(at)))
    }

    fn find(&self, key: &[u8]) -> Option<Piece> {
        self.before(self.behind(key), key)
    }

    /// Returns the number of pieces that start at or before `key`.
    fn behind(&self, key: &[u8]) -> usize {
        let starts_before = |piece: &Piece| self.key(piece.start) <= key;
        match &self.pieces {
            Some(pieces) => pieces.partition_point(starts_before),
            None => self.all.partition_point(|range| self.start(range) <= key),
        }
    }

    /// Returns whether `behind` is the number of pieces that start at or before `key`.
    #[inline]
    fn is_behind(&self, behind: usize, key: &[u8]) -> bool {
        let count = self.piece_count();
        let starts_before = |at: usize| self.key(self.piece_at(at).start) <= key;
        behind <= count
            && (behind == 0 || starts_before(behind - 1))
            && (behind == count || !starts_before(behind))
    }

    /// Returns the last of the first `behind` pieces if it covers `key`.
    fn before(&self, behind: usize, key: &[u8]) -> Option<Piece> {
        let piece = self.piece_at(behind.checked_sub(1)?);
        (key < self.key(piece.end)).then_some(piece)
    }

    fn piece_count(&self) -> usize {
        self.pieces.as_ref().map_or(self.all.len(), |pieces| pieces.len())
    }

    fn piece_at(&self, at: usize) -> Piece {
        self.pieces.as_ref().map_or_else(|| self.whole(at as u32), |pieces| pieces[at])
    }

    fn place(&self, border: Border) -> std::ops::Range<usize> {
        let range = &self.all[border.range as usize];
        let (at, start_len) = (range.at as usize, range.start_len as usize);
        if border.is_end {
            at + start_len..at + start_len + range.end_len as usize
        } else {
            at..at + start_len
        }
    }

    #[inline]
    fn key(&self, border: Border) -> &[u8] {
        &self.keys[self.place(border)]
    }

    #[inline]
    fn start(&self, range: &Stored) -> &[u8] {
        &self.keys[range.at as usize..][..range.start_len as usize]
    }

    #[inline]
    fn end(&self, range: &Stored) -> &[u8] {
        &self.keys[range.at as usize + range.start_len as usize..][..range.end_len as usize]
    }

    /// Returns whether these ranges, which are ordered by start, are disjoint, so that they are
    /// their own pieces.
    fn is_disjoint(&self, numbers: impl Iterator<Item = u32>) -> bool {
        let mut before: Option<RangeDelete<'_>> = None;
        for range in numbers.map(|number| self.range(number)) {
            let follows = before.is_none_or(|before| {
                before.end < range.start
                    || (before.end == range.start && before.seqno != range.seqno)
            });
            if !follows || range.start >= range.end {
                return false;
            }
            before = Some(range);
        }
        true
    }

    /// Cuts the ranges of these ascending numbers into disjoint, sorted pieces, each with the
    /// newest SeqNo over it.
    pub(crate) fn newest_of(&self, mut by_start: Vec<u32>) -> Vec<Piece> {
        if self.is_disjoint(by_start.iter().copied()) {
            return by_start.into_iter().map(|range| self.whole(range)).collect();
        }
        by_start.retain(|&number| {
            let range = self.range(number);
            range.start < range.end
        });
        let borders = |range: u32| [false, true].map(|is_end| Border { range, is_end });
        let mut cuts: Vec<Border> = by_start.iter().flat_map(|&range| borders(range)).collect();
        sort_by(&mut cuts, |a, b| self.key(*a).cmp(self.key(*b)));
        cuts.dedup_by(|later, first| self.key(*later) == self.key(*first));
        let mut pieces: Vec<Piece> = Vec::new();
        // The ranges that cover the current key, newest first.
        let mut open: BinaryHeap<(SeqNo, u32)> = BinaryHeap::new();
        let mut next = 0;
        for pair in cuts.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            let from = self.key(start);
            while let Some(&range) = by_start.get(next)
                && self.start(&self.all[range as usize]) <= from
            {
                open.push((self.all[range as usize].seqno, range));
                next += 1;
            }
            while open.peek().is_some_and(|&(_, r)| self.end(&self.all[r as usize]) <= from) {
                open.pop();
            }
            let Some(&(seqno, _)) = open.peek() else { continue };
            match pieces.last_mut() {
                Some(last) if last.seqno == seqno && self.key(last.end) == from => last.end = end,
                _ => pieces.push(Piece { start, end, seqno }),
            }
        }
        pieces
    }
}

/// The number of ranges, and the bytes of their keys.
#[derive(Default)]
struct Size {
    ranges: usize,
    bytes: usize,
}

impl Size {
    fn of<'a>(ranges: impl Iterator<Item = RangeDelete<'a>>) -> Self {
        ranges.fold(Self::default(), |size, range| Self {
            ranges: size.ranges + 1,
            bytes: size.bytes + range.start.len() + range.end.len(),
        })
    }
}

/// The ranges of all `sets`, ordered by start.
fn merged<'a>(sets: &[&'a RangeSet]) -> impl Iterator<Item = RangeDelete<'a>> {
    let firsts = sets.iter().filter(|set| !set.is_empty()).enumerate();
    let mut heap: BinaryHeap<Reverse<(&[u8], usize, u32)>> =
        firsts.map(|(source, set)| Reverse((set.range(0).start, source, 0))).collect();
    let sets: Vec<&RangeSet> = sets.iter().filter(|set| !set.is_empty()).copied().collect();
    std::iter::from_fn(move || {
        let Reverse((_, source, number)) = heap.pop()?;
        let (set, next) = (sets[source], number + 1);
        if (next as usize) < set.len() {
            heap.push(Reverse((set.range(next).start, source, next)));
        }
        Some(set.range(number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: &str, seqno: u64) -> OwnedRange {
        let slice = |text: &str| Slice::copy_of(text.as_bytes());
        OwnedRange { start: slice(start), end: slice(end), seqno: SeqNo::new(seqno) }
    }

    fn set(ranges: &[OwnedRange]) -> RangeSet {
        RangeSet::new(ranges.iter().map(OwnedRange::as_ref).collect())
    }

    fn pieces(set: &RangeSet) -> Vec<RangeDelete<'_>> {
        (0..set.piece_count()).map(|at| set.named(set.piece_at(at))).collect()
    }

    fn dump(set: &RangeSet) -> String {
        let piece = |p: RangeDelete<'_>| {
            format!("{}..{}{}", p.start.escape_ascii(), p.end.escape_ascii(), p.seqno)
        };
        pieces(set).into_iter().map(piece).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pieces_carry_the_newest_number_over_them() {
        let set = set(&[range("a", "m", 3), range("c", "e", 5), range("d", "z", 4)]);
        assert_eq!(dump(&set), "a..c#3 c..e#5 e..z#4");
        assert_eq!(set.covering(b"d", SeqNo::MAX), SeqNo::new(5));
        assert_eq!(set.covering(b"d", SeqNo::new(4)), SeqNo::new(4));
        assert_eq!(set.covering(b"d", SeqNo::new(3)), SeqNo::new(3));
        assert_eq!(set.covering(b"d", SeqNo::new(2)), SeqNo::ZERO);
        assert_eq!(set.covering(b"z", SeqNo::MAX), SeqNo::ZERO);
    }

    #[test]
    fn a_queue_trimmed_a_thousand_times_stays_small() {
        let trims = |seqno: fn(u64) -> u64| {
            let trim = |i| range("a", &format!("b{i:04}"), seqno(i));
            set(&(1..1000).map(trim).collect::<Vec<_>>())
        };
        let set = trims(|i| i);
        assert_eq!(dump(&set), "a..b0999#999");
        let set = trims(|i| 1000 - i);
        assert_eq!(pieces(&set).len(), 999);
        assert_eq!(set.covering(b"b0500", SeqNo::MAX), SeqNo::new(499));
        assert_eq!(set.covering(b"b0500", SeqNo::new(9)), SeqNo::new(9));
    }

    #[test]
    fn a_reader_in_the_past_finds_what_covered_a_key_then() {
        let key = |n: u64| format!("{n:02}");
        // Numbers in no particular order.
        let drawn = |n: u64| flagstone_base::hash::remix(n) % 40;
        let ranges: Vec<OwnedRange> = (1..60)
            .map(|n| {
                let start = drawn(n);
                range(&key(start), &key(start + 1 + drawn(n + 100) / 8), n)
            })
            .collect();
        let set = set(&ranges);
        let near = Cell::new(usize::MAX);
        for n in (0..46).chain((0..46).rev()).chain([40, 3, 44, 45]) {
            for at in (0..60).map(SeqNo::new) {
                let key = key(n).into_bytes();
                let covering = ranges.iter().filter(|r| r.seqno <= at && r.as_ref().contains(&key));
                let expected = covering.map(|r| r.seqno).max().unwrap_or(SeqNo::ZERO);
                assert_eq!(set.covering(&key, at), expected, "{n} at {at}");
                assert_eq!(set.covering_near(&key, at, &near), expected, "{n} at {at}");
            }
        }
    }

    #[test]
    fn ranges_that_do_not_meet_take_few_bytes() {
        let apart = |n: u64| range(&format!("{n:07}a"), &format!("{n:07}b"), n + 1);
        let all: Vec<OwnedRange> = (0..1000).map(apart).collect();
        let alone = set(&all);
        assert_eq!(alone.bytes(), 1000 * (16 + 32));
        assert_eq!((alone.len(), pieces(&alone).len(), alone.iter().count()), (1000, 1000, 1000));
        assert_eq!(alone.piece(b"0000007a"), Some(all[7].as_ref()));
        assert_eq!(alone.piece(b"0000007b"), None);
        assert_eq!(alone.piece_ending_behind(b"0000007b"), Some(all[8].as_ref()));
        assert_eq!(alone.piece_ending_behind(b"0000999b"), None);
        let met = RangeSet::union(&[&alone, &set(&[range("0", "1", 2000)])]);
        assert_eq!(pieces(&met).len(), 1, "one covers all");
        assert!(met.bytes() <= 1001 * (16 + 32 + 24));
    }

    #[test]
    fn pieces_that_touch_at_the_same_number_are_one() {
        let set = set(&[range("a", "c", 3), range("c", "e", 3), range("x", "x", 9)]);
        assert_eq!(dump(&set), "a..e#3");
    }

    #[test]
    fn ranges_that_touch_at_different_numbers_are_their_own_pieces() {
        let set = set(&[range("a", "c", 3), range("c", "e", 4)]);
        assert_eq!((dump(&set).as_str(), set.bytes()), ("a..c#3 c..e#4", 2 * (2 + 32)));
    }

    #[test]
    fn a_union_is_the_set_of_all() {
        let key = |n: u64| format!("{:03}", flagstone_base::hash::remix(n) % 500);
        let ranges: Vec<OwnedRange> = (0..90)
            .map(|n| range(&key(n), &format!("{}~", key(n).max(key(n + 1000))), n + 1))
            .collect();
        let parts: Vec<RangeSet> =
            [&ranges[..40], &ranges[40..41], &[], &ranges[41..]].map(set).into();
        let union = RangeSet::union(&parts.iter().collect::<Vec<_>>());
        assert_eq!(dump(&union), dump(&set(&ranges)));
        assert_eq!(union.bytes(), set(&ranges).bytes());
        assert!(RangeSet::union(&[]).is_empty());
    }
}
