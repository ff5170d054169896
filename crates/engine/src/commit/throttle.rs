//! Delays writers, or stops them until flushes and compactions have caught up, and no longer.
//!
//! No lock is held meanwhile. A wait ends when a flush or a compaction does, when a large write is
//! done for which another one waits, or after a time limit.

use crate::core::Core;
use crate::due::Due;
use crate::event::{Event, StallCause};
use crate::keyspace_core::Trees;
use crate::queue::{BackOff, SealGroup};
use crate::stall::{Pressure, STOP, Wait, pressure_at};
use flagstone_base::{Error, ErrorKind, Result, interrupt};
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::sync::thread_local;
use flagstone_tree::Tree;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A stopped writer checks again after this time even if nothing has notified it.
const RECHECK_AFTER: Duration = Duration::from_millis(50);
/// Shorter waits are added up, since system timers are hardly finer.
const WAIT_MIN: Duration = Duration::from_micros(200);
/// The shortest time after which a caller that may not wait is told to retry. The longest is
/// [`RECHECK_AFTER`].
const RETRY_MIN: Duration = Duration::from_millis(1);
/// One part in this many of the memtables' share is for trees whose flush fails, so that writes to
/// other trees continue.
const STUCK_PARTS: u64 = 4;
/// A small write needs any free part of the memtables' share.
const ANY_BYTES: u64 = 1;

