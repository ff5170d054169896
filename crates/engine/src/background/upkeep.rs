//! The parts of the database that background work uses, and its own state.

use super::deletes::Deletes;
use super::expiry_timer::ExpiryTimer;
use super::idle::{Growth, SETTLE_AFTER};
use super::pace::Pace;
use super::splits::Splits;
use crate::ballast::Ballast;
use crate::damage::report_damages;
use crate::edits::Edits;
use crate::event::Event;
use crate::health::Health;
use crate::history::History;
use crate::keyspaces::Keyspaces;
use crate::log_upkeep::LogUpkeep;
use crate::memory::Memory;
use crate::queue::{Queue, Work};
use crate::setup::Setup;
use crate::stall::Stall;
use flagstone_base::{Moment, TreeId};
use flagstone_env::Lane;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64};
use flagstone_env::sync::{Mutex, RwLock};
use flagstone_tree::{Tree, TreeContext};
use std::sync::Arc;
use std::time::Duration;

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
    pub(crate) growth: Growth,
    /// When the disk became full, if it is.
    pub(crate) full_since: Mutex<Option<Duration>>,
    /// A job that checks whether writers are idle is scheduled.
    pub(crate) is_settling: AtomicBool,
    /// A job that looks for compactions is queued.
    pub(crate) is_look_queued: AtomicBool,
    pub(crate) expiry_timer: ExpiryTimer,
    pub(crate) splits: Splits,
    /// Held by ingests from before their number until they are installed, by fills while they are
    /// installed, and alone by a cut that was taken in vain.
    pub(crate) cuts: RwLock<()>,
    /// How often tables were installed below newer entries. Raised under the manifest's lock.
    pub(crate) fills: AtomicU64,
}

impl Upkeep {
    /// Returns whether writers are idle.
    pub(super) fn writers_are_idle(&self) -> bool {
        let now = self.setup.now();
        let has_settled = self.work.since_flush(now).is_none_or(|since| since >= SETTLE_AFTER);
        has_settled && !self.growth.is_fast(now) && !self.work.is_flush_pending()
    }

    pub(super) fn is_log_long(&self) -> bool {
        self.history.log_bytes() > self.setup.options.wal_bytes_long()
    }

    /// The moment up to which expired entries may be removed from tables. Reports a jump of the
    /// wall clock.
    pub(super) fn expire_through(&self) -> Moment {
        let moment = self.history.expire_through();
        if let Some(by) = self.history.clock.take_jump() {
            self.health.tell(&Event::ClockJumped { by });
        }
        moment
    }

    /// Returns whether another compaction may start.
    pub(super) fn may_compact(&self, queue: &Queue) -> bool {
        // The database must not be poisoned, open for reading only, or closing.
        let is_open =
            self.health.check_open_for_writing().is_ok() && self.health.poisoned().is_none();
        let jobs = queue.compacting.len() - queue.compacting_for_callers;
        let is_busy = jobs >= self.setup.executor.workers(Lane::Compaction);
        is_open && !is_busy
    }

    /// Creates the ballast if it is wanted and missing. Called after an open, a flush or a
    /// compaction.
    pub(crate) fn ensure_ballast(&self) {
        // Checked without the lock first: most databases are smaller.
        self.ballast.ensure(|bytes| {
            self.work.table_bytes() >= bytes && self.work.lock().spaces.live() >= bytes
        });
    }

    /// Sets how much the writers of `tree`, which has changed, are slowed.
    pub(super) fn set_fill(&self, queue: &mut Queue, tree: &Tree) {
        if self.stall.set_fill(&self.work, queue, tree, &self.setup.options) {
            self.health.writers.ring();
        }
    }

    /// Reports tables that were found damaged. Returns whether one in `tree` was quarantined.
    pub(super) fn report_damages(&self, tree: Option<TreeId>) -> bool {
        report_damages(&self.health, &self.keyspaces, &self.trees, tree)
    }
}
