//! The flush job: writes the memtables of one group to tables, then installs them by one edit.

use super::groups::SealGroup;
use super::install::Install;
use super::pace::{Filled, FlushPace};
use crate::commit::free_bytes;
use crate::event::Event;
use crate::shared::Shared;
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::{Lane, Progress, is_out_of_descriptors};
use flagstone_tree::{Flush, Tree, TreeEdit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

struct FlushJob {
    shared: Arc<Shared>,
    group: SealGroup,
    waiting: VecDeque<Arc<Tree>>,
    current: Option<Running>,
    done: Vec<(Arc<Tree>, TreeEdit)>,
    /// Trees whose flush failed, while those of others went on; and the first reason.
    failed: Vec<Arc<Tree>>,
    error: Option<Error>,
    pace: FlushPace,
    /// Memory of what is flushed, and how much of it the trees in `done` had.
    bytes: u64,
    bytes_done: u64,
    /// The newest write that was visible behind the last step.
    seen: SeqNo,
}

struct Running {
    tree: Arc<Tree>,
    flush: Flush,
    /// Memory of what it flushes.
    bytes: u64,
    started: Duration,
}

impl Shared {
    /// Starts what should run and does not.
    pub(crate) fn schedule(&self) {
        self.schedule_flush();
        self.schedule_compactions();
    }

    pub(super) fn schedule_flush(&self) {
        let mut queue = self.background.lock();
        let rests = queue.rest_of_flushes.as_ref().is_some_and(|rest| rest.rests);
        if queue.running.is_some() || rests || self.poisoned().is_some() {
            return;
        }
        let Some(shared) = self.arc() else { return };
        let Some(group) = queue.take_group() else { return };
        queue.running = Some(group.number);
        queue.runs_unlogged = group.is_unlogged;
        drop(queue);
        let waiting = group.trees.iter().cloned().collect();
        let mut job = FlushJob {
            waiting,
            current: None,
            done: Vec::new(),
            failed: Vec::new(),
            error: None,
            pace: shared.flush_pace(),
            bytes: group.trees.iter().map(|tree| tree.sealed_bytes()).sum(),
            bytes_done: 0,
            seen: shared.publisher.visible(),
            shared,
            group,
        };
        self.executor.submit(Lane::Flush, Box::new(move || job.step()));
    }

    /// For a flush that begins now.
    fn flush_pace(&self) -> FlushPace {
        let (share, log) = (self.options.memtable_share(), self.options.wal_bytes_long());
        // One that began before the log was long leaves its oldest part to the next, and has no time for it.
        let log_to = if self.is_log_long() { self.options.wal_bytes_max() } else { log };
        FlushPace {
            from: Filled { memtables: share / 2, log },
            to: Filled { memtables: free_bytes(share), log: log_to },
            // At a gigabyte a second writers fill a sixteenth of the memtables' share meanwhile.
            rest_max: Duration::from_nanos(share / 16),
        }
    }

    /// Whether a flush is wanted as soon as can be.
    fn is_flush_urgent(&self) -> bool {
        let is_stopped = self.stall.stopped.is_any();
        // Who sets the size of memtables wants them to be no larger.
        is_stopped || self.background.is_flush_awaited() || self.options.memtable_bytes.is_some()
    }

    /// A flush job has ended; what is left of its group, and why.
    fn finish_flush(&self, left: Option<(SealGroup, Error)>) {
        match left {
            None => {
                let mut queue = self.background.lock();
                queue.running = None;
                queue.installed += 1;
                queue.rest_of_flushes = None;
                self.background.recount(&queue);
                self.set_brakes(&queue);
                let is_stuck = self.background.stuck.load(Ordering::Relaxed) > 0;
                drop(queue);
                self.note_room();
                if !is_stuck {
                    self.note_log_is_free();
                }
            }
            Some((group, error)) => self.put_back(group, &error),
        }
        self.background.ring();
        self.stall.ring();
        self.schedule();
        self.seal_if_full();
        self.keep_log_short();
    }
}

impl FlushJob {
    fn step(&mut self) -> Progress {
        let shared = Arc::clone(&self.shared);
        let began = shared.environment.clock.monotonic();
        match shared.run_step("a flush", || self.try_step()) {
            Ok(Progress::Done) => {
                shared.background.note_flush(shared.environment.clock.monotonic());
                shared.settle_later();
                self.end();
                Progress::Done
            }
            Ok(_) => {
                let rest = self.rest_after(shared.environment.clock.monotonic() - began);
                shared.weigh_outputs();
                rest
            }
            Err(error) => {
                let tree = self.current.take().map(|running| running.tree);
                let error = match &tree {
                    Some(tree) => shared.in_tree(&self.with_advice(error), tree.id(), "the flush"),
                    None => error,
                };
                if let Some(tree) = tree
                    && !self.group.is_whole()
                    && !is_of_all(&error)
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

    /// What failed is left.
    fn end(&mut self) {
        let left = self.error.take().map(|error| {
            self.shared.make_room_on_disk();
            let (trees, cut) = (std::mem::take(&mut self.failed), self.group.cut.take());
            let back_off = self.group.back_off.take();
            let SealGroup { number, through, is_unlogged, failed_at, .. } = self.group;
            let group = SealGroup { number, through, trees, cut, is_unlogged, back_off, failed_at };
            (group, error)
        });
        self.shared.finish_flush(left);
    }

    /// Rests while somebody writes, nobody waits, and there is time.
    fn rest_after(&mut self, step: Duration) -> Progress {
        let shared = &self.shared;
        let visible = shared.publisher.visible();
        let is_used = std::mem::replace(&mut self.seen, visible) < visible;
        // What is left then, syncs above all, must not be put off.
        let is_written = |running: &Running| running.flush.is_written();
        let is_last = self.waiting.is_empty() && self.current.as_ref().is_none_or(is_written);
        if !is_used || is_last || shared.is_flush_urgent() {
            return Progress::Again;
        }
        let part = |running: &Running| running.bytes as f64 * running.flush.part_done();
        let done = self.bytes_done as f64 + self.current.as_ref().map_or(0.0, part);
        let filled = Filled { memtables: shared.memtable_bytes(), log: shared.log_bytes() };
        self.pace.rest_after(step, filled, done / self.bytes.max(1) as f64)
    }

    fn try_step(&mut self) -> Result<Progress> {
        if let Some(running) = &mut self.current {
            if let Some(edit) = running.flush.step()? {
                let took = self.shared.environment.clock.monotonic() - running.started;
                let (keyspace, partition) = self.shared.part_of(&running.tree);
                self.shared.tell(&Event::FlushFinished {
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
        // The log is synced through everything in these tables before the edit is, or a power cut could
        // keep one half of a batch. And what failed to be written stands voided in it, or a record that a
        // crash brings back would be replayed for the other trees alone.
        if let Some(log) = &self.shared.log {
            log.sync_all().inspect_err(|error| self.shared.note_failure(error))?;
        }
        let edits = std::mem::take(&mut self.done);
        if edits.is_empty() && !self.failed.is_empty() {
            return Ok(Progress::Done);
        }
        self.shared.background.flushes.fetch_add(edits.len() as u64, Ordering::Relaxed);
        let flushed: Vec<Arc<Tree>> = edits.iter().map(|(tree, _)| Arc::clone(tree)).collect();
        self.shared.install(Install::Flush(&self.group), edits)?;
        // While all workers compact nobody else looks, and what is on the disk must count.
        self.shared.note_spaces(&flushed);
        Ok(Progress::Done)
    }

    /// What memory does not hold any more may still be in the log.
    fn with_advice(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Corruption {
            return error;
        }
        error.context(match self.group.is_unlogged {
            true => "what was written without the log since the last flush cannot be stored",
            false => "the log still has what was written, close the database and open it again",
        })
    }

    fn start(&self, tree: Arc<Tree>) -> Option<Running> {
        let (snapshots, visible) = self.shared.snapshots.live(&self.shared.publisher);
        let keyspace = self.shared.keyspace_of(&tree);
        let attachments = keyspace.map_or_else(Vec::new, |keyspace| keyspace.attachments());
        let flush = Flush::start(&tree, self.group.through, &snapshots, visible, &attachments)?;
        let (keyspace, partition) = self.shared.part_of(&tree);
        self.shared.tell(&Event::FlushStarted { keyspace, partition });
        let started = self.shared.environment.clock.monotonic();
        Some(Running { tree, bytes: flush.bytes(), flush, started })
    }
}

/// Whether what failed a flush will fail those of other trees, too.
pub(super) fn is_of_all(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfSpace | ErrorKind::Poisoned | ErrorKind::Closed)
        || is_out_of_descriptors(error)
}

#[cfg(test)]
mod tests {
    use crate::commit::free_bytes;
    use crate::shared::Shared;
    use crate::space::Trees;
    use crate::testing::Builder;
    use crate::{Engine, Environment, Keyspace, KeyspaceOptions, Routing};
    use flagstone_env::executor::Job;
    use flagstone_env::sync::Mutex;
    use flagstone_env::{Clock, Executor, Lane, MemDisk, Progress, SeededRandom, StepExecutor};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// Ten milliseconds go by with every look.
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

    /// Puts something before each step of the flush lane, if told to, and notes what the step answers.
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

    /// A database with a flush that waits for its first step.
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
            // Its memtable is never the largest: it pins the log.
            db.keyspace("small").unwrap().put("k", "1").unwrap();
            let sealed = Self { executor, db, kv };
            sealed.fill();
            sealed
        }

        fn fill(&self) {
            let shared = self.shared();
            for i in 0..100_000_u64 {
                self.executor.steps.run_all();
                // With its key and headers 1,056 bytes: how full memory is when a flush begins depends on it.
                self.kv.put(i.to_be_bytes(), [7; 1020]).unwrap();
                if shared.background.is_flush_pending() {
                    return self.executor.answers.lock().clear();
                }
            }
            panic!("no flush");
        }

        fn shared(&self) -> &Shared {
            self.kv.handle().shared()
        }

        fn step_to_the_end(&self) {
            while self.shared().background.is_flush_pending() {
                assert!(self.executor.steps.step(Lane::Flush));
            }
        }

        /// How often the flush rests that `run` brings to its end, while somebody writes.
        fn rests_while_written(&self, run: impl FnOnce(&Self)) -> usize {
            *self.executor.puts_into.lock() = Some(self.kv.clone());
            let rests = self.rests(run);
            // It would keep the database, which keeps the executor.
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
            // A sixteenth of the share at a gigabyte a second: shorter than the steps here.
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

    /// Puts until memtables or log hold as much as `is_so` wants.
    fn put_until(sealed: &Sealed, is_so: impl Fn(&Shared) -> bool) {
        for i in 0..100_000_u64 {
            if is_so(sealed.shared()) {
                return;
            }
            sealed.kv.put(i.to_be_bytes(), [2; 1024]).unwrap();
        }
        panic!("still not so");
    }

    #[test]
    fn a_flush_does_not_rest_when_the_log_grew_long_meanwhile() {
        let is_log_long = |shared: &Shared| shared.log_bytes() > shared.options.wal_bytes_long();
        let sealed = Sealed::new();
        // Flushes of 4 MiB each, until there is not room for another.
        while sealed.shared().log_bytes() + (4 << 20) < sealed.shared().options.wal_bytes_long() {
            sealed.fill();
        }
        assert!(!is_log_long(sealed.shared()));
        put_until(&sealed, is_log_long);
        assert!(sealed.shared().memtable_bytes() < 12 << 20, "for memory alone it could rest");
        assert_eq!(sealed.rests_while_written(Sealed::step_to_the_end), 0);
    }

    #[test]
    fn a_flush_does_not_rest_when_writers_are_delayed() {
        let sealed = Sealed::new();
        put_until(&sealed, |shared| {
            shared.memtable_bytes() >= free_bytes(shared.options.memtable_share())
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
                let _first = sealed.shared().before_write(1 << 20, true, Trees::new).unwrap();
                let _second = sealed.shared().before_write(8 << 20, true, Trees::new).unwrap();
            },
        ];
        for wait in waits {
            assert_eq!(Sealed::new().rests_while_written(wait), 0);
        }
    }

    #[test]
    fn flushes_rest_again_when_those_who_waited_are_gone() {
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
