//! Deleted ranges: which of them covers a key, newest first.
//!
//! Many ranges often begin at the same place (a queue trimmed again and again), so cutting them
//! into pieces that each list their SeqNos could take quadratic memory. Here each piece knows its
//! newest SeqNo only; a reader in the past, for whom that one is too new, walks the list from the key back, as far as
//! anything reaches the key.

use flagstone_base::{SeqNo, Slice};
use flagstone_sst::RangeDelete;
use std::collections::BinaryHeap;

/// An immutable set of deleted ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// Sorted by their starts.
    all: Vec<RangeDelete>,
    /// How far the ranges up to each of them reach.
    reach: Vec<Slice>,
    /// Disjoint, sorted; each with the newest SeqNo over it. Pieces that touch differ in SeqNo.
    pieces: Vec<RangeDelete>,
}

impl RangeSet {
    /// No ranges.
    pub(crate) const EMPTY: Self = Self { all: Vec::new(), reach: Vec::new(), pieces: Vec::new() };

    /// The set of `all`; O(n log n).
    pub(crate) fn new(mut all: Vec<RangeDelete>) -> Self {
        all.sort_by(|a, b| a.start.cmp(&b.start));
        let mut reach: Vec<Slice> = Vec::with_capacity(all.len());
        for range in &all {
            let further = reach.last().filter(|before| **before > range.end);
            reach.push(further.unwrap_or(&range.end).clone());
        }
        let pieces = newest_pieces(&all);
        Self { all, reach, pieces }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Every range, by their starts.
    pub(crate) fn all(&self) -> &[RangeDelete] {
        &self.all
    }

    /// The disjoint pieces, sorted, each with its newest SeqNo.
    pub(crate) fn pieces(&self) -> &[RangeDelete] {
        &self.pieces
    }

    /// The piece over `key` with its newest SeqNo.
    pub(crate) fn piece(&self, key: &[u8]) -> Option<&RangeDelete> {
        let behind = self.pieces.partition_point(|piece| &*piece.start <= key);
        self.pieces[..behind].last().filter(|piece| key < &*piece.end)
    }

    /// The newest SeqNo, not above `at`, at which `key` was deleted by a range; ZERO when none.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], at: SeqNo) -> SeqNo {
        if self.pieces.is_empty() {
            return SeqNo::ZERO;
        }
        self.covering_some(key, at)
    }

    fn covering_some(&self, key: &[u8], at: SeqNo) -> SeqNo {
        match self.piece(key) {
            None => SeqNo::ZERO,
            Some(piece) if piece.seqno <= at => piece.seqno,
            Some(_) => {
                let behind = self.all.partition_point(|range| &*range.start <= key);
                let before = self.all[..behind].iter().zip(&self.reach[..behind]).rev();
                let reaching = before.take_while(|(_, reach)| &***reach > key);
                let covering = reaching.filter(|(r, _)| r.seqno <= at && r.contains(key));
                covering.map(|(range, _)| range.seqno).max().unwrap_or(SeqNo::ZERO)
            }
        }
    }
}

/// Cuts ranges, sorted by their starts, into disjoint sorted pieces, each with the newest SeqNo over it.
fn newest_pieces(all: &[RangeDelete]) -> Vec<RangeDelete> {
    let by_start: Vec<&RangeDelete> = all.iter().filter(|r| r.start < r.end).collect();
    let mut cuts: Vec<&Slice> = by_start.iter().flat_map(|r| [&r.start, &r.end]).collect();
    cuts.sort();
    cuts.dedup();
    let mut pieces: Vec<RangeDelete> = Vec::new();
    let mut open: BinaryHeap<(SeqNo, &Slice)> = BinaryHeap::new();
    let mut next = 0;
    for pair in cuts.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        while next < by_start.len() && by_start[next].start <= *start {
            open.push((by_start[next].seqno, &by_start[next].end));
            next += 1;
        }
        while open.peek().is_some_and(|&(_, open_end)| open_end <= start) {
            open.pop();
        }
        let Some(&(seqno, _)) = open.peek() else { continue };
        match pieces.last_mut() {
            Some(last) if last.end == *start && last.seqno == seqno => last.end = end.clone(),
            _ => pieces.push(RangeDelete { start: start.clone(), end: end.clone(), seqno }),
        }
    }
    pieces
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
        set.pieces().iter().map(piece).collect::<Vec<_>>().join(" ")
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
        assert_eq!(set.pieces().len(), 999);
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
    fn pieces_that_touch_at_the_same_number_are_one() {
        let set = RangeSet::new(vec![range("a", "c", 3), range("c", "e", 3), range("x", "x", 9)]);
        assert_eq!(dump(&set), "a..e#3");
    }
}
