//! Documents on their way from one collection to another, or compared with those of another.
//!
//! Wherever the collections are, a document is carried in its self-contained form, with its sort
//! key and its own expiry: a moment that comes from an index goes with the index. The form
//! is encoded from the view of what is stored, so equal documents have equal bytes, whatever wrote
//! them.

use crate::batch::Batch;
use crate::collection::index::own_expiry;
use crate::collection::write;
use crate::collection::{Collection, Stored, decode};
use crate::encoders;
use crate::remote::{Area, RemoteBatch, RemoteRows, Row, shown_key};
use crate::snapshot::Snapshot;
use crate::write::KeyChange;
use flagstone_base::hash::key_hash;
use flagstone_base::{Error, KeyRange, Moment, Result};
use flagstone_doc::View;
use std::fmt;
use std::ops::Bound;

/// The documents of a collection, one after another. Those that have expired are left out.
pub struct Carrier {
    stored: Stored,
    rows: CarriedRows,
    document: Vec<u8>,
    expiry: Option<Moment>,
    gone_at: Option<Moment>,
}

enum CarriedRows {
    Here(Box<flagstone_engine::Scan>, flagstone_engine::Snapshot),
    Remote(RemoteRows),
}

/// A document that is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'c> {
    /// Its sort key.
    pub key: &'c [u8],
    /// Its self-contained form.
    pub document: &'c [u8],
    /// When it expires, unless an index says so.
    pub expiry: Option<Moment>,
    /// When it expires, whatever says so.
    pub gone_at: Option<Moment>,
}

impl Carrier {
    /// Begins to read the documents behind the sort key `after`, or all, in the order of their
    /// keys: of a database as of `at`, or of now; of a cluster as they are when they are read.
    ///
    /// # Errors
    /// InvalidInput for a snapshot of another database.
    pub fn new(
        collection: &Collection,
        at: Option<&Snapshot>,
        after: Option<&[u8]>,
    ) -> Result<Self> {
        let stored = collection.0.clone();
        let start = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
        let range = KeyRange { start, end: Bound::Unbounded };
        let rows = match stored.remote() {
            Some(remote) => CarriedRows::Remote(RemoteRows::new(remote, Area::Documents, range)),
            None => {
                let now = || stored.engine().snapshot();
                let snapshot = at.map_or_else(now, |at| at.0.clone());
                let scan = snapshot.scan(stored.keyspace()?, range)?.without_filling_cache();
                CarriedRows::Here(Box::new(scan), snapshot)
            }
        };
        Ok(Self { stored, rows, document: Vec::new(), expiry: None, gone_at: None })
    }

    /// Reads the documents in the order that costs least.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.rows = match self.rows {
            CarriedRows::Here(scan, snapshot) => {
                CarriedRows::Here(Box::new(scan.unordered()), snapshot)
            }
            CarriedRows::Remote(rows) => CarriedRows::Remote(rows.unordered()),
        };
        self
    }

    /// Moves to the next document. Returns false at the end.
    ///
    /// # Errors
    /// Io, Corruption, Closed, Unavailable; InvalidInput if the collection was dropped meanwhile.
    pub fn advance(&mut self) -> Result<bool> {
        let Self { stored, rows, document, expiry, gone_at } = self;
        let is_there = match rows {
            CarriedRows::Here(scan, _) => scan.advance()?,
            CarriedRows::Remote(rows) => rows.advance()?,
        };
        if !is_there {
            return Ok(false);
        }
        document.clear();
        let mut encode = |bytes: &[u8]| {
            let view = View::of(bytes, stored.names());
            let view = view.map_err(|malformed| decode::corrupt(stored, malformed))?;
            encoders::self_contained(|encoder| encoder.encode_view(&view, None, document))
        };
        match rows {
            CarriedRows::Here(scan, snapshot) => {
                encode(scan.value_bytes()).map_err(|error| of_document(error, scan.key()))?;
                let keyspace = stored.keyspace()?;
                *gone_at = snapshot.expiry(keyspace, scan.key())?;
                *expiry = own_expiry(keyspace, scan.value_bytes(), *gone_at)?;
            }
            CarriedRows::Remote(rows) => {
                encode(rows.value()).map_err(|error| of_document(error, rows.key()))?;
                *expiry = rows.expiry();
                *gone_at = *expiry;
            }
        }
        Ok(true)
    }

    /// The current document.
    pub fn current(&self) -> Carried<'_> {
        let key = match &self.rows {
            CarriedRows::Here(scan, _) => scan.key(),
            CarriedRows::Remote(rows) => rows.key(),
        };
        Carried { key, document: &self.document, expiry: self.expiry, gone_at: self.gone_at }
    }
}

impl Carried<'_> {
    /// The bytes of key and document.
    pub const fn bytes(&self) -> usize {
        self.key.len() + self.document.len()
    }

    /// A hash of the key. A cluster places documents by its low bits: two documents that differ in
    /// them are in different buckets.
    pub fn key_hash(&self) -> u64 {
        key_hash(self.key, 0)
    }

    /// A checksum of key, document and expiry.
    pub fn checksum(&self) -> u64 {
        let expiry = self.expiry.map_or([0; 9], |moment| {
            let mut bytes = [1; 9];
            bytes[1..].copy_from_slice(&moment.millis().to_le_bytes());
            bytes
        });
        key_hash(&expiry, key_hash(self.document, key_hash(self.key, 1)))
    }

    /// Puts the document into `batch`, for `collection`.
    ///
    /// # Errors
    /// InvalidInput for a document that the collection does not take, Unsupported for a batch of
    /// another collection of a cluster. The batch stays as it was.
    pub fn put(&self, batch: &mut Batch, collection: &Collection) -> Result<()> {
        self.put_into(batch, &collection.0).map_err(|error| of_document(error, self.key))
    }

    fn put_into(&self, batch: &mut Batch, stored: &Stored) -> Result<()> {
        let Self { key, document, expiry, .. } = *self;
        if let Some(remote) = stored.remote() {
            stored.check_document(document)?;
            let row = Row { document: flagstone_base::Slice::copy_of(document), expiry };
            return RemoteBatch::put(&mut batch.remote, remote, key, row);
        }
        let mut bytes = Vec::with_capacity(document.len());
        let view = View::of(document, None);
        let view = view.map_err(|malformed| decode::corrupt(stored, malformed))?;
        let names = stored.names();
        encoders::for_collections(|encoder| encoder.encode_view(&view, names, &mut bytes))?;
        let bytes = stored.check_document(bytes)?;
        write::in_batch(stored, &mut batch.inner, key, KeyChange::Put(&bytes, expiry))
    }
}

fn of_document(error: Error, key: &[u8]) -> Error {
    error.context(format!("document {}", shown_key(key)))
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Carrier({}, {:?})", self.stored.name(), self.current())
    }
}
