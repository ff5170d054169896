//! Compaction jobs: at most one at a time in a tree. A tree whose compaction fails rests, longer
//! after each failure, while other trees are compacted.

use super::failures::{back_off, note_disk_has_room};
use super::garbage::{note_spaces, slow_down_for_outputs};
use super::install::{Install, install};
use super::sweep::sweep;
use super::upkeep::Upkeep;
use crate::event::Event;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::Progress;
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Compaction, Job, JobReason, Tree};
use std::slice::from_ref;
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
            note_useless(&self.upkeep, &self.tree);
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

/// Notes that the estimate for a compaction of `tree` was wrong: it would pick the outputs next. So
/// nothing of the tree is compacted for space until it changes, not even segments whose estimate
/// may be right.
fn note_useless(upkeep: &Upkeep, tree: &Arc<Tree>) {
    // A later estimate keeps the note below if it is the same as this one.
    note_spaces(upkeep, from_ref(tree));
    let version = Arc::clone(tree.view().version());
    upkeep.work.lock().spaces.note_hopeless(tree.id(), &version);
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
    use crate::testing::Builder;
    use crate::{Environment, KeyspaceOptions, Routing};
    use flagstone_env::{ManualClock, MemDisk, Random, SeededRandom, StepExecutor};

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

    /// The next estimate was of other bytes than the one before the compaction, and the note that
    /// it was useless was lost.
    #[test]
    fn a_tree_whose_compaction_for_space_freed_nothing_is_left_alone_until_it_changes() {
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::new(StepExecutor::default())),
        };
        let db = Builder::at("db").environment(environment).open().unwrap();
        let options = KeyspaceOptions::new().routing(Routing::Hash(1));
        let kv = db.keyspace_with("kv", options).unwrap();
        let (upkeep, tree) = (&kv.handle().parts().upkeep, &kv.core().trees[0]);
        // No other compaction takes it.
        upkeep.work.lock().compacting.insert(tree.id());
        let random = SeededRandom::new(2);
        let flush = |prefix: u8| {
            for n in 0..400_u16 {
                let words = (0..125).flat_map(|_| random.next_u64().to_le_bytes());
                let key = [&[prefix][..], &n.to_be_bytes()].concat();
                kv.put(key, words.collect::<Vec<u8>>()).unwrap();
            }
            db.flush().unwrap();
        };
        let candidates = || {
            note_spaces(upkeep, from_ref(tree));
            upkeep.work.lock().spaces.candidates(|_| true).len()
        };
        [1, 2, 3, 3].into_iter().for_each(flush);
        assert_eq!(candidates(), 1, "half of the last two tables is garbage");
        let view = tree.view();
        let clean = view.version().tables().filter(|(_, table)| table.meta().smallest[0] < 3);
        let (inputs, bytes): (Vec<_>, Vec<_>) =
            clean.map(|(level, table)| ((level, table.meta().number), table.meta().bytes)).unzip();
        assert_eq!(inputs.len(), 2);
        let job = Job {
            inputs,
            output_level: 6,
            reason: JobReason::Space,
            is_move: false,
            dropped_at: None,
            bytes: bytes.iter().sum(),
        };
        let (snapshots, visible) = upkeep.history.live();
        let compaction = Compaction::start(tree, job, &snapshots, visible).unwrap();
        let mut job = CompactionJob::new(Arc::clone(upkeep), Arc::clone(tree), compaction);
        while job.step() != Progress::Done {}
        assert_eq!(upkeep.work.compactions.load(Ordering::Relaxed), 1);
        assert_eq!(candidates(), 0);
        flush(4);
        assert_eq!(candidates(), 1);
    }
}
