//! Chooses which tables to compact.
//!
//! L0: a table that no older one overlaps goes down alone; otherwise a table with every older one
//! that overlaps it, and so on. Deeper: the table that overlaps the fewest bytes below for its
//! size. A table that overlaps nothing is moved by an edit, so input in key order is written once.
//! Under [`Policy::Tiering`] runs of L0 are first merged with each other.

use super::fences::job_bytes_max;
use super::job::{Job, JobReason, Tables};
use super::piece::{Growth, Segment, SegmentInputs, segment_inputs};
use super::shape::{Policy, Shape};
use super::window;
use crate::options::TreeOptions;
use crate::version::{LEVELS, Run, Span, TableHandle, Version};
use flagstone_base::sorted::{SortedSet, sort_by};
use std::cell::LazyCell;
use std::sync::Arc;

/// A table in which at least one in this many entries is a tombstone is compacted to drop them.
const DENSE_PARTS: u64 = 2;
/// A table in which more than one in this many entries is a tombstone is not moved to a level where
/// they could be dropped.
const CLEAN_PARTS: u64 = 10;

/// The number of tables of a job if the run can go down piece by piece: such a job finishes soon,
/// and needs little space for its output.
const JOB_TABLES: usize = 4;

/// Under [`Policy::Leveling`] L0 goes directly to the last level if it holds at least this part of
/// the bytes below.
const LARGE_L0_PARTS: u64 = 4;

/// Returns the most urgent compaction of `version`, if any is due. Pure; the cost is proportional
/// to the number of tables.
pub(super) fn pick(version: &Version, options: &TreeOptions, policy: Policy) -> Option<Job> {
    let shape = Shape::of(version, options, policy);
    let mut levels: Vec<usize> =
        (0..LEVELS - 1).filter(|&level| shape.scores[level] >= 1.0).collect();
    sort_by(&mut levels, |&a, &b| shape.scores[b].total_cmp(&shape.scores[a]));
    for level in levels {
        if level == 0
            && policy == Policy::Tiering
            && let Some(job) = pick_tiering(version, &shape, options)
        {
            return Some(job);
        }
        if level == 0
            && let Some(job) = pick_large_l0(version, &shape, options)
        {
            return Some(job);
        }
        let inputs = match level {
            0 => pick_l0(version, shape.base),
            _ => pick_by_overlap(version, level),
        };
        let output = if level == 0 { shape.base } else { level + 1 };
        let reason = if level == 0 { JobReason::L0 } else { JobReason::Size };
        let Some(inputs) = inputs else { continue };
        let whole = job(version, inputs, output, reason);
        if level == 0 && !whole.is_move && whole.bytes > job_bytes_max(version, options) {
            return pick_piece(version, options, output).or(Some(whole));
        }
        return Some(whole);
    }
    if policy == Policy::Tiering {
        return pick_ordered(version, &shape, options);
    }
    pick_dense(version, options)
}

/// Returns a move of tables of L0 that overlap nothing at all, so that input in key order does not
/// stay in L0.
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

/// Under [`Policy::Leveling`], sends an L0 that is large compared with the levels below directly to
/// the last level: on its way through all levels it would have each of their bytes rewritten.
fn pick_large_l0(version: &Version, shape: &Shape, options: &TreeOptions) -> Option<Job> {
    let below: u64 = shape.bytes[1..].iter().sum();
    let is_large = shape.bytes[0].saturating_mul(LARGE_L0_PARTS) >= below;
    if !is_large || shape.base == LEVELS - 1 || version.l0_runs().len() < 2 {
        return None;
    }
    pick_column(version, options)
}

/// Returns a compaction of a column of L0 and everything below it to the last level, which writes
/// each byte once, not once a level. If the column is too large for one job, takes a piece of it.
fn pick_column(version: &Version, options: &TreeOptions) -> Option<Job> {
    let mut inputs = column(version.l0_runs())?;
    let mut span = Span::over(inputs.iter().map(|(_, table)| table.meta()))?;
    for level in 1..LEVELS {
        let run = version.level(level);
        let overlapping = &run[span.within(run)];
        inputs.extend(overlapping.iter().map(|table| (level as u8, Arc::clone(table))));
        overlapping.iter().for_each(|table| span.grow(table.meta()));
    }
    let whole = to_last(inputs);
    if !whole.is_move && whole.bytes > job_bytes_max(version, options) {
        return pick_piece(version, options, LEVELS - 1).or(Some(whole));
    }
    Some(whole)
}

fn to_last(inputs: Tables) -> Job {
    let is_move = inputs.iter().all(|(_, table)| is_clean(table.meta())) && are_disjoint(&inputs);
    Job { is_move, ..finish(inputs, LEVELS - 1, JobReason::L0) }
}

/// Returns the compaction, down to level `output`, of the segment that has the most bytes in L0 for
/// its bytes below.
fn pick_piece(version: &Version, options: &TreeOptions, output: usize) -> Option<Job> {
    let segments = Segment::all(version, options);
    let growth = Growth::Within(job_bytes_max(version, options));
    let pieces = segments.iter().map(|segment| segment_inputs(version, segment, output, growth));
    let share = |piece: &SegmentInputs| piece.l0_bytes as f64 / piece.bytes.max(1) as f64;
    let is_free = |piece: &SegmentInputs| piece.l0_bytes > 0 && !is_quarantined(&piece.inputs);
    let best = pieces.filter(is_free).max_by(|a, b| share(a).total_cmp(&share(b)));
    let SegmentInputs { inputs, .. } = best?;
    Some(if output == LEVELS - 1 { to_last(inputs) } else { finish(inputs, output, JobReason::L0) })
}

