//! A snapshot: the database as of one moment, for as long as it is held.

use super::{Registered, Scan};
use crate::collection::{Collection, DocumentScan, encode_key, key_range};
use crate::database::Handle;
use crate::keyspace::{Keyspace, owned_range};
use crate::shared::Shared;
use flagstone_base::{Result, SeqNo, Slice};
use flagstone_doc::{Document, Value};
use std::ops::RangeBounds;
use std::sync::Arc;

/// All keyspaces as of one moment. It pins a SeqNo, no memory and no files; but what was
/// overwritten since then stays on disk until it is dropped.
#[derive(Clone)]
pub struct Snapshot {
    handle: Arc<Handle>,
    registered: Registered,
}

impl Snapshot {
    pub(crate) fn new(handle: &Arc<Handle>) -> Self {
        let shared = handle.shared();
        let registered = shared.snapshots.register(&shared.publisher);
        Self { handle: Arc::clone(handle), registered }
    }

    pub(super) fn shared(&self) -> &Shared {
        self.handle.shared()
    }

    /// The last SeqNo it sees.
    pub fn seqno(&self) -> SeqNo {
        self.registered.seqno()
    }

    /// The value that `key` had.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.handle.check_same(keyspace.handle())?;
        keyspace.get_at(key.as_ref(), Some(self.seqno()))
    }

    /// The document that `key` had.
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn get_document(
        &self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<Option<Document>> {
        let found = self.get(collection.keyspace(), encode_key(&key.into())?)?;
        found.map(|bytes| collection.document(bytes)).transpose()
    }

    /// The document that `key` had, as a Rust value.
    ///
    /// # Errors
    /// As [`Collection::get_as`].
    #[cfg(feature = "serde")]
    pub fn get_as<T: serde::de::DeserializeOwned>(
        &self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<Option<T>> {
        let found = self.get(collection.keyspace(), encode_key(&key.into())?)?;
        found.map(|bytes| collection.read_as(&bytes)).transpose()
    }

    /// The documents of a collection as they were, in key order.
    ///
    /// # Errors
    /// InvalidInput for a collection of another database, or a bound over 65,535 bytes encoded.
    pub fn scan_documents<K: Into<Value> + Clone>(
        &self,
        collection: &Collection,
        range: impl RangeBounds<K>,
    ) -> Result<DocumentScan> {
        self.handle.check_same(collection.keyspace().handle())?;
        Ok(DocumentScan::new(collection, key_range(range)?, self.clone()))
    }

    /// The entries of `range` as they were, in key order.
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database.
    pub fn scan<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Scan> {
        self.handle.check_same(keyspace.handle())?;
        Ok(Scan::new(keyspace, owned_range(&range), self.clone()))
    }
}
