//! Where a tree is cut into segments: keys that no new table reaches over.
//!
//! ```text
//! L0      [--][---] [--] [-----]|[---] [--][---]
//!         [----] [---------] [-]|[--] [---------]
//! L6      [------][-----][-----]|[-----][-----]
//!                             fence
//! ```
//!
//! Every flush and compaction cuts its tables there, so the tables of one segment overlap no others, and a segment
//! can be compacted by itself: a piece of bounded size, whose inputs go when it is installed.
//!
//! Fences are not stored. They are chosen again from the bounds of the tables, with preference for places that hardly
//! any bytes reach over: those are the fences of before. So they stay where they are while data comes and goes, a
//! segment that has grown is cut, small neighbours become one, and tables that reach over a fence disappear with the next
//! compactions.

use crate::options::TreeOptions;
use crate::version::{TableHandle, Version, ends_before};
use std::ops::Bound;
use std::sync::Arc;

/// A job takes at most this part of the tree, ..
const JOB_PART: u64 = 20;
/// .. and no more than this, whatever the tree holds.
const JOB_BYTES_MAX: u64 = 2 << 30;
/// Segments have between this part of a job and a whole one.
const SEGMENT_PARTS: u64 = 4;
/// Tables cut at fences are not smaller than this part of a full one, on average.
const TABLE_PARTS: u64 = 32;

/// The most that the inputs of one compaction should have.
pub(crate) fn job_bytes_max(version: &Version, options: &TreeOptions) -> u64 {
    let all: u64 = version.tables().map(|(_, table)| table.meta().bytes).sum();
    (all / JOB_PART).clamp(options.job_bytes_min.max(1), JOB_BYTES_MAX.max(options.job_bytes_min))
}

/// The fences of `version`, rising: the first keys of segments, but for the first one's. Costs O(n log n) of its tables.
pub(crate) fn fences(version: &Version, options: &TreeOptions) -> Vec<Vec<u8>> {
    let job = job_bytes_max(version, options);
    let mut starts: Vec<&Arc<TableHandle>> = version.tables().map(|(_, table)| table).collect();
    let all: u64 = starts.iter().map(|table| table.meta().bytes).sum();
    if all <= job {
        return Vec::new();
    }
    let mut ends = starts.clone();
    starts.sort_by(|a, b| a.meta().smallest.cmp(&b.meta().smallest));
    ends.sort_by(|a, b| upper_order(a).cmp(&upper_order(b)));
    let mut walk = Walk { job, last: 0, best: None, fences: Vec::new() };
    let (mut begun, mut ended, mut next_end) = (0, 0, 0);
    for (at, table) in starts.iter().enumerate() {
        let key = &table.meta().smallest;
        while let Some(end) = ends.get(next_end)
            && ends_before(end.meta().upper(), key)
        {
            ended += end.meta().bytes;
            next_end += 1;
        }
        if at > 0 && *key != starts[at - 1].meta().smallest {
            walk.offer(Place { key, before: begun, crossing: begun - ended });
        }
        begun += table.meta().bytes;
    }
    walk.end(all);
    walk.fences.into_iter().map(<[u8]>::to_vec).collect()
}

/// Every n-th of `fences`, so that output of `bytes` over all of them makes no tiny tables.
pub(crate) fn coarse(fences: Vec<Vec<u8>>, bytes: u64, options: &TreeOptions) -> Vec<Vec<u8>> {
    let tables = (bytes / (options.table_bytes / TABLE_PARTS).max(1)).max(1);
    let step = (fences.len() as u64 + 1).div_ceil(tables) as usize;
    fences.into_iter().skip(step - 1).step_by(step.max(1)).collect()
}

/// A key that could be a fence.
#[derive(Clone, Copy)]
struct Place<'a> {
    key: &'a [u8],
    /// Bytes of the tables that begin before it, and of those among them that reach over it.
    before: u64,
    crossing: u64,
}

/// Chooses among places that come in the order of their keys.
struct Walk<'a> {
    job: u64,
    /// What lies before the last fence.
    last: u64,
    best: Option<Place<'a>>,
    fences: Vec<&'a [u8]>,
}

impl<'a> Walk<'a> {
    fn offer(&mut self, place: Place<'a>) {
        let size = place.before - self.last;
        if size > self.job
            && let Some(best) = self.best.take()
        {
            self.take(best);
            // What lies between may be enough for the next one, too; the few places in it are forgone.
            return self.offer(place);
        }
        if size >= self.job / SEGMENT_PARTS {
            let cost = |place: &Place<'_>| {
                let size = place.before - self.last;
                (place.crossing, size.abs_diff(self.job / 2))
            };
            if self.best.as_ref().is_none_or(|best| cost(&place) < cost(best)) {
                self.best = Some(place);
            }
        }
    }

    fn take(&mut self, place: Place<'a>) {
        self.fences.push(place.key);
        self.last = place.before;
    }

    /// What is left behind the last fence is cut only if it is too much for one job.
    fn end(&mut self, all: u64) {
        if all - self.last > self.job
            && let Some(best) = self.best.take()
        {
            self.take(best);
        }
    }
}

/// Upper bounds compare by key; one that excludes its key lies before one that includes it.
fn upper_order(table: &Arc<TableHandle>) -> (bool, &[u8], bool) {
    match table.meta().upper() {
        Bound::Excluded(key) => (false, key, false),
        Bound::Included(key) => (false, key, true),
        Bound::Unbounded => (true, &[], true),
    }
}
