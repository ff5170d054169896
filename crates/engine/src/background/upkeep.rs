//! The state of background work.

use super::deletes::Deletes;
use super::expiry_timer::ExpiryTimer;
use super::idle::{Growth, SETTLE_AFTER};
use super::pace::Pace;
use super::splits::Splits;
use crate::core::Core;
use crate::damage::report_damages;
use crate::event::Event;
use crate::queue::Queue;
use flagstone_base::{Moment, TreeId};
use flagstone_env::Lane;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64};
use flagstone_env::sync::{Mutex, RwLock};
use flagstone_tree::Tree;
use std::sync::Arc;
use std::time::Duration;

/// The background work of an open database.
pub(crate) struct Upkeep {
    pub(crate) core: Arc<Core>,
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
    pub(crate) fn new(core: &Arc<Core>) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::clone(core),
            deletes: Deletes::default(),
            pace: Pace::default(),
            growth: Growth::default(),
            full_since: Mutex::default(),
            is_settling: AtomicBool::new(false),
            is_look_queued: AtomicBool::new(false),
            expiry_timer: ExpiryTimer::default(),
            splits: Splits::default(),
            cuts: RwLock::default(),
            fills: AtomicU64::default(),
        })
    }

    /// Returns whether writers are idle.
    pub(super) fn writers_are_idle(&self) -> bool {
        let now = self.core.setup().now();
        let has_settled = self.core.work.since_flush(now).is_none_or(|since| since >= SETTLE_AFTER);
        has_settled && !self.growth.is_fast(now) && !self.core.work.is_flush_pending()
    }

    pub(super) fn is_log_long(&self) -> bool {
        self.core.history.log_bytes() > self.core.setup().options.wal_bytes_long()
    }

    /// The moment up to which expired entries may be removed from tables. Reports a jump of the
    /// wall clock.
    pub(super) fn expire_through(&self) -> Moment {
        let moment = self.core.history.expire_through();
        if let Some(by) = self.core.history.clock.take_jump() {
            self.core.health.tell(&Event::ClockJumped { by });
        }
        moment
    }

    /// Returns whether another compaction may start.
    pub(super) fn may_compact(&self, queue: &Queue) -> bool {
        // The database must not be poisoned, open for reading only, or closing.
        let is_open = self.core.health.check_open_for_writing().is_ok()
            && self.core.health.poisoned().is_none();
        let jobs = queue.compacting.len() - queue.compacting_for_callers;
        let is_busy = jobs >= self.core.setup().executor.workers(Lane::Compaction);
        is_open && !is_busy
    }

    /// Creates the ballast if it is wanted and missing. Called after an open, a flush or a
    /// compaction.
    pub(crate) fn ensure_ballast(&self) {
        // Checked without the lock first: most databases are smaller.
        self.core.ballast.ensure(|bytes| {
            self.core.work.table_bytes() >= bytes && self.core.work.lock().spaces.live() >= bytes
        });
    }

    /// Sets how much the writers of `tree`, which has changed, are slowed.
    pub(super) fn set_fill(&self, queue: &mut Queue, tree: &Tree) {
        if self.core.stall.set_fill(&self.core.work, queue, tree, &self.core.setup().options) {
            self.core.health.writers.notify_all();
        }
    }

    /// Reports tables that were found damaged. Returns whether one in `tree` was quarantined.
    pub(super) fn report_damages(&self, tree: Option<TreeId>) -> bool {
        let Core { health, keyspaces, trees, .. } = &*self.core;
        report_damages(health, keyspaces, trees, tree)
    }
}
