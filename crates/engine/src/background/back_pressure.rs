//! Before a write: wait as long as flushes and compactions need, and no longer.

use super::admission::Admitted;
use super::back_off::BackOff;
use super::groups::SealGroup;
use super::state::Queue;
use crate::commit::{LARGE_WRITE, Pressure, STOP, graded};
use crate::event::{Event, StallCause};
use crate::shared::Shared;
use crate::space::Trees;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::sync::thread_local;
use flagstone_tree::Tree;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A stopped writer looks again after this time even if no bell rang.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// So many runs in the first level of a tree stop writers; reads look into each of them.
const L0_RUNS_STOP: usize = 64;
/// From so many on they are slowed: twice as many as a tree has when its turn to be merged comes, since
/// the trees of a keyspace fill alike and wait for one another.
const L0_RUNS_FREE: usize = 24;
/// One part in so many of the memtables' share is for trees whose flush fails: the others go on.
const STUCK_PARTS: u64 = 4;
/// Waits shorter than this are saved up: a timer of the system is hardly finer.
const WAIT_MIN: Duration = Duration::from_micros(200);

/// What a look for room finds: something, or why there is none yet; or why there will be none.
pub(super) type Look<T> = Result<std::result::Result<T, StallCause>>;

thread_local! {
    /// What this thread has been told to wait and has not yet.
    static OWED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Shared {
    /// Waits until there is room for a write of `bytes`; with `wait` false, answers Busy instead of
    /// stopping. A large one holds what it got until it is in its memtable. Which `trees` it goes to is asked only when
    /// somebody must wait: what waits for compaction in one tree holds back the writers of that tree alone.
    #[inline]
    pub(crate) fn before_write<'a>(
        &self,
        bytes: usize,
        wait: bool,
        trees: impl FnOnce() -> Trees<'a>,
    ) -> Result<Option<Admitted<'_>>> {
        self.check_may_write()?;
        if !self.stall.is_free(self.memtable_bytes(), self.options.memtable_share()) {
            self.hold_back(&trees(), wait)?;
        }
        match bytes < LARGE_WRITE {
            true => Ok(None),
            false => self.admit(bytes as u64, wait),
        }
    }

    fn pressure_on(&self, trees: &Trees<'_>) -> Pressure {
        let brake = trees.iter().map(|tree| tree.brake()).max().unwrap_or(0);
        graded(self.memtable_bytes(), self.options.memtable_share(), brake)
    }

    #[cold]
    fn hold_back(&self, trees: &Trees<'_>, wait: bool) -> Result<()> {
        self.check_flushes(trees)?;
        let cause = match self.pressure_on(trees) {
            Pressure::Free => return Ok(()),
            Pressure::Delay(delay) => {
                if wait && !self.executor.assist() {
                    self.delay(delay);
                }
                return Ok(());
            }
            Pressure::Stop(cause) => cause,
        };
        let failures = self.failures_of(trees);
        self.stop(wait, cause, || match self.pressure_on(trees) {
            Pressure::Stop(StallCause::Memory) => {
                self.check_flushes(trees)?;
                Ok(Err(StallCause::Memory))
            }
            Pressure::Stop(StallCause::Compaction) => {
                self.check_compactions(trees, failures)?;
                Ok(Err(StallCause::Compaction))
            }
            Pressure::Stop(cause) => Ok(Err(cause)),
            Pressure::Free | Pressure::Delay(_) => Ok(Ok(())),
        })
    }

    /// How often compactions of `trees` failed.
    fn failures_of(&self, trees: &Trees<'_>) -> u32 {
        let queue = self.background.lock();
        trees.iter().filter_map(|tree| queue.failing.get(&tree.id())).map(BackOff::failures).sum()
    }

    /// A writer waits for a compaction of one of `trees`, since there were `failures`: an error if that fails again, or
    /// there can be none.
    fn check_compactions(&self, trees: &Trees<'_>, failures: u32) -> Result<()> {
        let now = self.environment.clock.monotonic();
        let error = {
            let queue = self.background.lock();
            let is_stopped = |tree: &&&Arc<Tree>| tree.brake() >= STOP;
            let error = |tree: &&Arc<Tree>| {
                let id = tree.id();
                let failing = queue.failing.get(&id).and_then(|b| b.hopeless(failures, now));
                let is_idle = !queue.compacting.contains(&id);
                let blocked = || queue.blocked.get(&id).filter(|_| is_idle);
                Some((id, failing.or_else(blocked)?.clone()))
            };
            trees.iter().filter(is_stopped).find_map(error)
        };
        let what = "writers wait for a compaction that fails,";
        error.map_or(Ok(()), |(tree, error)| Err(self.in_tree(&error, tree, what)))
    }

    fn delay(&self, delay: Duration) {
        let owed = OWED.with(Cell::take) + delay;
        if owed < WAIT_MIN {
            OWED.with(|kept| kept.set(owed));
            return;
        }
        let started = self.environment.clock.monotonic();
        self.stall.wait(self.stall.rung(), owed);
        self.note_waited(self.environment.clock.monotonic() - started);
    }

    pub(super) fn note_waited(&self, took: Duration) {
        self.background.stall_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Waits until `look` finds room, and answers what it found there.
    pub(super) fn stop<T>(
        &self,
        wait: bool,
        cause: StallCause,
        look: impl FnMut() -> Look<T>,
    ) -> Result<T> {
        if !wait {
            return Err(busy());
        }
        let started = self.environment.clock.monotonic();
        if self.stall.stopped.enter(started) {
            self.tell(&Event::StallStarted { cause });
        }
        let found = self.wait_for_room(look);
        let ended = self.environment.clock.monotonic();
        if let Some(took) = self.stall.stopped.leave(ended) {
            self.tell(&Event::StallFinished { cause, took });
        }
        self.background.stalls.fetch_add(1, Ordering::Relaxed);
        self.note_waited(ended - started);
        found
    }

    fn wait_for_room<T>(&self, mut look: impl FnMut() -> Look<T>) -> Result<T> {
        let flushes = self.background.lock().flush_failures;
        loop {
            let seen = self.stall.rung();
            if let Ok(found) = look()? {
                return Ok(found);
            }
            self.check_open_for_writing()?;
            // While these fail nothing makes room: say why instead of waiting for ever.
            if let Some(error) = self.background.lock().why_no_room(flushes) {
                return Err(error.context("writers wait for a flush that fails"));
            }
            self.seal_if_full();
            self.schedule();
            if !self.executor.assist() {
                self.stall.wait(seen, LOOK_AGAIN);
            }
        }
    }

    /// Sets how much writers of `tree` are held back for so many `runs` in its first level, and for garbage if
    /// it has much.
    pub(super) fn hold_writers_back(&self, queue: &mut Queue, tree: &Tree, runs: usize) {
        let excess = runs.saturating_sub(L0_RUNS_FREE) as u32;
        // From 750 (no delay) at the free count to 1,000 (stop).
        let fill =
            if excess == 0 { 0 } else { 750 + 250 * excess / (L0_RUNS_STOP - L0_RUNS_FREE) as u32 };
        let fill = match queue.spaces.is_wasteful(tree.id(), &self.options) {
            true => fill.max(queue.spaces.brake),
            false => fill,
        };
        let before = tree.set_brake(fill);
        match fill {
            0 => queue.brakes.remove(&tree.id()),
            fill => queue.brakes.insert(tree.id(), fill),
        };
        self.set_brakes(queue);
        if fill < before {
            self.stall.ring();
        }
    }

    /// Sets how far the tree whose writers are held back most is from the stop: all writers look at their own then.
    pub(super) fn set_brakes(&self, queue: &Queue) {
        let brake = queue.brakes.values().copied().max().unwrap_or(0);
        let is_stuck = self.background.stuck.load(Ordering::Relaxed) > 0;
        self.stall.set_compaction_fill(if is_stuck { brake.max(STOP) } else { brake });
    }

    /// Refuses a write to one of `trees` if its flush fails again and again, and it has had its part of the memory; or
    /// any write, if the log is at its bound for such a tree.
    fn check_flushes(&self, trees: &Trees<'_>) -> Result<()> {
        let stuck = self.background.stuck.load(Ordering::Relaxed);
        if stuck == 0 {
            return Ok(());
        }
        let is_log_full = self.log_bytes() >= self.options.wal_bytes_max();
        let bytes_max = self.options.memtable_share() / STUCK_PARTS / stuck;
        let is_full = |tree: &&Arc<Tree>| tree.active_bytes() + tree.sealed_bytes() >= bytes_max;
        let is_refused = |group: &SealGroup| {
            let is_in_group = |tree: &&&Arc<Tree>| group.trees.iter().any(|t| Arc::ptr_eq(t, tree));
            is_log_full || trees.iter().filter(is_in_group).any(is_full)
        };
        let refused = {
            let queue = self.background.lock();
            let mut lasting = queue.lasting_groups();
            lasting.find_map(|(group, error)| is_refused(group).then(|| error.clone()))
        };
        let Some(error) = refused else { return Ok(()) };
        if !is_log_full {
            return Err(error.context("writers wait for a flush that fails"));
        }
        self.note_full_log();
        Err(error.context("the log is full, and a flush that would shorten it fails"))
    }

    fn note_full_log(&self) {
        let now = self.environment.clock.monotonic();
        let is_new = {
            let mut since = self.background.log_full_since.lock();
            since.is_none() && since.replace(now).is_none()
        };
        if is_new {
            self.tell(&Event::StallStarted { cause: StallCause::Log });
        }
    }

    /// No flush fails any more.
    pub(super) fn note_log_is_free(&self) {
        let since = self.background.log_full_since.lock().take();
        if let Some(since) = since {
            let took = self.environment.clock.monotonic().saturating_sub(since);
            self.tell(&Event::StallFinished { cause: StallCause::Log, took });
        }
    }
}

#[cold]
pub(super) fn busy() -> Error {
    Error::new(ErrorKind::Busy, "writers wait for flushes or compactions")
}

#[cfg(test)]
mod tests {
    use crate::testing::Builder;
    use crate::{KeyspaceOptions, Routing};
    use flagstone_base::key::KeyRange;

    /// An open cursor pins the view it stands in. Its memtables counted as unflushed once, so the
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
