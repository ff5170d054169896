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

/// Returns what the entries of one bucket tell of ranges of several indexes. Documents are in
/// buckets by the hash of their keys, so each bucket has about the same part of any range.
pub(crate) fn sample(
    ground: &Ground,
    asked: &[(u32, Vec<KeyRange>)],
) -> Result<Vec<Option<Sample>>> {
    let view = ground.view();
    let buckets = view.note.rows.buckets;
    // Different queries look at different buckets, the same one always at one.
    let starts = asked.iter().flat_map(|(_, ranges)| ranges.first()).map(|range| &range.start);
    let hash = starts.fold(0, |hash, start| match start {
        Bound::Included(key) | Bound::Excluded(key) => key_hash(key, hash),
        Bound::Unbounded => hash,
    });
    let partition = view.partition((hash % u64::from(buckets)) as u32);
    let is_asked = |ranges: &[KeyRange]| !ranges.is_empty() && ranges.len() <= RANGES;
    let mut requests = Vec::new();
    for (index, ranges) in asked.iter().filter(|(_, ranges)| is_asked(ranges)) {
        requests.extend(ranges.iter().map(|range| PageRequest {
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
        for _ in ranges {
            let page = pages.next().ok_or_else(no_answer)??;
            let is_there = |row: &&crate::store::StoredRow| row.expiry.is_none_or(|at| at > now);
            sampled += page.rows.iter().filter(is_there).count() as u64;
            is_least |= !page.is_last;
        }
        // None in one bucket are few in all.
        let entries = (sampled * u64::from(buckets)).max(u64::from(buckets) / 2);
        samples.push(Some(Sample { entries, is_least, sampled }));
    }
    Ok(samples)
}
