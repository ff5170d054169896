//! The stored bytes of a collection, for reading only.

use flagstone_base::{Result, Slice};
use flagstone_engine::{Keyspace, Routing, Scan};
use std::ops::RangeBounds;

/// The stored form of a collection: sort keys and binary documents, for reading only. Documents are
/// written through the [`Collection`](crate::Collection), which defines their names.
#[derive(Clone, Copy)]
pub struct StoredView<'a> {
    keyspace: &'a Keyspace,
}

impl<'a> StoredView<'a> {
    pub(super) const fn new(keyspace: &'a Keyspace) -> Self {
        Self { keyspace }
    }

    /// Returns how the keys are spread over partitions.
    pub fn routing(&self) -> Routing {
        self.keyspace.routing()
    }

    /// Returns the binary document of a sort key, or `None` if there is none.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.keyspace.get(key)
    }

    /// Returns the entries of a range of sort keys in their order, as of one moment.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.keyspace.scan(range)
    }

    /// Returns all entries in the order of their keys, as of one moment.
    pub fn scan_all(&self) -> Scan {
        self.keyspace.scan::<&[u8]>(..)
    }

    /// Returns all entries, one partition after another. Costs less than [`StoredView::scan_all`]
    /// with hash partitions, because nothing is merged.
    pub fn scan_unordered(&self) -> Scan {
        self.keyspace.scan_unordered()
    }
}