/// Returns a move, a merge of runs of L0, or a compaction of a column of an L0 that is too large.
fn pick_tiering(version: &Version, shape: &Shape, options: &TreeOptions) -> Option<Job> {
    if let Some(job) = pick_ordered(version, shape, options) {
        return Some(job);
    }
    if shape.bytes[0] >= shape.l0_bytes_max {
        return pick_column(version, options);
    }
    Some(runs_job(window::cheapest(version, options)?))
}

/// Returns the job that merges neighbouring runs of L0 into one.
pub(super) fn runs_job(window: Tables) -> Job {
    finish(window, 0, JobReason::Runs)
}

/// Returns the tables of L0 that go down together.
fn pick_l0(version: &Version, base: usize) -> Option<Tables> {
    let runs = version.l0_runs();
    let oldest = runs.first()?;
    let movable = movable(version, base);
    if !movable.is_empty() {
        return Some(movable);
    }
    if runs.len() == 1 {
        // Nothing else in L0 overlaps the run, so it may go down piece by piece.
        return Some(oldest.iter().take(JOB_TABLES).map(|table| (0, Arc::clone(table))).collect());
    }
    column(runs)
}

/// Returns a table of the newest run and all older tables that overlap.
fn column(runs: &[Run]) -> Option<Tables> {
    let (newest, older) = runs.split_last()?;
    Some(column_of(newest.first()?, older))
}

/// Returns a table of L0 and all tables of older runs that overlap.
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

/// Returns the tables of the oldest run that overlap nothing in the base level. Nothing in L0 is
/// older, so they can all be moved at once.
fn movable(version: &Version, base: usize) -> Tables {
    let can_go = |table: &&Arc<TableHandle>| {
        let span = Span::of(table.meta());
        span.within(version.level(base)).is_empty() && is_clean(table.meta())
    };
    let oldest = version.l0_runs().first().into_iter().flat_map(|run| run.iter());
    oldest.filter(can_go).map(|table| (0, Arc::clone(table))).collect()
}

/// Returns whether one of `tables` is quarantined.
pub(super) fn is_quarantined(tables: &Tables) -> bool {
    tables.iter().any(|(_, table)| table.is_quarantined())
}

pub(super) fn is_clean(meta: &flagstone_sst::TableMeta) -> bool {
    meta.range_deletes == 0 && meta.deletes * CLEAN_PARTS <= meta.entries
}

/// Returns the table of `level` that overlaps the fewest bytes below for its size.
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

/// Returns the compaction of a table of which at least half are tombstones, in a level above the
/// last, unless what it overlaps is too much for one job.
fn pick_dense(version: &Version, options: &TreeOptions) -> Option<Job> {
    let is_dense = |table: &&Arc<TableHandle>| {
        let meta = table.meta();
        meta.deletes > 0 && meta.deletes * DENSE_PARTS >= meta.entries
    };
    let mut jobs = (1..LEVELS - 1).flat_map(move |level| {
        version.level(level).iter().filter(is_dense).map(move |table| {
            let inputs = vec![(level as u8, Arc::clone(table))];
            job(version, inputs, level + 1, JobReason::Tombstones)
        })
    });
    let bytes_max = LazyCell::new(|| job_bytes_max(version, options));
    jobs.find(|job| job.bytes <= *bytes_max)
}

/// Adds the tables of the output level that the inputs overlap. The compaction cuts its output
/// around the tables in between.
pub(super) fn job(version: &Version, mut inputs: Tables, output: usize, reason: JobReason) -> Job {
    let below = version.level(output);
    let mut overlapping = SortedSet::new();
    for (_, table) in &inputs {
        overlapping.extend(Span::of(table.meta()).within(below));
    }
    let clean = inputs.iter().all(|(_, table)| is_clean(table.meta()));
    if overlapping.is_empty() && clean && are_disjoint(&inputs) {
        return Job { is_move: true, ..finish(inputs, output, reason) };
    }
    inputs.extend(overlapping.iter().map(|&at| (output as u8, Arc::clone(&below[at]))));
    finish(inputs, output, reason)
}

fn are_disjoint(inputs: &Tables) -> bool {
    let mut metas: Vec<_> = inputs.iter().map(|(_, table)| table.meta()).collect();
    sort_by(&mut metas, |a, b| a.smallest.cmp(&b.smallest));
    metas.windows(2).all(|pair| !pair[0].overlaps_table(pair[1]))
}

/// A job that rewrites its inputs.
pub(super) fn finish(inputs: Tables, output: usize, reason: JobReason) -> Job {
    Job {
        bytes: inputs.iter().map(|(_, table)| table.meta().bytes).sum(),
        inputs: inputs.iter().map(|(level, table)| (*level, table.number())).collect(),
        output_level: output as u8,
        reason,
        is_move: false,
        dropped_at: None,
    }
}
