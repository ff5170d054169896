//! Stops the threads of a load, and keeps the reason.

use crate::error::LoadError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The place of a failure: input and offset. Of several failures the one with the lowest rank is
/// reported; those of the database have the lowest of all.
pub(crate) type Rank = (usize, u64);

/// The flags by which the threads of a load are stopped.
pub(crate) struct Control {
    stops: AtomicBool,
    /// Chunks with a higher number are not loaded.
    last: AtomicU64,
    failure: Mutex<Option<(Rank, LoadError)>>,
}

impl Default for Control {
    fn default() -> Self {
        let (stops, last) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        Self { stops, last, failure: Mutex::new(None) }
    }
}

impl Control {
    /// Stops reading. What was read already is still loaded.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
    }

    /// Stops the load because of `failure`. Chunks up to number `last` are still loaded.
    pub(crate) fn fail(&self, rank: Rank, last: u64, failure: LoadError) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(known, _)| rank < *known) {
            *first = Some((rank, failure));
        }
        drop(first);
        self.last.fetch_min(last, Ordering::AcqRel);
        self.stop();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    /// Returns whether chunk `number` is not to be loaded, because the load failed before it.
    pub(crate) fn is_beyond(&self, number: u64) -> bool {
        number > self.last.load(Ordering::Acquire)
    }

    /// Returns the failure with the lowest rank, if the load failed.
    pub(crate) fn take_failure(&self) -> Option<LoadError> {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.take().map(|(_, failure)| failure)
    }
}
