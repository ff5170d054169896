//! Key to partition: by ranges of the hash space, or by ranges of keys.
//!
//! Hash partition `i` of `n` begins at `ceil(i * 2^64 / n)`. The catalog stores the starts, so a
//! partition can be split without touching the others. There is no remainder and no
//! absolute value: every hash, including the smallest and the largest, lies in exactly one range.

use flagstone_tree::{HashBounds, KeyBounds};
use std::ops::RangeInclusive;

/// The routing of one keyspace, ready for lookups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The first hash of each partition; the first is 0.
    Hash { starts: Vec<u64>, seed: u64 },
    /// The first key of each partition but the first.
    Range { bounds: Vec<Vec<u8>>, seed: u64 },
}

/// The most partitions of a keyspace.
pub(crate) const PARTITIONS_MAX: usize = 256;

/// The first hash of partition `i` of `n`.
pub(crate) const fn hash_start(i: usize, n: usize) -> u64 {
    ((i as u128) << 64).div_ceil(n as u128) as u64
}

impl Route {
    /// The number of partitions.
    pub(crate) fn partitions(&self) -> usize {
        match self {
            Self::Hash { starts, .. } => starts.len(),
            Self::Range { bounds, .. } => bounds.len() + 1,
        }
    }

    /// The seed of the keyspace's key hash.
    pub(crate) const fn seed(&self) -> u64 {
        match self {
            Self::Hash { seed, .. } | Self::Range { seed, .. } => *seed,
        }
    }

    /// The partition of `key`, whose hash (under [`Route::seed`]) is `hash`.
    #[inline]
    pub(crate) fn partition(&self, key: &[u8], hash: u64) -> usize {
        match self {
            Self::Hash { starts, .. } => {
                // Ranges are even until one is split: a multiplication finds the partition, and the
                // comparisons below correct it for uneven ranges.
                let guess = ((u128::from(hash) * starts.len() as u128) >> 64) as usize;
                let fits =
                    starts[guess] <= hash && starts.get(guess + 1).is_none_or(|&next| hash < next);
                if fits { guess } else { starts.partition_point(|&start| start <= hash) - 1 }
            }
            Self::Range { bounds, .. } => bounds.partition_point(|bound| bound.as_slice() <= key),
        }
    }

    /// The partitions that hold keys from `start` on and below `end`.
    pub(crate) fn partitions_of(&self, start: &[u8], end: &[u8]) -> RangeInclusive<usize> {
        match self {
            Self::Hash { starts, .. } => 0..=starts.len() - 1,
            Self::Range { bounds, .. } => {
                self.partition(start, 0)..=bounds.partition_point(|bound| bound.as_slice() < end)
            }
        }
    }

    /// Returns whether the partitions are ranges of keys.
    pub(crate) const fn is_range(&self) -> bool {
        matches!(self, Self::Range { .. })
    }

    /// The keys of a partition. `None` if it is not told from the others by its keys.
    pub(crate) fn bounds_of(&self, partition: usize) -> Option<KeyBounds> {
        let Self::Range { bounds, .. } = self else { return None };
        if bounds.is_empty() {
            return None;
        }
        let lower = partition.checked_sub(1).and_then(|before| bounds.get(before));
        let lower = lower.cloned().unwrap_or_default();
        Some(KeyBounds::new(lower, bounds.get(partition).cloned()))
    }

    /// The hashes of the keys of a partition. `None` if it is a range of keys.
    pub(crate) fn hashes_of(&self, partition: usize) -> Option<HashBounds> {
        let Self::Hash { starts, .. } = self else { return None };
        let last = starts.get(partition + 1).map_or(u64::MAX, |next| next - 1);
        Some(HashBounds::new(*starts.get(partition)?, last))
    }

    /// Returns whether the partitions, one after another, are in key order.
    pub(crate) const fn is_ordered(&self) -> bool {
        match self {
            Self::Hash { starts, .. } => starts.len() == 1,
            Self::Range { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_route(n: usize) -> Route {
        Route::Hash { starts: (0..n).map(|i| hash_start(i, n)).collect(), seed: 0 }
    }

    #[test]
    fn a_range_concerns_the_partitions_that_it_meets() {
        let route = Route::Range { bounds: vec![b"d".to_vec(), b"m".to_vec()], seed: 0 };
        assert_eq!(route.partitions_of(b"a", b"c"), 0..=0);
        assert_eq!(route.partitions_of(b"e", b"f"), 1..=1);
        assert_eq!(route.partitions_of(b"c", b"z"), 0..=2);
        assert_eq!(route.partitions_of(b"c", b"d"), 0..=0);
        assert_eq!(route.partitions_of(b"d", b"m"), 1..=1);
        assert_eq!(route.partitions_of(b"d", b"m\0"), 1..=2);
        assert_eq!(hash_route(4).partitions_of(b"a", b"b"), 0..=3);
    }

    #[test]
    fn the_smallest_and_the_largest_hash_have_a_partition() {
        for n in 1..=256 {
            let route = hash_route(n);
            let extremes = [0, 1, i64::MIN as u64, i64::MAX as u64, u64::MAX - 1, u64::MAX];
            for hash in extremes {
                assert!(route.partition(b"k", hash) < n, "{hash} of {n}");
            }
            assert_eq!(route.partition(b"k", 0), 0);
            assert_eq!(route.partition(b"k", u64::MAX), n - 1);
        }
    }

    #[test]
    fn every_partition_begins_exactly_at_its_start() {
        for n in [1, 2, 3, 7, 200, 256] {
            let route = hash_route(n);
            for i in 0..n {
                assert_eq!(route.partition(b"k", hash_start(i, n)), i);
                if i > 0 {
                    assert_eq!(route.partition(b"k", hash_start(i, n) - 1), i - 1);
                }
            }
        }
    }

    #[test]
    fn uneven_hash_ranges_are_found_too() {
        let route = Route::Hash { starts: vec![0, 10, 20, 1 << 63], seed: 0 };
        for (hash, expected) in [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (1 << 63, 3)] {
            assert_eq!(route.partition(b"k", hash), expected);
        }
    }

    #[test]
    fn hash_partitions_hold_all_hashes_once() {
        let route = Route::Hash { starts: vec![0, 10, 1 << 63], seed: 0 };
        let ends: Vec<_> = (0..3).map(|at| route.hashes_of(at).unwrap().ends()).collect();
        assert_eq!(ends, [(0, 9), (10, (1 << 63) - 1), (1 << 63, u64::MAX)]);
        for hash in [0, 9, 10, u64::MAX] {
            assert!(route.hashes_of(route.partition(b"k", hash)).unwrap().contains(hash));
        }
    }

    #[test]
    fn a_range_bound_is_the_first_key_of_its_partition() {
        let route = Route::Range { bounds: vec![b"g".to_vec(), b"p".to_vec()], seed: 0 };
        for (key, expected) in [("a", 0), ("fzz", 0), ("g", 1), ("o", 1), ("p", 2), ("z", 2)] {
            assert_eq!(route.partition(key.as_bytes(), 0), expected, "{key}");
        }
        assert!(route.is_ordered());
    }
}
