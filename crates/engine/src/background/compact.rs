//! Compaction jobs: the tree with the highest score first, one job a tree at a time.
//!
//! Only trees that changed since they were last found in shape are looked at:
//!
//! ```text
//! changed --> watched --looked at in vain--> not looked at any more, when nobody reads at a SeqNo older than the tree
//!              ^   \--------------------> held back, while somebody does: until the oldest such reader is gone
//!              |    \-------------------> until rest, while writers are at work: until they rest
//!              \__________________________________________________/
//! ```
//! What fails in one tree stays there: it rests, longer each time, while the others go on.

use super::install::Install;
use super::state::Queue;
use crate::event::Event;
use crate::shared::Shared;
use flagstone_base::{Error, ErrorKind, Result, SeqNo, TreeId};
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::{Lane, Progress};
use flagstone_tree::{Compaction, Policy, Tree, Version, pick, pick_hidden};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// When no flush has ended for so long, writers rest: trees are tidied up for readers.
const SETTLE_AFTER: Duration = Duration::from_secs(1);

/// The score of a tree counts no more than this against that of compactions for space.
const SCORE_PRESSING: f64 = 2.0;
/// A tree with this many runs in its first level comes before compactions for space, however urgent those are: its writers
/// would be stopped.
const L0_RUNS_PRESSING: usize = 32;

/// A compaction that is under way, and whom it tells.
pub(super) struct CompactionJob {
    shared: Arc<Shared>,
    tree: Arc<Tree>,
    /// Until it has ended; it holds the tree's slot.
    compaction: Option<Compaction>,
    started: Duration,
}

impl Shared {
    pub(crate) fn schedule_compactions(&self) {
        loop {
            let Some(job) = self.next_compaction() else { break };
            let mut job = job;
            self.executor.submit(Lane::Compaction, Box::new(move || job.step()));
        }
        self.measure_pressure();
    }

    /// As [`Shared::schedule_compactions`], by a worker: a look may read the samples of many tables.
    pub(crate) fn schedule_compactions_soon(&self) {
        let job = self.job(|shared| {
            shared.schedule_compactions();
            // An open does not know how much is alive before this look.
            shared.look_after_ballast();
            Progress::Done
        });
        self.executor.submit(Lane::Compaction, job);
    }

    /// Starts what an open has left to be done, and reads no table for it.
    pub(crate) fn schedule_after_open(&self) {
        self.schedule_flush();
        let is_any_watched = !self.background.lock().watched.is_empty();
        if is_any_watched {
            self.schedule_compactions_soon();
        }
    }

    /// The most urgent compaction, marked as running; `None` when all workers are busy or nothing is
    /// to be done.
    fn next_compaction(&self) -> Option<CompactionJob> {
        self.may_compact(&self.background.lock()).then_some(())?;
        self.watch_again();
        let watched = self.watched_trees();
        self.note_spaces(&watched);
        let mut space = self.room().score();
        // Outside the lock: it costs all tables, and a seal waits for the lock.
        let mut trees: Vec<(f64, bool, Arc<Tree>)> = watched
            .into_iter()
            .map(|tree| {
                let pressure = tree.pressure(self.policy(&tree));
                (pressure.score, pressure.l0_runs >= L0_RUNS_PRESSING, tree)
            })
            .collect();
        // Those in shape come last: there may be something to move, or tombstones to drop.
        trees.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (score, is_pressing, tree) in trees {
            let is_less = |space| space >= score.min(SCORE_PRESSING) && !is_pressing;
            if space.is_some_and(is_less) {
                space = None;
                if let Some(job) = self.start_for_space() {
                    return Some(job);
                }
            }
            {
                let mut queue = self.background.lock();
                self.may_compact(&queue).then_some(())?;
                if !queue.compacting.insert(tree.id()) {
                    continue;
                }
            }
            if let Some(job) = self.start_compaction(&tree) {
                return Some(job);
            }
            self.background.lock().compacting.remove(&tree.id());
        }
        space.and_then(|_due| self.start_for_space())
    }

    /// Watches the trees again that waited for writers to rest, or for readers of the past to be gone.
    fn watch_again(&self) {
        let rest = self.writers_rest();
        let oldest = self.snapshots.live(&self.publisher).0.into_iter().min();
        let mut queue = self.background.lock();
        let Queue { watched, until_rest, held_back, .. } = &mut *queue;
        if rest {
            watched.append(until_rest);
        }
        let still_held = match oldest {
            Some(oldest) => held_back.split_off(&(oldest, TreeId(0))),
            None => BTreeMap::new(),
        };
        let free = std::mem::replace(held_back, still_held);
        watched.extend(free.into_iter().map(|((_, id), tree)| (id, tree)));
        self.snapshots.set_awaited(held_back.keys().next_back().map(|(seqno, _)| *seqno));
    }

