//! A started commit: visible at once, durable when its ticket says so.

use crate::log_upkeep::LogUpkeep;
use crate::options::Durability;
use flagstone_base::{Result, SeqNo};
use flagstone_wal::Lsn;
use std::sync::Arc;
use std::time::Duration;

/// The promise of a commit begun by `Database::commit_start`. Dropping it does not undo the commit.
#[must_use = "the commit is durable only when the ticket was waited for"]
pub struct Ticket {
    pub(crate) log: Arc<LogUpkeep>,
    pub(crate) lsn: Option<Lsn>,
    pub(crate) durability: Durability,
    pub(crate) seqno: SeqNo,
}

/// The result of a commit that never sleeps: `Database::try_commit`.
#[must_use]
pub enum TryCommit {
    /// The writes are visible.
    Started {
        /// Tells when the writes are durable.
        ticket: Ticket,
        /// How long the caller should pause before its next commit: zero as long as flushes and
        /// compactions keep up. A commit that waits would have slept this long. Callers that ignore
        /// it are told to retry sooner.
        pause: Duration,
    },
    /// Nothing has happened, because flushes or compactions lag. Try again after about this time.
    RetryAfter(Duration),
}

impl Ticket {
    /// Waits until the commit is as durable as its Durability promises.
    ///
    /// # Errors
    /// Poisoned when the sync failed.
    pub fn wait(self) -> Result<()> {
        self.log.wait_durable(self.lsn, self.durability)
    }

    /// Returns whether [`Ticket::wait`] would return at once.
    pub fn is_done(&self) -> bool {
        self.log.is_durable(self.lsn, self.durability)
    }

    /// The SeqNo of the last operation of the commit.
    pub const fn seqno(&self) -> SeqNo {
        self.seqno
    }
}
