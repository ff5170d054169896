//! Starts what is due: seals, flushes, compactions and timed checks. Nothing else starts them.
//!
//! ```text
//! commit, waiting writers, readers that are gone --Due--> act --> seal, schedule
//! a flush or a compaction that ends ----------------------------> schedule, seal, settle
//! ```

use super::deletes::has_deletes;
use super::expired::watch_expired;
use super::flush::next_flush;
use super::idle::SETTLE_AFTER;
use super::merge::merge_small;
use super::pick::{measure_pressure, next_compaction};
use super::seal::{Take, seal};
use super::split::split_due;
use super::sweep::sweep;
use super::upkeep::Upkeep;
use crate::due::Due;
use crate::keyspace_core::Trees;
use crate::setup::job_of;
use crate::supply::supply_soon;
use flagstone_base::SeqNo;
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::{Lane, Progress};
use flagstone_tree::Tree;
use std::sync::Arc;
use std::time::Duration;

/// How often trees are checked whose deletes wait for a flush.
const DELETE_CHECK_EVERY: Duration = Duration::from_secs(1);

/// Acts on what is due, whatever found it.
pub(crate) fn act(upkeep: &Arc<Upkeep>, due: Due) {
    if due.has(Due::WORK) {
        schedule(upkeep);
    }
    if due.has(Due::FLUSHES) {
        schedule_flush(upkeep);
    }
    if due.has(Due::COMPACTIONS) {
        schedule_compactions_soon(upkeep);
    }
    if due.has(Due::MEMORY) {
        seal_if_full(upkeep);
    }
}

/// Acts on what is due after a commit to `trees` whose last SeqNo was `last`.
pub(crate) fn act_after_commit(upkeep: &Arc<Upkeep>, due: Due, trees: &Trees<'_>, last: SeqNo) {
    act(upkeep, due);
    if due.has(Due::SEAL_LARGE)
        && let Some(limit) = upkeep.core.setup().options.memtable_bytes
    {
        seal_one(upkeep, Take::Over(limit));
    }
    if due.has(Due::RANGES) {
        trees.iter().for_each(|tree| note_deleted_range(upkeep, tree));
    }
    if due.has(Due::CHECK) {
        trees.iter().for_each(|tree| note_deletes(upkeep, tree));
        keep_log_short(upkeep);
        upkeep.core.log.prepare_spare_segment();
        supply_soon(&upkeep.core.edits, last);
    }
}

/// Starts flushes and compactions that should run and do not.
pub(crate) fn schedule(upkeep: &Arc<Upkeep>) {
    schedule_splits(upkeep);
    schedule_flush(upkeep);
    schedule_compactions(upkeep);
}

/// Starts the job that splits and merges trees, if some are due.
pub(crate) fn schedule_splits(upkeep: &Arc<Upkeep>) {
    if !upkeep.splits.arm() {
        return;
    }
    let job = job_of(upkeep, |upkeep| {
        split_due(upkeep);
        upkeep.splits.take_divided().into_iter().for_each(|id| merge_small(upkeep, id));
        // What has to wait is tried again by the end of what it waits for.
        upkeep.splits.disarm();
        schedule(upkeep);
        Progress::Done
    });
    upkeep.core.setup().executor.submit(Lane::Flush, job);
}

fn schedule_flush(upkeep: &Arc<Upkeep>) {
    if upkeep.splits.is_queued() {
        // The next flush would keep the split from its turn, again and again.
        return;
    }
    let Some(mut job) = next_flush(upkeep) else { return };
    let after = Arc::clone(upkeep);
    let step = move || {
        let progress = job.step();
        if progress == Progress::Done {
            end_flush(&after, job.has_written());
        }
        progress
    };
    upkeep.core.setup().executor.submit(Lane::Flush, Box::new(step));
}

/// Starts what may be due after a flush.
fn end_flush(upkeep: &Arc<Upkeep>, has_written: bool) {
    if has_written {
        settle_later(upkeep);
    }
    schedule(upkeep);
    seal_if_full(upkeep);
    keep_log_short(upkeep);
}

pub(crate) fn schedule_compactions(upkeep: &Arc<Upkeep>) {
    while let Some(mut job) = next_compaction(upkeep) {
        let after = Arc::clone(upkeep);
        let step = move || {
            let progress = job.step();
            if progress == Progress::Done {
                schedule(&after);
            }
            progress
        };
        upkeep.core.setup().executor.submit(Lane::Compaction, Box::new(step));
    }
    measure_pressure(upkeep);
    schedule_expiry_check(upkeep);
}

/// Schedules a check for the moment when enough entries have expired.
fn schedule_expiry_check(upkeep: &Arc<Upkeep>) {
    let (now, clock) = (upkeep.core.history.clock.now(), upkeep.core.setup().now());
    let Some(check) = upkeep.expiry_timer.arm(now, clock) else { return };
    let job = job_of(upkeep, move |upkeep| {
        upkeep.expiry_timer.disarm(check);
        if upkeep.core.health.check_open_for_writing().is_err() {
            return Progress::Done;
        }
        if watch_expired(upkeep) {
            schedule_compactions(upkeep)
        } else {
            schedule_expiry_check(upkeep)
        }
        Progress::Done
    });
    upkeep.core.setup().executor.submit_after(check.wait, Lane::Flush, job);
}

