//! A look at the entries of several indexes.

use crate::ground::{Ground, no_answer};
use crate::store::{Kind, PageRequest};
use flagstone::remote::Sample;
use flagstone_base::hash::key_hash;
use flagstone_base::{KeyRange, Result};
use std::ops::Bound;

/// The most entries of a range that are looked at.
const SAMPLED: usize = 100;
/// The most ranges of an index.
const RANGES: usize = 16;
/// How many buckets are looked at if they have ranges of keys, at most.
const LOOKED_AT: u32 = 8;

/// Returns what the entries of one bucket tell of ranges of several indexes. Where documents are in
/// buckets by the hash of their keys, each bucket has about the same part of any range. Else
/// several buckets are looked at, as a value may have to do with the key.
pub(crate) fn sample(
    ground: &Ground,
    asked: &[(u32, Vec<KeyRange>)],
) -> Result<Vec<Option<Sample>>> {
    let view = ground.view();
    let (buckets, are_ranges) =
        (view.note.rows.buckets.count(), view.note.rows.buckets.are_ranges());
    let looked_at = if are_ranges { buckets.min(LOOKED_AT) } else { 1 };
    // Different queries look at different buckets, the same one always at one.
    let starts = asked.iter().flat_map(|(_, ranges)| ranges.first()).map(|range| &range.start);
    let hash = starts.fold(0, |hash, start| match start {
        Bound::Included(key) | Bound::Excluded(key) => key_hash(key, hash),
        Bound::Unbounded => hash,
    });
    let first = (hash % u64::from(buckets)) as u32;
    let apart = buckets / looked_at;
    let partitions = (0..looked_at).map(|at| view.partition((first + at * apart) % buckets));
    let partitions: Vec<_> = partitions.collect();
    let is_asked = |ranges: &[KeyRange]| !ranges.is_empty() && ranges.len() <= RANGES;
    let mut requests = Vec::new();
    for (index, ranges) in asked.iter().filter(|(_, ranges)| is_asked(ranges)) {
        let all = ranges.iter().flat_map(|range| partitions.iter().map(move |at| (range, *at)));
        requests.extend(all.map(|(range, partition)| PageRequest {
            partition,
            kind: Kind(*index as i32),
            range: range.clone(),
            is_reversed: false,
            limit: SAMPLED,
            keys_only: true,
        }));
    }
    let (mut pages, now) = (ground.store.pages(&requests).into_iter(), ground.now());
    let mut samples = Vec::with_capacity(asked.len());
    for (_, ranges) in asked {
        if !is_asked(ranges) {
            samples.push(None);
            continue;
        }
        let (mut sampled, mut is_least) = (0, false);
        for _ in 0..ranges.len() * partitions.len() {
            let page = pages.next().ok_or_else(no_answer)??;
            let is_there = |row: &&crate::store::StoredRow| row.expiry.is_none_or(|at| at > now);
            sampled += page.rows.iter().filter(is_there).count() as u64;
            is_least |= !page.is_last;
        }
        // None in one bucket are few in all.
        let each_stands_for = u64::from(buckets) / u64::from(looked_at);
        let entries = (sampled * each_stands_for).max(each_stands_for / 2);
        samples.push(Some(Sample { entries, is_least, sampled }));
    }
    Ok(samples)
}
