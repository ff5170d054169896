//! The flush job: writes the memtables of one group to tables, then installs them by one edit.

use super::brakes::set_brakes;
use super::failures::{fails_all_flushes, note_disk_has_room, put_back};
use super::garbage::{note_spaces, slow_down_for_outputs};
use super::install::{Install, install};
use super::pace::{Filled, FlushPace};
use super::sweep::make_room_on_disk;
use super::upkeep::Upkeep;
use crate::commit::free_bytes;
use crate::event::{Event, StallCause};
use crate::queue::SealGroup;
use flagstone_base::{Error, ErrorKind, Result, SeqNo, TreeId};
use flagstone_env::Progress;
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Flush, Tree, TreeEdit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The running flush of a group.
pub(super) struct FlushJob {
    upkeep: Arc<Upkeep>,
    group: SealGroup,
    waiting: VecDeque<Arc<Tree>>,
    current: Option<TreeFlush>,
    done: Vec<(Arc<Tree>, TreeEdit)>,
    /// Trees whose flush failed while other trees were flushed, and the first error.
    failed: Vec<Arc<Tree>>,
    error: Option<Error>,
    pace: FlushPace,
    /// Bytes of memory being flushed, and the part of them that belonged to the trees in `done`.
    bytes: u64,
    bytes_done: u64,
    /// The newest write that was visible after the last step.
    seen: SeqNo,
    /// The flush has ended, and everything that did not fail is installed.
    has_written: bool,
    claims: Claims,
}

/// Trees that must not be compacted until the flush has ended, since its edit may remove tables of
/// theirs.
struct Claims {
    upkeep: Arc<Upkeep>,
    trees: Vec<TreeId>,
}

impl Claims {
    /// Claims `tree`, unless it is being compacted.
    fn take(&mut self, tree: &Tree) -> bool {
        let mut queue = self.upkeep.work.lock();
        let is_free = queue.compacting.insert(tree.id());
        if is_free {
            // A claimed tree occupies no compaction worker.
            queue.compacting_for_callers += 1;
            self.trees.push(tree.id());
        }
        is_free
    }

