//! Compaction jobs: at most one at a time in a tree. A tree whose compaction fails rests, longer
//! after each failure, while other trees are compacted.

use super::failures::{back_off, note_disk_has_room};
use super::garbage::slow_down_for_outputs;
use super::install::{Install, install};
use super::sweep::sweep;
use super::upkeep::Upkeep;
use crate::event::Event;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::Progress;
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Compaction, Job, JobReason, Tree};
use std::sync::Arc;
use std::time::Duration;

/// A compaction for space that frees less than this part of its inputs is not repeated.
const FREED_PARTS: u64 = 20;

/// A compaction that is running.
pub(super) struct CompactionJob {
    upkeep: Arc<Upkeep>,
    tree: Arc<Tree>,
    /// `Some` until the compaction has ended. It marks the tree as being compacted.
    compaction: Option<Compaction>,
    started: Duration,
}

impl CompactionJob {
    pub(super) fn new(upkeep: Arc<Upkeep>, tree: Arc<Tree>, compaction: Compaction) -> Self {
        let job = compaction.job().to_string();
        let (keyspace, partition) = upkeep.keyspaces.partition_of(&tree);
        upkeep.health.tell(&Event::CompactionStarted { keyspace, partition, job });
        let started = upkeep.setup.now();
        Self { upkeep, tree, compaction: Some(compaction), started }
    }

    pub(super) fn step(&mut self) -> Progress {
        let upkeep = Arc::clone(&self.upkeep);
        let began = upkeep.setup.now();
        let error = match upkeep.health.run_step("a compaction", || self.try_step()) {
            Ok(Progress::Done) => None,
            Ok(_) => {
                let took = upkeep.setup.now() - began;
                slow_down_for_outputs(&upkeep);
                return upkeep.pace.rest_after(took);
            }
            Err(error) => Some(error),
        };
        // Dropped before others may start on the tree. From here on only readers hold its inputs.
        self.compaction = None;
        sweep(&upkeep);
        finish(&upkeep, &self.tree, error);
        Progress::Done
    }

    pub(super) fn try_step(&mut self) -> Result<Progress> {
        let Some(compaction) = &mut self.compaction else { return Ok(Progress::Done) };
        let done = compaction.step().map_err(|error| match error.kind() {
            ErrorKind::Corruption => {
                self.upkeep.keyspaces.in_tree(&error, self.tree.id(), "the compaction")
            }
            _ => error,
        });
        let Some(edit) = done? else { return Ok(Progress::Again) };
        let (keyspace, partition) = self.upkeep.keyspaces.partition_of(&self.tree);
        let written = edit.added.iter().map(|(_, meta)| meta.bytes).sum();
        let event = Event::CompactionFinished {
            keyspace,
            partition,
            removed: edit.removed.len(),
            added: edit.added.len(),
            bytes: written,
            took: self.upkeep.setup.now() - self.started,
        };
        let is_useless = frees_nothing(compaction.job(), written);
        install(&self.upkeep, Install::Compaction, vec![(Arc::clone(&self.tree), edit)])?;
        if is_useless {
            // The estimate was wrong, and would pick these outputs next.
            let version = Arc::clone(self.tree.view().version());
            self.upkeep.work.lock().spaces.note_hopeless(self.tree.id(), &version);
        }
        self.upkeep.work.compactions.fetch_add(1, Ordering::Relaxed);
        self.upkeep.health.tell(&event);
        Ok(Progress::Done)
    }
}

/// Returns whether `job` was to free space and wrote nearly as much as it read.
fn frees_nothing(job: &Job, written: u64) -> bool {
    job.reason == JobReason::Space && written.saturating_add(job.bytes / FREED_PARTS) > job.bytes
}

fn finish(upkeep: &Arc<Upkeep>, tree: &Tree, error: Option<Error>) {
    let id = tree.id();
    let mut queue = upkeep.work.lock();
    queue.compacting.remove(&id);
    queue.freeing.remove(&id);
    match error {
        None => {
            queue.failing.remove(&id);
            drop(queue);
            note_disk_has_room(upkeep);
        }
        Some(error) => {
            drop(queue);
            upkeep.ballast.note_failure(&error);
            back_off(upkeep, tree, error);
        }
    }
    upkeep.work.ring();
    upkeep.health.writers.ring();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_for_space_is_useless_if_it_writes_what_it_reads() {
        let mut job = Job {
            inputs: Vec::new(),
            output_level: 6,
            reason: JobReason::Space,
            is_move: false,
            dropped_at: None,
            bytes: 1000,
        };
        assert!(frees_nothing(&job, 1000) && frees_nothing(&job, 1200) && frees_nothing(&job, 951));
        assert!(!frees_nothing(&job, 950));
        job.reason = JobReason::Runs;
        assert!(!frees_nothing(&job, 1000), "it removes runs");
    }
}
