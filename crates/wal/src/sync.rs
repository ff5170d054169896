//! When a commit is durable: one sync for a whole group, one of its own, or all at once.
//!
//! One thread at a time leads a group: it closes the group, writes all that is queued, syncs, and
//! wakes the members. Whoever comes while it syncs belongs to the next group, which waits on the
//! other bell, so a sync wakes nobody in vain. Nobody waits for a group to grow: it grows by itself
//! while the sync before it runs.

use crate::log::{Log, mark};
use crate::queue::Lsn;
use crate::waiters::Turn;
use flagstone_base::Result;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

impl Log {
    /// Returns when everything up to `lsn` survives a power cut. One sync serves all threads that
    /// wait at the same time; records go on being written meanwhile.
    ///
    /// # Errors
    /// The error of the append that failed for this place of the log; Poisoned after a failed sync.
    pub fn sync_through(&self, lsn: Lsn) -> Result<()> {
        loop {
            self.check()?;
            if self.synced.load(Ordering::Acquire) >= lsn.0 {
                return self.outcome(lsn);
            }
            if self.written() >= lsn {
                // What failed is never synced.
                self.outcome(lsn)?;
            }
            let mut turn = self.syncing.turn.lock();
            let mine = turn.closed + 1;
            while turn.is_led && turn.done < mine {
                self.syncing.bell(mine).wait(&mut turn);
            }
            if turn.done >= mine {
                continue;
            }
            if self.synced.load(Ordering::Acquire) >= lsn.0 {
                // Rung to lead, but covered already: another member must lead.
                self.syncing.bell(mine).notify_one();
                continue;
            }
            self.lead_group(turn)?;
        }
    }

    fn lead_group(&self, mut turn: MutexGuard<'_, Turn>) -> Result<()> {
        turn.closed += 1;
        turn.is_led = true;
        let group = turn.closed;
        drop(turn);
        self.write_pending();
        let synced = self.sync_written();
        let mut turn = self.syncing.turn.lock();
        turn.is_led = false;
        turn.done = group;
        drop(turn);
        self.syncing.bell(group).notify_all();
        if synced.is_ok() {
            self.syncing.bell(group + 1).notify_one();
        } else {
            self.syncing.bell(group + 1).notify_all();
        }
        synced
    }

    /// Returns when everything up to `lsn` survives a power cut, by a sync of its own.
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
    /// Poisoned after a failed sync. The error of the append when what still waited could not be
    /// written; what had been written is durable all the same.
    pub fn sync_all(&self) -> Result<()> {
        self.check()?;
        let lsn = self.enqueued();
        self.write_pending();
        self.sync_written()?;
        self.outcome(lsn)
    }

    /// Syncs what was written up to now.
    fn sync_written(&self) -> Result<()> {
        self.check()?;
        let Some(target) = self.ledger.lock().target.clone() else { return Ok(()) };
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.segment_syncs.fetch_add(1, Ordering::Relaxed);
        target.file.sync().map_err(|error| self.poison(&error))?;
        self.synced_mark.fetch_max(mark(target.segment, target.offset), Ordering::AcqRel);
        self.synced.fetch_max(target.end, Ordering::AcqRel);
        Ok(())
    }
}