    fn release(&mut self) {
        let mut queue = self.upkeep.work.lock();
        for tree in self.trees.drain(..) {
            queue.compacting.remove(&tree);
            queue.compacting_for_callers -= 1;
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.release();
    }
}

struct TreeFlush {
    tree: Arc<Tree>,
    flush: Flush,
    /// Bytes of the memtables being flushed.
    bytes: u64,
    started: Duration,
}

/// Takes the first group that can be flushed, and marks its flush as running.
pub(super) fn next_flush(upkeep: &Arc<Upkeep>) -> Option<FlushJob> {
    let mut queue = upkeep.work.lock();
    let is_pausing = queue.flushes.pause.as_ref().is_some_and(|pause| pause.is_pausing);
    if queue.flushes.running.is_some() || is_pausing || upkeep.health.poisoned().is_some() {
        return None;
    }
    let group = queue.flushes.take_group()?;
    queue.flushes.running = Some(group.number);
    queue.flushes.runs_unlogged = group.is_unlogged;
    drop(queue);
    upkeep.work.note_flush_began(upkeep.setup.now());
    let waiting = group.trees.iter().cloned().collect();
    Some(FlushJob {
        waiting,
        current: None,
        done: Vec::new(),
        failed: Vec::new(),
        error: None,
        pace: flush_pace(upkeep),
        bytes: group.trees.iter().map(|tree| tree.sealed_bytes()).sum(),
        bytes_done: 0,
        seen: upkeep.history.visible(),
        has_written: false,
        claims: Claims { upkeep: Arc::clone(upkeep), trees: Vec::new() },
        upkeep: Arc::clone(upkeep),
        group,
    })
}

/// The pace of a flush that starts now.
fn flush_pace(upkeep: &Upkeep) -> FlushPace {
    let (share, log) =
        (upkeep.setup.options.memtable_share(), upkeep.setup.options.wal_bytes_long());
    // A flush that started before the log was long leaves the oldest part of the log to the next
    // flush, and must not delay that.
    let log_to = if upkeep.is_log_long() { upkeep.setup.options.wal_bytes_max() } else { log };
    FlushPace {
        from: Filled { memtables: share / 2, log },
        to: Filled { memtables: free_bytes(share), log: log_to },
        // Writers at 1 GB/s fill a sixteenth of the memtables' share in this time.
        rest_max: Duration::from_nanos(share / 16),
    }
}

/// Returns whether a flush must not pause.
fn is_urgent(upkeep: &Upkeep) -> bool {
    let is_stopped = upkeep.stall.stopped.is_any();
    // With `memtable_bytes` the user asks for memtables that are no larger.
    is_stopped || upkeep.work.is_flush_awaited() || upkeep.setup.options.memtable_bytes.is_some()
}

/// Ends a flush job. `left` is the part of its group that failed, and the error.
fn finish(upkeep: &Arc<Upkeep>, left: Option<(SealGroup, Error)>) {
    match left {
        None => {
            let mut queue = upkeep.work.lock();
            queue.flushes.running = None;
            queue.flushes.installed += 1;
            queue.flushes.pause = None;
            upkeep.work.recount(&queue);
            set_brakes(upkeep, &queue);
            let is_stuck = upkeep.work.stuck() > 0;
            drop(queue);
            note_disk_has_room(upkeep);
            if !is_stuck {
                note_log_is_free(upkeep);
            }
        }
        Some((group, error)) => put_back(upkeep, group, &error),
    }
    upkeep.work.ring();
    upkeep.health.writers.ring();
}

/// Called when no flush fails any more.
fn note_log_is_free(upkeep: &Upkeep) {
    let since = upkeep.stall.note_log_is_free();
    if let Some(since) = since {
        let took = upkeep.setup.now().saturating_sub(since);
        upkeep.health.tell(&Event::StallFinished { cause: StallCause::Log, took });
    }
}

impl FlushJob {
    /// Returns whether the flush has ended, and everything that did not fail is installed.
    pub(super) const fn has_written(&self) -> bool {
        self.has_written
    }

    pub(super) fn step(&mut self) -> Progress {
        let upkeep = Arc::clone(&self.upkeep);
        let began = upkeep.setup.now();
        match upkeep.health.run_step("a flush", || self.try_step()) {
            Ok(Progress::Done) => {
                upkeep.work.note_flush(upkeep.setup.now());
                self.has_written = true;
                self.end();
                Progress::Done
            }
            Ok(_) => {
                let rest = self.rest_after(upkeep.setup.now() - began);
                slow_down_for_outputs(&upkeep);
                rest
            }
            Err(error) => {
                let tree = self.current.take().map(|running| running.tree);
                let error = match &tree {
                    Some(tree) => {
                        upkeep.keyspaces.in_tree(&self.with_advice(error), tree.id(), "the flush")
                    }
                    None => error,
                };
                if let Some(tree) = tree
                    && !self.group.is_whole()
                    && !fails_all_flushes(&error)
                {
                    self.failed.push(tree);
                    self.error.get_or_insert(error);
                    return Progress::Again;
                }
                for (tree, edit) in self.done.drain(..) {
                    tree.abandon(&edit);
                }
                self.failed = std::mem::take(&mut self.group.trees);
                self.error = Some(error);
                self.end();
                Progress::Done
            }
        }
    }

    /// Ends the job. Trees whose flush failed are put back as a group.
    fn end(&mut self) {
        self.claims.release();
        let left = self.error.take().map(|error| {
            make_room_on_disk(&self.upkeep);
            let (trees, cut) = (std::mem::take(&mut self.failed), self.group.cut.take());
            let back_off = self.group.back_off.take();
            let SealGroup { number, through, is_unlogged, failed_at, .. } = self.group;
            let group = SealGroup { number, through, trees, cut, is_unlogged, back_off, failed_at };
            (group, error)
        });
        finish(&self.upkeep, left);
    }

