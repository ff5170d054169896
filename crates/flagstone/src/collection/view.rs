//! The stored bytes of a collection, for reading only.

use super::Collection;
use flagstone_base::{Result, Slice};
use flagstone_engine::{Keyspace, Routing, Scan};
use std::ops::RangeBounds;

/// The stored form of a collection: sort keys and binary documents, for reading only. Documents are
/// written through the [`Collection`], which defines their names.
#[derive(Clone, Copy)]
pub struct StoredView<'a> {
    keyspace: &'a Keyspace,
}

impl Collection {
    /// Returns a view of the sort keys and binary documents that are stored, for reading only. A snapshot
    /// has [`Snapshot::get_stored`](crate::Snapshot::get_stored) and
    /// [`Snapshot::scan_stored`](crate::Snapshot::scan_stored).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let comments = db.collection("comments")?;
    /// comments.put_json("evn2i5p", r#"{"score":1}"#)?;
    /// let bytes: usize = comments.stored().scan_all().map(|entry| entry.unwrap().1.len()).sum();
    /// assert!(bytes < 11);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn stored(&self) -> StoredView<'_> {
        StoredView { keyspace: self.bytes() }
    }
}

impl StoredView<'_> {
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

    /// Returns all entries, one partition after another. Costs less than [`StoredView::scan_all`] with hash
    /// partitions, because nothing is merged.
    pub fn scan_unordered(&self) -> Scan {
        self.keyspace.scan_unordered()
    }
}
