//! Upkeep of the log: timed syncs for `Durability::Interval`, and spare segments.

use crate::shared::Shared;
use flagstone_env::{Lane, Progress};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Shared {
    /// Sees to it that the log is synced at least every `interval` from now on.
    pub(crate) fn sync_every(&self, interval: Duration) {
        let nanos = interval.as_nanos().min(u128::from(u64::MAX)) as u64;
        let now = self.sync_interval.load(Ordering::Relaxed);
        if now != 0 && now <= nanos {
            return;
        }
        if self.sync_interval.swap(nanos, Ordering::Relaxed) == 0 {
            self.set_sync_timer();
        }
    }

    fn set_sync_timer(&self) {
        let Some(weak) = self.weak.get().cloned() else { return };
        let interval = Duration::from_nanos(self.sync_interval.load(Ordering::Relaxed));
        let job = move || {
            if let Some(shared) = weak.upgrade()
                && let Some(log) = &shared.log
                && !shared.is_closed()
            {
                match log.sync_all() {
                    Ok(()) => shared.set_sync_timer(),
                    Err(error) => shared.note_failure(&error),
                }
            }
            Progress::Done
        };
        self.executor.submit_after(interval, Lane::Flush, Box::new(job));
    }

    /// Has a spare segment made in the background if the log wants one, so that writers never wait for
    /// a new file.
    pub(crate) fn prepare_spare_segment(&self) {
        if !self.log.as_ref().is_some_and(flagstone_wal::Log::wants_spare) {
            return;
        }
        let Some(weak) = self.weak.get().cloned() else { return };
        let job = move || {
            let Some(shared) = weak.upgrade() else { return Progress::Done };
            match shared.log.as_ref().map(flagstone_wal::Log::prepare) {
                Some(Ok(true)) => Progress::Again,
                // Without a spare the log makes its next segment itself, and says what is wrong.
                _ => Progress::Done,
            }
        };
        self.executor.submit(Lane::Flush, Box::new(job));
    }
}
