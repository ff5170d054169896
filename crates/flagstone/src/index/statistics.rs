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
    /// For each number of fields, of all those from the first on.
    distinct: Vec<Seen>,
}

/// How often a sample has values.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The number of distinct values, of those that it has once, and twice.
    values: u64,
    once: u64,
    twice: u64,
}

impl Statistics {
    /// Takes the sampled `keys` of an index, which are ascending.
    pub(crate) fn new(definition: &Definition, keys: Vec<Vec<u8>>, stamp: u64) -> Self {
        let distinct = (1..=definition.fields.len()).map(|fields| {
            let (mut seen, mut run) = (Seen::default(), 0);
            let mut last: Option<&[u8]> = None;
            let prefixes = keys.iter().map(|key| Some(prefix(definition, key, fields)));
            for prefix in prefixes.chain([None]) {
                if prefix == last {
                    run += 1;
                    continue;
                }
                seen.values += u64::from(run > 0);
                seen.once += u64::from(run == 1);
                seen.twice += u64::from(run == 2);
                (last, run) = (prefix, u64::from(prefix.is_some()));
            }
            seen
        });
        Self { stamp, distinct: distinct.collect(), keys }
    }

    pub(crate) const fn stamp(&self) -> u64 {
        self.stamp
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

    /// Estimates how many distinct values the first fields have, for each number of fields, in an
    /// index of `total` entries. Empty if the sample is too small.
    ///
    /// The estimator is that of Chao (1984): the more values a sample has once, and the fewer
    /// twice, the more it lacks. It is low rather than high.
    pub(crate) fn distinct(&self, total: u64) -> Vec<u64> {
        let sampled = self.sampled();
        if self.keys.len() < SAMPLED_MIN {
            return Vec::new();
        }
        let estimate = |seen: &Seen| {
            let lacking = seen.once * seen.once.saturating_sub(1) / (2 * (seen.twice + 1));
            (seen.values + lacking).clamp(seen.values, total.max(sampled))
        };
        self.distinct.iter().map(estimate).collect()
    }
}

/// The components of the first fields of a key, which may be cut off.
fn prefix<'k>(definition: &Definition, key: &'k [u8], fields: usize) -> &'k [u8] {
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
    fn ranges_and_distinct_values_are_estimated_from_a_sample() {
        let definition = Definition::new("i", &Index::on("a").then("b")).unwrap();
        // One entry in ten: 20 values of `a`, each entry with its own `b` and primary key.
        let mut keys: Vec<Vec<u8>> = (0..1000).map(|n| key(&[n % 20, n, n])).collect();
        keys.sort();
        let statistics = Statistics::new(&definition, keys, 1);
        let range = |from: &[i64], to: &[i64]| KeyRange {
            start: Bound::Included(key(from)),
            end: Bound::Excluded(key(to)),
        };
        let within = |range: KeyRange| statistics.entries_in([range].iter(), 10_000).unwrap();
        assert!(within(range(&[3], &[4])).abs_diff(500) <= 10);
        assert!(within(range(&[3], &[13])).abs_diff(5000) <= 10);
        assert!(within(range(&[50], &[60])) <= 10);
        assert_eq!(within(KeyRange::ALL), 10_000);
        let distinct = statistics.distinct(10_000);
        assert_eq!(distinct[0], 20);
        assert!(distinct[1] > 9_000, "{distinct:?}");
    }

    #[test]
    fn a_small_sample_tells_nothing() {
        let definition = Definition::new("i", &Index::on("a")).unwrap();
        let keys = (0..31).map(|n| key(&[n, n])).collect();
        let statistics = Statistics::new(&definition, keys, 1);
        assert_eq!(statistics.entries_in([KeyRange::ALL].iter(), 500), None);
        assert!(statistics.distinct(500).is_empty());
    }

    #[test]
    fn keys_that_are_cut_off_count_as_they_are() {
        let definition = Definition::new("i", &Index::on("a").then("b")).unwrap();
        let text = |n: usize| {
            let mut key = Vec::new();
            encode(&Value::from("x".repeat(n)), Direction::Ascending, &mut key);
            key.truncate(64);
            key
        };
        let mut keys: Vec<Vec<u8>> = (10..110).map(text).collect();
        keys.sort();
        let statistics = Statistics::new(&definition, keys, 1);
        // All texts of 63 letters and more look alike.
        assert!((53..60).contains(&statistics.distinct[0].values));
    }
}
