//! Picks compactions for deleted ranges over whole tables, which free the space of these tables and
//! read almost nothing.

use super::choose::{column_of, job};
use super::job::{Job, JobReason};
use super::shape::{Policy, Shape};
use crate::options::TreeOptions;
use crate::ranges::RangeSet;
use crate::version::{LEVELS, Run, Span, TableHandle, Version, ends_before};
use flagstone_base::SeqNo;
use flagstone_sst::TableMeta;
use std::sync::Arc;

/// Returns a compaction that brings a deleted range down towards a table all of whose keys it
/// deletes, for a tree that needs no other compaction. Ignores ranges above `oldest`, the oldest
/// SeqNo of any reader: what they delete must stay. Opens the tables that have deleted ranges.
pub(super) fn pick_hidden(version: &Version, options: &TreeOptions, oldest: SeqNo) -> Option<Job> {
    let base = Shape::of(version, options, Policy::Leveling).base;
    let runs = version.l0_runs();
    for (age, run) in runs.iter().enumerate().rev() {
        let (older, deeper) = (&runs[..age], (1..LEVELS).map(|level| version.level(level)));
        let below: Vec<&Run> = older.iter().chain(deeper).collect();
        if let Some(table) = first_above_deleted(run, &below, oldest) {
            return Some(job(version, column_of(table, older), base, JobReason::Tombstones));
        }
    }
    (1..LEVELS - 1).find_map(|level| {
        let below: Vec<&Run> = (level + 1..LEVELS).map(|level| version.level(level)).collect();
        let table = first_above_deleted(version.level(level), &below, oldest)?;
        let inputs = vec![(level as u8, Arc::clone(table))];
        Some(job(version, inputs, level + 1, JobReason::Tombstones))
    })
}

/// Returns the first table of `run` that deletes all keys of one of the tables below.
fn first_above_deleted<'a>(
    run: &'a Run,
    below: &[&Run],
    oldest: SeqNo,
) -> Option<&'a Arc<TableHandle>> {
    run.iter().filter(|table| table.meta().range_deletes > 0).find(|table| {
        // A table that cannot be opened is skipped; a read of it will report the error.
        let Ok(ranges) = table.ranges() else { return false };
        let span = Span::of(table.meta());
        below.iter().any(|run| {
            run[span.within(run)].iter().any(|other| is_deleted(other.meta(), ranges, oldest))
        })
    })
}

/// Returns whether one deleted range deletes all of `table`.
fn is_deleted(table: &TableMeta, ranges: &RangeSet, oldest: SeqNo) -> bool {
    ranges.piece(&table.smallest).is_some_and(|piece| {
        ends_before(table.upper(), piece.end)
            && piece.seqno <= oldest
            && table.seqnos().1 < piece.seqno
    })
}
