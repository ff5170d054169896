//! What a load has done so far: counted when acknowledged, read by the progress at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Hears how long each commit took, from the thread that writes.
pub type OnCommit = Arc<dyn Fn(Duration) + Send + Sync>;

/// Counters of a load.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    documents: AtomicU64,
    json_bytes: AtomicU64,
    input_bytes: AtomicU64,
    bad: AtomicU64,
}

/// What a load has done up to one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Documents acknowledged under the load's durability.
    pub documents: u64,
    /// Bytes of JSON that were dealt with.
    pub json_bytes: u64,
    /// Bytes of the files as they lie that were dealt with.
    pub input_bytes: u64,
    /// Documents that could not be loaded.
    pub bad: u64,
}

impl Totals {
    pub(crate) fn add(&self, count: Count) {
        self.documents.fetch_add(count.documents, Ordering::Relaxed);
        self.json_bytes.fetch_add(count.json_bytes, Ordering::Relaxed);
        self.input_bytes.fetch_add(count.input_bytes, Ordering::Relaxed);
        self.bad.fetch_add(count.bad, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Count {
        Count {
            documents: self.documents.load(Ordering::Relaxed),
            json_bytes: self.json_bytes.load(Ordering::Relaxed),
            input_bytes: self.input_bytes.load(Ordering::Relaxed),
            bad: self.bad.load(Ordering::Relaxed),
        }
    }
}
