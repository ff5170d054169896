//! Which tables to compact.
//!
//! L0: a table that no older one overlaps goes down alone; else a table with every older one that
//! overlaps it, and so on. Deeper: the table that overlaps the fewest bytes below for its size. What
//! overlaps nothing is moved by an edit, so input in key order is written once. Under
//! [`Policy::Tiering`] runs of L0 are first merged among themselves.

use super::job::{Job, JobReason};
use super::shape::{Policy, Shape};
use super::window;
use crate::options::TreeOptions;
use crate::version::{LEVELS, Run, Span, TableHandle, Version};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// A table with this share of tombstones or more is compacted for their sake.
const DENSE_PARTS: u64 = 2;
/// A table with this share of tombstones or more is not moved to a place where they could go.
const CLEAN_PARTS: u64 = 10;

/// Of a run that can go down piece by piece, so many tables go at once: a job ends soon, and what it
/// needs for its output is little.
const JOB_TABLES: usize = 4;

pub(super) type Tables = Vec<(u8, Arc<TableHandle>)>;

/// The most urgent compaction of `version`, if any is due. Pure; costs the tables of the tree.
pub(super) fn pick(version: &Version, options: &TreeOptions, policy: Policy) -> Option<Job> {
    let shape = Shape::of(version, options, policy);
    let mut levels: Vec<usize> =
        (0..LEVELS - 1).filter(|&level| shape.scores[level] >= 1.0).collect();
    levels.sort_by(|&a, &b| shape.scores[b].total_cmp(&shape.scores[a]));
    for level in levels {
        if level == 0
            && policy == Policy::Tiering
            && let Some(job) = pick_tiering(version, &shape, options)
        {
            return Some(job);
        }
        let inputs = match level {
            0 => pick_l0(version, shape.base),
            _ => pick_by_overlap(version, level),
        };
        let output = if level == 0 { shape.base } else { level + 1 };
        let reason = if level == 0 { JobReason::L0 } else { JobReason::Size };
        if let Some(inputs) = inputs {
            return Some(job(version, inputs, output, reason));
        }
    }
    if policy == Policy::Tiering {
        return pick_ordered(version, &shape, options);
    }
    let (level, table) = pick_dense(version)?;
    let inputs = vec![(level as u8, table)];
    Some(job(version, inputs, level + 1, JobReason::Tombstones))
}

/// Input in key order need not stay in L0: what overlaps nothing at all goes down by an edit.
fn pick_ordered(version: &Version, shape: &Shape, options: &TreeOptions) -> Option<Job> {
    if shape.bytes[0] < options.level_base_bytes {
        return None;
    }
    let mut inputs = movable(version, shape.base);
    inputs.retain(|(_, table)| {
        let span = Span::of(table.meta());
        (shape.base..LEVELS).all(|level| span.within(version.level(level)).is_empty())
    });
    (!inputs.is_empty()).then(|| job(version, inputs, shape.base, JobReason::L0))
}

/// A column of L0 with everything below it, to the last level: each byte once, not once a level.
fn pick_column(version: &Version) -> Option<Job> {
    let mut inputs = column(version.l0_runs())?;
    let mut span = Span::over(inputs.iter().map(|(_, table)| table.meta()))?;
    for level in 1..LEVELS {
        let run = version.level(level);
        let overlapping = &run[span.within(run)];
        inputs.extend(overlapping.iter().map(|table| (level as u8, Arc::clone(table))));
        overlapping.iter().for_each(|table| span.grow(table.meta()));
    }
    let is_move = inputs.iter().all(|(_, table)| is_clean(table.meta())) && are_disjoint(&inputs);
    Some(finish(inputs, LEVELS - 1, JobReason::L0, is_move))
}

/// What can be moved, runs of L0 that become one, or a column of an L0 that is too large.
fn pick_tiering(version: &Version, shape: &Shape, options: &TreeOptions) -> Option<Job> {
    if let Some(job) = pick_ordered(version, shape, options) {
        return Some(job);
    }
    if shape.bytes[0] >= shape.l0_bytes_max {
        return pick_column(version);
    }
    Some(runs_job(version, window::cheapest(version)?))
}

/// Neighbouring runs of L0 become one.
pub(super) fn runs_job(version: &Version, window: Range<usize>) -> Job {
    let tables = version.l0_runs()[window].iter().rev().flat_map(|run| run.iter());
    let inputs = tables.map(|table| (0, Arc::clone(table))).collect();
    finish(inputs, 0, JobReason::Runs, false)
}

/// Everything of `version` that is not in its last form: all levels go down to the last one, and
/// tombstones go. Tables of the last level stay that are clean, overlapped by nothing and written with its
/// compression: such as were moved there were not, and are written again. Pure; costs the tables of the tree.
pub fn pick_full(version: &Version, options: &TreeOptions) -> Option<Job> {
    let last = LEVELS - 1;
    let uppers: Tables = version
        .tables()
        .filter(|(level, _)| usize::from(*level) < last)
        .map(|(level, table)| (level, Arc::clone(table)))
        .collect();
    let mut spans: Vec<Span> = uppers.iter().map(|(_, table)| Span::of(table.meta())).collect();
    spans.sort_by(|a, b| a.lower.cmp(&b.lower));
    let mut inputs = uppers;
    for table in version.level(last).iter() {
        let meta = table.meta();
        let is_clean = meta.deletes == 0 && meta.range_deletes == 0 && meta.merges == 0;
        let is_packed = meta.compression == Some(options.bottom_compression);
        if !is_clean || !is_packed || spans.iter().any(|span| span.overlaps(meta)) {
            inputs.push((last as u8, Arc::clone(table)));
        }
    }
    (!inputs.is_empty()).then(|| finish(inputs, last, JobReason::Full, false))
}

