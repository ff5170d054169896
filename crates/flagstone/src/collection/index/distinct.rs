//! How many distinct values the first fields of an index have, with the error of the number.
//!
//! Few values are counted: a walk goes from each to the next. Many are estimated from sampled
//! entries: an entry of a value that `n` entries have stands for `1/n` of a value, so the mean of
//! `1/n` over entries that were chosen by chance, times the number of entries, is the number of
//! values, whatever their frequencies are. `n` is counted in the index, up to a limit: the sample
//! alone cannot tell 100,000 values from a million if it has each once.

use super::scan::{IndexRange, IndexScan, Order, Reader, UsableIndex};
use crate::index::{Statistics, above, prefix};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, Result};
use flagstone_engine::Snapshot;
use std::ops::Bound;

/// The most distinct values that are counted exactly.
const COUNTED_MAX: u64 = 4000;
/// The next value is looked for among so many entries before a seek, which costs more.
const NEAR: usize = 8;
/// The most sampled entries whose values are counted.
const SAMPLED_MAX: usize = 1000;
/// With fewer an estimate tells too little.
const SAMPLED_MIN: usize = 32;
/// The entries of one value are counted up to this number ..
const RUN_MAX: u64 = 1000;
/// .. and those of all sampled values, for one number of fields, up to this.
const READ_MAX: u64 = 200_000;

/// An estimate is not said to be better than this, since the number of entries is one, too.
const ERROR_MIN: f64 = 0.01;

/// A number of distinct values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DistinctCount {
    pub(super) values: u64,
    /// The relative error that the number has in about 95 cases of 100; 0 if it was counted.
    pub(super) error: f64,
}

/// Counts values in one index.
pub(super) struct Counter<'a> {
    pub(super) index: &'a UsableIndex,
    pub(super) snapshot: &'a Snapshot,
    pub(super) statistics: &'a Statistics,
    /// About how many entries there are.
    pub(super) entries: u64,
}

impl Counter<'_> {
    /// Returns how many distinct values the first `fields` fields have together; `None` if there
    /// are many, and too few entries in tables to estimate their number.
    pub(super) fn distinct(&self, fields: usize) -> Result<Option<DistinctCount>> {
        if let Some(values) = self.counted(fields)? {
            return Ok(Some(DistinctCount { values, error: 0.0 }));
        }
        self.estimated(fields)
    }

    /// Counts the values; `None` if there are more than are counted.
    fn counted(&self, fields: usize) -> Result<Option<u64>> {
        let (mut scan, mut count) = (self.scan_from(Bound::Unbounded)?, 0);
        let mut is_there = scan.advance()?;
        while is_there {
            if count == COUNTED_MAX {
                return Ok(None);
            }
            count += 1;
            let value = self.value(&scan, fields)?.to_vec();
            let mut near = 0;
            while is_there && self.value(&scan, fields)? == value {
                if near == NEAR {
                    scan = self.scan_from(Bound::Included(above(&value)))?;
                }
                near += 1;
                is_there = scan.advance()?;
            }
        }
        Ok(Some(count))
    }

    /// Returns the components of the first fields of the first entry from `start` on.
    fn first_from(&self, start: Bound<Vec<u8>>, fields: usize) -> Result<Option<Vec<u8>>> {
        let mut scan = self.scan_from(start)?;
        if scan.advance()? { Ok(Some(self.value(&scan, fields)?.to_vec())) } else { Ok(None) }
    }

    fn scan_from(&self, start: Bound<Vec<u8>>) -> Result<IndexScan<'_>> {
        let range = IndexRange::from(KeyRange { start, end: Bound::Unbounded });
        self.index.scan(Reader::Snapshot(self.snapshot), &range, Order::Forward)
    }

    /// Returns the components of the first fields of the current entry.
    fn value<'s>(&self, scan: &'s IndexScan<'_>, fields: usize) -> Result<&'s [u8]> {
        let definition = self.index.definition();
        let definition = definition.ok_or_else(|| Error::invalid("the keyspace of an index"))?;
        Ok(prefix(definition, scan.components(), fields))
    }

    fn estimated(&self, fields: usize) -> Result<Option<DistinctCount>> {
        let keys = self.statistics.keys();
        let mut sums = Sums::default();
        let mut read = 0;
        for at in spread(keys.len()).take(SAMPLED_MAX) {
            if read >= READ_MAX {
                break;
            }
            // A sampled key may be cut, or its entry be gone: the next one is as good.
            let Some(value) = self.first_from(Bound::Included(keys[at].clone()), fields)? else {
                continue;
            };
            let counted = self.run(&value)?;
            read += counted;
            let most = if counted < RUN_MAX {
                counted
            } else {
                self.statistics.entries_of(&value, self.entries).max(counted)
            };
            sums.add(counted, most);
        }
        Ok((sums.sampled >= SAMPLED_MIN as f64).then(|| sums.distinct(self.entries)))
    }

    /// Counts the entries that begin with `value`, up to a limit.
    fn run(&self, value: &[u8]) -> Result<u64> {
        let range = IndexRange::of_prefix(value);
        let mut scan = self.index.scan(Reader::Snapshot(self.snapshot), &range, Order::Forward)?;
        let mut count = 0;
        while count < RUN_MAX && scan.advance()? {
            count += 1;
        }
        Ok(count.max(1))
    }
}

