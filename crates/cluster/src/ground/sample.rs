//! The bounds of ranges of keys are chosen by a sample of the keys.
//!
//! Buckets by hash have as good a sample each. Of those that have ranges of keys, the keys of all
//! are read.

use super::core::{Ground, View, no_answer};
use super::rebalance::Watch;
use crate::catalog::{BOUND_BYTES_MAX, BOUNDS_BYTES_MAX, Buckets};
use crate::store::{Kind, PageRequest};
use flagstone_base::{Error, KeyRange, Result, Slice, interrupt};
use std::ops::Bound;

/// The keys of a sample for each bucket that is wanted, if there are so many.
const WANTED: usize = 100;
/// The most keys of a sample. It has half as many at least when more are read.
const SAMPLE_MAX: usize = 1 << 18;
/// The keys of a page.
const PAGE: usize = 5_000;

/// How a collection can be divided into ranges of keys.
pub(super) enum Divided {
    Into(Buckets),
    /// It is divided so already, and no bucket has twice its part.
    AsItIs,
    /// The watcher has ended the call.
    Stopped,
}

/// Chooses the bounds of so many ranges with about as many documents each.
///
/// # Errors
/// InvalidInput if the documents have too few keys, or the bounds are too long; those of the store.
pub(super) fn ranges(
    ground: &Ground,
    view: &View,
    count: u32,
    watch: Watch<'_>,
) -> Result<Divided> {
    let rows = &view.note.rows.buckets;
    if count == 1 {
        let is_one = rows.are_ranges() && rows.count() == 1;
        let one = Divided::Into(Buckets::by_sample(&[], 1));
        return Ok(if is_one { Divided::AsItIs } else { one });
    }
    let mut sample = Sample::default();
    for bucket in 0..rows.count() {
        if !rows.are_ranges() && sample.read >= WANTED * count as usize {
            break;
        }
        if !sample.read_bucket(ground, view, bucket, watch)? {
            return Ok(Divided::Stopped);
        }
    }
    let mut keys = sample.keys;
    if rows.are_ranges() && rows.count() == count && are_equal(rows, &keys) {
        return Ok(Divided::AsItIs);
    }
    keys.sort_unstable();
    let buckets = Buckets::by_sample(&keys, count);
    let name = &ground.name;
    if buckets.count() < count {
        keys.dedup();
        return Err(Error::invalid(format!(
            "collection {name:?} cannot be divided into {count} ranges of keys: {} keys that \
             differ in their first {BOUND_BYTES_MAX} bytes were found. Ask for fewer ranges",
            keys.len()
        )));
    }
    let bytes = buckets.encoded().map_or(0, |bounds| bounds.len());
    if bytes > BOUNDS_BYTES_MAX {
        return Err(Error::invalid(format!(
            "collection {name:?} cannot be divided into {count} ranges of keys: its keys are long, \
             and the bounds would have {bytes} bytes in the catalog: expected at most \
             {BOUNDS_BYTES_MAX}. Ask for fewer ranges"
        )));
    }
    Ok(Divided::Into(buckets))
}

/// Returns whether no bucket has twice as many keys of a sample as it should have.
fn are_equal(buckets: &Buckets, sample: &[Slice]) -> bool {
    let mut counts = vec![0; buckets.count() as usize];
    sample.iter().for_each(|key| counts[buckets.bucket_of(key) as usize] += 1);
    let mean = sample.len() / counts.len();
    counts.iter().all(|count| *count <= 2 * mean + 1)
}

/// Keys that were read: all, or each nth.
struct Sample {
    /// Their first bytes, as many as bounds have.
    keys: Vec<Slice>,
    /// How many were read.
    read: usize,
    /// One of so many is kept.
    each: usize,
}

impl Default for Sample {
    fn default() -> Self {
        Self { keys: Vec::new(), read: 0, each: 1 }
    }
}

impl Sample {
    /// Reads the keys of a bucket. Returns false if the watcher ends the call.
    fn read_bucket(
        &mut self,
        ground: &Ground,
        view: &View,
        bucket: u32,
        watch: Watch<'_>,
    ) -> Result<bool> {
        let now = ground.now();
        let mut range = KeyRange::ALL;
        loop {
            interrupt::check()?;
            let (partition, kind) = (view.partition(bucket), Kind::DOCUMENTS);
            let (is_reversed, limit, keys_only) = (false, PAGE, true);
            let read = range.clone();
            let request =
                PageRequest { partition, kind, range: read, is_reversed, limit, keys_only };
            let page = ground.store.pages(&[request]).pop().ok_or_else(no_answer)??;
            for row in &page.rows {
                if row.expiry.is_none_or(|at| at > now) {
                    self.add(&row.key);
                }
            }
            if watch(0).is_break() {
                return Ok(false);
            }
            match page.rows.last() {
                Some(last) if !page.is_last => range.start = Bound::Excluded(last.key.to_vec()),
                _ => return Ok(true),
            }
        }
    }

    fn add(&mut self, key: &[u8]) {
        if self.read.is_multiple_of(self.each) {
            self.keys.push(Slice::copy_of(&key[..key.len().min(BOUND_BYTES_MAX)]));
        }
        self.read += 1;
        if self.keys.len() >= SAMPLE_MAX {
            let mut at = 0_usize;
            self.keys.retain(|_key| {
                at += 1;
                at % 2 == 1
            });
            self.each *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sample_keeps_each_nth_key() {
        let mut sample = Sample::default();
        let count = 3 * SAMPLE_MAX as u64;
        (0..count).for_each(|key| sample.add(&key.to_be_bytes()));
        assert_eq!((sample.each, sample.read as u64), (4, count));
        let kept = (0..count).step_by(4).map(|key| Slice::copy_of(&key.to_be_bytes()));
        assert!(sample.keys.iter().cloned().eq(kept));
        sample.add(&[7; 300]);
        assert_eq!(sample.keys.last().unwrap(), &[7; BOUND_BYTES_MAX]);
    }

    #[test]
    fn buckets_are_equal_unless_one_has_twice_its_part() {
        let keys = |count: u8| (0..count).map(|n| Slice::copy_of(&[n])).collect::<Vec<_>>();
        let four = Buckets::by_sample(&keys(40), 4);
        assert!(are_equal(&four, &keys(40)) && are_equal(&four, &keys(45)));
        assert!(!are_equal(&four, &keys(90)), "the last one has 60 of 90");
        assert!(are_equal(&four, &[]));
    }
}
