//! Chooses which neighbouring runs of L0 to merge into one.
//!
//! It chooses the window of runs that costs the fewest bytes for each run it removes. With at most
//! k runs this greedy rule rewrites about as much as the binomial policy of Mathieu, Rajaraman,
//! Young and Yousefi ("Competitive Data-Structure Dynamization", SODA 2021): n flushes of one size
//! are each rewritten less than d times, where n is the binomial coefficient of k + d over d. With
//! 12 runs that is once for 13 flushes and twice for 91.
//!
//! A tree that is cut into segments is merged one segment after another. Only runs that are so
//! small that a flush did not cut them at every fence are merged as a whole.

use super::fences::job_bytes_max;
use super::job::Tables;
use super::piece::Segment;
use crate::options::TreeOptions;
use crate::version::{Span, TableHandle, Version};
use flagstone_base::sorted::SortedSet;
use flagstone_base::{FileNumber, SeqNo};
use std::sync::Arc;

/// Returns the tables of L0 to merge, newest first, none of them quarantined, or `None` if no two
/// runs can be merged without breaking the order of SeqNos.
pub(super) fn cheapest(version: &Version, options: &TreeOptions) -> Option<Tables> {
    let segments = Segment::all(version, options);
    let whole: Vec<Tables> = version.l0_runs().iter().map(|run| tables_of(run.iter())).collect();
    let max = if segments.len() == 1 { u64::MAX } else { job_bytes_max(version, options) };
    let all = cheapest_of(version, &whole, max);
    if segments.len() == 1 {
        return all.map(|(_, window)| window);
    }
    let layers = segments.iter().map(|segment| layers(version, segment));
    let deepest = layers.max_by_key(Vec::len).unwrap_or_default();
    // Tables that reach across an end of the segment separate the layers that can be merged.
    let parts = deepest.split(|layer| layer.is_empty());
    let found = parts.filter_map(|part| cheapest_of(version, part, u64::MAX));
    let segment = found.min_by(|a, b| a.0.total_cmp(&b.0));
    // A window over all segments removes a run in each of them.
    let of_all = |(cost, window): (f64, Tables)| (cost / segments.len() as f64, window);
    let both = segment.into_iter().chain(all.map(of_all));
    let best = both.min_by(|a, b| a.0.total_cmp(&b.0));
    best.or_else(|| cheapest_of(version, &whole, u64::MAX)).map(|(_, window)| window)
}

/// Returns the tables of each run of L0 in `segment`, oldest run first. A run with a table that
/// reaches across an end of the segment gives an empty layer.
fn layers(version: &Version, segment: &Segment) -> Vec<Tables> {
    let layers = version.l0_runs().iter().filter_map(|run| {
        let layer = tables_of(segment.of(run).iter());
        let is_contained = layer.iter().all(|(_, table)| segment.contains(table));
        (!layer.is_empty()).then(|| if is_contained { layer } else { Vec::new() })
    });
    layers.collect()
}

fn tables_of<'a>(tables: impl Iterator<Item = &'a Arc<TableHandle>>) -> Tables {
    tables.map(|table| (0, Arc::clone(table))).collect()
}

/// Returns the neighbouring layers of at most `max` bytes that cost the fewest bytes for each layer
/// removed, and that cost.
fn cheapest_of(version: &Version, layers: &[Tables], max: u64) -> Option<(f64, Tables)> {
    let bytes_of = |layer: &Tables| layer.iter().map(|(_, table)| table.meta().bytes).sum();
    let bytes: Vec<u64> = layers.iter().map(bytes_of).collect();
    let mut best: Option<(f64, Tables)> = None;
    for start in 0..layers.len() {
        for end in start + 2..=layers.len() {
            let total: u64 = bytes[start..end].iter().sum();
            let cost = total as f64 / (end - start - 1) as f64;
            if total > max || best.as_ref().is_some_and(|(least, _)| cost >= *least) {
                continue;
            }
            let window: Tables = layers[start..end].iter().rev().flatten().cloned().collect();
            let is_quarantined = window.iter().any(|(_, table)| table.is_quarantined());
            if !is_quarantined && keeps_order(version, &window) {
                best = Some((cost, window));
            }
        }
    }
    best
}

/// Returns whether every other table of L0 that overlaps `inputs` is older than all of them, or
/// newer than all. Tables of L0 are put into runs by SeqNo and overlap, so a merged table must not
/// hold SeqNos from both sides of a table that stays.
pub(super) fn keeps_order(version: &Version, inputs: &Tables) -> bool {
    let metas = || inputs.iter().map(|(_, table)| table.meta());
    let Some(span) = Span::over(metas()) else { return false };
    let seqnos = metas().map(|meta| meta.seqnos());
    let (oldest, newest) =
        seqnos.fold((SeqNo::MAX, SeqNo::ZERO), |all, (a, b)| (all.0.min(a), all.1.max(b)));
    let numbers: SortedSet<FileNumber> = inputs.iter().map(|(_, table)| table.number()).collect();
    let overlapping = version.l0_runs().iter().flat_map(|run| &run[span.within(run)]);
    let mut others = overlapping.filter(|table| !numbers.contains(&table.number()));
    others.all(|table| table.meta().seqnos().1 < oldest || newest < table.meta().seqnos().0)
}

/// As [`keeps_order`], for the numbers of tables.
pub(crate) fn is_contiguous(version: &Version, inputs: &SortedSet<FileNumber>) -> bool {
    let tables = version.l0_runs().iter().flat_map(|run| run.iter());
    keeps_order(version, &tables_of(tables.filter(|table| inputs.contains(&table.number()))))
}
