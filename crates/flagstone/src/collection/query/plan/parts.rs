//! Plans that several threads read at once: each part a part of the keys.

use super::planner::Chosen;
use crate::collection::Stored;
use crate::collection::query::access::IndexAccess;
use crate::collection::query::key_access::KeyAccess;
use flagstone_base::key::KeyRange;
use flagstone_engine::KeyspaceCore;
use std::ops::Bound;
use std::sync::Arc;

/// A part has about this many keys at least.
const PART_MIN: u64 = 1 << 14;

impl Chosen {
    /// Divides the plan into at most `most` parts of about as many keys, as far as the samples of
    /// tables tell. Each document is in one of them. A plan that finds documents by the entries of
    /// indexes stays whole: its parts would read the same blocks.
    pub(super) fn into_parts(self, stored: &Stored, most: usize) -> Vec<Self> {
        match self {
            Self::Keys(keys @ (KeyAccess::All | KeyAccess::Ranges(_))) => {
                let ranges: Vec<KeyRange> = keys.into_ranges().into();
                let parts =
                    parts(stored.keyspace().ok().map(|keyspace| &***keyspace), ranges, most);
                parts.into_iter().map(|part| Self::Keys(KeyAccess::Ranges(part.into()))).collect()
            }
            Self::Index { access, has_order: false, .. } if access.cover.is_some() => {
                let ranges = access.ranges.iter().map(|range| range.keys().clone()).collect();
                let parts = parts(access.index.core().map(|core| &**core), ranges, most);
                let part = |ranges: Vec<KeyRange>| {
                    let ranges = ranges.into_iter().map(Into::into).collect();
                    let access = Arc::new(IndexAccess { ranges, ..IndexAccess::clone(&access) });
                    Self::Index { access, known: None, has_order: false }
                };
                parts.into_iter().map(part).collect()
            }
            whole => vec![whole],
        }
    }
}

/// Divides ranges of the keys of `core` into parts; at least one.
fn parts(core: Option<&KeyspaceCore>, ranges: Vec<KeyRange>, most: usize) -> Vec<Vec<KeyRange>> {
    /// The keys that a bound is chosen of.
    const SAMPLED: u64 = 16;
    let Some(core) = core.filter(|_| most > 1) else { return vec![ranges] };
    let sample = core.sampled_keys(SAMPLED * most as u64);
    let mut keys = sample.keys;
    keys.retain(|key| ranges.iter().any(|range| range.contains(key)));
    let total = (keys.len() as u64).saturating_mul(1 << sample.shift.min(32));
    let count = most.min(usize::try_from(total / PART_MIN).unwrap_or(most)).max(1);
    let mut bounds: Vec<Vec<u8>> =
        (1..count).filter_map(|part| keys.get(part * keys.len() / count).cloned()).collect();
    bounds.dedup();
    divided(&ranges, &bounds)
}

/// Divides ranges at `bounds`, which ascend. Leaves out parts without a range, but one.
fn divided(ranges: &[KeyRange], bounds: &[Vec<u8>]) -> Vec<Vec<KeyRange>> {
    let starts = std::iter::once(None).chain(bounds.iter().map(Some));
    let ends = bounds.iter().map(Some).chain([None]);
    let part = |(start, end): (Option<&Vec<u8>>, Option<&Vec<u8>>)| -> Vec<KeyRange> {
        ranges.iter().filter_map(|range| within(range, start, end)).collect()
    };
    let mut parts: Vec<_> = starts.zip(ends).map(part).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        parts.push(ranges.to_vec());
    }
    parts
}

/// Returns the keys of `range` from `start` on and below `end`; `None` if there can be none.
fn within(range: &KeyRange, start: Option<&Vec<u8>>, end: Option<&Vec<u8>>) -> Option<KeyRange> {
    let mut range = range.clone();
    if let Some(start) = start
        && range.starts_before(start)
    {
        range.start = Bound::Included(start.clone());
    }
    if let Some(end) = end
        && range.ends_behind(end)
    {
        range.end = Bound::Excluded(end.clone());
    }
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key is in one part, in which it is once, if and only if it is in a range.
    #[test]
    fn parts_have_the_keys_of_the_ranges_once() {
        let bound = |at: u8| match at % 3 {
            0 => Bound::Included(vec![at]),
            1 => Bound::Excluded(vec![at]),
            _ => Bound::Unbounded,
        };
        let keys: Vec<Vec<u8>> = (0..40).flat_map(|at| [vec![at], vec![at, 0]]).collect();
        for (start, end) in (0..30).flat_map(|a| (0..30).map(move |b| (a, b))) {
            let ranges = [
                KeyRange { start: bound(start), end: Bound::Excluded(vec![15]) },
                KeyRange { start: Bound::Included(vec![15, 0]), end: bound(end) },
            ];
            for bounds in [&[][..], &[vec![7]], &[vec![0], vec![15], vec![15, 0], vec![22]]] {
                let parts = divided(&ranges, bounds);
                assert!((1..=bounds.len() + 1).contains(&parts.len()));
                for key in &keys {
                    let expected = ranges.iter().filter(|range| range.contains(key)).count();
                    let found = parts.iter().flatten().filter(|range| range.contains(key)).count();
                    assert_eq!(found, expected, "{key:?} in {parts:?}");
                }
            }
        }
    }
}
