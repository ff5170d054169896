//! The totals of a load: raised when batches are acknowledged, and read at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A function that a writer calls with the duration of each commit.
pub type OnCommit = Arc<dyn Fn(Duration) + Send + Sync>;

/// The shared counters of a load.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    documents: AtomicU64,
    json_bytes: AtomicU64,
    input_bytes: AtomicU64,
    bad: AtomicU64,
    existing: AtomicU64,
}

/// What a load has done up to one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of documents acknowledged under the load's durability.
    pub documents: u64,
    /// The bytes of JSON that were processed.
    pub json_bytes: u64,
    /// The bytes of the input files, before decompression, that were processed.
    pub input_bytes: u64,
    /// The number of documents that could not be loaded.
    pub bad: u64,
    /// The number of documents that were not inserted because their keys exist.
    pub existing: u64,
}

impl Count {
    /// Returns whether no document was loaded, or found to be there.
    pub const fn has_nothing(&self) -> bool {
        self.documents + self.existing == 0
    }
}

impl Totals {
    pub(crate) fn add(&self, count: Count) {
        self.documents.fetch_add(count.documents, Ordering::Relaxed);
        self.json_bytes.fetch_add(count.json_bytes, Ordering::Relaxed);
        self.input_bytes.fetch_add(count.input_bytes, Ordering::Relaxed);
        self.bad.fetch_add(count.bad, Ordering::Relaxed);
        self.existing.fetch_add(count.existing, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Count {
        Count {
            documents: self.documents.load(Ordering::Relaxed),
            json_bytes: self.json_bytes.load(Ordering::Relaxed),
            input_bytes: self.input_bytes.load(Ordering::Relaxed),
            bad: self.bad.load(Ordering::Relaxed),
            existing: self.existing.load(Ordering::Relaxed),
        }
    }
}
