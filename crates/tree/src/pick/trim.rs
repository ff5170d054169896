//! Picks a compaction that trims tables which a split has given to two trees.
//!
//! ```text
//! L0   [----|--]        [--|----]      a table of each run reaches across the bound:
//!      [------|-]   or  [-|--]         one job merges them, and writes their part of the tree
//!      [---|----]                      as one run
//! L1+  [--------]|[--------|---]       one table
//! ```
//! A tree that is written heavily has a dozen runs when it is split. Each would be written again on
//! its own, and once more soon afterwards, to be merged with the others.

use super::choose::finish;
use super::fences::job_bytes_max;
use super::floor::is_older;
use super::job::{Job, JobReason, Tables};
use super::window::keeps_order;
use crate::options::TreeOptions;
use crate::version::{Span, TableHandle, Version};
use flagstone_base::SeqNo;
use flagstone_base::sorted::sort_by;
use std::sync::Arc;

/// Returns a compaction that writes tables again, in their level, without the keys outside of the
/// tree: several of L0 as one run, or one table. `None` if no table reaches across the bounds of
/// the tree. What is newer than `floor` is not merged with what is older. Pure; the cost is
/// proportional to the number of tables times that of the runs of L0.
pub fn pick_trim(version: &Version, options: &TreeOptions, floor: Option<SeqNo>) -> Option<Job> {
    if !options.has_bounds() {
        return None;
    }
    let reaches =
        |table: &Arc<TableHandle>| options.reaches_across(table.meta()) && !table.is_quarantined();
    let smallest = version
        .tables()
        .filter(|(_, table)| reaches(table))
        .min_by_key(|(_, table)| (table.meta().bytes, table.number()));
    let (level, table) = smallest?;
    let merged = match floor {
        None => most_runs(version, options),
        Some(floor) => {
            let older = version.with_l0(|meta| is_older(meta, floor));
            most_runs(&older, options)
        }
    };
    let (inputs, level) = match merged {
        Some(inputs) => (inputs, 0),
        None => (vec![(level, Arc::clone(table))], level),
    };
    Some(finish(inputs, usize::from(level), JobReason::Bounds))
}

/// Returns those tables of L0 that reach across the bounds and can be merged by one job, newest
/// first, with the tables between them: the most of several choices, at least two.
fn most_runs(version: &Version, options: &TreeOptions) -> Option<Tables> {
    let reaches = |table: &&Arc<TableHandle>| options.reaches_across(table.meta());
    let mut reaching: Vec<&Arc<TableHandle>> = version.tables_of(0).filter(reaches).collect();
    let order = |table: &TableHandle| (table.meta().seqnos(), table.number());
    sort_by(&mut reaching, |a, b| order(a).cmp(&order(b)));
    let bytes_max = job_bytes_max(version, options);
    let mut most: Option<(usize, Tables)> = None;
    let mut rest = reaching.as_slice();
    while rest.len() > 1 {
        let (count, window) = longest(version, rest, bytes_max);
        if count > most.as_ref().map_or(1, |most| most.0) {
            most = Some((count, window));
        }
        rest = &rest[count.max(1)..];
    }
    most.map(|(_, window)| window)
}

/// Returns how many of `tables`, oldest first, one job of at most `bytes_max` can merge from the
/// first on, and its inputs.
fn longest(version: &Version, tables: &[&Arc<TableHandle>], bytes_max: u64) -> (usize, Tables) {
    let (mut count, mut found) = (0, Tables::new());
    for end in 1..=tables.len() {
        let Some(window) = with_between(version, &tables[..end], bytes_max) else { break };
        if keeps_order(version, &window) {
            (count, found) = (end, window);
        }
    }
    (count, found)
}

/// Returns `tables` and the tables of L0 that overlap them and are neither older nor newer than all
/// of them, newest first. `None` if that is too much: more than `bytes_max`, more bytes of other
/// tables than of `tables`, or a quarantined table.
fn with_between(version: &Version, tables: &[&Arc<TableHandle>], bytes_max: u64) -> Option<Tables> {
    let span = Span::over(tables.iter().map(|table| table.meta()))?;
    let oldest = tables.iter().map(|table| table.meta().seqnos().0).min()?;
    let newest = tables.iter().map(|table| table.meta().seqnos().1).max()?;
    let is_between = |table: &&Arc<TableHandle>| {
        let (from, to) = table.meta().seqnos();
        from <= newest && oldest <= to
    };
    let runs = version.l0_runs().iter().rev();
    let overlapping = runs.flat_map(|run| &run[span.within(run)]);
    let window: Vec<&Arc<TableHandle>> = overlapping.filter(is_between).collect();
    let bytes = |tables: &[&Arc<TableHandle>]| tables.iter().map(|t| t.meta().bytes).sum::<u64>();
    let (all, own) = (bytes(&window), bytes(tables));
    let is_too_much = all > bytes_max || all > own * 2;
    let is_quarantined = window.iter().any(|table| table.is_quarantined());
    let window = window.into_iter().map(|table| (0, Arc::clone(table)));
    (!is_too_much && !is_quarantined).then(|| window.collect())
}
