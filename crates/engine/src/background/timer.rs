//! Upkeep of the log: timed syncs for `Durability::Interval`, and spare segments.

use crate::event::Event;
use crate::shared::Shared;
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::{Lane, Progress};
use std::time::Duration;

impl Shared {
    /// Sees to it that the log is synced at least every `interval` from now on.
    pub(crate) fn sync_every(&self, interval: Duration) {
        let nanos = interval.as_nanos().min(u128::from(u64::MAX)) as u64;
        let mut now = self.sync_interval.load(Ordering::Relaxed);
        while now == 0 || nanos < now {
            let order = Ordering::Relaxed;
            match self.sync_interval.compare_exchange_weak(now, nanos, order, order) {
                Ok(_) => return self.set_sync_timer(nanos, Duration::ZERO),
                Err(other) => now = other,
            }
        }
    }

    /// Syncs the log every `nanos` until a shorter interval is asked for, the first time not before
    /// `at_least` has passed.
    fn set_sync_timer(&self, nanos: u64, at_least: Duration) {
        let job = self.job(move |shared| {
            if shared.sync_interval.load(Ordering::Relaxed) == nanos
                && shared.check_open_for_writing().is_ok()
            {
                let began = shared.environment.clock.monotonic();
                shared.sync_what_is_new();
                let took = shared.environment.clock.monotonic() - began;
                // Syncs and flushes share a thread: a disk that is slower than the interval leaves flushes
                // half of it.
                shared.set_sync_timer(nanos, took);
            }
            Progress::Done
        });
        let rest = Duration::from_nanos(nanos).max(at_least);
        self.executor.submit_after(rest, Lane::Flush, job);
    }

    fn sync_what_is_new(&self) {
        let Some(log) = self.log.as_ref().filter(|log| log.synced() < log.enqueued()) else {
            return;
        };
        if let Err(error) = log.sync_all() {
            self.note_failure(&error);
            // Unless that was the end, the next time may find room again.
            self.tell(&Event::BackgroundFailed { doing: "timed sync", error });
        }
    }

    /// Has a spare segment made in the background if the log wants one, so that writers never wait for
    /// a new file.
    pub(crate) fn prepare_spare_segment(&self) {
        // On a full disk room is for what gives some back.
        if !self.log.as_ref().is_some_and(flagstone_wal::Log::wants_spare)
            || self.is_ballast_given_up()
        {
            return;
        }
        if self.background.preparing.swap(true, Ordering::AcqRel) {
            return;
        }
        let job = self.job(|shared| {
            if let Some(Ok(true)) = shared.log.as_ref().map(flagstone_wal::Log::prepare) {
                return Progress::Again;
            }
            // Without a spare the log makes its next segment itself, and says what is wrong.
            shared.background.preparing.store(false, Ordering::Release);
            Progress::Done
        });
        self.executor.submit(Lane::Flush, job);
    }
}