/// The tables of L0 that go down together.
fn pick_l0(version: &Version, base: usize) -> Option<Tables> {
    let runs = version.l0_runs();
    let oldest = runs.first()?;
    let movable = movable(version, base);
    if !movable.is_empty() {
        return Some(movable);
    }
    if runs.len() == 1 {
        // Nothing in L0 overlaps it, so it may go piece by piece.
        return Some(oldest.iter().take(JOB_TABLES).map(|table| (0, Arc::clone(table))).collect());
    }
    column(runs)
}

/// A table of the newest run and everything older that overlaps.
fn column(runs: &[Run]) -> Option<Tables> {
    let (newest, older) = runs.split_last()?;
    Some(column_of(newest.first()?, older))
}

/// A table of L0 and everything in older runs that overlaps.
pub(super) fn column_of(seed: &Arc<TableHandle>, older: &[Run]) -> Tables {
    let mut span = Span::of(seed.meta());
    let mut chosen = vec![(0, Arc::clone(seed))];
    for run in older.iter().rev() {
        for table in &run[span.within(run)] {
            chosen.push((0, Arc::clone(table)));
        }
        chosen.iter().for_each(|(_, table)| span.grow(table.meta()));
    }
    chosen
}

/// The tables of the oldest run that overlap nothing at the base: nothing older than them is in L0, so
/// they can go at once.
fn movable(version: &Version, base: usize) -> Tables {
    let can_go = |table: &&Arc<TableHandle>| {
        let span = Span::of(table.meta());
        span.within(version.level(base)).is_empty() && is_clean(table.meta())
    };
    let oldest = version.l0_runs().first().into_iter().flat_map(|run| run.iter());
    oldest.filter(can_go).map(|table| (0, Arc::clone(table))).collect()
}

fn is_clean(meta: &flagstone_sst::TableMeta) -> bool {
    meta.range_deletes == 0 && meta.deletes * CLEAN_PARTS <= meta.entries
}

/// The table of `level` that costs the least for what it frees.
fn pick_by_overlap(version: &Version, level: usize) -> Option<Tables> {
    let below = version.level(level + 1);
    let cost = |table: &Arc<TableHandle>| {
        let overlapping = &below[Span::of(table.meta()).within(below)];
        let bytes: u64 = overlapping.iter().map(|table| table.meta().bytes).sum();
        bytes as f64 / table.meta().bytes.max(1) as f64
    };
    let tables = version.level(level).iter();
    let cheapest = tables
        .min_by(|a, b| cost(a).total_cmp(&cost(b)).then_with(|| a.number().cmp(&b.number())))?;
    Some(vec![(level as u8, Arc::clone(cheapest))])
}

/// A table that is half tombstones, in a level that can hand them down.
fn pick_dense(version: &Version) -> Option<(usize, Arc<TableHandle>)> {
    (1..LEVELS - 1).find_map(|level| {
        let is_dense = |table: &&Arc<TableHandle>| {
            let meta = table.meta();
            meta.deletes > 0 && meta.deletes * DENSE_PARTS >= meta.entries
        };
        version.level(level).iter().find(is_dense).map(|table| (level, Arc::clone(table)))
    })
}

/// Adds what the inputs overlap in the output level; the compaction cuts its output around the
/// tables in between.
pub(super) fn job(version: &Version, mut inputs: Tables, output: usize, reason: JobReason) -> Job {
    let below = version.level(output);
    let mut overlapping = BTreeSet::new();
    for (_, table) in &inputs {
        overlapping.extend(Span::of(table.meta()).within(below));
    }
    let clean = inputs.iter().all(|(_, table)| is_clean(table.meta()));
    if overlapping.is_empty() && clean && are_disjoint(&inputs) {
        return finish(inputs, output, reason, true);
    }
    inputs.extend(overlapping.iter().map(|&at| (output as u8, Arc::clone(&below[at]))));
    finish(inputs, output, reason, false)
}

fn are_disjoint(inputs: &Tables) -> bool {
    let mut metas: Vec<_> = inputs.iter().map(|(_, table)| table.meta()).collect();
    metas.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    metas.windows(2).all(|pair| !pair[0].overlaps_table(pair[1]))
}

fn finish(inputs: Tables, output: usize, reason: JobReason, is_move: bool) -> Job {
    Job {
        bytes: inputs.iter().map(|(_, table)| table.meta().bytes).sum(),
        inputs: inputs.iter().map(|(level, table)| (*level, table.number())).collect(),
        output_level: output as u8,
        reason,
        is_move,
    }
}
