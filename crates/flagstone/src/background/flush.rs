//! The flush job: writes the memtables of one group to tables, then installs them by one edit.

use super::install::Install;
use super::pace::behind_flush;
use super::state::SealGroup;
use crate::event::Event;
use crate::shared::Shared;
use flagstone_base::{Error, Result, SeqNo};
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
    /// The newest write that was visible behind the last step.
    seen: SeqNo,
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
        let mut job = FlushJob {
            shared,
            group,
            waiting,
            current: None,
            done: Vec::new(),
            seen: SeqNo::default(),
        };
        self.executor.submit(Lane::Flush, Box::new(move || job.step()));
    }

    /// Whether flushes are wanted as soon as can be: somebody waits for them, or they have another reason
    /// than the memory that they free.
    fn is_flush_urgent(&self) -> bool {
        self.background.is_flush_awaited()
            || self.stalled.load(Ordering::Relaxed) > 0
            || self.options.memtable_bytes.is_some()
            || self.is_log_long()
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
        let began = shared.environment.clock.monotonic();
        match shared.run_step("a flush", || self.try_step()) {
            Ok(Progress::Done) => {
                self.shared.background.note_installed();
                self.shared.background.note_flush(self.shared.environment.clock.monotonic());
                self.shared.settle_later();
                self.shared.finish_flush(None, None);
                Progress::Done
            }
            Ok(_) => self.behind(shared.environment.clock.monotonic() - began),
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

    /// A flush that nobody waits for goes as fast as memtables fill.
    fn behind(&mut self, step: Duration) -> Progress {
        let shared = &self.shared;
        let visible = shared.publisher.visible();
        let is_written = std::mem::replace(&mut self.seen, visible) < visible;
        if !is_written || shared.is_flush_urgent() {
            return Progress::Again;
        }
        let fill = shared.memtable_bytes() as f64 / shared.options.memtable_share() as f64;
        behind_flush(fill, step)
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

#[cfg(test)]
mod tests {
    use crate::shared::Shared;
    use crate::{Builder, Database, Environment, Keyspace};
    use flagstone_env::executor::Job;
    use flagstone_env::{
        Executor, Lane, ManualClock, MemDisk, Progress, SeededRandom, StepExecutor,
    };
    use parking_lot::Mutex;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

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

    /// A database whose memtables are just half full, so that a flush waits for its first step.
    struct HalfFull {
        executor: Arc<Watched>,
        db: Database,
        kv: Keyspace,
    }

    impl HalfFull {
        fn new() -> Self {
            Self::with(|builder| builder, |_| true)
        }

        /// Goes on, over other flushes, until it `is_so`.
        fn with(change: impl FnOnce(Builder) -> Builder, is_so: impl Fn(&Shared) -> bool) -> Self {
            let executor = Arc::new(Watched::default());
            let environment = Environment {
                disk: Arc::new(MemDisk::default()),
                clock: Arc::new(ManualClock::default()),
                random: Arc::new(SeededRandom::new(1)),
                executor: Some(Arc::<Watched>::clone(&executor)),
            };
            let builder = Database::builder("db").environment(environment).memory_budget(32 << 20);
            let db = change(builder).open().unwrap();
            // Its memtable is never the largest: it pins the log.
            db.keyspace("small").unwrap().put("k", "1").unwrap();
            let kv = db.keyspace("k").unwrap();
            for i in 0_u64.. {
                executor.steps.run_all();
                kv.put(i.to_be_bytes(), [7; 1024]).unwrap();
                let shared = kv.handle().shared();
                if shared.background.is_flush_pending() && is_so(shared) {
                    break;
                }
            }
            executor.answers.lock().clear();
            Self { executor, db, kv }
        }

        /// Puts something before each step from now on.
        fn put_between(self) -> Self {
            *self.executor.puts_into.lock() = Some(self.kv.clone());
            self
        }

        /// What the steps answered that `run` took, the last of which ends the flush.
        fn rests(self, run: impl FnOnce(&Self)) -> Vec<bool> {
            run(&self);
            // It would keep the database, which keeps the executor.
            self.executor.puts_into.lock().take();
            let answers = std::mem::take(&mut *self.executor.answers.lock());
            assert_eq!(answers.last(), Some(&Progress::Done));
            answers.iter().map(|answer| matches!(answer, Progress::Rest(_))).collect()
        }
    }

    fn step_by_step(half_full: &HalfFull) {
        while half_full.kv.handle().shared().background.is_flush_pending() {
            assert!(half_full.executor.steps.step(Lane::Flush));
        }
    }

    #[test]
    fn a_flush_rests_behind_each_step_while_somebody_writes_and_nobody_waits() {
        let rests = HalfFull::new().put_between().rests(step_by_step);
        let (last, others) = rests.split_last().unwrap();
        assert!(!last && others.len() > 1 && others.iter().all(|rests| *rests), "{rests:?}");
    }

    #[test]
    fn a_flush_does_not_rest_while_nobody_writes() {
        let rests = HalfFull::new().rests(step_by_step);
        // That nobody writes shows behind the second step.
        assert!(rests.len() > 2 && !rests[1..].contains(&true), "{rests:?}");
    }

    #[test]
    fn a_flush_that_somebody_waits_for_does_not_rest() {
        let waits: [fn(&HalfFull); 3] = [
            |half_full| half_full.db.flush().unwrap(),
            |half_full| assert!(half_full.db.checkpoint("copy").is_ok()),
            |half_full| {
                // As a writer does that is stopped.
                half_full.kv.handle().shared().stalled.fetch_add(1, Ordering::Relaxed);
                step_by_step(half_full);
            },
        ];
        for wait in waits {
            let rests = HalfFull::new().put_between().rests(wait);
            assert!(rests.len() > 2 && !rests.contains(&true), "{rests:?}");
        }
    }

    #[test]
    fn a_flush_for_another_reason_than_memory_does_not_rest() {
        let sized = HalfFull::with(|builder| builder.memtable_bytes(2 << 20), |_| true);
        let of_a_long_log = HalfFull::with(|builder| builder, Shared::is_log_long);
        for half_full in [sized, of_a_long_log] {
            let rests = half_full.put_between().rests(step_by_step);
            assert!(rests.len() > 2 && !rests.contains(&true), "{rests:?}");
        }
    }
}
