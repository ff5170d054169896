//! Cuts a tree into segments at fences: keys that no new table reaches across.
//!
//! ```text
//! L0      [--][---] [--] [-----]|[---] [--][---]
//!         [----] [---------] [-]|[--] [---------]
//! L6      [------][-----][-----]|[-----][-----]
//!                             fence
//! ```
//!
//! Every flush and compaction cuts its tables at the fences. So the tables of one segment overlap
//! no others, and a segment can be compacted by itself: a piece of bounded size, whose inputs are
//! removed when it is installed.
//!
//! Fences are not stored. They are chosen each time from the bounds of the tables, with preference
//! for keys that few bytes reach across, which are the previous fences. So fences stay where they
//! are while data comes and goes, a segment that has grown is cut, small neighbours are joined, and
//! tables that reach across a fence disappear with the next compactions.

use crate::options::TreeOptions;
use crate::version::{TableHandle, Version, ends_before};
use flagstone_base::sorted::sort_by;
use std::ops::Bound;
use std::sync::Arc;

/// A job takes at most this part of the tree, ..
const JOB_PART: u64 = 20;
/// .. and at most this many bytes, however large the tree is.
pub(super) const JOB_BYTES_MAX: u64 = 2 << 30;
/// In a tree with much garbage, the output of a job must not take much space in addition to its
/// inputs: in a small tree a job takes at most this part of the tree, ..
const WASTEFUL_JOB_PART: u64 = 4;
/// .. or this part of the limit for other trees.
const WASTEFUL_LEAST_PARTS: u64 = 2;
/// In such a tree a segment is at most this part of a job. Otherwise a piece could not grow over
/// the tables of L0 that reach across its ends, and would leave them and everything newer behind. A
/// job is then hardly larger than a segment.
const WASTEFUL_SEGMENT_PARTS: u64 = 4;
/// In such a tree a byte below L0 that reaches across the end of a segment costs this many bytes of
/// L0: a job must take it, so two segments become one, while the tables of L0 will soon be gone.
const LEVELS_COST: u64 = 16;
/// A segment has between this part of its limit and the whole limit.
const SEGMENT_PARTS: u64 = 4;
/// Tables cut at fences have at least this part of the size of a full table, on average.
const TABLE_PARTS: u64 = 32;

/// Returns the limit on the bytes of the inputs of one compaction.
pub(crate) fn job_bytes_max(version: &Version, options: &TreeOptions) -> u64 {
    let all: u64 = version.tables().map(|(_, table)| table.meta().bytes).sum();
    let any = options.job_bytes_min.max(1);
    let least = if version.is_wasteful() {
        (all / WASTEFUL_JOB_PART).clamp((any / WASTEFUL_LEAST_PARTS).max(1), any)
    } else {
        any
    };
    (all / JOB_PART).clamp(least, JOB_BYTES_MAX.max(any))
}

/// Returns the limit on the bytes of a segment.
fn segment_bytes_max(version: &Version, options: &TreeOptions) -> u64 {
    let job = job_bytes_max(version, options);
    if version.is_wasteful() { (job / WASTEFUL_SEGMENT_PARTS).max(1) } else { job }
}

/// Returns the size at which a compaction finishes a table. Fences are chosen among the first keys
/// of tables, so segments can only become smaller than a table if tables do.
pub(crate) fn table_bytes_max(version: &Version, options: &TreeOptions) -> u64 {
    if version.is_wasteful() {
        options.table_bytes.min(segment_bytes_max(version, options) / SEGMENT_PARTS).max(1)
    } else {
        options.table_bytes
    }
}

