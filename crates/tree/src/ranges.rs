//! Deleted ranges: which of them covers a key, newest first.
//!
//! Many ranges often begin at the same place (a queue trimmed again and again), so cutting them
//! into pieces that each list their SeqNos could take quadratic memory. Here each piece knows its
//! newest SeqNo only; a reader in the past, for whom that one is too new, walks the list from the key back, as far as
//! anything reaches the key.

use flagstone_base::{SeqNo, Slice};
use flagstone_sst::RangeDelete;
use std::collections::BinaryHeap;

/// An immutable set of deleted ranges: their keys, and 32 bytes for each; 24 more where ranges meet.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// The starts and ends of all, one after the other.
    keys: Slice,
    /// Sorted by their starts.
    all: Vec<Stored>,
    /// Disjoint, sorted; each with the newest SeqNo over it. Pieces that touch differ in SeqNo. `None` when they are `all`.
    pieces: Option<Vec<Piece>>,
}

/// A range whose start and end stand in `keys`, one behind the other.
#[derive(Clone, Copy, Debug)]
struct Stored {
    at: u64,
    start_len: u32,
    end_len: u32,
    seqno: SeqNo,
    /// Which of the ranges up to this one reaches furthest.
    furthest: u32,
}

/// A part of ranges.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: Border,
    end: Border,
    seqno: SeqNo,
}

/// The start or the end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Border {
    range: u32,
    is_end: bool,
}

impl RangeSet {
    /// No ranges.
    pub(crate) const EMPTY: Self = Self { keys: Slice::EMPTY, all: Vec::new(), pieces: None };

    /// The set of `all`; O(n log n).
    pub(crate) fn new(mut all: Vec<RangeDelete>) -> Self {
        if all.is_empty() {
            return Self::default();
        }
        all.sort_by(|a, b| a.start.cmp(&b.start));
        // More would not fit into memory.
        all.truncate(u32::MAX as usize);
        let bytes = all.iter().map(|range| range.start.len() + range.end.len()).sum();
        let (mut keys, mut stored) = (Vec::with_capacity(bytes), Vec::with_capacity(all.len()));
        let mut furthest = 0_u32;
        for (number, range) in (0_u32..).zip(&all) {
            if range.end >= all[furthest as usize].end {
                furthest = number;
            }
            stored.push(Stored {
                at: keys.len() as u64,
                start_len: range.start.len() as u32,
                end_len: range.end.len() as u32,
                seqno: range.seqno,
                furthest,
            });
            keys.extend_from_slice(&range.start);
            keys.extend_from_slice(&range.end);
        }
        drop(all);
        let mut set = Self { keys: Slice::from(keys), all: stored, pieces: None };
        let mut pieces = set.newest_pieces();
        pieces.shrink_to_fit();
        set.pieces = (!is_all(&pieces, set.all.len())).then_some(pieces);
        set
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many ranges there are.
    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let pieces = self.pieces.as_ref().map_or(0, |pieces| pieces.len());
        (self.keys.len() + size_of_val(&*self.all) + pieces * size_of::<Piece>()) as u64
    }

