//! What background work shares: the parts that it works on, and what it remembers.

use super::deletes::Deletes;
use super::looks::ExpiryLooks;
use super::pace::Pace;
use crate::ballast::Ballast;
use crate::commit::Stall;
use crate::damage::tell_damages;
use crate::edits::Edits;
use crate::event::Event;
use crate::health::Health;
use crate::history::History;
use crate::keyspaces::Keyspaces;
use crate::log_upkeep::LogUpkeep;
use crate::memory::Memory;
use crate::queue::{Queue, Work};
use crate::setup::Setup;
use flagstone_base::{Moment, TreeId};
use flagstone_env::Lane;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::AtomicBool;
use flagstone_tree::TreeContext;
use std::sync::Arc;
use std::time::Duration;

/// When no flush has ended for so long, writers rest: trees are tidied up for readers.
pub(super) const SETTLE_AFTER: Duration = Duration::from_secs(1);

/// The background work of an open database.
pub(crate) struct Upkeep {
    pub(crate) setup: Arc<Setup>,
    pub(crate) health: Arc<Health>,
    pub(crate) history: Arc<History>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) ballast: Arc<Ballast>,
    pub(crate) edits: Arc<Edits>,
    pub(crate) keyspaces: Arc<Keyspaces>,
    pub(crate) trees: Arc<TreeContext>,
    pub(crate) work: Arc<Work>,
    pub(crate) stall: Arc<Stall>,
    pub(crate) log: Arc<LogUpkeep>,
    pub(crate) deletes: Deletes,
    pub(crate) pace: Pace,
    /// Since when the disk is full.
    pub(crate) full_since: Mutex<Option<Duration>>,
    /// A job waits to look whether writers rest.
    pub(crate) is_settling: AtomicBool,
    pub(crate) expiry_looks: ExpiryLooks,
}

impl Upkeep {
    /// Whether writers rest.
    pub(super) fn writers_rest(&self) -> bool {
        let since = self.work.since_flush(self.setup.now());
        since.is_none_or(|since| since >= SETTLE_AFTER) && !self.work.is_flush_pending()
    }

    pub(super) fn is_log_long(&self) -> bool {
        self.history.log_bytes() > self.setup.options.wal_bytes_long()
    }

    /// The moment through which tables may be rid of entries that have expired. Tells of a jump of the wall clock.
    pub(super) fn expire_through(&self) -> Moment {
        let moment = self.history.expire_through();
        if let Some(by) = self.history.clock.take_jump() {
            self.health.tell(&Event::ClockJumped { by });
        }
        moment
    }

    /// Whether one more compaction may begin.
    pub(super) fn may_compact(&self, queue: &Queue) -> bool {
        // Neither poisoned, nor open for reading only, nor on the way to be closed.
        let is_open =
            self.health.check_open_for_writing().is_ok() && self.health.poisoned().is_none();
        let jobs = queue.compacting.len() - queue.compacting_for_callers;
        let is_busy = jobs >= self.setup.executor.workers(Lane::Compaction);
        is_open && !is_busy
    }

    /// Makes the ballast if it is wanted and not there; after an open, a flush, a compaction.
    pub(crate) fn look_after_ballast(&self) {
        // Without the lock first: most databases are smaller.
        self.ballast.look_after(|bytes| {
            self.work.table_bytes() >= bytes && self.work.lock().spaces.live() >= bytes
        });
    }

    /// Tells of tables that were found damaged; whether one was quarantined in `tree`.
    pub(super) fn tell_damages(&self, tree: Option<TreeId>) -> bool {
        tell_damages(&self.health, &self.keyspaces, &self.trees, tree)
    }
}
