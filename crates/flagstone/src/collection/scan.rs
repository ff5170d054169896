//! A scan of documents.

use super::Collection;
use crate::read::{Scan, Snapshot};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, ErrorKind, Result, Slice};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{Document, Value};

/// An iterator over primary keys and documents, as of one moment. After an error it ends. While it waits
/// it keeps the memory and files it reads: see [`DocumentScan::park`].
pub struct DocumentScan {
    scan: Scan,
    collection: Collection,
}

impl DocumentScan {
    pub(crate) fn new(collection: &Collection, range: KeyRange, snapshot: Snapshot) -> Self {
        let scan = Scan::new(collection.keyspace(), range, snapshot);
        Self { scan, collection: collection.clone() }
    }

    /// The same documents, from the last to the first. Call it before the first is taken.
    #[must_use]
    pub fn rev(self) -> Self {
        Self { scan: self.scan.rev(), collection: self.collection }
    }

    /// As [`Scan::park`]: for a scan that waits for somebody slow.
    pub fn park(&mut self) {
        self.scan.park();
    }

    /// The primary keys alone: no document is looked at.
    pub fn keys(mut self) -> impl Iterator<Item = Result<Value>> {
        std::iter::from_fn(move || match self.scan.advance() {
            Ok(true) => Some(self.key_of(self.scan.key())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn key_of(&self, key: &[u8]) -> Result<Value> {
        sort_key::decode(key, Direction::Ascending).map_err(|malformed| {
            Error::new(
                ErrorKind::Corruption,
                format!("a primary key of {:?}, {malformed}", self.collection.name()),
            )
        })
    }

    fn entry(&self, key: &[u8], value: Slice) -> Result<(Value, Document)> {
        Ok((self.key_of(key)?, self.collection.document(value)?))
    }
}

impl Iterator for DocumentScan {
    type Item = Result<(Value, Document)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.scan.advance() {
            Ok(true) => Some(self.entry(self.scan.key(), self.scan.value())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