    /// Pauses while somebody writes, nobody waits for the flush, and there is time.
    fn rest_after(&mut self, step: Duration) -> Progress {
        let upkeep = &self.upkeep;
        let visible = upkeep.history.visible();
        let is_used = std::mem::replace(&mut self.seen, visible) < visible;
        // Only syncs are left then, which must not be delayed.
        let is_written = |running: &TreeFlush| running.flush.is_written();
        let is_last = self.waiting.is_empty() && self.current.as_ref().is_none_or(is_written);
        if !is_used || is_last || is_urgent(upkeep) {
            return Progress::Again;
        }
        let part = |running: &TreeFlush| running.bytes as f64 * running.flush.part_done();
        let done = self.bytes_done as f64 + self.current.as_ref().map_or(0.0, part);
        let filled =
            Filled { memtables: upkeep.memory.memtable_bytes(), log: upkeep.history.log_bytes() };
        self.pace.rest_after(step, filled, done / self.bytes.max(1) as f64)
    }

    fn try_step(&mut self) -> Result<Progress> {
        if let Some(running) = &mut self.current {
            if let Some(edit) = running.flush.step()? {
                let took = self.upkeep.setup.now() - running.started;
                let (keyspace, partition) = self.upkeep.keyspaces.partition_of(&running.tree);
                self.upkeep.health.tell(&Event::FlushFinished {
                    keyspace,
                    partition,
                    tables: edit.added.len(),
                    bytes: edit.added.iter().map(|(_, meta)| meta.bytes).sum(),
                    took,
                });
                self.bytes_done += running.bytes;
                self.done.push((Arc::clone(&running.tree), edit));
                self.current = None;
            }
            return Ok(Progress::Again);
        }
        if let Some(tree) = self.waiting.pop_front() {
            self.current = self.start(tree);
            return Ok(Progress::Again);
        }
        // The log is synced through everything in these tables before the edit is. Otherwise a
        // power cut could keep one half of a batch. The sync also voids records that failed to be
        // written: a crash could bring such a record back, and it would be replayed for the other
        // trees alone.
        if let Some(log) = &self.upkeep.history.log {
            log.sync_all().inspect_err(|error| self.upkeep.ballast.note_failure(error))?;
        }
        let edits = std::mem::take(&mut self.done);
        if edits.is_empty() && !self.failed.is_empty() {
            return Ok(Progress::Done);
        }
        self.upkeep.work.flushes.fetch_add(edits.len() as u64, Ordering::Relaxed);
        let flushed: Vec<Arc<Tree>> = edits.iter().map(|(tree, _)| Arc::clone(tree)).collect();
        install(&self.upkeep, Install::Flush(&self.group), edits)?;
        // Done here because all compaction workers may be busy, and the new tables must count.
        note_spaces(&self.upkeep, &flushed);
        Ok(Progress::Done)
    }

    /// Adds to `error` what a user can do: the log may still have what memory has lost.
    fn with_advice(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Corruption {
            return error;
        }
        error.context(match self.group.is_unlogged {
            true => "what was written without the log since the last flush cannot be stored",
            false => "the log still has what was written, close the database and open it again",
        })
    }