    /// Trees that may need a compaction, and are not resting after one that failed.
    fn watched_trees(&self) -> Vec<Arc<Tree>> {
        let queue = self.background.lock();
        let rests = |tree: &TreeId| queue.failing.get(tree).is_some_and(|back_off| back_off.rests);
        let watched = queue.watched.iter().filter(|(id, _)| !rests(id));
        watched.map(|(_, tree)| Arc::clone(tree)).collect()
    }

    /// A tree was opened or has changed: it may need a compaction, and its writers more or less room.
    pub(crate) fn watch(&self, tree: &Arc<Tree>) {
        let runs = tree.l0_runs();
        let mut queue = self.background.lock();
        queue.watched.insert(tree.id(), Arc::clone(tree));
        queue.until_rest.remove(&tree.id());
        queue.blocked.remove(&tree.id());
        self.hold_writers_back(&mut queue, tree, runs);
    }

    /// No compaction was found for `tree` in the `version` that it had: there will be none before it changes, or before
    /// writers rest, if they were at work, or before the `oldest` reader of the past is gone, if that is older than a part
    /// of the tree.
    fn unwatch(
        &self,
        tree: &Arc<Tree>,
        version: &Arc<Version>,
        (policy, oldest): (Policy, Option<SeqNo>),
    ) {
        let mut queue = self.background.lock();
        if !Arc::ptr_eq(tree.view().version(), version) {
            // Whoever changed it has called `watch`, or will when this lock is free.
            return;
        }
        if let Some(damage) = version.damage() {
            queue.blocked.insert(tree.id(), damage);
        }
        queue.watched.remove(&tree.id());
        if policy == Policy::Tiering {
            queue.until_rest.insert(tree.id(), Arc::clone(tree));
        } else if let Some(oldest) = oldest.filter(|oldest| *oldest < version.seqno_max()) {
            queue.held_back.insert((oldest, tree.id()), Arc::clone(tree));
            self.snapshots.await_seqno(oldest);
            drop(queue);
            // It may have gone before it could know that somebody waits for it.
            if !self.snapshots.is_held(oldest) {
                self.schedule_compactions_soon();
            }
        }
    }

    /// While flushes follow one another, compactions save writes, unless the tree is read even more.
    fn policy(&self, tree: &Tree) -> Policy {
        // Another tree may be the one that is written.
        let is_written = tree.oldest_unflushed().is_some();
        match !is_written || self.writers_rest() || tree.is_read_heavy() {
            true => Policy::Leveling,
            false => Policy::Tiering,
        }
    }

    pub(super) fn writers_rest(&self) -> bool {
        let since = self.background.since_flush(self.environment.clock.monotonic());
        since.is_none_or(|since| since >= SETTLE_AFTER) && !self.background.is_flush_pending()
    }

    /// Tells running compactions how far compaction is behind.
    fn measure_pressure(&self) {
        let scores =
            self.watched_trees().into_iter().map(|tree| tree.pressure(self.policy(&tree)).score);
        let room = self.room();
        let score = scores.fold(room.urgency(), f64::max);
        self.slow_down_for_space(room);
        self.pace.set((!self.writers_rest()).then_some(score));
    }

    /// Sees to it that compactions are looked for again when writers rest.
    pub(crate) fn settle_later(&self) {
        if self.background.settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let job = self.job(|shared| {
            // Before the look: a flush that ends behind it asks for another.
            shared.background.settling.swap(false, Ordering::AcqRel);
            let now = shared.environment.clock.monotonic();
            if shared.background.since_flush(now).is_some_and(|since| since < SETTLE_AFTER) {
                shared.settle_later();
            } else {
                shared.give_memory_to_readers();
            }
            // Of tables that the last reader has let go.
            shared.sweep();
            shared.schedule_compactions();
            shared.look_after_ballast();
            Progress::Done
        });
        self.executor.submit_after(SETTLE_AFTER, Lane::Flush, job);
    }

    pub(super) fn may_compact(&self, queue: &Queue) -> bool {
        // Neither poisoned, nor open for reading only, nor on the way to be closed.
        let is_open = self.check_open_for_writing().is_ok() && self.poisoned().is_none();
        let jobs = queue.compacting.len() - queue.compacting_for_callers;
        let is_busy = jobs >= self.executor.workers(Lane::Compaction);
        is_open && !is_busy
    }

