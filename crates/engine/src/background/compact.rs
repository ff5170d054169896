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
use flagstone_tree::{Compaction, Job, JobReason, Tree, Version};
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
        let (keyspace, partition) = upkeep.core.keyspaces.partition_of(&tree);
        upkeep.core.health.tell(&Event::CompactionStarted { keyspace, partition, job });
        let started = upkeep.core.setup().now();
        Self { upkeep, tree, compaction: Some(compaction), started }
    }

    pub(super) fn step(&mut self) -> Progress {
        let upkeep = Arc::clone(&self.upkeep);
        let began = upkeep.core.setup().now();
        let error = match upkeep.core.health.run_step("a compaction", || self.try_step()) {
            Ok(Progress::Done) => None,
            Ok(_) => {
                let took = upkeep.core.setup().now() - began;
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
                self.upkeep.core.keyspaces.in_tree(&error, self.tree.id(), "the compaction")
            }
            _ => error,
        });
        let Some(edit) = done? else { return Ok(Progress::Again) };
        let (keyspace, partition) = self.upkeep.core.keyspaces.partition_of(&self.tree);
        let written = edit.added.iter().map(|(_, meta)| meta.bytes).sum();
        let event = Event::CompactionFinished {
            keyspace,
            partition,
            removed: edit.removed.len(),
            added: edit.added.len(),
            bytes: written,
            took: self.upkeep.core.setup().now() - self.started,
        };
        let is_useless = frees_nothing(compaction.job(), written);
        let flushed_before = compaction.version().flushed_through();
        let edits = vec![(Arc::clone(&self.tree), edit)];
        let produced = install(&self.upkeep, Install::Compaction, edits)?;
        // What was flushed meanwhile may have made garbage that another compaction can free.
        let is_same = |version: &Arc<Version>| version.flushed_through() == flushed_before;
        if is_useless && let Some(version) = produced.filter(is_same) {
            note_useless(&self.upkeep, &self.tree, &version);
        }
        self.upkeep.core.work.compactions.fetch_add(1, Ordering::Relaxed);
        self.upkeep.core.health.tell(&event);
        Ok(Progress::Done)
    }
}

/// Returns whether `job` was to free space and wrote nearly as much as it read.
fn frees_nothing(job: &Job, written: u64) -> bool {
    job.reason == JobReason::Space && written.saturating_add(job.bytes / FREED_PARTS) > job.bytes
}

/// Notes that the estimate for the compaction of `tree` that produced `version` was wrong: it would
/// pick the outputs next. So nothing of the tree is compacted for space until it changes, not even
/// segments whose estimate may be right.
fn note_useless(upkeep: &Upkeep, tree: &Arc<Tree>, version: &Arc<Version>) {
    if !Arc::ptr_eq(tree.view().version(), version) {
        return;
    }
    // A later estimate keeps the note below if it is the same as this one.
    note_spaces(upkeep, from_ref(tree));
    upkeep.core.work.lock().spaces.note_hopeless(tree.id(), version);
}

