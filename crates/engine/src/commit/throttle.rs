//! Stops writers until there is room, or delays them.

use super::stall::Stall;
use crate::due::Due;
use crate::event::{Event, StallCause};
use crate::health::Health;
use crate::history::History;
use crate::keyspaces::Keyspaces;
use crate::memory::Memory;
use crate::queue::Work;
use crate::setup::Setup;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::sync::thread_local;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A stopped writer checks again after this time even if no bell rang.
const RECHECK_AFTER: Duration = Duration::from_millis(50);
/// Shorter waits are added up, since system timers are hardly finer.
const WAIT_MIN: Duration = Duration::from_micros(200);

/// The result of a check for room: what was found, or why there is no room yet. An error means that
/// there will be none.
pub(super) type RoomCheck<T> = Result<std::result::Result<T, StallCause>>;

thread_local! {
    /// How long this thread must still wait.
    static OWED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The parts of the database that hold writers back: the memory of memtables, and background work
/// that lags.
#[derive(Clone)]
pub(crate) struct Throttle {
    pub(crate) setup: Arc<Setup>,
    pub(crate) health: Arc<Health>,
    pub(crate) history: Arc<History>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) keyspaces: Arc<Keyspaces>,
    pub(crate) work: Arc<Work>,
    pub(crate) stall: Arc<Stall>,
}

impl Throttle {
    pub(super) fn delay(&self, delay: Duration) {
        let owed = OWED.with(Cell::take) + delay;
        if owed < WAIT_MIN {
            OWED.with(|kept| kept.set(owed));
            return;
        }
        let started = self.setup.now();
        let bell = &self.health.writers;
        bell.wait(bell.rung(), owed);
        self.note_waited(self.setup.now() - started);
    }