/// Returns the fences of `version`, ascending: the first keys of all segments except the first.
/// Costs O(n log n) for n tables.
pub(crate) fn fences(version: &Version, options: &TreeOptions) -> Vec<Vec<u8>> {
    let max = segment_bytes_max(version, options);
    let mut starts: Vec<(u8, &Arc<TableHandle>)> = version.tables().collect();
    let all: u64 = starts.iter().map(|(_, table)| table.meta().bytes).sum();
    if all <= max {
        return Vec::new();
    }
    let cut_cost = |(level, table): (u8, &Arc<TableHandle>)| {
        let bytes = table.meta().bytes;
        if version.is_wasteful() && level > 0 { bytes.saturating_mul(LEVELS_COST) } else { bytes }
    };
    let mut ends = starts.clone();
    sort_by(&mut starts, |(_, a), (_, b)| a.meta().smallest.cmp(&b.meta().smallest));
    sort_by(&mut ends, |(_, a), (_, b)| upper_order(a).cmp(&upper_order(b)));
    let mut walk = FenceWalk { max, last: 0, best: None, fences: Vec::new() };
    let (mut before, mut crossing, mut next_end) = (0, 0_u64, 0);
    for (at, (level, table)) in starts.iter().enumerate() {
        let key = &table.meta().smallest;
        while let Some((level, end)) = ends.get(next_end)
            && ends_before(end.meta().upper(), key)
        {
            crossing = crossing.saturating_sub(cut_cost((*level, *end)));
            next_end += 1;
        }
        if at > 0 && *key != starts[at - 1].1.meta().smallest {
            walk.offer(FenceCandidate { key, before, crossing });
        }
        before += table.meta().bytes;
        crossing = crossing.saturating_add(cut_cost((*level, *table)));
    }
    walk.end(all);
    walk.fences.into_iter().map(<[u8]>::to_vec).collect()
}

/// Returns every n-th of `fences`, so that an output of `bytes` over all of them makes no tiny
/// tables.
pub(crate) fn coarse(fences: Vec<Vec<u8>>, bytes: u64, options: &TreeOptions) -> Vec<Vec<u8>> {
    let tables = (bytes / (options.table_bytes / TABLE_PARTS).max(1)).max(1);
    let step = (fences.len() as u64 + 1).div_ceil(tables) as usize;
    fences.into_iter().skip(step - 1).step_by(step.max(1)).collect()
}

/// A key that could be a fence.
#[derive(Clone, Copy)]
struct FenceCandidate<'a> {
    key: &'a [u8],
    /// Bytes of the tables that begin before the key, and the cost of those among them that reach
    /// across it.
    before: u64,
    crossing: u64,
}

/// Chooses among places that come in the order of their keys.
struct FenceWalk<'a> {
    max: u64,
    /// Bytes before the last fence.
    last: u64,
    best: Option<FenceCandidate<'a>>,
    fences: Vec<&'a [u8]>,
}

impl<'a> FenceWalk<'a> {
    fn offer(&mut self, place: FenceCandidate<'a>) {
        let size = place.before - self.last;
        if size > self.max
            && let Some(best) = self.best.take()
        {
            self.take(best);
            // The rest may be enough for the next fence too. The few places within it are not
            // considered.
            return self.offer(place);
        }
        if size >= self.max / SEGMENT_PARTS {
            let cost = |place: &FenceCandidate<'_>| {
                let size = place.before - self.last;
                (place.crossing, size.abs_diff(self.max / 2))
            };
            if self.best.as_ref().is_none_or(|best| cost(&place) < cost(best)) {
                self.best = Some(place);
            }
        }
    }

    fn take(&mut self, place: FenceCandidate<'a>) {
        self.fences.push(place.key);
        self.last = place.before;
    }

    /// Cuts the rest after the last fence only if it is too large for one job.
    fn end(&mut self, all: u64) {
        if all - self.last > self.max
            && let Some(best) = self.best.take()
        {
            self.take(best);
        }
    }
}

/// Compares upper bounds by key. A bound that excludes its key is below one that includes it.
fn upper_order(table: &Arc<TableHandle>) -> (bool, &[u8], bool) {
    match table.meta().upper() {
        Bound::Excluded(key) => (false, key, false),
        Bound::Included(key) => (false, key, true),
        Bound::Unbounded => (true, &[], true),
    }
}
