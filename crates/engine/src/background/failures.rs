//! After a failure: who rests, and for how long.

use super::back_off::BackOff;
use super::flush::is_of_all;
use super::groups::SealGroup;
use crate::event::Event;
use crate::shared::Shared;
use flagstone_base::{Error, ErrorKind};
use flagstone_env::{Lane, Progress, is_out_of_descriptors};
use flagstone_tree::Tree;
use std::time::Duration;

/// What has no back-off of its own is tried again after this time.
const RETRY_AFTER: Duration = Duration::from_millis(200);

impl Shared {
    /// The flush of `group`, the one that runs, failed: it rests, or all flushes do.
    pub(super) fn put_back(&self, mut group: SealGroup, error: &Error) {
        self.note_failure(error);
        self.note_full(error);
        self.tell(&Event::BackgroundFailed { doing: "flush", error: error.clone() });
        let now = self.environment.clock.monotonic();
        let (number, tree) = (group.number, group.trees.first().cloned());
        let is_of_all = is_of_all(error);
        let delay = {
            let mut queue = self.background.lock();
            // Not before the group is back under the same lock: who waits would take it for flushed.
            queue.running = None;
            queue.flush_failures += 1;
            group.failed_at = queue.flush_failures;
            let mut back_off = BackOff::after(group.back_off.as_ref(), error, now);
            let mut delay = back_off.delay();
            if is_of_all {
                let rest = BackOff::after(queue.rest_of_flushes.as_ref(), error, now);
                delay = rest.delay();
                queue.rest_of_flushes = Some(rest);
                back_off.rests = false;
            } else {
                queue.rest_of_flushes = None;
            }
            group.back_off = Some(back_off);
            queue.put_back(group);
            self.background.recount(&queue);
            self.set_brakes(&queue);
            delay
        };
        if let Some(tree) = tree {
            self.tell_back_off(&tree, "flush", delay, error.clone());
        }
        self.resume_after(delay, move |shared| {
            let mut queue = shared.background.lock();
            match is_of_all {
                true => queue.rest_of_flushes.iter_mut().for_each(|rest| rest.rests = false),
                false => queue.end_rest(number),
            }
            shared.background.recount(&queue);
        });
    }

    /// A compaction of `tree` failed: it rests. If the damage that was in its way is quarantined now, it need not.
    pub(super) fn back_off(&self, of: &Tree, error: Error) {
        let tree = of.id();
        self.note_full(&error);
        self.tell(&Event::BackgroundFailed { doing: "compaction", error: error.clone() });
        if self.tell_damages(Some(tree)) {
            self.background.lock().failing.remove(&tree);
            return;
        }
        let now = self.environment.clock.monotonic();
        let delay = {
            let mut queue = self.background.lock();
            let back_off = BackOff::after(queue.failing.get(&tree), &error, now);
            let delay = back_off.delay();
            queue.failing.insert(tree, back_off);
            delay
        };
        self.tell_back_off(of, "compaction", delay, error);
        self.resume_after(delay, move |shared| {
            if let Some(back_off) = shared.background.lock().failing.get_mut(&tree) {
                back_off.rests = false;
            }
        });
    }

    fn tell_back_off(&self, tree: &Tree, doing: &'static str, delay: Duration, error: Error) {
        let (keyspace, partition) = self.part_of(tree);
        self.tell(&Event::BackedOff { keyspace, partition, doing, delay, error });
    }

    /// Runs `resume` and looks for work again after a while.
    pub(crate) fn resume_later(&self, resume: impl Fn(&Self) + Send + 'static) {
        self.resume_after(RETRY_AFTER, resume);
    }

    /// The same after `delay`.
    pub(super) fn resume_after(&self, delay: Duration, resume: impl Fn(&Self) + Send + 'static) {
        let job = self.job(move |shared| {
            resume(shared);
            shared.schedule();
            Progress::Done
        });
        self.executor.submit_after(delay, Lane::Flush, job);
    }

    /// Background work failed, perhaps since the disk is full.
    pub(super) fn note_full(&self, error: &Error) {
        if error.kind() != ErrorKind::OutOfSpace {
            if is_out_of_descriptors(error) {
                self.trees.files.close_some();
            }
            return;
        }
        self.give_up_ballast();
        let now = self.environment.clock.monotonic();
        let since = self.background.full_since.lock().replace(now);
        match since {
            None => self.tell(&Event::DiskFull { error: error.clone() }),
            Some(_) => *self.background.full_since.lock() = since,
        }
    }

    /// Background work has written what it wanted to.
    pub(super) fn note_room(&self) {
        let since = self.background.full_since.lock().take();
        if let Some(since) = since {
            let took = self.environment.clock.monotonic().saturating_sub(since);
            self.tell(&Event::DiskHasRoom { took });
        }
        self.look_after_ballast();
    }
}
