//! Stops the threads of a load, and keeps the reason.

use crate::error::LoadError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The place of a failure: input and offset. Of several failures the one with the lowest rank is
/// reported; those of the database have the lowest of all.
pub(crate) type Rank = (usize, u64);

/// The flags by which the threads of a load are stopped.
#[derive(Default)]
pub(crate) struct Control {
    stops: AtomicBool,
    has_failed: AtomicBool,
    failure: Mutex<Option<(Rank, LoadError)>>,
}

impl Control {
    /// Stops reading. What was read already is still loaded.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
    }

    /// Stops the load because of `failure`.
    pub(crate) fn fail(&self, rank: Rank, failure: LoadError) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(known, _)| rank < *known) {
            *first = Some((rank, failure));
        }
        drop(first);
        self.has_failed.store(true, Ordering::Release);
        self.stop();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Returns the failure with the lowest rank, if the load failed.
    pub(crate) fn take_failure(&self) -> Option<LoadError> {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.take().map(|(_, failure)| failure)
    }
}
