//! Whether a load goes on, and if not, why.

use crate::error::LoadError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where a failure stands: of several, the first in the input is told; the disk's come before all.
pub(crate) type Rank = (usize, u64);

/// Tells all threads of a load to stop.
#[derive(Default)]
pub(crate) struct Control {
    stops: AtomicBool,
    has_failed: AtomicBool,
    failure: Mutex<Option<(Rank, LoadError)>>,
}

impl Control {
    /// Nothing more is to be read; what was read is still loaded.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
    }

    /// Nothing more is to be done.
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

    /// Why it failed, if it did.
    pub(crate) fn take_failure(&self) -> Option<LoadError> {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.take().map(|(_, failure)| failure)
    }
}