    /// Every range, by their starts.
    pub(crate) fn all(&self) -> impl Iterator<Item = RangeDelete> + '_ {
        (0..self.all.len() as u32).map(|range| self.made(whole(range, &self.all)))
    }

    /// The disjoint pieces, sorted, each with its newest SeqNo.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = RangeDelete> + '_ {
        (0..self.piece_count()).map(|at| self.made(self.piece_at(at)))
    }

    /// The piece over `key` with its newest SeqNo.
    pub(crate) fn piece(&self, key: &[u8]) -> Option<RangeDelete> {
        self.find(key).map(|piece| self.made(piece))
    }

    /// The newest SeqNo, not above `at`, at which `key` was deleted by a range; ZERO when none.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], at: SeqNo) -> SeqNo {
        if self.all.is_empty() {
            return SeqNo::ZERO;
        }
        self.covering_some(key, at)
    }

    fn covering_some(&self, key: &[u8], at: SeqNo) -> SeqNo {
        match self.find(key) {
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

    /// The first piece that ends behind `key`.
    pub(crate) fn piece_ending_behind(&self, key: &[u8]) -> Option<RangeDelete> {
        let ends_before = |piece: &Piece| self.key(piece.end) <= key;
        let at = match &self.pieces {
            Some(pieces) => pieces.partition_point(ends_before),
            None => self.all.partition_point(|range| self.end(range) <= key),
        };
        (at < self.piece_count()).then(|| self.made(self.piece_at(at)))
    }

    fn find(&self, key: &[u8]) -> Option<Piece> {
        let starts_before = |piece: &Piece| self.key(piece.start) <= key;
        let behind = match &self.pieces {
            Some(pieces) => pieces.partition_point(starts_before),
            None => self.all.partition_point(|range| self.start(range) <= key),
        };
        let piece = self.piece_at(behind.checked_sub(1)?);
        (key < self.key(piece.end)).then_some(piece)
    }

    fn piece_count(&self) -> usize {
        self.pieces.as_ref().map_or(self.all.len(), |pieces| pieces.len())
    }

    fn piece_at(&self, at: usize) -> Piece {
        self.pieces.as_ref().map_or_else(|| whole(at as u32, &self.all), |pieces| pieces[at])
    }

    fn made(&self, piece: Piece) -> RangeDelete {
        let key = |border: Border| self.keys.slice(self.place(border));
        RangeDelete { start: key(piece.start), end: key(piece.end), seqno: piece.seqno }
    }

    fn place(&self, border: Border) -> std::ops::Range<usize> {
        let range = &self.all[border.range as usize];
        let (at, start_len) = (range.at as usize, range.start_len as usize);
        match border.is_end {
            false => at..at + start_len,
            true => at + start_len..at + start_len + range.end_len as usize,
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

    /// Cuts the ranges into disjoint sorted pieces, each with the newest SeqNo over it.
    fn newest_pieces(&self) -> Vec<Piece> {
        let borders = |range: u32| [false, true].map(|is_end| Border { range, is_end });
        let is_none = |range: &u32| {
            let [start, end] = borders(*range);
            self.key(start) >= self.key(end)
        };
        let by_start: Vec<u32> = (0..self.all.len() as u32).filter(|r| !is_none(r)).collect();
        let mut cuts: Vec<Border> = by_start.iter().flat_map(|&range| borders(range)).collect();
        cuts.sort_by(|a, b| self.key(*a).cmp(self.key(*b)));
        cuts.dedup_by(|later, first| self.key(*later) == self.key(*first));
        let mut pieces: Vec<Piece> = Vec::new();
        // The newest first, with the range that it is of.
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

/// A range as a piece.
fn whole(range: u32, all: &[Stored]) -> Piece {
    let border = |is_end| Border { range, is_end };
    Piece { start: border(false), end: border(true), seqno: all[range as usize].seqno }
}

/// Whether each piece is the range of its number.
fn is_all(pieces: &[Piece], ranges: usize) -> bool {
    let border = |range, is_end| Border { range, is_end };
    let is_whole = |(at, piece): (u32, &Piece)| {
        piece.start == border(at, false) && piece.end == border(at, true)
    };
    pieces.len() == ranges && (0..).zip(pieces).all(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: &str, seqno: u64) -> RangeDelete {
        let slice = |text: &str| Slice::copy_of(text.as_bytes());
        RangeDelete { start: slice(start), end: slice(end), seqno: SeqNo::new(seqno) }
    }

    fn dump(set: &RangeSet) -> String {
        let piece = |p: &RangeDelete| {
            format!("{}..{}{}", p.start.escape_ascii(), p.end.escape_ascii(), p.seqno)
        };
        set.pieces().map(|p| piece(&p)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pieces_carry_the_newest_number_over_them() {
        let set = RangeSet::new(vec![range("a", "m", 3), range("c", "e", 5), range("d", "z", 4)]);
        assert_eq!(dump(&set), "a..c#3 c..e#5 e..z#4");
        assert_eq!(set.covering(b"d", SeqNo::MAX), SeqNo::new(5));
        assert_eq!(set.covering(b"d", SeqNo::new(4)), SeqNo::new(4));
        assert_eq!(set.covering(b"d", SeqNo::new(3)), SeqNo::new(3));
        assert_eq!(set.covering(b"d", SeqNo::new(2)), SeqNo::ZERO);
        assert_eq!(set.covering(b"z", SeqNo::MAX), SeqNo::ZERO);
    }

    #[test]
    fn a_queue_trimmed_a_thousand_times_stays_small() {
        let trims = (1..1000).map(|i| range("a", &format!("b{i:04}"), i));
        let set = RangeSet::new(trims.collect());
        assert_eq!(dump(&set), "a..b0999#999");
        let shrinking = (1..1000).map(|i| range("a", &format!("b{i:04}"), 1000 - i));
        let set = RangeSet::new(shrinking.collect());
        assert_eq!(set.pieces().count(), 999);
        assert_eq!(set.covering(b"b0500", SeqNo::MAX), SeqNo::new(499));
        assert_eq!(set.covering(b"b0500", SeqNo::new(9)), SeqNo::new(9));
    }

    #[test]
    fn a_reader_in_the_past_finds_what_covered_a_key_then() {
        let key = |n: u64| format!("{n:02}");
        // Numbers that are not in order of anything.
        let drawn = |n: u64| flagstone_base::hash::remix(n) % 40;
        let ranges: Vec<RangeDelete> = (1..60)
            .map(|n| {
                let start = drawn(n);
                range(&key(start), &key(start + 1 + drawn(n + 100) / 8), n)
            })
            .collect();
        let set = RangeSet::new(ranges.clone());
        for n in 0..46 {
            for at in (0..60).map(SeqNo::new) {
                let key = key(n).into_bytes();
                let covering = ranges.iter().filter(|r| r.seqno <= at && r.contains(&key));
                let expected = covering.map(|r| r.seqno).max().unwrap_or(SeqNo::ZERO);
                assert_eq!(set.covering(&key, at), expected, "{n} at {at}");
            }
        }
    }

    #[test]
    fn ranges_that_do_not_meet_take_few_bytes() {
        let apart = |n: u64| range(&format!("{n:07}a"), &format!("{n:07}b"), n + 1);
        let set = RangeSet::new((0..1000).map(apart).collect());
        assert!(set.bytes() <= 1000 * (16 + 32), "{} bytes", set.bytes());
        assert_eq!((set.len(), set.pieces().count(), set.all().count()), (1000, 1000, 1000));
        assert_eq!(set.piece(b"0000007a"), Some(apart(7)));
        assert_eq!(set.piece(b"0000007b"), None);
        assert_eq!(set.piece_ending_behind(b"0000007b"), Some(apart(8)));
        assert_eq!(set.piece_ending_behind(b"0000999b"), None);
        let all: Vec<_> = set.all().chain([range("0", "1", 2000)]).collect();
        let met = RangeSet::new(all);
        assert_eq!(met.pieces().count(), 1, "one covers all");
        assert!(met.bytes() <= 1001 * (16 + 32 + 24));
    }

    #[test]
    fn pieces_that_touch_at_the_same_number_are_one() {
        let set = RangeSet::new(vec![range("a", "c", 3), range("c", "e", 3), range("x", "x", 9)]);
        assert_eq!(dump(&set), "a..e#3");
    }
}