/// Returns the places of a list, each once, in an order in which neighbours are far apart.
fn spread(len: usize) -> impl Iterator<Item = usize> {
    // A step that has no factor in common with the length comes to each place.
    let common = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = (len as f64 * 0.618_034) as usize;
    let step = (golden.max(1)..).find(|step| common(*step, len) == 1).unwrap_or(1);
    (0..len).map(move |at| ((at as u128 * step as u128) % len as u128) as usize)
}

/// Sums of the parts of a value that sampled entries stand for.
#[derive(Default)]
struct Sums {
    sampled: f64,
    parts: f64,
    squares: f64,
    /// By how much the parts may be larger, where entries were not counted to the end.
    unknown: f64,
}

impl Sums {
    /// Adds an entry whose value has `least` entries or more, about `most`.
    fn add(&mut self, least: u64, most: u64) {
        let part = 1.0 / most as f64;
        self.sampled += 1.0;
        self.parts += part;
        self.squares += part * part;
        self.unknown += 1.0 / least as f64 - part;
    }

    fn distinct(&self, entries: u64) -> DistinctCount {
        let mean = self.parts / self.sampled;
        let variance = (self.squares / self.sampled - mean * mean).max(0.0);
        let deviation = (variance / self.sampled).sqrt();
        let values = (mean * entries as f64).round() as u64;
        // More were found than are counted.
        let values = values.clamp(COUNTED_MAX + 1, entries.max(COUNTED_MAX + 1));
        let error = (2.0 * deviation + self.unknown / self.sampled) / mean;
        let error = error.max(ERROR_MIN);
        DistinctCount { values, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_walked_through_in_steps_that_come_to_each_place() {
        for len in [0, 1, 2, 3, 10, 97, 1000, 2048] {
            let mut places: Vec<usize> = spread(len).collect();
            let first: Vec<usize> = places.iter().copied().take(4).collect();
            assert!(len < 97 || first.windows(2).all(|two| two[0].abs_diff(two[1]) > len / 4));
            places.sort_unstable();
            assert_eq!(places, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn values_are_estimated_with_an_error() {
        let mut once = Sums::default();
        (0..500).for_each(|_| once.add(1, 1));
        assert_eq!(once.distinct(1 << 20), DistinctCount { values: 1 << 20, error: ERROR_MIN });
        let mut ten = Sums::default();
        (0..500).for_each(|_| ten.add(10, 10));
        let found = ten.distinct(1_000_000);
        assert!(found.values == 100_000 && found.error < 0.011, "{found:?}");
        // Half of the entries have a value of their own, and half share few values.
        let mut mixed = Sums::default();
        (0..500).for_each(|_| mixed.add(1, 1));
        (0..500).for_each(|_| mixed.add(1000, 50_000));
        let found = mixed.distinct(1_000_000);
        assert!(found.values.abs_diff(500_010) < 100, "{found:?}");
        assert!((0.05..0.08).contains(&found.error), "{found:?}");
    }
}