    pub(super) fn note_waited(&self, took: Duration) {
        self.stall.stall_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Refuses a writer that does not wait, and is stopped for `cause`, if it would wait in vain:
    /// flushes fail, and nothing else makes room. Starts the work that makes room. If the memtables
    /// have room for `bytes`, the writer waits only for other writes, which end by themselves.
    #[cold]
    pub(super) fn check_room_may_come(&self, cause: StallCause, bytes: u64) -> Result<()> {
        self.health.check_open_for_writing()?;
        let share = self.setup.options.memtable_share();
        let is_free = || self.memory.memtable_bytes().saturating_add(bytes) <= share;
        // Checked before the seal: a write that adds bytes later seals them itself.
        let is_free_now = is_free();
        // Memtables of trees whose flushes work may not be sealed yet.
        let compactions = Due::COMPACTIONS.when(cause == StallCause::Compaction);
        self.health.act(Due::MEMORY | Due::FLUSHES | compactions);
        // A writer that is stopped for compactions has checked those.
        if cause != StallCause::Memory || is_free_now {
            return Ok(());
        }
        let failing = self.work.lock().flushes.why_no_room_now();
        match failing {
            // The last flush that works may have ended after the first check.
            Some(error) if !is_free() => Err(error.context("writers wait for a flush that fails")),
            _ => Ok(()),
        }
    }

    /// Returns why a writer that does not wait is refused: Busy, unless it would wait in vain.
    /// See [`Throttle::check_room_may_come`].
    #[cold]
    pub(super) fn no_room(&self, cause: StallCause, bytes: u64) -> Error {
        let busy = || Error::new(ErrorKind::Busy, "writers wait for flushes or compactions");
        self.check_room_may_come(cause, bytes).err().unwrap_or_else(busy)
    }

    /// Waits until `check` finds room, and returns its result.
    pub(super) fn stop<T>(
        &self,
        cause: StallCause,
        check: impl FnMut() -> RoomCheck<T>,
    ) -> Result<T> {
        let started = self.setup.now();
        if self.stall.stopped.enter(started) {
            self.health.tell(&Event::StallStarted { cause });
        }
        let found = self.wait_for_room(check);
        let ended = self.setup.now();
        if let Some(took) = self.stall.stopped.leave(ended) {
            self.health.tell(&Event::StallFinished { cause, took });
        }
        self.stall.stalls.fetch_add(1, Ordering::Relaxed);
        self.note_waited(ended - started);
        found
    }

    fn wait_for_room<T>(&self, mut check: impl FnMut() -> RoomCheck<T>) -> Result<T> {
        let flushes = self.work.lock().flushes.failures;
        loop {
            let seen = self.health.writers.rung();
            if let Ok(found) = check()? {
                return Ok(found);
            }
            self.health.check_open_for_writing()?;
            // While these fail nothing makes room, so their error is returned instead of waiting
            // forever. On a full disk each of many writers would wait for seconds.
            let now = self.setup.now();
            if let Some(error) = self.work.lock().flushes.why_no_room(flushes, now) {
                return Err(error.context("writers wait for a flush that fails"));
            }
            self.health.act(Due::MEMORY | Due::WORK);
            if !self.setup.executor.assist() {
                self.health.writers.wait(seen, RECHECK_AFTER);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::commit::before_write;
    use crate::keyspace_core::Trees;
    use crate::testing::Builder;
    use crate::{
        Batch, Durability, Engine, Environment, ErrorKind, Keyspace, KeyspaceOptions, Routing,
        TryCommit,
    };
    use flagstone_env::names::FileKind;
    use flagstone_env::{
        Effect, Failure, Fault, FaultDisk, Lane, ManualClock, MemDisk, Op, SeededRandom,
        StepExecutor,
    };
    use std::sync::Arc;

    const MIB: usize = 1 << 20;

    /// Of the memtables' 8 MiB one keyspace holds 4.5 MiB. Its flush has failed twice, and pauses.
    /// The keyspace that is returned is empty, and can be flushed.
    fn with_a_flush_that_fails(steps: &Arc<StepExecutor>) -> (Engine, Keyspace) {
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        let environment = Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<StepExecutor>::clone(steps)),
        };
        let builder = Builder::at("db").environment(environment).memory_budget(16 << 20);
        let db = builder.open().unwrap();
        let keyspace = |name| {
            let options = KeyspaceOptions::new().routing(Routing::Hash(1));
            db.keyspace_with(name, options).unwrap()
        };
        let [failing, healthy] = ["failing", "healthy"].map(keyspace);
        let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Create]);
        disk.inject(fault.of(FileKind::Table).forever());
        failing.put("a", vec![1; 3 * MIB]).unwrap();
        failing.put("b", vec![2; MIB + MIB / 2]).unwrap();
        (0..2).for_each(|_| assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Io));
        disk.heal();
        (db, healthy)
    }

    /// Tries a write of `bytes` in both ways that do not wait. Returns why it is refused; Busy if
    /// it is told when to try again.
    fn refusal(db: &Engine, kv: &Keyspace, bytes: usize) -> ErrorKind {
        let mut batch = Batch::default();
        batch.put(kv, "key", vec![3; bytes]).unwrap();
        let tried = db.start(&batch, Durability::Buffered, false).err().unwrap().kind();
        let started = match db.try_start(&batch, Durability::Buffered) {
            Ok(TryCommit::RetryAfter(_)) => ErrorKind::Busy,
            Ok(TryCommit::Started { .. }) => panic!("there is no room"),
            Err(error) => error.kind(),
        };
        assert_eq!(tried, started);
        tried
    }

    /// Both were told the error of the other keyspace's flush.
    #[test]
    fn who_finds_the_room_taken_by_a_write_in_progress_is_told_to_try_again() {
        let (db, kv) = with_a_flush_that_fails(&Arc::default());
        let throttle = &kv.handle().parts().commits.throttle;
        let in_progress = before_write(throttle, 2 * MIB, false, Trees::new).unwrap();
        assert!(in_progress.is_some());
        assert_eq!(refusal(&db, &kv, 2 * MIB), ErrorKind::Busy);
        drop(in_progress);
        kv.put("key", vec![3; 2 * MIB]).unwrap();
    }

    /// Each put waited for two more attempts of the flush, four seconds: a loop of puts seemed to
    /// hang.
    #[test]
    fn on_a_full_disk_a_put_fails_at_once_while_the_next_attempt_is_far_off() {
        let (disk, clock) = (FaultDisk::new(Arc::new(MemDisk::default())), ManualClock::default());
        let (steps, clock) = (Arc::<StepExecutor>::default(), Arc::new(clock));
        let environment = Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::<ManualClock>::clone(&clock),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<StepExecutor>::clone(&steps)),
        };
        let builder = Builder::at("db").environment(environment).memory_budget(2 << 20);
        let db = builder.open().unwrap();
        // No partition has more than its part of the memory.
        let options = KeyspaceOptions::new().routing(Routing::Hash(16));
        let kv = db.keyspace_with("kv", options).unwrap();
        // The files of the log are there already.
        let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create]);
        disk.inject(full.of(FileKind::Table).forever());
        let put = |n: u32| kv.put(n.to_be_bytes(), vec![1; 2000]);
        let refused = (0..10_000).find_map(|n| put(n).err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
        // Some more attempts, until the pause is long.
        (0..4).for_each(|n| assert!(put(n).is_err()));
        let (attempts, began) = (disk.hits(), flagstone_env::Clock::monotonic(&*clock));
        for n in 0..100 {
            let refused = put(n).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
            assert!(refused.to_string().contains("writers wait for a flush that fails"));
        }
        assert_eq!(disk.hits(), attempts, "nobody waits for another attempt");
        assert_eq!(flagstone_env::Clock::monotonic(&*clock), began);
        disk.heal();
        clock.advance(std::time::Duration::from_secs(2));
        db.flush().unwrap();
        put(0).unwrap();
    }

    #[test]
    fn who_finds_no_room_learns_of_a_flush_that_fails_when_no_other_is_left() {
        let steps = Arc::<StepExecutor>::default();
        let (db, kv) = with_a_flush_that_fails(&steps);
        let most = kv.batch_bytes_max() as usize - 100;
        kv.put("small", "1").unwrap();
        assert_eq!(refusal(&db, &kv, most), ErrorKind::Busy);
        while steps.step(Lane::Flush) {}
        assert_eq!(db.stats().flushes, 1);
        assert_eq!(refusal(&db, &kv, most), ErrorKind::Io);
    }
}