thread_local! {
    /// How long this thread must still wait.
    static OWED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns whether no writer needs to wait.
#[inline]
pub(super) fn is_free(core: &Core) -> bool {
    core.stall.is_free(core.memory.memtable_bytes(), core.setup().options.memtable_share())
}

/// Delays or stops a writer of `trees`. If it may not `wait`, returns the delay instead, or
/// Busy instead of stopping. A tree that waits for compaction stops only its own writers.
#[cold]
pub(super) fn hold_back(core: &Core, trees: &Trees<'_>, wait: Wait) -> Result<Duration> {
    check_flushes(core, trees)?;
    let cause = match pressure_on(core, trees) {
        Pressure::Free => return Ok(Duration::ZERO),
        Pressure::Delay(delay) if wait == Wait::No => return Ok(delay),
        Pressure::Delay(delay) => {
            if !core.setup().executor.assist() {
                delay_by(core, delay);
            }
            return Ok(Duration::ZERO);
        }
        Pressure::Stop(cause) => cause,
    };
    let failures = failures_of(core, trees);
    if wait == Wait::No {
        check_stop(core, cause, trees, failures)?;
        return Err(refusal(core, cause, ANY_BYTES));
    }
    stop(core, cause, || match pressure_on(core, trees) {
        Pressure::Stop(cause) => check_stop(core, cause, trees, failures).map(|()| None),
        Pressure::Free | Pressure::Delay(_) => Ok(Some(Duration::ZERO)),
    })
}

fn pressure_on(core: &Core, trees: &Trees<'_>) -> Pressure {
    let tree = trees.iter().map(|tree| tree.stall_fill()).max().unwrap_or(0);
    pressure_at(core.memory.memtable_bytes(), core.setup().options.memtable_share(), tree)
}

/// Returns when a writer that was refused with Busy may try again. The work that it waits for
/// is started.
#[cold]
pub(crate) fn retry_after(core: &Core) -> Duration {
    core.work.left_of_flush(core.setup().now()).clamp(RETRY_MIN, RECHECK_AFTER)
}

fn delay_by(core: &Core, delay: Duration) {
    let owed = OWED.with(Cell::take) + delay;
    if owed < WAIT_MIN {
        OWED.with(|kept| kept.set(owed));
        return;
    }
    let started = core.setup().now();
    let writers = &core.health.writers;
    writers.wait(writers.generation(), owed);
    core.stall.note_waited(core.setup().now() - started);
}

/// Checks whether a stop for `cause` can end for a writer of `trees`, whose compactions had
/// failed `failures` times when it began.
fn check_stop(core: &Core, cause: StallCause, trees: &Trees<'_>, failures: u32) -> Result<()> {
    match cause {
        StallCause::Memory => check_flushes(core, trees),
        StallCause::Compaction => check_compactions(core, trees, failures),
        StallCause::Log => Ok(()),
    }
}

/// The number of failed compactions of `trees`.
fn failures_of(core: &Core, trees: &Trees<'_>) -> u32 {
    let queue = core.work.lock();
    trees.iter().filter_map(|tree| queue.failing.get(&tree.id())).map(BackOff::failures).sum()
}

/// Checks whether a writer can wait for a compaction of one of `trees`. Returns an error if one has
/// failed since there were `failures`, or if none can run.
fn check_compactions(core: &Core, trees: &Trees<'_>, failures: u32) -> Result<()> {
    let now = core.setup().now();
    let error = {
        let queue = core.work.lock();
        let is_stopped = |tree: &&&Arc<Tree>| tree.stall_fill() >= STOP;
        let error = |tree: &&Arc<Tree>| {
            let id = tree.id();
            let failing = queue.failing.get(&id).and_then(|b| b.hopeless_error(failures, now));
            let is_idle = !queue.compacting.contains(&id);
            let blocked = || queue.blocked.get(&id).filter(|_| is_idle);
            Some((id, failing.or_else(blocked)?.clone()))
        };
        trees.iter().filter(is_stopped).find_map(error)
    };
    let what = "writers wait for a compaction that fails,";
    error.map_or(Ok(()), |(tree, error)| Err(core.keyspaces.in_tree(&error, tree, what)))
}

/// Refuses a write to one of `trees` if its flush keeps failing and the tree has used up its part
/// of the memory. Refuses every write if the log is at its limit because of such a tree.
fn check_flushes(core: &Core, trees: &Trees<'_>) -> Result<()> {
    let stuck = core.work.stuck();
    if stuck == 0 {
        return Ok(());
    }
    let is_log_full = core.history.log_bytes() >= core.setup().options.wal_bytes_max();
    let bytes_max = core.setup().options.memtable_share() / STUCK_PARTS / stuck;
    let is_full = |tree: &&Arc<Tree>| tree.active_bytes() + tree.sealed_bytes() >= bytes_max;
    let is_refused = |group: &SealGroup| {
        let is_in_group = |tree: &&&Arc<Tree>| group.trees.iter().any(|t| Arc::ptr_eq(t, tree));
        is_log_full || trees.iter().filter(is_in_group).any(is_full)
    };
    let refused = {
        let queue = core.work.lock();
        let mut lasting = queue.flushes.lasting_groups();
        lasting.find_map(|(group, error)| is_refused(group).then(|| error.clone()))
    };
    let Some(error) = refused else { return Ok(()) };
    if !is_log_full {
        return Err(error.context("writers wait for a flush that fails"));
    }
    if core.stall.note_full_log(core.setup().now()) {
        core.health.tell(&Event::StallStarted { cause: StallCause::Log });
    }
    Err(error.context("the log is full, and a flush that would shorten it fails"))
}

/// Returns why a writer of `bytes` that does not wait, and is stopped for `cause`, is refused:
/// Busy, unless it would wait in vain, since flushes fail and nothing else makes room. Starts
/// the work that makes room. If the memtables have room for `bytes`, the writer waits only for
/// other writes, which end by themselves.
#[cold]
pub(super) fn refusal(core: &Core, cause: StallCause, bytes: u64) -> Error {
    if let Err(error) = core.health.check_open_for_writing() {
        return error;
    }
    let busy = Error::new(ErrorKind::Busy, "writers wait for flushes or compactions");
    let share = core.setup().options.memtable_share();
    let is_free = || core.memory.memtable_bytes().saturating_add(bytes) <= share;
    // Checked before the seal: a write that adds bytes later seals them itself.
    let is_free_now = is_free();
    // Memtables of trees whose flushes work may not be sealed yet.
    let compactions = Due::COMPACTIONS.when(cause == StallCause::Compaction);
    core.health.act(Due::MEMORY | Due::FLUSHES | compactions);
    // A writer that is stopped for compactions has checked those.
    if cause != StallCause::Memory || is_free_now {
        return busy;
    }
    let failing = core.work.lock().flushes.why_no_room_now();
    match failing {
        // The last flush that works may have ended after the first check.
        Some(error) if !is_free() => error.context("writers wait for a flush that fails"),
        _ => busy,
    }
}

/// Stops a writer until `check` returns a value, which it returns. An error of `check` means
/// that the wait is in vain.
pub(super) fn stop<T>(
    core: &Core,
    cause: StallCause,
    check: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = core.setup().now();
    if core.stall.stopped.enter(started) {
        core.health.tell(&Event::StallStarted { cause });
    }
    let found = wait_until(core, check);
    let ended = core.setup().now();
    if let Some(took) = core.stall.stopped.leave(ended) {
        core.health.tell(&Event::StallFinished { cause, took });
    }
    core.stall.stalls.fetch_add(1, Ordering::Relaxed);
    core.stall.note_waited(ended - started);
    found
}

fn wait_until<T>(core: &Core, mut check: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let flushes = core.work.lock().flushes.failures;
    loop {
        let seen = core.health.writers.generation();
        if let Some(found) = check()? {
            return Ok(found);
        }
        core.health.check_open_for_writing()?;
        interrupt::check()?;
        // While these fail nothing makes room, so their error is returned instead of waiting
        // forever. On a full disk each of many writers would wait for seconds.
        let now = core.setup().now();
        if let Some(error) = core.work.lock().flushes.why_no_room(flushes, now) {
            return Err(error.context("writers wait for a flush that fails"));
        }
        core.health.act(Due::MEMORY | Due::WORK);
        if !core.setup().executor.assist() {
            core.health.writers.wait(seen, RECHECK_AFTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::keyspace_core::Trees;
    use crate::stall::Wait;
    use crate::testing::Builder;
    use crate::{
        Batch, Durability, Engine, Environment, ErrorKind, Keyspace, KeyspaceOptions, Routing,
        TryCommit,
    };
    use flagstone_base::interrupt;
    use flagstone_base::key::KeyRange;
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
        let tried = db.start(&batch, Durability::Buffered, Wait::No).err().unwrap().kind();
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
    fn who_finds_the_memory_taken_by_a_write_in_progress_is_told_to_try_again() {
        let (db, kv) = with_a_flush_that_fails(&Arc::default());
        let admission = &kv.handle().parts().commits.admission;
        let in_progress = admission.admit(2 * MIB, Wait::No, Trees::new).unwrap();
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
    fn a_writer_that_waits_for_memory_can_be_ended() {
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<StepExecutor>::default()),
        };
        let db = Builder::at("db").environment(environment).memory_budget(2 << 20).open().unwrap();
        let kv = db.keyspace("kv").unwrap();
        let put = |n: u32| kv.put(n.to_be_bytes(), vec![1; 2000]);
        let fill = || (0..10_000).find_map(|n| put(n).err());
        let ended = interrupt::interruptible(|| true, fill).unwrap();
        assert_eq!(ended.kind(), ErrorKind::Interrupted);
        put(0).unwrap();
    }

    #[test]
    fn who_does_not_fit_learns_of_a_flush_that_fails_when_no_other_is_left() {
        let steps = Arc::<StepExecutor>::default();
        let (db, kv) = with_a_flush_that_fails(&steps);
        let most = kv.batch_bytes_max() as usize - 100;
        kv.put("small", "1").unwrap();
        assert_eq!(refusal(&db, &kv, most), ErrorKind::Busy);
        while steps.step(Lane::Flush) {}
        assert_eq!(db.stats().flushes, 1);
        assert_eq!(refusal(&db, &kv, most), ErrorKind::Io);
    }

    /// An open cursor pins its view. The memtables of the view once counted as unflushed, so a
    /// thread that held a cursor and wrote waited for itself.
    #[test]
    fn a_cursor_that_is_held_does_not_stop_its_own_writer() {
        let dir = tempfile::tempdir().unwrap();
        let db = Builder::at(dir.path()).memory_budget(1 << 20).open().unwrap();
        let options = KeyspaceOptions::new().routing(Routing::Hash(1));
        let kv = db.keyspace_with("k", options).unwrap();
        let mut cursors = Vec::new();
        for i in 0..4000_u32 {
            kv.put(i.to_be_bytes(), [7; 1000]).unwrap();
            if i % 200 == 0 {
                let mut scan = kv.scan_range(KeyRange::ALL);
                assert!(scan.next().is_some());
                cursors.push(scan);
            }
        }
        drop(cursors);
        assert_eq!(kv.count().unwrap(), 4000);
    }
}