    fn start(&mut self, tree: Arc<Tree>) -> Option<TreeFlush> {
        let moment = self.upkeep.expire_through();
        let (snapshots, visible) = self.upkeep.history.live();
        let keyspace = self.upkeep.keyspaces.get(tree.options().keyspace);
        let attachments = keyspace.map_or_else(Vec::new, |keyspace| keyspace.attachments());
        let flush = Flush::start(&tree, self.group.through, &snapshots, visible, &attachments)?;
        let mut flush = flush.expiring_through(moment);
        if flush.has_ranges() && self.claims.take(&tree) {
            flush = flush.removing_hidden();
        }
        let (keyspace, partition) = self.upkeep.keyspaces.partition_of(&tree);
        self.upkeep.health.tell(&Event::FlushStarted { keyspace, partition });
        let started = self.upkeep.setup.now();
        Some(TreeFlush { tree, bytes: flush.bytes(), flush, started })
    }
}

#[cfg(test)]
mod tests {
    use crate::commit::{before_write, free_bytes};
    use crate::keyspace_core::Trees;
    use crate::parts::Parts;
    use crate::testing::Builder;
    use crate::{Engine, Environment, Keyspace, KeyspaceOptions, Routing};
    use flagstone_env::executor::Job;
    use flagstone_env::sync::Mutex;
    use flagstone_env::{Clock, Executor, Lane, MemDisk, Progress, SeededRandom, StepExecutor};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A clock that advances by ten milliseconds at each reading.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(10, Ordering::Relaxed))
        }

        fn wall(&self) -> Duration {
            self.monotonic()
        }
    }

    /// An executor that can put an entry before each step of the flush lane, and records what the
    /// step returns.
    #[derive(Default)]
    struct Watched {
        steps: StepExecutor,
        puts_into: Arc<Mutex<Option<Keyspace>>>,
        answers: Arc<Mutex<Vec<Progress>>>,
    }

    impl Executor for Watched {
        fn submit(&self, lane: Lane, mut job: Job) {
            if lane != Lane::Flush {
                return self.steps.submit(lane, job);
            }
            let (puts_into, answers) = (Arc::clone(&self.puts_into), Arc::clone(&self.answers));
            let watched = move || {
                let kv = puts_into.lock().clone();
                if let Some(kv) = kv {
                    kv.put("more", "1").unwrap();
                }
                let answer = job();
                answers.lock().push(answer);
                answer
            };
            self.steps.submit(lane, Box::new(watched));
        }

        fn submit_after(&self, delay: Duration, lane: Lane, job: Job) {
            self.steps.submit_after(delay, lane, job);
        }

        fn assist(&self) -> bool {
            self.steps.assist()
        }

        fn workers(&self, lane: Lane) -> usize {
            self.steps.workers(lane)
        }

        fn shut_down(&self) {
            self.steps.shut_down();
        }
    }

    /// A database with a sealed memtable whose flush has not started.
    struct Sealed {
        executor: Arc<Watched>,
        db: Engine,
        kv: Keyspace,
    }

    impl Sealed {
        /// Memtables are half full.
        fn new() -> Self {
            Self::with(|builder| builder)
        }

        fn with(change: impl FnOnce(Builder) -> Builder) -> Self {
            let executor = Arc::new(Watched::default());
            let environment = Environment {
                disk: Arc::new(MemDisk::default()),
                clock: Arc::new(Ticking::default()),
                random: Arc::new(SeededRandom::new(1)),
                executor: Some(Arc::<Watched>::clone(&executor)),
            };
            // The memtables' share is 16 MiB.
            let builder = Builder::at("db").environment(environment).memory_budget(32 << 20);
            let db = change(builder).open().unwrap();
            let options = KeyspaceOptions::new().routing(Routing::Hash(2));
            let kv = db.keyspace_with("k", options).unwrap();
            // The memtable of this keyspace is never the largest, so it pins the log.
            db.keyspace("small").unwrap().put("k", "1").unwrap();
            let sealed = Self { executor, db, kv };
            sealed.fill();
            sealed
        }

        fn fill(&self) {
            let parts = self.parts();
            for i in 0..100_000_u64 {
                self.executor.steps.run_all();
                // An entry takes 1,056 bytes with its key and headers; memory use at the start of
                // the flush depends on it.
                self.kv.put(i.to_be_bytes(), [7; 1020]).unwrap();
                if parts.upkeep.work.is_flush_pending() {
                    return self.executor.answers.lock().clear();
                }
            }
            panic!("no flush");
        }

        fn parts(&self) -> &Parts {
            self.kv.handle().parts()
        }

        fn step_to_the_end(&self) {
            while self.parts().upkeep.work.is_flush_pending() {
                assert!(self.executor.steps.step(Lane::Flush));
            }
        }

        /// Counts the pauses of the flush that `run` completes while somebody writes.
        fn rests_while_written(&self, run: impl FnOnce(&Self)) -> usize {
            *self.executor.puts_into.lock() = Some(self.kv.clone());
            let rests = self.rests(run);
            // The executor must not keep the database, which keeps the executor.
            self.executor.puts_into.lock().take();
            rests
        }

        fn rests(&self, run: impl FnOnce(&Self)) -> usize {
            run(self);
            let answers = std::mem::take(&mut *self.executor.answers.lock());
            // Another flush may have followed.
            let end = answers.iter().position(|answer| *answer == Progress::Done).unwrap();
            let answers = &answers[..end];
            assert!(answers.len() > 4, "{answers:?}");
            assert_eq!(answers.last(), Some(&Progress::Again), "the install is not put off");
            // A sixteenth of the share at 1 GB/s is shorter than the steps here.
            let rest = Progress::Rest(Duration::from_nanos(1 << 20));
            assert!(answers.iter().all(|a| [rest, Progress::Again].contains(a)), "{answers:?}");
            answers.iter().filter(|answer| **answer == rest).count()
        }
    }

    #[test]
    fn a_flush_rests_while_somebody_writes_and_nobody_waits() {
        assert!(Sealed::new().rests_while_written(Sealed::step_to_the_end) >= 2);
    }

    #[test]
    fn a_flush_does_not_rest_while_nobody_writes() {
        assert_eq!(Sealed::new().rests(Sealed::step_to_the_end), 0);
    }

    /// Puts entries until `is_so` returns true.
    fn put_until(sealed: &Sealed, is_so: impl Fn(&Parts) -> bool) {
        for i in 0..100_000_u64 {
            if is_so(sealed.parts()) {
                return;
            }
            sealed.kv.put(i.to_be_bytes(), [2; 1024]).unwrap();
        }
        panic!("still not so");
    }

    #[test]
    fn a_flush_does_not_rest_when_the_log_grew_long_meanwhile() {
        let is_log_long =
            |parts: &Parts| parts.history.log_bytes() > parts.setup.options.wal_bytes_long();
        let sealed = Sealed::new();
        // Flushes of 4 MiB each, until there is no room for another.
        while sealed.parts().history.log_bytes() + (4 << 20)
            < sealed.parts().setup.options.wal_bytes_long()
        {
            sealed.fill();
        }
        assert!(!is_log_long(sealed.parts()));
        put_until(&sealed, is_log_long);
        assert!(
            sealed.parts().memory.memtable_bytes() < 12 << 20,
            "for memory alone it could rest"
        );
        assert_eq!(sealed.rests_while_written(Sealed::step_to_the_end), 0);
    }

    #[test]
    fn a_flush_does_not_rest_when_writers_are_delayed() {
        let sealed = Sealed::new();
        put_until(&sealed, |parts| {
            parts.memory.memtable_bytes() >= free_bytes(parts.setup.options.memtable_share())
        });
        assert_eq!(sealed.rests_while_written(Sealed::step_to_the_end), 0);
    }

    #[test]
    fn a_flush_that_somebody_waits_for_does_not_rest() {
        let waits: [fn(&Sealed); 3] = [
            |sealed| sealed.db.flush().unwrap(),
            |sealed| assert!(sealed.db.checkpoint("copy").is_ok()),
            // Two large writes that do not fit together.
            |sealed| {
                let _first =
                    before_write(&sealed.parts().commits.throttle, 1 << 20, true, Trees::new)
                        .unwrap();
                let _second =
                    before_write(&sealed.parts().commits.throttle, 8 << 20, true, Trees::new)
                        .unwrap();
            },
        ];
        for wait in waits {
            assert_eq!(Sealed::new().rests_while_written(wait), 0);
        }
    }

    #[test]
    fn flushes_rest_again_once_nobody_waits() {
        let sealed = Sealed::new();
        sealed.db.flush().unwrap();
        sealed.db.checkpoint("copy").unwrap();
        sealed.fill();
        assert!(sealed.rests_while_written(Sealed::step_to_the_end) >= 2);
    }

    #[test]
    fn a_flush_of_memtables_whose_size_is_set_does_not_rest() {
        let sealed = Sealed::with(|builder| builder.memtable_bytes(3 << 20));
        assert_eq!(sealed.rests_while_written(Sealed::step_to_the_end), 0);
    }
}
