//! Before a write: wait as long as flushes and compactions need, and no longer.

use crate::commit::Pressure;
use crate::event::{Event, StallCause};
use crate::shared::Shared;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_tree::Policy;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A stopped writer looks again after this time even if no bell rang.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// So many runs in the first level of a tree stop writers; reads look into each of them.
const L0_RUNS_STOP: usize = 64;
/// From so many on they are slowed: twice as many as a tree has when its turn to be merged comes, since
/// the trees of a keyspace fill alike and wait for one another.
const L0_RUNS_FREE: usize = 24;
/// Waits shorter than this are saved up: a timer of the system is hardly finer.
const WAIT_MIN: Duration = Duration::from_micros(200);

thread_local! {
    /// What this thread has been told to wait and has not yet.
    static OWED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Shared {
    /// Waits until there is room for a write; with `wait` false, answers Busy instead of stopping.
    #[inline]
    pub(crate) fn before_write(&self, wait: bool) -> Result<()> {
        match self.stall.pressure(self.memtable_bytes(), self.options.memtable_share()) {
            Pressure::Free => Ok(()),
            pressure => self.hold_back(pressure, wait),
        }
    }

    #[cold]
    fn hold_back(&self, pressure: Pressure, wait: bool) -> Result<()> {
        let cause = match pressure {
            Pressure::Free => return Ok(()),
            Pressure::Delay(delay) => {
                if wait && !self.executor.assist() {
                    self.delay(delay);
                }
                return Ok(());
            }
            Pressure::Stop(cause) => cause,
        };
        if !wait {
            return Err(Error::new(ErrorKind::Busy, "writers wait for flushes or compactions"));
        }
        self.stop(cause)
    }

    fn delay(&self, delay: Duration) {
        let owed = OWED.take() + delay;
        if owed < WAIT_MIN {
            OWED.set(owed);
            return;
        }
        let started = self.environment.clock.monotonic();
        self.stall.wait(self.stall.rung(), owed);
        self.note_waited(self.environment.clock.monotonic() - started);
    }

    fn note_waited(&self, took: Duration) {
        self.background.stall_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    fn stop(&self, cause: StallCause) -> Result<()> {
        let started = self.environment.clock.monotonic();
        if self.stalled.fetch_add(1, Ordering::Relaxed) == 0 {
            self.tell(&Event::StallStarted { cause });
        }
        let waited = self.wait_for_room();
        let took = self.environment.clock.monotonic() - started;
        if self.stalled.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.tell(&Event::StallFinished { cause, took });
        }
        self.background.stalls.fetch_add(1, Ordering::Relaxed);
        self.note_waited(took);
        waited
    }

    fn wait_for_room(&self) -> Result<()> {
        let (flushes, compactions) = {
            let queue = self.background.lock();
            (queue.flush_failures, queue.compaction_failures)
        };
        loop {
            let seen = self.stall.rung();
            let pressure =
                self.stall.pressure(self.memtable_bytes(), self.options.memtable_share());
            let Pressure::Stop(cause) = pressure else { return Ok(()) };
            self.check_open_for_writing()?;
            // While these fail nothing makes room: say why instead of waiting for ever.
            let queue = self.background.lock();
            if queue.flush_failures > flushes + 1
                && let Some(error) = &queue.last_error
            {
                return Err(error.clone().context("writers wait for a flush that fails"));
            }
            if cause == StallCause::Compaction
                && queue.compaction_failures > compactions + 1
                && let Some(error) = &queue.last_compaction_error
            {
                return Err(error.clone().context("writers wait for a compaction that fails"));
            }
            drop(queue);
            self.seal_if_full();
            self.schedule();
            if !self.executor.assist() {
                self.stall.wait(seen, LOOK_AGAIN);
            }
        }
    }

    /// Tells writers how far compaction is behind.
    pub(crate) fn measure_back_pressure(&self) {
        let runs = self
            .all_trees()
            .iter()
            .map(|tree| tree.pressure(Policy::Leveling).l0_runs)
            .max()
            .unwrap_or(0);
        let excess = runs.saturating_sub(L0_RUNS_FREE) as u32;
        // From 750 (no delay) at the free count to 1,000 (stop).
        let fill =
            if excess == 0 { 0 } else { 750 + 250 * excess / (L0_RUNS_STOP - L0_RUNS_FREE) as u32 };
        // Only if it became less: stopped writers come here too, and would wake one another.
        if fill < self.stall.set_compaction_fill(fill) {
            self.stall.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, KeyspaceOptions, Routing};

    /// An open cursor pins the view it stands in. Its memtables counted as unflushed once, so the
    /// thread that held a cursor and wrote waited for itself.
    #[test]
    fn a_cursor_that_is_held_does_not_stop_its_own_writer() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::builder(dir.path()).memory_budget(1 << 20).open().unwrap();
        let options = KeyspaceOptions { routing: Routing::Hash(1), ..KeyspaceOptions::default() };
        let kv = db.keyspace_with("k", options).unwrap();
        let mut cursors = Vec::new();
        for i in 0..4000_u32 {
            kv.put(i.to_be_bytes(), [7; 1000]).unwrap();
            if i % 200 == 0 {
                let mut scan = kv.scan_all();
                assert!(scan.next().is_some());
                cursors.push(scan);
            }
        }
        drop(cursors);
        assert_eq!(kv.count().unwrap(), 4000);
    }
}