    fn start_compaction(&self, tree: &Arc<Tree>) -> Option<CompactionJob> {
        let (snapshots, visible) = self.snapshots.live(&self.publisher);
        let (view, policy) = (tree.view(), self.policy(tree));
        let oldest = snapshots.iter().copied().min();
        let hidden = || pick_hidden(view.version(), tree.options(), oldest.unwrap_or(visible));
        let job = match pick(view.version(), tree.options(), policy) {
            None if policy == Policy::Leveling => hidden(),
            job => job,
        };
        let Some(job) = job else {
            self.unwatch(tree, view.version(), (policy, oldest));
            return None;
        };
        let compaction = Compaction::start(tree, job, &snapshots, visible)?;
        Some(CompactionJob::new(self.arc()?, Arc::clone(tree), compaction))
    }

    fn finish_compaction(&self, tree: &Tree, error: Option<Error>) {
        let id = tree.id();
        let mut queue = self.background.lock();
        queue.compacting.remove(&id);
        queue.freeing.remove(&id);
        match error {
            None => {
                queue.failing.remove(&id);
                drop(queue);
                self.note_room();
            }
            Some(error) => {
                drop(queue);
                self.note_failure(&error);
                self.back_off(tree, error);
            }
        }
        self.background.ring();
        self.stall.ring();
    }
}

impl CompactionJob {
    pub(super) fn new(shared: Arc<Shared>, tree: Arc<Tree>, compaction: Compaction) -> Self {
        let job = compaction.job().to_string();
        let (keyspace, partition) = shared.part_of(&tree);
        shared.tell(&Event::CompactionStarted { keyspace, partition, job });
        let started = shared.environment.clock.monotonic();
        Self { shared, tree, compaction: Some(compaction), started }
    }

    fn step(&mut self) -> Progress {
        let shared = Arc::clone(&self.shared);
        let began = shared.environment.clock.monotonic();
        let error = match shared.run_step("a compaction", || self.try_step()) {
            Ok(Progress::Done) => None,
            Ok(_) => {
                let took = shared.environment.clock.monotonic() - began;
                shared.weigh_outputs();
                return shared.pace.rest_after(took);
            }
            Err(error) => Some(error),
        };
        // Before others may begin with the tree; nobody but readers holds its inputs now.
        self.compaction = None;
        self.shared.sweep();
        self.shared.finish_compaction(&self.tree, error);
        self.shared.schedule();
        Progress::Done
    }

    pub(super) fn try_step(&mut self) -> Result<Progress> {
        let Some(compaction) = &mut self.compaction else { return Ok(Progress::Done) };
        let done = compaction.step().map_err(|error| match error.kind() {
            ErrorKind::Corruption => self.shared.in_tree(&error, self.tree.id(), "the compaction"),
            _ => error,
        });
        let Some(edit) = done? else { return Ok(Progress::Again) };
        let (keyspace, partition) = self.shared.part_of(&self.tree);
        let event = Event::CompactionFinished {
            keyspace,
            partition,
            removed: edit.removed.len(),
            added: edit.added.len(),
            bytes: edit.added.iter().map(|(_, meta)| meta.bytes).sum(),
            took: self.shared.environment.clock.monotonic() - self.started,
        };
        self.shared.install(Install::Compaction, vec![(Arc::clone(&self.tree), edit)])?;
        self.shared.background.compactions.fetch_add(1, Ordering::Relaxed);
        self.shared.tell(&event);
        Ok(Progress::Done)
    }
}

#[cfg(test)]
mod tests {
    use crate::background::space::UnderWay;
    use crate::{Options, testing};
    use flagstone_tree::Space;

    /// Only trees that still had garbage were looked at, so one whose garbage was gone held its writers back for ever.
    #[test]
    fn the_brake_of_a_tree_ends_with_its_garbage() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        let (shared, tree) = (kv.handle().shared(), &kv.core().trees[0]);
        let room = {
            let mut queue = shared.background.lock();
            queue.spaces.note(tree, Space { bytes: 1000, live: 100 });
            queue.spaces.brake = 900;
            shared.hold_writers_back(&mut queue, tree, 0);
            assert_eq!(tree.brake(), 900);
            queue.spaces.note(tree, Space { bytes: 100, live: 100 });
            queue.spaces.room(&Options::default(), false, UnderWay::default())
        };
        shared.slow_down_for_space(room);
        assert_eq!(tree.brake(), 0);
        assert!(shared.background.lock().brakes.is_empty());
    }
}
