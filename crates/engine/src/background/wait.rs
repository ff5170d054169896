//! Waiting for background work, most of all for flushes: `flush`, `close`, and a replay that has filled its memory.

use super::cut::{Cut, CutWanted};
use super::state::Queue;
use crate::inside::Inside;
use crate::shared::Shared;
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_env::Progress;
use flagstone_env::sync::Mutex;
use flagstone_wal::Log;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// A cut is tried so often while keyspaces are made and dropped.
const CUTS_MAX: u32 = 8;
/// Somebody who waits looks again after this time even if no bell rang.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Shared {
    /// Seals all memtables and waits until everything sealed is installed.
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.publisher.wait_for_all();
        self.seal_all();
        self.wait_for_flushes(Queue::is_flushed)
    }

    /// Flushes everything acknowledged so far, and answers the state right behind it. Writes and
    /// compactions go on meanwhile. A cut across which a keyspace was made or dropped is of no one moment, since its
    /// catalog is younger than its writes: it is taken again.
    ///
    /// # Errors
    /// Busy when that happens again and again; what a flush answers.
    pub(crate) fn cut(&self) -> Result<Cut> {
        let closed = || self.closed_meanwhile();
        let epoch = || {
            let manifest = self.manifest.lock();
            manifest.as_ref().map(|m| m.state().catalog.counters().epoch).ok_or_else(closed)
        };
        for _ in 0..CUTS_MAX {
            let before = epoch()?;
            let place = Arc::new(Mutex::new(None));
            self.publisher.wait_for_all();
            self.seal_all_and_cut(CutWanted::new(&place));
            self.wait_for_flushes(Queue::is_flushed)?;
            let cut = place.lock().take().ok_or_else(closed)?;
            if cut.state.catalog.counters().epoch == before {
                return Ok(cut);
            }
        }
        Err(Error::new(ErrorKind::Busy, "keyspaces were made or dropped all the while"))
    }

    /// Makes what was acknowledged so far outlive a power cut, unless the disk is full.
    pub(crate) fn secure_history(&self) -> Result<()> {
        self.publisher.wait_for_all();
        if self.numbering.lock().unlogged {
            self.seal_all();
        }
        // The log holds the rest: a tree whose flush fails keeps nobody waiting for its own.
        let flushed = self.wait_for_flushes(Queue::is_unlogged_flushed);
        // A flush that found no room does not keep the log from being synced.
        let synced = self.log.as_ref().map_or(Ok(()), Log::sync_all);
        // Both are noted before one of them is returned: the log may be poisoned while a flush has merely failed.
        for error in [&flushed, &synced].into_iter().filter_map(|done| done.as_ref().err()) {
            self.note_failure(error);
        }
        for done in [flushed, synced] {
            match done {
                Err(error) if error.kind() == ErrorKind::OutOfSpace => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// As [`Shared::flush_all`], while the log is replayed: the last SeqNo inserted is `through`.
    pub(crate) fn flush_replayed(&self, through: SeqNo) -> Result<()> {
        self.seal_through(through);
        self.wait_for_flushes(Queue::is_flushed)
    }

    /// Runs a step of a job. One that panics, in a fold or a listener say, poisons: its thread must
    /// live, and those who wait for the job must hear that it will never end.
    pub(crate) fn run_step(
        &self,
        what: &str,
        step: impl FnOnce() -> Result<Progress>,
    ) -> Result<Progress> {
        let _inside = self.run_inside(Inside::Background);
        std::panic::catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_payload| {
            Err(Error::new(ErrorKind::Poisoned, format!("{what} panicked")))
        })
    }

    /// Refuses to wait for jobs that were dropped by a close.
    pub(crate) fn check_background_runs(&self) -> Result<()> {
        if !self.background.is_stopped() {
            return Ok(());
        }
        Err(self.closed_meanwhile())
    }

    pub(super) fn closed_meanwhile(&self) -> Error {
        Error::new(ErrorKind::Closed, format!("{} was closed meanwhile", self.dir.display()))
    }

    /// Waits until `is_done` says that what was sealed up to now is installed, as far as it matters. What rests after a
    /// failure is tried again now.
    ///
    /// # Errors
    /// That of a flush that failed, when nothing else is left to flush.
    fn wait_for_flushes(&self, is_done: fn(&Queue, u64) -> bool) -> Result<()> {
        let _waiter = self.background.await_flushes();
        let (goal, failures) = {
            let mut queue = self.background.lock();
            let goal = queue.sealed;
            queue.wake_flushes(goal);
            self.background.recount(&queue);
            (goal, queue.flush_failures)
        };
        self.schedule();
        loop {
            {
                let queue = self.background.lock();
                if is_done(&queue, goal) {
                    return Ok(());
                }
                if let Some(error) = queue.why_not_flushed(goal, failures) {
                    return Err(error);
                }
            }
            if let Some(error) = self.poisoned() {
                return Err(Error::new(ErrorKind::Poisoned, error.to_string()));
            }
            self.check_background_runs()?;
            self.look_later(|queue| {
                !is_done(queue, goal) && queue.why_not_flushed(goal, failures).is_none()
            });
            self.schedule();
        }
    }

    /// Runs something that is queued, where nothing runs by itself; else waits for the bell if
    /// `is_so`, which is asked under the queue's lock.
    pub(super) fn look_later(&self, is_so: impl Fn(&Queue) -> bool) {
        if !self.executor.assist() {
            let mut queue = self.background.lock();
            if is_so(&queue) {
                self.background.wait(&mut queue, LOOK_AGAIN);
            }
        }
    }
}
