//! A snapshot: the database as of one moment.

use crate::codec::{AsKey, Codec, KeyCodec};
use crate::collection::query::{Find, IntoFilter, Reads};
use crate::collection::{Collection, DocumentScan, decode};
use crate::keyspace::Keyspace;
use crate::sort_keys;
use crate::typed::{Typed, TypedScan};
use flagstone_base::{Result, SeqNo, Slice};
use flagstone_doc::{Document, Value};
use flagstone_engine::{Scan, VersionToken, owned_range};
use std::ops::RangeBounds;

/// All keyspaces as of one moment; [`Database::snapshot`](crate::Database::snapshot) takes one.
///
/// A snapshot holds a SeqNo, no memory and no files. But what was overwritten or deleted after it
/// stays on disk until the snapshot is dropped.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let (kv, orders) = (db.keyspace("kv")?, db.collection("orders")?);
/// kv.put("a", "1")?;
/// orders.put_json(7, r#"{"total":5}"#)?;
/// let before = db.snapshot();
/// kv.put("a", "2")?;
/// orders.delete(7)?;
///
/// assert_eq!(before.get(&kv, "a")?.as_deref(), Some(b"1".as_slice()));
/// assert_eq!(before.get_document(&orders, 7)?.and_then(|order| order.int("total")), Some(5));
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot(pub(crate) flagstone_engine::Snapshot);

impl Snapshot {
    /// Returns the SeqNo of the last write that the snapshot sees.
    pub fn seqno(&self) -> SeqNo {
        self.0.seqno()
    }

    /// Returns a token of the last write that the snapshot sees, for
    /// [`Batch::expect_unchanged_since`](crate::Batch::expect_unchanged_since).
    pub fn version(&self) -> VersionToken {
        self.0.version()
    }

    /// Returns the value that `key` had.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; InvalidInput for a keyspace of another database.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.0.get(&keyspace.0, key.as_ref())
    }

    /// Returns the document that `key` had.
    ///
    /// # Errors
    /// As [`Collection::get`]; InvalidInput for a collection of another database.
    pub fn get_document(
        &self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<Option<Document>> {
        let found = self.0.get(collection.0.bytes(), &sort_keys::of_primary(&key.into())?)?;
        found.map(|bytes| decode::document(&collection.0, bytes)).transpose()
    }

    /// Returns the document that `key` had, as a Rust value.
    ///
    /// # Errors
    /// As [`Collection::get_as`]; InvalidInput for a collection of another database.
    #[cfg(feature = "serde")]
    pub fn get_as<T: serde::de::DeserializeOwned>(
        &self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<Option<T>> {
        let found = self.0.get(collection.0.bytes(), &sort_keys::of_primary(&key.into())?)?;
        found.map(|bytes| decode::rust_value(&collection.0, &bytes)).transpose()
    }

    /// Begins a query for the documents of a collection that matched `filter`. See
    /// [`Collection::find`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let orders = db.collection("orders")?;
    /// orders.put_json(7, r#"{"total":5}"#)?;
    /// let before = db.snapshot();
    /// orders.put_json(8, r#"{"total":9}"#)?;
    /// assert_eq!(before.find(&orders, r#"{"total":{"$gt":1}}"#).count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn find(&self, collection: &Collection, filter: impl IntoFilter) -> Find<'static> {
        Find::new(&collection.0, Reads::Snapshot(self.0.clone()), filter.into_filter())
    }

    /// Returns the documents of a collection as they were, in the order of their keys.
    ///
    /// # Errors
    /// InvalidInput for a collection of another database, or a bound over 65,535 bytes encoded.
    pub fn scan_documents<K: Into<Value> + Clone>(
        &self,
        collection: &Collection,
        range: impl RangeBounds<K>,
    ) -> Result<DocumentScan> {
        let scan = self.0.scan(collection.0.bytes(), sort_keys::of_range(range)?)?;
        Ok(DocumentScan::new(&collection.0, scan))
    }

    /// Returns the entries of `range` as they were, in the order of their keys.
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database. Errors of reading come from the iterator.
    pub fn scan<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Scan> {
        self.0.scan(&keyspace.0, owned_range(&range))
    }

    /// Returns the binary document that a sort key of a collection had; see [`Collection::stored`].
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_stored(
        &self,
        collection: &Collection,
        sort_key: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        self.0.get(collection.0.bytes(), sort_key.as_ref())
    }

    /// Returns the sort keys and binary documents of a collection as they were; see
    /// [`Collection::stored`].
    ///
    /// # Errors
    /// As [`Snapshot::scan`].
    pub fn scan_stored<K: AsRef<[u8]>>(
        &self,
        collection: &Collection,
        range: impl RangeBounds<K>,
    ) -> Result<Scan> {
        self.0.scan(collection.0.bytes(), owned_range(&range))
    }

    /// Returns the value that `key` had in a typed keyspace.
    ///
    /// # Errors
    /// As [`Typed::get`]; InvalidInput for a keyspace of another database.
    pub fn get_typed<K: KeyCodec, V, C: Codec<V>>(
        &self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<Option<V>> {
        let found = self.0.get(&typed.keyspace().0, &typed.key_bytes(key)?)?;
        found.map(|bytes| typed.decode_value(&bytes)).transpose()
    }

    /// Returns the entries of a typed keyspace as they were, in the order of their keys.
    ///
    /// # Errors
    /// As [`Typed::scan`]; InvalidInput for a keyspace of another database.
    pub fn scan_typed<K: KeyCodec, V, C: Codec<V>>(
        &self,
        typed: &Typed<K, V, C>,
        range: impl RangeBounds<K>,
    ) -> Result<TypedScan<K, V, C>> {
        let scan = self.0.scan(&typed.keyspace().0, typed.key_range(range)?)?;
        Ok(TypedScan::new(typed, scan))
    }
}
