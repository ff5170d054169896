//! Whether a load goes on, and if not, why.

use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where a failure stands: of several, the first in the input is told; the disk's come before all.
pub(super) type Rank = (usize, u64);

/// Tells all threads of a load to stop.
#[derive(Default)]
pub(super) struct Control {
    stops: AtomicBool,
    has_failed: AtomicBool,
    failure: Mutex<Option<(Rank, Failure)>>,
}

impl Control {
    /// Nothing more is to be read; what was read is still loaded.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
    }

    /// Nothing more is to be done.
    pub(super) fn fail(&self, rank: Rank, failure: Failure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(known, _)| rank < *known) {
            *first = Some((rank, failure));
        }
        drop(first);
        self.has_failed.store(true, Ordering::Release);
        self.stop();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Why it failed, if it did.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.take().map(|(_, failure)| failure)
    }
}
