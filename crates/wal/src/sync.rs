//! Makes commits durable: by one sync for a whole group, by a sync of its own, or all commits at
//! once.
//!
//! One thread at a time leads a group: it closes the group, writes everything that is queued,
//! syncs, and wakes the members. A thread that arrives during the sync joins the next group. The
//! two groups wait on different condition variables, so a sync wakes only its own members. No
//! thread waits for time to pass: a group grows while the sync before it runs, and while its leader
//! yields to the threads which that sync has woken.

use crate::log::{Log, mark};
use crate::queue::Lsn;
use crate::waiters::Turn;
use crate::write::PoisonOnPanic;
use flagstone_base::Result;
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::sync::blocking::MutexGuard;
use flagstone_env::sync::yield_now;
use std::time::Duration;

/// A leader yields at most this many times before it syncs, and only as long as other threads
/// enqueue records.
const GIVE_WAY_MAX: usize = 8;
/// The longest time that yielding should take. The members of a group of 32 need 150 microseconds
/// on two cores; if it takes longer than this limit, the processor went to other programs.
const GIVE_WAY_LIMIT: Duration = Duration::from_micros(600);
/// After a slow yield, the first number of groups is led without yielding. Each time it happens
/// again the number doubles, up to the second one.
const KEEP_WAY_GROUPS: (u32, u32) = (64, 4096);

/// A closed group whose sync is running. The sync ends when this value is dropped, also by a panic.
struct LedGroup<'a> {
    log: &'a Log,
    group: u64,
}

impl Drop for LedGroup<'_> {
    fn drop(&mut self) {
        let syncing = &self.log.syncing;
        let mut turn = syncing.lock();
        turn.is_led = false;
        turn.done = self.group;
        drop(turn);
        syncing.condvar(self.group).notify_all();
        match self.log.poison.get() {
            None => syncing.condvar(self.group + 1).notify_one(),
            Some(_) => syncing.condvar(self.group + 1).notify_all(),
        }
    }
}

impl Log {
    /// Returns when everything up to `lsn` survives a power cut. One sync serves all threads that
    /// wait at the same time. Other records can be written meanwhile.
    ///
    /// # Errors
    /// The error of the append, if it failed for this place of the log; Poisoned after a failed
    /// sync.
    pub fn sync_through(&self, lsn: Lsn) -> Result<()> {
        loop {
            self.check()?;
            if self.synced.load(Ordering::Acquire) >= lsn.0 {
                return self.outcome(lsn);
            }
            if self.written() >= lsn {
                // A failed record is never synced: return its error.
                self.outcome(lsn)?;
            }
            let mut turn = self.syncing.lock();
            let mine = turn.closed + 1;
            turn.joined += 1;
            while turn.is_led && turn.done < mine {
                turn = self.syncing.wait(mine, turn);
            }
            if turn.done >= mine {
                continue;
            }
            if self.synced.load(Ordering::Acquire) >= lsn.0 {
                // This thread was woken to lead, but its record is synced already: wake another
                // member.
                self.syncing.condvar(mine).notify_one();
                continue;
            }
            self.lead_group(turn)?;
        }
    }

    fn lead_group<'a>(&'a self, mut turn: MutexGuard<'a, Turn>) -> Result<()> {
        turn.is_led = true;
        if turn.keeps_way > 0 {
            turn.keeps_way -= 1;
        } else if turn.size > 1 {
            drop(turn);
            let was_quick = self.give_way();
            turn = self.syncing.lock();
            let (few, many) = KEEP_WAY_GROUPS;
            turn.keeps_way_next =
                if was_quick { few } else { (turn.keeps_way_next * 2).clamp(few, many) };
            turn.keeps_way = if was_quick { 0 } else { turn.keeps_way_next };
        }
        turn.closed += 1;
        turn.size = std::mem::take(&mut turn.joined);
        let group = turn.closed;
        drop(turn);
        let _led = LedGroup { log: self, group };
        self.write_pending();
        self.sync_written()
    }

    /// Yields to the members of the last group, which have just been woken and are likely to commit
    /// again. That costs a microsecond when there are none, and saves a sync for half of them.
    /// Returns whether it was quick: when other programs want the processor, one yield costs more
    /// than a sync.
    fn give_way(&self) -> bool {
        let Some(clock) = &self.clock else { return true };
        let (started, mut seen) = (clock.monotonic(), self.enqueued());
        for _ in 0..GIVE_WAY_MAX {
            yield_now();
            if clock.monotonic() - started > GIVE_WAY_LIMIT {
                return false;
            }
            let now = self.enqueued();
            if now == seen {
                break;
            }
            seen = now;
        }
        true
    }

    /// Returns when everything up to `lsn` survives a power cut. Does a sync of its own, and joins
    /// no group.
    ///
    /// # Errors
    /// As [`Log::sync_through`].
    pub fn sync_alone(&self, lsn: Lsn) -> Result<()> {
        self.write_through(lsn)?;
        self.sync_written()
    }

    /// Writes and syncs everything that was enqueued.
    ///
    /// # Errors
    /// Poisoned after a failed sync. The error of the append when the queued records could not be
    /// written; all records written before are durable nevertheless.
    pub fn sync_all(&self) -> Result<()> {
        self.check()?;
        let (before, lsn) = (self.written(), self.enqueued());
        self.write_pending();
        self.sync_written()?;
        // Earlier failures were returned to their own callers.
        if lsn > before { self.outcome(lsn) } else { Ok(()) }
    }

    /// Syncs everything that was written so far. Queued records stay in the queue.
    ///
    /// # Errors
    /// Poisoned after a failed sync.
    pub fn sync_written(&self) -> Result<()> {
        self.check()?;
        let Some(target) = self.ledger.lock().target.clone() else { return Ok(()) };
        self.segment_syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_with(
            || target.file.sync(),
            |log| {
                log.synced_mark.fetch_max(mark(target.segment, target.offset), Ordering::AcqRel);
                log.note_synced(target.end);
            },
        )
    }

    /// Runs `sync`. If it succeeds, `note` records what is durable now; if it fails, the log is
    /// poisoned. When several syncs of a file run at the same time and a page cannot be written,
    /// Linux reports the error to only one of them. So no sync succeeds before the syncs that run
    /// at the same time have ended, too.
    pub(crate) fn sync_with(
        &self,
        sync: impl FnOnce() -> Result<()>,
        note: impl FnOnce(&Self),
    ) -> Result<()> {
        self.check()?;
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        let running = self.running_syncs.begin();
        let _poison_first = PoisonOnPanic(self);
        let synced = sync().map_err(|error| self.poison(&error));
        drop(running);
        synced.and_then(|()| self.check())?;
        note(self);
        Ok(())
    }

    /// Notes that everything up to `lsn` is durable, or has failed.
    pub(crate) fn note_synced(&self, lsn: u64) {
        self.synced.fetch_max(lsn, Ordering::AcqRel);
    }
}
