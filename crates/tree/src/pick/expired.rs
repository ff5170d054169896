//! Picks compactions that remove entries that have expired.
//!
//! A table all of whose entries have expired is dropped unread. That must not uncover an older
//! entry of one of its keys, so everything older that overlaps it must have expired as well:
//!
//! ```text
//! L0   [a .. expired .. f]                 dropped: both tables below have expired
//! L5        [d .. expired .. k]            dropped
//! L6   [a .. expired .. e]  [g .. m]       the left one is dropped
//! ```
//!
//! Other tables are written again as soon as half of what they hold has expired, which their median
//! tells, unless they can soon be dropped: that costs one edit. Above the last level a table takes
//! what it overlaps with it. It stays if that is too much for one job, or for what it frees.

use super::choose::{column_of, finish, job};
use super::fences::job_bytes_max;
use super::job::{Job, JobReason, Tables};
use super::shape::{Policy, Shape};
use crate::options::TreeOptions;
use crate::version::{LEVELS, Run, Span, TableHandle, Version};
use flagstone_base::sorted::SortedSet;
use flagstone_base::{FileNumber, Moment};
use flagstone_sst::TableMeta;
use std::cell::LazyCell;
use std::sync::Arc;

/// A table is written again if at least one in this many entries has expired or is a tombstone.
const EXPIRED_PARTS: u64 = 2;

/// A table that can be dropped when its last entry expires waits for that, if the time left is at
/// most this many times the time since its first entry expired. Entries of one lifetime expire at
/// the pace at which they were written, so half of them have expired about halfway.
const WAIT_FACTOR: u64 = 2;

/// A job above the last level reads at most this many bytes for each byte that has expired or is a
/// tombstone. Between two full levels that are 8 times apart it reads 18 if half has expired. A few
/// tables that each span much of the next level would cost thousands.
const READ_FACTOR: u64 = 32;

/// Returns the compactions that remove entries that have expired at `moment`, the best first. None
/// is computed before it is asked for.
///
/// Under [`Policy::Tiering`] a table is written again only in the last level, where it costs its
/// own bytes. The entries of other tables expire on their way down.
pub(super) fn pick_expired(
    version: &Version,
    options: &TreeOptions,
    policy: Policy,
    moment: Moment,
) -> impl Iterator<Item = Job> {
    let dropped = expired_tables(version, moment);
    let drop = (!dropped.is_empty()).then(|| {
        let job = finish(dropped, 0, JobReason::Expired);
        Job { dropped_at: Some(moment), ..job }
    });
    let limits = LazyCell::new(move || {
        let base = Shape::of(version, options, Policy::Leveling).base;
        (base, job_bytes_max(version, options))
    });
    let rewrites = half_expired(version, policy, moment).filter_map(move |(level, inputs)| {
        if level == LEVELS - 1 {
            // In place.
            return Some(finish(inputs, level, JobReason::Expired));
        }
        let (base, bytes_max) = *limits;
        let freed: u64 = inputs.iter().map(|(_, table)| expired_bytes(table.meta(), moment)).sum();
        let output = if level == 0 { base } else { level + 1 };
        // A move would leave the entries in the tables.
        let job = Job { is_move: false, ..job(version, inputs, output, JobReason::Expired) };
        (job.bytes <= bytes_max.min(freed.saturating_mul(READ_FACTOR))).then_some(job)
    });
    drop.into_iter().chain(rewrites)
}

/// Returns the level of each table of which half has expired, with the table as the input of a job.
/// In L0 the older tables that it overlaps are inputs, too.
fn half_expired(
    version: &Version,
    policy: Policy,
    moment: Moment,
) -> impl Iterator<Item = (usize, Tables)> {
    let is_half = move |table: &&Arc<TableHandle>| is_half_expired(table.meta(), moment);
    let (uppermost, runs) = match policy {
        Policy::Tiering => (LEVELS - 1, &[][..]),
        Policy::Leveling => (1, version.l0_runs()),
    };
    let levels = (uppermost..LEVELS).rev().flat_map(move |level| {
        let half = version.level(level).iter().filter(is_half);
        half.map(move |table| (level, vec![(level as u8, Arc::clone(table))]))
    });
    let l0 = runs.iter().enumerate().flat_map(move |(age, run)| {
        run.iter().filter(is_half).map(move |table| (0, column_of(table, &runs[..age])))
    });
    levels.chain(l0)
}

fn is_half_expired(meta: &TableMeta, moment: Moment) -> bool {
    let expired = meta.expiries.expired_at(moment);
    let is_half =
        expired > 0 && (expired + meta.deletes).saturating_mul(EXPIRED_PARTS) >= meta.entries;
    is_half && !expires_soon(meta, moment)
}

/// Estimates how many bytes of the table have expired or are tombstones.
fn expired_bytes(meta: &TableMeta, moment: Moment) -> u64 {
    let gone = meta.expiries.expired_at(moment).saturating_add(meta.deletes).min(meta.entries);
    (u128::from(meta.bytes) * u128::from(gone) / u128::from(meta.entries.max(1))) as u64
}

/// Returns whether all that the table holds will have expired soon, so that it can be dropped.
fn expires_soon(meta: &TableMeta, moment: Moment) -> bool {
    let (min, max) = (meta.expiries.min.millis(), meta.expiries.max.millis());
    let (passed, left) = (moment.millis().saturating_sub(min), max.saturating_sub(moment.millis()));
    meta.is_expired_at(meta.expiries.max) && left > 0 && left <= passed.saturating_mul(WAIT_FACTOR)
}

/// Returns the first moment after `moment` at which `pick_expired` may find a compaction in
/// `version` that it does not find now. `None` if there is none before tables change.
pub fn next_expiry(version: &Version, moment: Moment) -> Option<Moment> {
    let of = |meta: &TableMeta| [meta.expiries.min, meta.expiries.median, meta.expiries.max];
    let tables = version.tables().map(|(_, table)| table.meta());
    let moments = tables.filter(|meta| meta.expiries.count > 0).flat_map(of);
    moments.filter(|at| *at > moment).min()
}

/// Returns the tables that can be dropped at `moment` without being read, the newest first.
pub(crate) fn expired_tables(version: &Version, moment: Moment) -> Tables {
    let has_expired = |table: &TableHandle| table.meta().is_expired_at(moment);
    if !version.tables().any(|(_, table)| has_expired(table)) {
        return Vec::new();
    }
    let levels = (1..LEVELS).rev().map(|level| (level as u8, version.level(level)));
    let oldest_first: Vec<(u8, &Run)> =
        levels.chain(version.l0_runs().iter().map(|run| (0, run))).collect();
    let (mut dropped, mut numbers) = (Vec::new(), SortedSet::<FileNumber>::new());
    for (age, (level, run)) in oldest_first.iter().enumerate() {
        for table in run.iter().filter(|table| has_expired(table)) {
            let span = Span::of(table.meta());
            let mut older = oldest_first[..age].iter().flat_map(|(_, run)| &run[span.within(run)]);
            if older.all(|other| numbers.contains(&other.number())) {
                dropped.push((*level, Arc::clone(table)));
                numbers.insert(table.number());
            }
        }
    }
    dropped.reverse();
    dropped
}