fn finish(upkeep: &Arc<Upkeep>, tree: &Tree, error: Option<Error>) {
    let id = tree.id();
    let mut queue = upkeep.core.work.lock();
    queue.compacting.remove(&id);
    queue.freeing.remove(&id);
    upkeep.splits.try_again();
    match error {
        None => {
            queue.failing.remove(&id);
            drop(queue);
            note_disk_has_room(upkeep);
        }
        Some(error) => {
            drop(queue);
            upkeep.core.ballast.note_failure(&error);
            back_off(upkeep, tree, error);
        }
    }
    upkeep.core.work.notify_all();
    upkeep.core.health.writers.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Builder;
    use crate::{Engine, Environment, Keyspace, KeyspaceOptions, Routing};
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

    /// A database with one tree of four tables: the last one overwrites the third.
    struct Wasteful {
        db: Engine,
        kv: Keyspace,
        random: SeededRandom,
    }

    impl Wasteful {
        fn new() -> Self {
            let environment = Environment {
                disk: Arc::new(MemDisk::default()),
                clock: Arc::new(ManualClock::default()),
                random: Arc::new(SeededRandom::new(1)),
                executor: Some(Arc::new(StepExecutor::default())),
            };
            let db = Builder::at("db").environment(environment).open().unwrap();
            let options = KeyspaceOptions::new().routing(Routing::Hash(1));
            let kv = db.keyspace_with("kv", options).unwrap();
            let wasteful = Self { db, kv, random: SeededRandom::new(2) };
            // No other compaction takes the tree.
            wasteful.upkeep().core.work.lock().compacting.insert(wasteful.tree().id());
            [1, 2, 3, 3].into_iter().for_each(|prefix| wasteful.flush(prefix));
            assert_eq!(wasteful.candidates(), 1, "half of the last two tables is garbage");
            wasteful
        }

        fn upkeep(&self) -> &Arc<Upkeep> {
            &self.kv.handle().parts().upkeep
        }

        fn tree(&self) -> &Arc<Tree> {
            &self.kv.core().trees()[0]
        }

        /// Writes one more table, with other values than before.
        fn flush(&self, prefix: u8) {
            for n in 0..400_u16 {
                let words = (0..125).flat_map(|_| self.random.next_u64().to_le_bytes());
                let key = [&[prefix][..], &n.to_be_bytes()].concat();
                self.kv.put(key, words.collect::<Vec<u8>>()).unwrap();
            }
            self.db.flush().unwrap();
        }

        /// The number of trees in which space could be freed.
        fn candidates(&self) -> usize {
            note_spaces(self.upkeep(), from_ref(self.tree()));
            self.upkeep().core.work.lock().spaces.candidates(|_| true).len()
        }

        /// Starts a compaction for space of the first two tables, which have no garbage.
        fn compact_in_vain(&self) -> CompactionJob {
            let view = self.tree().view();
            let clean = view.version().tables().filter(|(_, table)| table.meta().smallest[0] < 3);
            let (inputs, bytes): (Vec<_>, Vec<_>) = clean
                .map(|(level, table)| ((level, table.meta().number), table.meta().bytes))
                .unzip();
            assert_eq!(inputs.len(), 2);
            let job = Job {
                inputs,
                output_level: 6,
                reason: JobReason::Space,
                is_move: false,
                dropped_at: None,
                bytes: bytes.iter().sum(),
            };
            let (snapshots, visible) = self.upkeep().core.history.live();
            let compaction = Compaction::start(self.tree(), job, &snapshots, visible).unwrap();
            CompactionJob::new(Arc::clone(self.upkeep()), Arc::clone(self.tree()), compaction)
        }

        /// Runs `job` to its end.
        fn finish(&self, mut job: CompactionJob) {
            while job.step() != Progress::Done {}
            assert_eq!(self.upkeep().core.work.compactions.load(Ordering::Relaxed), 1);
        }
    }

    /// The next estimate was of other bytes than the one before the compaction, and the note that
    /// it was useless was lost.
    #[test]
    fn a_tree_whose_compaction_for_space_freed_nothing_is_left_alone_until_it_changes() {
        let tree = Wasteful::new();
        tree.finish(tree.compact_in_vain());
        assert_eq!(tree.candidates(), 0);
        tree.flush(4);
        assert_eq!(tree.candidates(), 1);
    }

    /// The version with the flushed table was noted as useless to compact, so the garbage that the
    /// flush had made stayed while nothing was written.
    #[test]
    fn a_flush_during_a_compaction_that_frees_nothing_makes_another_compaction_worth_a_try() {
        let tree = Wasteful::new();
        let job = tree.compact_in_vain();
        tree.flush(3);
        tree.finish(job);
        assert_eq!(tree.candidates(), 1);
    }

    #[test]
    fn only_the_version_that_a_useless_compaction_has_produced_is_noted() {
        let tree = Wasteful::new();
        let produced = Arc::clone(tree.tree().view().version());
        tree.flush(3);
        note_useless(tree.upkeep(), tree.tree(), &produced);
        assert_eq!(tree.candidates(), 1);
        note_useless(tree.upkeep(), tree.tree(), tree.tree().view().version());
        assert_eq!(tree.candidates(), 0);
    }
}
