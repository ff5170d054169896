//! The flush job: writes the memtables of one group to tables, then installs them by one edit.

use super::install::Install;
use super::state::SealGroup;
use crate::event::Event;
use crate::shared::Shared;
use flagstone_base::{Error, Result};
use flagstone_env::{Lane, Progress};
use flagstone_tree::{Flush, Tree, TreeEdit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A failed flush is tried again after this time: the disk may have room by then.
const RETRY_AFTER: Duration = Duration::from_millis(200);

struct FlushJob {
    shared: Arc<Shared>,
    group: SealGroup,
    waiting: VecDeque<Arc<Tree>>,
    current: Option<Running>,
    done: Vec<(Arc<Tree>, TreeEdit)>,
}

struct Running {
    tree: Arc<Tree>,
    flush: Flush,
    started: Duration,
}

impl Shared {
    /// Starts what should run and does not.
    pub(crate) fn schedule(&self) {
        self.schedule_flush();
        self.schedule_compactions();
    }

    fn schedule_flush(&self) {
        let mut queue = self.background.lock();
        if queue.flush_runs || queue.flush_paused || self.poisoned().is_some() {
            return;
        }
        // A memtable with writers still in it is waited for; the last of them rings.
        let ready = |tree: &Arc<Tree>| tree.sealed_count() == 0 || tree.flushable();
        let Some(group) = queue.groups.front() else { return };
        if !group.trees.iter().all(ready) {
            return;
        }
        let (Some(shared), Some(group)) = (self.arc(), queue.groups.pop_front()) else { return };
        queue.flush_runs = true;
        drop(queue);
        let waiting = group.trees.iter().cloned().collect();
        let mut job = FlushJob { shared, group, waiting, current: None, done: Vec::new() };
        self.executor.submit(Lane::Flush, Box::new(move || job.step()));
    }

    fn finish_flush(&self, group: Option<SealGroup>, error: Option<Error>) {
        let mut queue = self.background.lock();
        queue.flush_runs = false;
        if let Some(group) = group {
            queue.groups.push_front(group);
            queue.flush_failures += 1;
            queue.flush_paused = true;
        }
        if let Some(error) = error {
            queue.last_error = Some(error.clone());
            drop(queue);
            self.note_failure(&error);
            self.tell(&Event::BackgroundFailed { doing: "flush", error });
            self.resume_later(|shared| shared.background.lock().flush_paused = false);
        } else {
            drop(queue);
        }
        self.background.ring();
        self.stall.ring();
        self.schedule();
        self.seal_if_full();
        self.keep_log_short();
    }

    /// Runs `resume` and looks for work again after a while.
    pub(crate) fn resume_later(&self, resume: fn(&Self)) {
        let job = self.job(move |shared| {
            resume(shared);
            shared.schedule();
            Progress::Done
        });
        self.executor.submit_after(RETRY_AFTER, Lane::Flush, job);
    }
}

impl FlushJob {
    fn step(&mut self) -> Progress {
        let shared = Arc::clone(&self.shared);
        match shared.run_step("a flush", || self.try_step()) {
            Ok(Progress::Done) => {
                self.shared.background.note_installed();
                self.shared.background.note_flush(self.shared.environment.clock.monotonic());
                self.shared.settle_later();
                self.shared.finish_flush(None, None);
                Progress::Done
            }
            Ok(more) => more,
            Err(error) => {
                self.current = None;
                for (tree, edit) in self.done.drain(..) {
                    tree.abandon(&edit);
                }
                self.shared.make_room_on_disk();
                let trees = std::mem::take(&mut self.group.trees);
                let cut = self.group.cut.take();
                let group = SealGroup { through: self.group.through, trees, cut };
                self.shared.finish_flush(Some(group), Some(error));
                Progress::Done
            }
        }
    }

    fn try_step(&mut self) -> Result<Progress> {
        if let Some(running) = &mut self.current {
            if let Some(edit) = running.flush.step()? {
                let took = self.shared.environment.clock.monotonic() - running.started;
                self.shared.tell(&Event::FlushFinished {
                    tree: running.tree.id(),
                    tables: edit.added.len(),
                    bytes: edit.added.iter().map(|(_, meta)| meta.bytes).sum(),
                    took,
                });
                self.done.push((Arc::clone(&running.tree), edit));
                self.current = None;
            }
            return Ok(Progress::Again);
        }
        if let Some(tree) = self.waiting.pop_front() {
            self.current = self.start(tree);
            return Ok(Progress::Again);
        }
        // Rule 5 of the design: the log is synced through everything in these tables before the edit
        // is, or a power cut could keep one half of a batch. And what failed to be written stands voided
        // in it, or a record that a crash brings back would be replayed for the other trees alone.
        if let Some(log) = &self.shared.log {
            log.sync_all().inspect_err(|error| self.shared.note_failure(error))?;
        }
        let edits = std::mem::take(&mut self.done);
        self.shared.background.flushes.fetch_add(edits.len() as u64, Ordering::Relaxed);
        self.shared.install(Install::Flush(&self.group), edits)?;
        Ok(Progress::Done)
    }

    fn start(&self, tree: Arc<Tree>) -> Option<Running> {
        let (snapshots, visible) = self.shared.snapshots.live(&self.shared.publisher);
        let keyspace = self.shared.keyspace_of(tree.id());
        let attachments = keyspace
            .and_then(|k| k.names.clone())
            .map_or_else(Vec::new, |names| crate::collection::names_attachment(&names));
        let flush = Flush::start(&tree, self.group.through, &snapshots, visible, &attachments)?;
        self.shared.tell(&Event::FlushStarted { tree: tree.id() });
        let started = self.shared.environment.clock.monotonic();
        Some(Running { tree, flush, started })
    }
}
