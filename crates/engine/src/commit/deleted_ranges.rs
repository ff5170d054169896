//! The ranges that a write deletes, for its later operations.
//!
//! ```text
//! operation 3 deletes    [a ............... z)
//! operation 7 deletes         [g .. m)
//! pieces                 [a 3 g)[g 7 m)[m 3 z)
//! ```

use std::collections::BTreeMap;

/// Disjoint pieces of deleted ranges, each with the newest operation that deletes it. To add a
/// range and to look for a key take O(log n).
pub(super) struct DeletedRanges<K> {
    /// By its start: the end of a piece, and the operation.
    pieces: BTreeMap<K, (K, usize)>,
}

impl<K: Ord + Copy> DeletedRanges<K> {
    pub(super) const fn new() -> Self {
        Self { pieces: BTreeMap::new() }
    }

    /// Adds the range from `start` up to `end`, which the operation `at` deletes, the newest so
    /// far.
    pub(super) fn add(&mut self, start: K, end: K, at: usize) {
        if start >= end {
            return;
        }
        // At most one older piece reaches into the range from the left, and one out of it.
        let mut last = None;
        if let Some((_, before)) = self.pieces.range_mut(..start).next_back()
            && before.0 > start
        {
            last = Some(*before);
            before.0 = start;
        }
        let covered = self.pieces.extract_if(start..end, |_, _| true);
        let last = covered.map(|(_, piece)| piece).last().or(last);
        if let Some(piece) = last.filter(|piece| piece.0 > end) {
            self.pieces.insert(end, piece);
        }
        self.pieces.insert(start, (end, at));
    }

    /// Returns the newest operation that deletes `key`.
    pub(super) fn newest(&self, key: K) -> Option<usize> {
        let (_, &(end, at)) = self.pieces.range(..=key).next_back()?;
        (key < end).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_env::{Random, SeededRandom};
    use std::cell::Cell;
    use std::cmp::Ordering;

    #[test]
    fn the_newest_range_over_a_key_is_found() {
        let random = SeededRandom::new(3);
        let below = |n: u64| (random.next_u64() % n) as u32;
        for _ in 0..200 {
            let (mut ranges, mut all) = (DeletedRanges::new(), Vec::new());
            for at in 0..30 {
                let start = below(50);
                let end = start + below(20);
                ranges.add(start, end, at);
                all.push(start..end);
                for key in 0..70 {
                    let expected = all.iter().rposition(|range| range.contains(&key));
                    assert_eq!(ranges.newest(key), expected, "{key} in {all:?}");
                }
            }
        }
    }

    /// A key that counts how often it is compared.
    #[derive(Clone, Copy)]
    struct Counted<'a>(u64, &'a Cell<u64>);

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Counted<'_> {}

    /// Each key was compared with every range.
    #[test]
    fn many_ranges_and_many_keys_take_few_comparisons() {
        const RANGES: u64 = 10_000;
        // Apart, from the same start on, and one within the other.
        let shapes: [fn(u64) -> (u64, u64); 3] =
            [|n| (3 * n, 3 * n + 2), |n| (0, n + 1), |n| (n, 3 * RANGES - n)];
        for shape in shapes {
            let compared = Cell::new(0);
            let mut ranges = DeletedRanges::new();
            for n in 0..RANGES {
                let (start, end) = shape(n);
                ranges.add(Counted(start, &compared), Counted(end, &compared), n as usize);
                let found = ranges.newest(Counted(start, &compared));
                assert_eq!(found, Some(n as usize));
            }
            assert!(compared.get() < RANGES * 400, "{} comparisons", compared.get());
        }
    }
}
