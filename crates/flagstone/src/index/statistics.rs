//! What a sample of its entries tells about the values of an index.
//!
//! Every table carries a sample of its keys, chosen by their hash. Together they are a histogram of
//! the entries: the part of them in a range estimates the part of all entries there.

use super::definition::Definition;
use super::entry::component_len;
use flagstone_base::key::KeyRange;

/// The most entries in a sample, about.
pub(crate) const SAMPLED_MAX: u64 = 2048;
/// With fewer entries a sample tells too little.
const SAMPLED_MIN: usize = 32;

/// Statistics of one index, as of the tables that it had.
pub(crate) struct Statistics {
    /// Which tables these were.
    stamp: u64,
    /// The keys of entries, or their first 64 bytes, ascending.
    keys: Vec<Vec<u8>>,
}

impl Statistics {
    /// Takes the sampled `keys` of an index, which are ascending.
    pub(crate) const fn new(keys: Vec<Vec<u8>>, stamp: u64) -> Self {
        Self { stamp, keys }
    }

    pub(crate) const fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The keys of the sampled entries, or their first 64 bytes, ascending.
    pub(crate) fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// The number of sampled entries.
    pub(crate) fn sampled(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Estimates how many of `total` entries are in `ranges`, which are disjoint. `None` if the
    /// sample is too small.
    pub(crate) fn entries_in<'r>(
        &self,
        ranges: impl Iterator<Item = &'r KeyRange>,
        total: u64,
    ) -> Option<u64> {
        if self.keys.len() < SAMPLED_MIN {
            return None;
        }
        let within = |range: &KeyRange| {
            let start = self.keys.partition_point(|key| !range.starts_before(key));
            let end = self.keys.partition_point(|key| range.ends_behind(key));
            end.saturating_sub(start) as u64
        };
        let hits: u64 = ranges.map(within).sum();
        // One sampled entry stands for several entries. A range without a sampled entry is taken to
        // have half as many.
        let entries = u128::from(2 * hits + 1) * u128::from(total) / (2 * self.keys.len()) as u128;
        Some((entries as u64).min(total))
    }

    /// Estimates how many of `total` entries begin with the whole components `value`, one of which
    /// is in the sample.
    pub(crate) fn entries_of(&self, value: &[u8], total: u64) -> u64 {
        let start = self.keys.partition_point(|key| key.as_slice() < value);
        let found = self.keys[start..].iter().take_while(|key| key.starts_with(value)).count();
        let entries = found.max(1) as u128 * u128::from(total) / self.keys.len().max(1) as u128;
        entries as u64
    }
}

/// The components of the first fields of a key, which may be cut off.
pub(crate) fn prefix<'k>(definition: &Definition, key: &'k [u8], fields: usize) -> &'k [u8] {
    let mut end = 0;
    for direction in definition.directions().take(fields) {
        match component_len(&key[end..], direction) {
            Ok((len, _is_cut)) => end += len,
            Err(_cut_off) => return key,
        }
    }
    &key[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use flagstone_doc::Value;
    use flagstone_doc::sort_key::{Direction, encode};
    use std::ops::Bound;

    fn key(values: &[i64]) -> Vec<u8> {
        let mut key = Vec::new();
        values.iter().for_each(|n| encode(&Value::from(*n), Direction::Ascending, &mut key));
        key
    }

    #[test]
    fn ranges_are_estimated_from_a_sample() {
        // One entry in ten: 20 values of `a`, each entry with its own `b` and primary key.
        let mut keys: Vec<Vec<u8>> = (0..1000).map(|n| key(&[n % 20, n, n])).collect();
        keys.sort();
        let statistics = Statistics::new(keys, 1);
        let range = |from: &[i64], to: &[i64]| KeyRange {
            start: Bound::Included(key(from)),
            end: Bound::Excluded(key(to)),
        };
        let within = |range: KeyRange| statistics.entries_in([range].iter(), 10_000).unwrap();
        assert!(within(range(&[3], &[4])).abs_diff(500) <= 10);
        assert!(within(range(&[3], &[13])).abs_diff(5000) <= 10);
        assert!(within(range(&[50], &[60])) <= 10);
        assert_eq!(within(KeyRange::ALL), 10_000);
        assert_eq!(statistics.entries_of(&key(&[3]), 10_000), 500);
        assert_eq!(statistics.entries_of(&key(&[50]), 10_000), 10);
    }

    #[test]
    fn a_small_sample_tells_nothing() {
        let keys = (0..31).map(|n| key(&[n, n])).collect();
        let statistics = Statistics::new(keys, 1);
        assert_eq!(statistics.entries_in([KeyRange::ALL].iter(), 500), None);
    }

    #[test]
    fn a_key_that_is_cut_off_is_all_that_is_known_of_its_components() {
        let definition = Definition::new("i", &Index::on("a").then("b")).unwrap();
        let mut long = Vec::new();
        encode(&Value::from("x".repeat(100)), Direction::Ascending, &mut long);
        assert_eq!(prefix(&definition, &long[..64], 1), &long[..64]);
        assert_eq!(prefix(&definition, &key(&[1, 2, 3]), 1), key(&[1]));
        assert_eq!(prefix(&definition, &key(&[1, 2, 3]), 2), key(&[1, 2]));
    }
}
