//! After a failure: who rests, and for how long.

use super::brakes::set_brakes;
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

/// What has no back-off of its own is tried again after this time.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// The flush of `group`, the one that runs, failed: it rests, or all flushes do.
pub(super) fn put_back(upkeep: &Arc<Upkeep>, mut group: SealGroup, error: &Error) {
    upkeep.ballast.note_failure(error);
    note_full(upkeep, error);
    upkeep.health.tell(&Event::BackgroundFailed { doing: "flush", error: error.clone() });
    let now = upkeep.setup.now();
    let (number, tree) = (group.number, group.trees.first().cloned());
    let is_of_all = is_of_all(error);
    let delay = {
        let mut queue = upkeep.work.lock();
        // Not before the group is back under the same lock: who waits would take it for flushed.
        queue.flushes.running = None;
        queue.flushes.failures += 1;
        group.failed_at = queue.flushes.failures;
        let mut back_off = BackOff::after(group.back_off.as_ref(), error, now);
        let mut delay = back_off.delay();
        if is_of_all {
            let rest = BackOff::after(queue.flushes.rest.as_ref(), error, now);
            delay = rest.delay();
            queue.flushes.rest = Some(rest);
            back_off.rests = false;
        } else {
            queue.flushes.rest = None;
        }
        group.back_off = Some(back_off);
        queue.flushes.put_back(group);
        upkeep.work.recount(&queue);
        set_brakes(upkeep, &queue);
        delay
    };
    if let Some(tree) = tree {
        tell_back_off(upkeep, &tree, "flush", delay, error.clone());
    }
    resume_after(upkeep, delay, move |upkeep| {
        let mut queue = upkeep.work.lock();
        match is_of_all {
            true => queue.flushes.rest.iter_mut().for_each(|rest| rest.rests = false),
            false => queue.flushes.end_rest(number),
        }
        upkeep.work.recount(&queue);
    });
}

/// A compaction of `tree` failed: it rests. If the damage that was in its way is quarantined now, it need not.
pub(super) fn back_off(upkeep: &Arc<Upkeep>, of: &Tree, error: Error) {
    let tree = of.id();
    note_full(upkeep, &error);
    upkeep.health.tell(&Event::BackgroundFailed { doing: "compaction", error: error.clone() });
    if upkeep.tell_damages(Some(tree)) {
        upkeep.work.lock().failing.remove(&tree);
        return;
    }
    let now = upkeep.setup.now();
    let delay = {
        let mut queue = upkeep.work.lock();
        let back_off = BackOff::after(queue.failing.get(&tree), &error, now);
        let delay = back_off.delay();
        queue.failing.insert(tree, back_off);
        delay
    };
    tell_back_off(upkeep, of, "compaction", delay, error);
    resume_after(upkeep, delay, move |upkeep| {
        if let Some(back_off) = upkeep.work.lock().failing.get_mut(&tree) {
            back_off.rests = false;
        }
    });
}

fn tell_back_off(upkeep: &Upkeep, tree: &Tree, doing: &'static str, delay: Duration, error: Error) {
    let (keyspace, partition) = upkeep.keyspaces.part_of(tree);
    upkeep.health.tell(&Event::BackedOff { keyspace, partition, doing, delay, error });
}

/// Runs `resume` and looks for work again after a while.
pub(crate) fn resume_later(upkeep: &Arc<Upkeep>, resume: impl Fn(&Arc<Upkeep>) + Send + 'static) {
    resume_after(upkeep, RETRY_AFTER, resume);
}

/// The same after `delay`.
pub(super) fn resume_after(
    upkeep: &Arc<Upkeep>,
    delay: Duration,
    resume: impl Fn(&Arc<Upkeep>) + Send + 'static,
) {
    let job = job_of(upkeep, move |upkeep| {
        resume(upkeep);
        upkeep.health.act(Due::WORK);
        Progress::Done
    });
    upkeep.setup.executor.submit_after(delay, Lane::Flush, job);
}

/// Background work failed, perhaps since the disk is full.
pub(super) fn note_full(upkeep: &Upkeep, error: &Error) {
    if error.kind() != ErrorKind::OutOfSpace {
        if is_out_of_descriptors(error) {
            upkeep.trees.files.close_some();
        }
        return;
    }
    upkeep.ballast.give_up();
    let now = upkeep.setup.now();
    let since = upkeep.full_since.lock().replace(now);
    match since {
        None => upkeep.health.tell(&Event::DiskFull { error: error.clone() }),
        Some(_) => *upkeep.full_since.lock() = since,
    }
}

/// Background work has written what it wanted to.
pub(super) fn note_room(upkeep: &Upkeep) {
    let since = upkeep.full_since.lock().take();
    if let Some(since) = since {
        let took = upkeep.setup.now().saturating_sub(since);
        upkeep.health.tell(&Event::DiskHasRoom { took });
    }
    upkeep.look_after_ballast();
}

/// Whether what failed a flush will fail those of other trees, too.
pub(super) fn is_of_all(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfSpace | ErrorKind::Poisoned | ErrorKind::Closed)
        || is_out_of_descriptors(error)
}
