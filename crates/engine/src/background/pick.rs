//! The most urgent compaction: in the tree with the highest score, or in the one that frees the
//! most space.

use super::compact::CompactionJob;
use super::garbage::{budget, note_spaces, slow_down_for_space};
use super::upkeep::Upkeep;
use super::watch::{policy, unwatch, watch_again, watched_trees};
use flagstone_base::sorted::sort_by;
use flagstone_tree::{
    Compaction, Job, Policy, Tree, Version, next_expiry, pick, pick_above, pick_expired,
    pick_hidden, pick_trim,
};
use std::sync::Arc;

/// The highest score of a tree that is compared with that of compactions for space.
const SCORE_PRESSING: f64 = 2.0;
/// A tree with this many runs in its first level comes before compactions for space, however urgent
/// those are: its writers would be stopped.
const L0_RUNS_PRESSING: usize = 32;

/// Picks the most urgent compaction and marks it as running. Returns `None` when all workers are
/// busy or nothing is to be done.
pub(super) fn next_compaction(upkeep: &Arc<Upkeep>) -> Option<CompactionJob> {
    upkeep.may_compact(&upkeep.core.work.lock()).then_some(())?;
    watch_again(upkeep);
    let watched = watched_trees(upkeep);
    note_spaces(upkeep, &watched);
    let mut space = budget(upkeep).score();
    let now = upkeep.core.setup().now();
    // Computed without the lock: it visits all tables, and a seal waits for the lock.
    let mut trees: Vec<(f64, bool, Arc<Tree>)> = watched
        .into_iter()
        .map(|tree| {
            let pressure = tree.pressure(policy(upkeep, &tree));
            let is_late = upkeep.splits.is_trim_late(&tree, now);
            let score = if is_late { pressure.score.max(SCORE_PRESSING) } else { pressure.score };
            (score, is_late || pressure.l0_runs >= L0_RUNS_PRESSING, tree)
        })
        .collect();
    // Trees in shape come last: they may have a table to move, or tombstones to drop.
    sort_by(&mut trees, |a, b| b.0.total_cmp(&a.0));
    for (score, is_pressing, tree) in trees {
        let is_less = |space| space >= score.min(SCORE_PRESSING) && !is_pressing;
        if space.is_some_and(is_less) {
            space = None;
            if let Some(job) = start_for_space(upkeep) {
                return Some(job);
            }
        }
        if !take_to_compact(upkeep, &tree)? {
            continue;
        }
        if let Some(job) = start_compaction(upkeep, &tree) {
            return Some(job);
        }
        upkeep.core.work.lock().compacting.remove(&tree.id());
    }
    space.and_then(|_due| start_for_space(upkeep))
}

/// Marks `tree` as being compacted, unless it is already, or is about to be split. Returns `None`
/// when all workers are busy.
fn take_to_compact(upkeep: &Upkeep, tree: &Tree) -> Option<bool> {
    if upkeep.splits.keeps_free(tree.id()) {
        return Some(false);
    }
    let mut queue = upkeep.core.work.lock();
    upkeep.may_compact(&queue).then(|| queue.compacting.insert(tree.id()))
}

fn start_compaction(upkeep: &Arc<Upkeep>, tree: &Arc<Tree>) -> Option<CompactionJob> {
    let moment = upkeep.expire_through();
    let (snapshots, visible) = upkeep.core.history.live();
    let (view, policy) = (tree.view(), policy(upkeep, tree));
    let mut expired = pick_expired(view.version(), tree.options(), policy, moment);
    if let Some(job) = expired.take_if(|job| job.dropped_at.is_some())
        && let Some(compaction) = Compaction::start(tree, job, &snapshots, visible)
    {
        return Some(CompactionJob::new(Arc::clone(upkeep), Arc::clone(tree), compaction));
    }
    let oldest = snapshots.iter().copied().min();
    let hidden = || pick_hidden(view.version(), tree.options(), oldest.unwrap_or(visible));
    let mut trim = pick_trim(view.version(), tree.options(), tree.floor());
    let late = trim.take_if(|_| upkeep.splits.is_trim_late(tree, upkeep.core.setup().now()));
    let job = match late.or_else(|| pick_of(tree, view.version(), policy)) {
        None if policy == Policy::Leveling => expired.or_else(hidden),
        job => job.or(expired),
    };
    // While the tree is written, its next merges of runs trim most tables anyway.
    let job = job.or(trim.filter(|_| policy == Policy::Leveling));
    let Some(job) = job else {
        unwatch(upkeep, tree, view.version(), policy, oldest);
        if let Some(at) = next_expiry(view.version(), moment) {
            upkeep.expiry_timer.note(at);
        }
        return None;
    };
    let compaction = Compaction::start(tree, job, &snapshots, visible)?.expiring_through(moment);
    Some(CompactionJob::new(Arc::clone(upkeep), Arc::clone(tree), compaction))
}

/// The most urgent compaction of `version`, which `tree` has or had.
pub(super) fn pick_of(tree: &Tree, version: &Version, policy: Policy) -> Option<Job> {
    // Loaded after the version.
    match tree.floor() {
        Some(floor) => pick_above(version, tree.options(), policy, floor),
        None => pick(version, tree.options(), policy),
    }
}

/// Starts the compaction that frees the most for its cost, in the first tree that has one.
fn start_for_space(upkeep: &Arc<Upkeep>) -> Option<CompactionJob> {
    let candidates = {
        let queue = upkeep.core.work.lock();
        queue.candidates()
    };
    let moment = upkeep.expire_through();
    let (snapshots, visible) = upkeep.core.history.live();
    for tree in candidates {
        if !take_to_compact(upkeep, &tree)? {
            continue;
        }
        let version = Arc::clone(tree.view().version());
        let picked = tree.pick_space(&snapshots, visible);
        let freed = picked.as_ref().map(|(_, space)| space.garbage());
        let compaction =
            picked.and_then(|(job, _)| Compaction::start(&tree, job, &snapshots, visible));
        let mut queue = upkeep.core.work.lock();
        if let (Some(compaction), Some(freed)) = (compaction, freed) {
            let compaction = compaction.expiring_through(moment);
            queue.freeing.insert(tree.id(), freed);
            drop(queue);
            return Some(CompactionJob::new(Arc::clone(upkeep), tree, compaction));
        }
        queue.compacting.remove(&tree.id());
        queue.spaces.note_hopeless(tree.id(), &version);
    }
    None
}

/// Sets the pace of running compactions by how far compaction lags.
pub(super) fn measure_pressure(upkeep: &Upkeep) {
    let scores =
        watched_trees(upkeep).into_iter().map(|tree| tree.pressure(policy(upkeep, &tree)).score);
    let budget = budget(upkeep);
    let score = scores.fold(budget.urgency(), f64::max);
    slow_down_for_space(upkeep, budget);
    upkeep.pace.set((!upkeep.writers_are_idle()).then_some(score));
}
