//! Maintenance of the log: the syncs that commits wait for, timed syncs for `Durability::Interval`,
//! and spare segments.

use crate::ballast::Ballast;
use crate::event::Event;
use crate::options::Durability;
use crate::setup::job_of;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_env::{Lane, Progress};
use flagstone_wal::{Log, Lsn};
use std::sync::Arc;
use std::time::Duration;

/// The maintenance of the log of an open database.
pub(crate) struct LogUpkeep {
    ballast: Arc<Ballast>,
    /// The log must be synced at least this often, in nanoseconds; 0 if no timer runs.
    interval: AtomicU64,
    /// A job creates a spare segment.
    is_preparing: AtomicBool,
}

impl LogUpkeep {
    pub(crate) fn new(ballast: &Arc<Ballast>) -> Arc<Self> {
        Arc::new(Self {
            ballast: Arc::clone(ballast),
            interval: AtomicU64::new(0),
            is_preparing: AtomicBool::new(false),
        })
    }

    /// Waits until what was logged up to `lsn` is as durable as `durability` promises.
    pub(crate) fn wait_durable(
        self: &Arc<Self>,
        lsn: Option<Lsn>,
        durability: Durability,
    ) -> Result<()> {
        let (Some(log), Some(lsn)) = (&self.ballast.history.log, lsn) else { return Ok(()) };
        let synced = match durability {
            Durability::None | Durability::Buffered => return Ok(()),
            Durability::Interval(interval) => {
                self.sync_every(interval);
                return Ok(());
            }
            Durability::Group => log.sync_through(lsn),
            Durability::Each => log.sync_alone(lsn),
        };
        // The commit's own append has succeeded, or it needed none. If the last append before an
        // empty commit was refused, what was written before that must still be synced.
        let is_refused = |error: &Error| error.kind() != ErrorKind::Poisoned;
        let synced = match synced {
            Err(error) if is_refused(&error) => log.sync_written(),
            synced => synced,
        };
        synced.inspect_err(|error| self.ballast.note_failure(error))
    }

    /// Returns whether [`LogUpkeep::wait_durable`] would return at once.
    pub(crate) fn is_durable(&self, lsn: Option<Lsn>, durability: Durability) -> bool {
        match (lsn, durability) {
            (Some(lsn), Durability::Group | Durability::Each) => {
                let is_synced =
                    self.ballast.history.log.as_ref().is_none_or(|log| log.synced() >= lsn);
                // A wait for a sync that will never come returns at once, too.
                is_synced || self.ballast.health.poisoned().is_some()
            }
            _ => true,
        }
    }

    /// Makes the log be synced at least every `interval` from now on.
    pub(crate) fn sync_every(self: &Arc<Self>, interval: Duration) {
        let nanos = interval.as_nanos().min(u128::from(u64::MAX)) as u64;
        let mut now = self.interval.load(Ordering::Relaxed);
        while now == 0 || nanos < now {
            let order = Ordering::Relaxed;
            match self.interval.compare_exchange_weak(now, nanos, order, order) {
                Ok(_) => return self.set_timer(nanos, Duration::ZERO),
                Err(other) => now = other,
            }
        }
    }

    /// Syncs the log every `nanos` until a shorter interval is requested, the first time not before
    /// `at_least` has passed.
    fn set_timer(self: &Arc<Self>, nanos: u64, at_least: Duration) {
        let job = job_of(self, move |upkeep| {
            if upkeep.interval.load(Ordering::Relaxed) == nanos
                && upkeep.ballast.health.check_open_for_writing().is_ok()
            {
                let began = upkeep.ballast.health.setup.now();
                upkeep.sync_what_is_new();
                let took = upkeep.ballast.health.setup.now() - began;
                // Syncs and flushes share a thread. A disk that is slower than the interval leaves
                // half of it to flushes.
                upkeep.set_timer(nanos, took);
            }
            Progress::Done
        });
        let rest = Duration::from_nanos(nanos).max(at_least);
        self.ballast.health.setup.executor.submit_after(rest, Lane::Flush, job);
    }

    fn sync_what_is_new(&self) {
        let log = self.ballast.history.log.as_ref();
        let Some(log) = log.filter(|log| log.synced() < log.enqueued()) else { return };
        if let Err(error) = log.sync_all() {
            self.ballast.note_failure(&error);
            // Unless the log is poisoned, the next sync may find space again.
            self.ballast.health.tell(&Event::BackgroundFailed { doing: "timed sync", error });
        }
    }

    /// Creates a spare segment in the background if the log wants one, so that writers never wait
    /// for a new file.
    pub(crate) fn prepare_spare_segment(self: &Arc<Self>) {
        // On a full disk the space is for work that frees more.
        if !self.ballast.history.log.as_ref().is_some_and(Log::wants_spare)
            || self.ballast.is_given_up()
        {
            return;
        }
        if self.is_preparing.swap(true, Ordering::AcqRel) {
            return;
        }
        let job = job_of(self, |upkeep| {
            if let Some(Ok(true)) = upkeep.ballast.history.log.as_ref().map(Log::prepare) {
                return Progress::Again;
            }
            // Without a spare the log creates its next segment itself, and reports an error.
            upkeep.is_preparing.store(false, Ordering::Release);
            Progress::Done
        });
        self.ballast.health.setup.executor.submit(Lane::Flush, job);
    }
}