/// Like [`schedule_compactions`], but in a worker, since it may read the samples of many tables.
fn schedule_compactions_soon(upkeep: &Arc<Upkeep>) {
    if upkeep.is_look_queued.swap(true, Ordering::AcqRel) {
        return;
    }
    let job = job_of(upkeep, |upkeep| {
        // Reset before the look: a later change asks for another one.
        upkeep.is_look_queued.swap(false, Ordering::AcqRel);
        schedule_compactions(upkeep);
        // After an open the number of live bytes is unknown until now.
        upkeep.ensure_ballast();
        Progress::Done
    });
    upkeep.core.setup().executor.submit(Lane::Compaction, job);
}

/// Starts what an open has left to do. Reads no table.
pub(crate) fn schedule_after_open(upkeep: &Arc<Upkeep>) {
    schedule_splits(upkeep);
    schedule_flush(upkeep);
    let is_any_watched = !upkeep.core.work.lock().watched.is_empty();
    if is_any_watched {
        schedule_compactions_soon(upkeep);
    }
}

/// Schedules a search for compactions for when writers are idle.
fn settle_later(upkeep: &Arc<Upkeep>) {
    if upkeep.is_settling.swap(true, Ordering::AcqRel) {
        return;
    }
    upkeep.growth.watch(upkeep.core.setup().now(), upkeep.core.memory.memtable_bytes());
    let job = job_of(upkeep, |upkeep| {
        // Reset first: a flush that ends after this needs another job.
        upkeep.is_settling.swap(false, Ordering::AcqRel);
        let now = upkeep.core.setup().now();
        let full = upkeep.core.setup().options.memtable_share() / 2;
        upkeep.growth.check(now, upkeep.core.memory.memtable_bytes(), full);
        let is_flushed =
            upkeep.core.work.since_flush(now).is_some_and(|since| since < SETTLE_AFTER);
        if is_flushed || upkeep.growth.is_fast(now) {
            settle_later(upkeep);
        } else {
            upkeep.core.memory.give_to_readers();
            upkeep.splits.note_idle();
            schedule_splits(upkeep);
        }
        // Removes tables that their last reader has released.
        sweep(upkeep);
        schedule_compactions(upkeep);
        upkeep.ensure_ballast();
        Progress::Done
    });
    upkeep.core.setup().executor.submit_after(SETTLE_AFTER, Lane::Flush, job);
}

/// Makes room for memtables, and seals the largest if they are half full.
fn seal_if_full(upkeep: &Arc<Upkeep>) {
    let bytes = upkeep.core.memory.memtable_bytes();
    if upkeep.core.memory.is_crossed(bytes) {
        upkeep.core.memory.make_room();
    }
    if bytes >= upkeep.core.setup().options.memtable_share() / 2 {
        seal_one(upkeep, Take::Largest);
    }
}

/// Seals the memtables that pin the oldest part of the log if it is too long.
fn keep_log_short(upkeep: &Arc<Upkeep>) {
    if upkeep.is_log_long() {
        seal_one(upkeep, Take::Oldest);
    }
}

fn seal_one(upkeep: &Arc<Upkeep>, take: Take<'_>) {
    let is_replaying = upkeep.core.history.replaying.load(Ordering::Relaxed);
    let busy = upkeep.core.work.is_flush_pending() || is_replaying;
    if !busy && seal(upkeep, take, None) {
        schedule_flush(upkeep);
        // The flush looks for compactions when it ends. The caller may be a writer, which must read
        // no table for that.
        measure_pressure(upkeep);
    }
}

/// Notes that a range, or many keys, were deleted in `tree`.
#[cold]
fn note_deleted_range(upkeep: &Arc<Upkeep>, tree: &Arc<Tree>) {
    upkeep.deletes.note(tree, upkeep.core.setup().now());
    schedule_delete_check(upkeep);
}

/// Notes `tree` if its memtable holds many tombstones, or deleted ranges found by a recovery.
/// Called now and then.
pub(crate) fn note_deletes(upkeep: &Arc<Upkeep>, tree: &Arc<Tree>) {
    if has_deletes(tree) {
        note_deleted_range(upkeep, tree);
    }
}

fn schedule_delete_check(upkeep: &Arc<Upkeep>) {
    if !upkeep.deletes.arm() {
        return;
    }
    let job = job_of(upkeep, |upkeep| {
        upkeep.deletes.disarm();
        if upkeep.core.health.check_open_for_writing().is_ok() && flush_deletes(upkeep) {
            schedule_delete_check(upkeep);
        }
        Progress::Done
    });
    upkeep.core.setup().executor.submit_after(DELETE_CHECK_EVERY, Lane::Flush, job);
}

/// Flushes the trees that are due. Returns whether others wait.
fn flush_deletes(upkeep: &Arc<Upkeep>) -> bool {
    let (due, is_any_left) = upkeep.deletes.due(upkeep.core.setup().now());
    if !due.is_empty() {
        // A tree that is sealed now holds no deletes at the next check.
        seal_one(upkeep, Take::Trees(&due));
    }
    is_any_left
}
