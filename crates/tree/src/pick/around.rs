//! Picks compactions in a tree with damaged tables: only those that need none of them.
//!
//! A quarantined table is never an input of a compaction. It still covers its keys: tables above it
//! with the same keys stay above it, and their tombstones stay. Runs of L0 on one side of it are
//! merged with each other, and tables that do not overlap it go down. So a tree with one damaged
//! table can be written to for a long time.

use super::choose::{self, column_of, job, runs_job};
use super::job::{Job, Tables};
use super::shape::{Policy, Shape};
use super::{expired, hidden, window};
use crate::options::TreeOptions;
use crate::version::{LEVELS, Version};
use flagstone_base::{Moment, SeqNo};
use std::sync::Arc;

/// Returns the most urgent compaction of `version` that needs no quarantined table, if any is due.
/// Pure; the cost is proportional to the number of tables.
pub fn pick(version: &Version, options: &TreeOptions, policy: Policy) -> Option<Job> {
    let job = choose::pick(version, options, policy);
    if job.as_ref().is_some_and(|job| is_blocked(version, job)) {
        pick_around(version, options, policy)
    } else {
        job
    }
}

/// Returns a compaction that brings a deleted range down towards a table all of whose keys it
/// deletes, for a tree that needs no other compaction. Ignores ranges above `oldest`, the oldest
/// SeqNo of any reader: what they delete must stay. Opens the tables that have deleted ranges.
pub fn pick_hidden(version: &Version, options: &TreeOptions, oldest: SeqNo) -> Option<Job> {
    hidden::pick_hidden(version, options, oldest).filter(|job| !is_blocked(version, job))
}

/// Returns a compaction that removes entries that have expired at `moment`: it drops tables unread
/// if all they hold has expired, else it writes a table again of which at least half has. Under
/// [`Policy::Tiering`] that is a table of the last level. A table above it stays if that would be
/// more than one compaction takes, or much for what it frees. Pure; the cost is proportional to the
/// number of tables, and of those that the tables that are considered overlap.
///
/// No reader may judge by an earlier moment.
pub fn pick_expired(
    version: &Version,
    options: &TreeOptions,
    policy: Policy,
    moment: Moment,
) -> Option<Job> {
    let mut jobs = expired::pick_expired(version, options, policy, moment);
    // A damaged table can be dropped, because it is not read.
    jobs.find(|job| job.dropped_at.is_some() || !is_blocked(version, job))
}

/// Returns whether `job` needs a quarantined table.
fn is_blocked(version: &Version, job: &Job) -> bool {
    let is_input = |number| job.inputs.iter().any(|input| input.1 == number);
    version.tables().any(|(_, table)| table.is_quarantined() && is_input(table.number()))
}

/// As [`choose::pick`], but returns, level by level, the smallest compaction that needs no
/// quarantined table.
fn pick_around(version: &Version, options: &TreeOptions, policy: Policy) -> Option<Job> {
    let shape = Shape::of(version, options, policy);
    let is_due = |level: &usize| shape.scores[*level] >= 1.0;
    let best = |jobs: Vec<Job>| {
        let free = jobs.into_iter().filter(|job| !is_blocked(version, job));
        free.min_by_key(|job| (job.bytes, job.inputs.first().map(|input| input.1)))
    };
    (0..LEVELS - 1).filter(is_due).find_map(|level| match level {
        0 => best(columns(version, &shape))
            .or_else(|| window::cheapest(version, options).map(runs_job)),
        _ => best(singles(version, level)),
    })
}

/// Returns a job for each table of L0, with the older tables that overlap.
fn columns(version: &Version, shape: &Shape) -> Vec<Job> {
    let runs = version.l0_runs();
    let column = |(age, run): (usize, &crate::version::Run)| -> Vec<Tables> {
        run.iter().map(|table| column_of(table, &runs[..age])).collect()
    };
    let columns = runs.iter().enumerate().flat_map(column);
    columns.map(|tables| job(version, tables, shape.base, super::JobReason::L0)).collect()
}

/// Returns a job for each table of a deeper level, with the tables it overlaps below.
fn singles(version: &Version, level: usize) -> Vec<Job> {
    let tables = version.level(level).iter();
    let single = |table| vec![(level as u8, Arc::clone(table))];
    tables.map(|table| job(version, single(table), level + 1, super::JobReason::Size)).collect()
}
