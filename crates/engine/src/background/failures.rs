//! Reactions to failures: which work pauses, and for how long.

use super::upkeep::Upkeep;
use crate::due::Due;
use crate::event::Event;
use crate::queue::{BackOff, SealGroup};
use crate::setup::job_of;
use flagstone_base::{Error, ErrorKind};
use flagstone_env::{Lane, Progress, is_out_of_descriptors};
use flagstone_tree::Tree;
use std::sync::Arc;
use std::time::Duration;

/// Work that has no back-off of its own is retried after this time.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Puts back `group`, whose flush has failed. Its flush pauses, or all flushes do.
pub(super) fn put_back(upkeep: &Arc<Upkeep>, mut group: SealGroup, error: &Error) {
    upkeep.core.ballast.note_failure(error);
    note_disk_full(upkeep, error);
    upkeep.core.health.tell(&Event::BackgroundFailed { doing: "flush", error: error.clone() });
    let now = upkeep.core.setup().now();
    let (number, tree) = (group.number, group.trees.first().cloned());
    let fails_all_flushes = fails_all_flushes(error);
    let delay = {
        let mut queue = upkeep.core.work.lock();
        // Reset under the lock that puts the group back, or a waiter would take the group for
        // flushed.
        queue.flushes.running = None;
        queue.flushes.failures += 1;
        group.failed_at = queue.flushes.failures;
        let mut back_off = BackOff::after(group.back_off.as_ref(), error, now);
        let mut delay = back_off.delay();
        if fails_all_flushes {
            let pause = BackOff::after(queue.flushes.pause.as_ref(), error, now);
            delay = pause.delay();
            queue.flushes.pause = Some(pause);
            back_off.is_pausing = false;
        } else {
            queue.flushes.pause = None;
        }
        group.back_off = Some(back_off);
        queue.flushes.put_back(group);
        upkeep.core.work.recount(&queue);
        upkeep.core.stall.note_fullest(&upkeep.core.work, &queue);
        delay
    };
    if let Some(tree) = tree {
        tell_back_off(upkeep, &tree, "flush", delay, error.clone());
    }
    resume_after(upkeep, delay, move |upkeep| {
        let mut queue = upkeep.core.work.lock();
        if fails_all_flushes {
            queue.flushes.pause.iter_mut().for_each(|pause| pause.is_pausing = false)
        } else {
            queue.flushes.end_pause(number)
        }
        upkeep.core.work.recount(&queue);
    });
}

/// Pauses the compactions of a tree after one has failed. There is no pause if the damage that
/// caused the failure has just been quarantined.
pub(super) fn back_off(upkeep: &Arc<Upkeep>, of: &Tree, error: Error) {
    let tree = of.id();
    note_disk_full(upkeep, &error);
    upkeep.core.health.tell(&Event::BackgroundFailed { doing: "compaction", error: error.clone() });
    if upkeep.report_damages(Some(tree)) {
        upkeep.core.work.lock().failing.remove(&tree);
        return;
    }
    let now = upkeep.core.setup().now();
    let delay = {
        let mut queue = upkeep.core.work.lock();
        let back_off = BackOff::after(queue.failing.get(&tree), &error, now);
        let delay = back_off.delay();
        queue.failing.insert(tree, back_off);
        delay
    };
    tell_back_off(upkeep, of, "compaction", delay, error);
    resume_after(upkeep, delay, move |upkeep| {
        if let Some(back_off) = upkeep.core.work.lock().failing.get_mut(&tree) {
            back_off.is_pausing = false;
        }
    });
}

fn tell_back_off(upkeep: &Upkeep, tree: &Tree, doing: &'static str, delay: Duration, error: Error) {
    let (keyspace, partition) = upkeep.core.keyspaces.partition_of(tree);
    upkeep.core.health.tell(&Event::BackedOff { keyspace, partition, doing, delay, error });
}

/// Runs `resume` after [`RETRY_AFTER`], then looks for work.
pub(crate) fn resume_later(upkeep: &Arc<Upkeep>, resume: impl Fn(&Arc<Upkeep>) + Send + 'static) {
    resume_after(upkeep, RETRY_AFTER, resume);
}

/// Runs `resume` after `delay`, then looks for work.
pub(super) fn resume_after(
    upkeep: &Arc<Upkeep>,
    delay: Duration,
    resume: impl Fn(&Arc<Upkeep>) + Send + 'static,
) {
    let job = job_of(upkeep, move |upkeep| {
        resume(upkeep);
        upkeep.core.health.act(Due::WORK);
        Progress::Done
    });
    upkeep.core.setup().executor.submit_after(delay, Lane::Flush, job);
}

/// Handles a failure that may mean that the disk is full, or that descriptors have run out.
pub(super) fn note_disk_full(upkeep: &Upkeep, error: &Error) {
    if error.kind() != ErrorKind::OutOfSpace {
        if is_out_of_descriptors(error) {
            upkeep.core.trees.files.close_some();
        }
        return;
    }
    upkeep.core.ballast.give_up();
    let now = upkeep.core.setup().now();
    let since = upkeep.full_since.lock().replace(now);
    match since {
        None => upkeep.core.health.tell(&Event::DiskFull { error: error.clone() }),
        Some(_) => *upkeep.full_since.lock() = since,
    }
}

/// Notes that background work could write, so the disk has space.
pub(super) fn note_disk_has_room(upkeep: &Upkeep) {
    let since = upkeep.full_since.lock().take();
    if let Some(since) = since {
        let took = upkeep.core.setup().now().saturating_sub(since);
        upkeep.core.health.tell(&Event::DiskHasRoom { took });
    }
    upkeep.ensure_ballast();
}

/// Returns whether `error` would fail the flushes of other trees, too.
pub(super) fn fails_all_flushes(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfSpace | ErrorKind::Poisoned | ErrorKind::Closed)
        || is_out_of_descriptors(error)
}
