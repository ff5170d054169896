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

    /// Refuses a writer that does not wait, and is stopped for `cause`, if it would wait in vain.
    pub(super) fn check_room_may_come(&self, cause: StallCause) -> Result<()> {
        self.health.check_open_for_writing()?;
        // A writer that is stopped for compactions has checked those.
        if cause != StallCause::Memory {
            return Ok(());
        }
        match self.work.lock().flushes.why_no_room_now() {
            Some(error) => Err(error.context("writers wait for a flush that fails")),
            None => Ok(()),
        }
    }

    /// Returns why a writer that does not wait is refused: Busy, unless it would wait in vain.
    #[cold]
    pub(super) fn no_room(&self, cause: StallCause) -> Error {
        let busy = || Error::new(ErrorKind::Busy, "writers wait for flushes or compactions");
        self.check_room_may_come(cause).err().unwrap_or_else(busy)
    }

    /// Waits until `check` finds room, and returns its result. Without `wait` it checks once, and
    /// returns Busy if there is no room.
    pub(super) fn stop<T>(
        &self,
        wait: bool,
        cause: StallCause,
        mut check: impl FnMut() -> RoomCheck<T>,
    ) -> Result<T> {
        if !wait {
            return check()?.map_err(|cause| self.no_room(cause));
        }
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
            // forever.
            if let Some(error) = self.work.lock().flushes.why_no_room(flushes) {
                return Err(error.context("writers wait for a flush that fails"));
            }
            self.health.act(Due::MEMORY | Due::WORK);
            if !self.setup.executor.assist() {
                self.health.writers.wait(seen, RECHECK_AFTER);
            }
        }
    }
}
