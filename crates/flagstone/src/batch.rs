//! A batch: writes over any keyspaces and collections that happen together or not at all.

use crate::codec::{AsKey, Codec, KeyCodec};
use crate::collection::write::{self, Change};
use crate::collection::{Collection, encode, update};
use crate::entry::EntryOptions;
use crate::keyspace::Keyspace;
use crate::sort_keys;
use crate::typed::Typed;
use flagstone_base::Result;
use flagstone_doc::{Document, Patch, Value};
use flagstone_engine::VersionToken;

/// Writes that happen together or not at all. [`Database::batch`](crate::Database::batch) creates a
/// batch, [`Database::commit`](crate::Database::commit) takes it. Of several writes of one key the
/// last one counts.
///
/// A batch takes at most a quarter of the memory budget, and 1 GiB. It writes nothing and checks no
/// condition before it is committed.
#[derive(Default)]
pub struct Batch(pub(crate) flagstone_engine::Batch);

impl Batch {
    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or more than 65,535 bytes, a value of more than 512 MiB, or a
    /// batch that would exceed 1 GiB. The batch stays as it was.
    #[inline]
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.0.put(&keyspace.0, key.as_ref(), value.as_ref())
    }

    /// As [`Batch::put`], with options of its own.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_with(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: EntryOptions,
    ) -> Result<()> {
        self.0.push(&keyspace.0, options.effect(), key.as_ref(), value.as_ref())
    }

    /// Removes `key`, whether it is there or not.
    ///
    /// # Errors
    /// As [`Batch::put`].
    #[inline]
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.0.delete(&keyspace.0, key.as_ref())
    }

    /// Removes all keys from `start`, included, to `end`, excluded.
    ///
    /// # Errors
    /// As [`Batch::put`]; InvalidInput when `start` is not below `end`.
    #[inline]
    pub fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.0.delete_range(&keyspace.0, start.as_ref(), end.as_ref())
    }

    /// Folds `operand` into the value of `key` by the fold of the keyspace, without reading the
    /// value. After the first expiry of the keyspace the commit reads it: see
    /// [`EntryOptions::expires`].
    ///
    /// # Errors
    /// As [`Batch::put`]; InvalidInput when the keyspace has no fold.
    #[inline]
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.0.merge(&keyspace.0, key.as_ref(), operand.as_ref())
    }

    /// Sets the value of `key` in a typed keyspace.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # #[cfg(feature = "serde")] {
    /// let names = db.typed::<u64, String>("names")?;
    /// let by_name = db.typed::<(String, u64), ()>("by_name")?;
    /// let mut batch = db.batch();
    /// batch.put_typed(&names, &7, &"Ada".into())?;
    /// batch.put_typed(&by_name, &("Ada".into(), 7), &())?;
    /// db.commit(batch)?;
    /// # }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of the codec for a key or value that it cannot store; else as [`Batch::put`]. The
    /// batch stays as it was.
    pub fn put_typed<K: KeyCodec, V, C: Codec<V>>(
        &mut self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
        value: &V,
    ) -> Result<()> {
        self.put_typed_with(typed, key, value, EntryOptions::new())
    }

    /// As [`Batch::put_typed`], with options of its own.
    ///
    /// # Errors
    /// As [`Batch::put_typed`].
    pub fn put_typed_with<K: KeyCodec, V, C: Codec<V>>(
        &mut self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
        value: &V,
        options: EntryOptions,
    ) -> Result<()> {
        let (key, value) = (typed.key_bytes(key)?, typed.value_bytes(value)?);
        self.0.push(&typed.keyspace().0, options.effect(), &key, &value)
    }

    /// Removes `key` from a typed keyspace, whether it is there or not.
    ///
    /// # Errors
    /// As [`Batch::put_typed`].
    pub fn delete_typed<K: KeyCodec, V, C: Codec<V>>(
        &mut self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<()> {
        self.0.delete(&typed.keyspace().0, typed.key_bytes(key)?)
    }

    /// Sets the document of `key` in `collection`.
    ///
    /// # Errors
    /// As [`Collection::put`]. The batch stays as it was.
    pub fn put_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        document: &Document,
    ) -> Result<()> {
        self.put_document_with(collection, key, document, EntryOptions::new())
    }

    /// As [`Batch::put_document`], with options of its own.
    ///
    /// # Errors
    /// As [`Batch::put_document`].
    pub fn put_document_with(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        document: &Document,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = encode::document(&collection.0, document)?;
        write::in_batch(&collection.0, &mut self.0, &key, Change::Put(&bytes, options))
    }

    /// Sets the document of `key` in `collection` to `value`.
    ///
    /// # Errors
    /// As [`Collection::put_value`]. The batch stays as it was.
    pub fn put_value(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &Value,
    ) -> Result<()> {
        self.put_value_with(collection, key, value, EntryOptions::new())
    }

    /// As [`Batch::put_value`], with options of its own.
    ///
    /// # Errors
    /// As [`Batch::put_value`].
    pub fn put_value_with(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &Value,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = encode::value(&collection.0, value)?;
        write::in_batch(&collection.0, &mut self.0, &key, Change::Put(&bytes, options))
    }

    /// Sets the document of `key` in `collection` to a Rust value.
    ///
    /// # Errors
    /// As [`Collection::put_as`]. The batch stays as it was.
    #[cfg(feature = "serde")]
    pub fn put_as<T: serde::Serialize + ?Sized>(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &T,
    ) -> Result<()> {
        self.put_as_with(collection, key, value, EntryOptions::new())
    }

    /// As [`Batch::put_as`], with options of its own.
    ///
    /// # Errors
    /// As [`Batch::put_as`].
    #[cfg(feature = "serde")]
    pub fn put_as_with<T: serde::Serialize + ?Sized>(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &T,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = encode::rust_value(&collection.0, value)?;
        write::in_batch(&collection.0, &mut self.0, &key, Change::Put(&bytes, options))
    }

    /// Changes the document of `key` in `collection` by `patch` without reading it; after the first
    /// expiry of the collection the commit reads it. A patch that does not apply changes nothing
    /// and is counted: see [`Collection::patch`].
    ///
    /// # Errors
    /// As [`Collection::patch`]; InvalidInput for a collection with another fold, or none. The
    /// batch stays as it was.
    pub fn patch(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &Patch,
    ) -> Result<()> {
        update::patch_in_batch(&collection.0, &mut self.0, &key.into(), patch)
    }

    /// As [`Batch::patch`], for a patch that starts from the document `default` where there is
    /// none.
    ///
    /// # Errors
    /// As [`Batch::patch`].
    pub fn upsert(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &Patch,
        default: impl Into<Value>,
    ) -> Result<()> {
        self.patch(collection, key, &patch.clone().upsert_from(default))
    }

    /// Removes the document of `key` from `collection`.
    ///
    /// # Errors
    /// As [`Collection::delete`]. The batch stays as it was.
    pub fn delete_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        write::in_batch(&collection.0, &mut self.0, &key, Change::Delete)
    }

    /// Makes the commit return Conflict unless `key` is absent then.
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or over 65,535 bytes.
    #[inline]
    pub fn expect_absent(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.0.expect_absent(&keyspace.0, key.as_ref())
    }

    /// Makes the commit return Conflict unless the newest write of `key` is the one that
    /// [`Keyspace::get_versioned`](crate::Keyspace::get_versioned) returned. A token of another
    /// history, such as that of the database from which this one was copied, is a conflict as well.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path().join("data"))?;
    /// let kv = db.keyspace("accounts")?;
    /// kv.put("alice", "100")?;
    /// let Some((version, balance)) = kv.get_versioned("alice")? else { return Ok(()) };
    ///
    /// let mut batch = db.batch();
    /// batch.expect_version(&kv, "alice", version)?;
    /// batch.put(&kv, "alice", [&balance[..], b"0"].concat())?;
    /// db.commit(batch)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or over 65,535 bytes.
    #[inline]
    pub fn expect_version(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        version: VersionToken,
    ) -> Result<()> {
        self.0.expect_version(&keyspace.0, key.as_ref(), version)
    }

    /// Makes the commit return Conflict if `key` was written after `version`: put, deleted, merged,
    /// or covered by a deleted range. With a snapshot this guards everything that a decision was
    /// based on, absent keys included.
    ///
    /// Flushes and compactions drop deletes, and entries that have expired. Where that cannot be
    /// ruled out for the key, the commit returns Conflict. So an absent key can be a conflict
    /// although it was not written, if tables were written or dropped since `version`. That an
    /// entry expires is no write: until it is dropped, the condition holds. Read again and retry,
    /// as after any conflict.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path().join("data"))?;
    /// let kv = db.keyspace("rooms")?;
    /// let snapshot = db.snapshot();
    /// if snapshot.get(&kv, "monday")?.is_none() && snapshot.get(&kv, "tuesday")?.is_none() {
    ///     let mut batch = db.batch();
    ///     batch.expect_unchanged_since(&kv, "monday", snapshot.version())?;
    ///     batch.expect_unchanged_since(&kv, "tuesday", snapshot.version())?;
    ///     batch.put(&kv, "monday", "alice")?;
    ///     db.commit(batch)?;
    /// }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or over 65,535 bytes.
    #[inline]
    pub fn expect_unchanged_since(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        version: VersionToken,
    ) -> Result<()> {
        self.0.expect_unchanged_since(&keyspace.0, key.as_ref(), version)
    }

    /// Makes the commit return Conflict if `collection` has a document of `key` then.
    ///
    /// # Errors
    /// InvalidInput for a key over 65,535 bytes encoded.
    pub fn expect_no_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<()> {
        self.0.expect_absent(collection.0.bytes(), sort_keys::of_primary(&key.into())?)
    }

    /// Makes the commit return Conflict unless the newest write of the document of `key` is the one
    /// that [`Collection::get_versioned`] returned.
    ///
    /// # Errors
    /// InvalidInput for a key over 65,535 bytes encoded.
    pub fn expect_document_version(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        version: VersionToken,
    ) -> Result<()> {
        self.0.expect_version(collection.0.bytes(), sort_keys::of_primary(&key.into())?, version)
    }

    /// Makes the commit return Conflict if the document of `key` was written or removed after
    /// `version`, as [`Batch::expect_unchanged_since`].
    ///
    /// # Errors
    /// InvalidInput for a key over 65,535 bytes encoded.
    pub fn expect_document_unchanged_since(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        version: VersionToken,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        self.0.expect_unchanged_since(collection.0.bytes(), key, version)
    }

    /// Returns the number of writes in the batch. Conditions do not count.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the batch holds no writes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many bytes the batch will take in the log.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Removes all writes and conditions, and keeps the memory for the next.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
