//! What is stored of a collection, as bytes, to be read only.

use super::Collection;
use flagstone_base::{Result, Slice};
use flagstone_engine::{Keyspace, Routing, Scan};
use std::ops::RangeBounds;

/// The stored form of a collection: sort keys and binary documents. It cannot be written: documents are written through
/// the [`Collection`], which keeps their names (and, later, their indexes).
#[derive(Clone, Copy)]
pub struct StoredView<'a> {
    keyspace: &'a Keyspace,
}

impl Collection {
    /// The sort keys and binary documents that are stored, to be read only.
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
    /// How the keys are spread.
    pub fn routing(&self) -> Routing {
        self.keyspace.routing()
    }

    /// The binary document of a sort key.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.keyspace.get(key)
    }

    /// The entries of a range of sort keys, in their order, as of one moment.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.keyspace.scan(range)
    }

    /// Every entry in key order, as of one moment.
    pub fn scan_all(&self) -> Scan {
        self.keyspace.scan::<&[u8]>(..)
    }

    /// Every entry, one partition after another: cheaper than [`StoredView::scan_all`] with hash partitions.
    pub fn scan_unordered(&self) -> Scan {
        self.keyspace.scan_unordered()
    }
}
