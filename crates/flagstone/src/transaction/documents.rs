//! Documents in a transaction.

use super::handle::Transaction;
use super::scans::TransactionDocumentScan;
use crate::collection::write::{self, Change, Destination};
use crate::collection::{Collection, Patched, decode, encode, json_patch, update};
use crate::entry::EntryOptions;
use crate::sort_keys;
use flagstone_base::Result;
use flagstone_doc::{Document, DocumentMut, JsonPatch, MergePatch, Patch, Value};
use std::ops::RangeBounds;

/// Documents.
impl Transaction {
    /// Returns the document of `key`.
    ///
    /// # Errors
    /// As [`Collection::get`]; InvalidInput for a collection of another database.
    pub fn get_document(
        &self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<Option<Document>> {
        let found = self.inner.get(collection.0.bytes(), sort_keys::of_primary(&key.into())?)?;
        found.map(|bytes| decode::document(&collection.0, bytes)).transpose()
    }

    /// Returns the document of `key` as a Rust value.
    ///
    /// # Errors
    /// As [`Collection::get_as`]; InvalidInput for a collection of another database.
    #[cfg(feature = "serde")]
    pub fn get_as<T: serde::de::DeserializeOwned>(
        &self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<Option<T>> {
        let found = self.inner.get(collection.0.bytes(), sort_keys::of_primary(&key.into())?)?;
        found.map(|bytes| decode::rust_value(&collection.0, &bytes)).transpose()
    }

    /// Returns the documents with keys in `range`, in the order of their keys.
    ///
    /// # Errors
    /// InvalidInput for a collection of another database, or a bound over 65,535 bytes encoded.
    pub fn scan_documents<K: Into<Value> + Clone>(
        &self,
        collection: &Collection,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionDocumentScan<'_>> {
        let scan = self.inner.scan(collection.0.bytes(), sort_keys::of_range(range)?)?;
        Ok(TransactionDocumentScan::new(&collection.0, scan))
    }

    fn put_bytes(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        bytes: &[u8],
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let change = Change::Put(bytes, options);
        write::in_transaction(&collection.0, self.own(), &key, change)
    }

    /// Sets the document of `key`.
    ///
    /// # Errors
    /// As [`Collection::put`] and [`Transaction::put`]. Everything is as before then.
    pub fn put_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        document: &Document,
    ) -> Result<()> {
        self.put_document_with(collection, key, document, EntryOptions::new())
    }

    /// As [`Transaction::put_document`], with options of its own.
    ///
    /// # Errors
    /// As [`Transaction::put_document`].
    pub fn put_document_with(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        document: &Document,
        options: EntryOptions,
    ) -> Result<()> {
        self.put_bytes(collection, key, &encode::document(&collection.0, document)?, options)
    }

    /// Sets the document of `key` to `value`.
    ///
    /// # Errors
    /// As [`Collection::put_value`] and [`Transaction::put`].
    pub fn put_value(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &Value,
    ) -> Result<()> {
        self.put_value_with(collection, key, value, EntryOptions::new())
    }

    /// As [`Transaction::put_value`], with options of its own.
    ///
    /// # Errors
    /// As [`Transaction::put_value`].
    pub fn put_value_with(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &Value,
        options: EntryOptions,
    ) -> Result<()> {
        self.put_bytes(collection, key, &encode::value(&collection.0, value)?, options)
    }

    /// Sets the document of `key` to the document in the JSON text `json`.
    ///
    /// # Errors
    /// As [`Collection::put_json`] and [`Transaction::put`].
    pub fn put_json(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        json: impl AsRef<[u8]>,
    ) -> Result<()> {
        let bytes = encode::json(&collection.0, json.as_ref())?;
        self.put_bytes(collection, key, &bytes, EntryOptions::new())
    }

    /// Sets the document of `key` to a Rust value.
    ///
    /// # Errors
    /// As [`Collection::put_as`] and [`Transaction::put`].
    #[cfg(feature = "serde")]
    pub fn put_as<T: serde::Serialize + ?Sized>(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &T,
    ) -> Result<()> {
        self.put_as_with(collection, key, value, EntryOptions::new())
    }

    /// As [`Transaction::put_as`], with options of its own.
    ///
    /// # Errors
    /// As [`Transaction::put_as`].
    #[cfg(feature = "serde")]
    pub fn put_as_with<T: serde::Serialize + ?Sized>(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &T,
        options: EntryOptions,
    ) -> Result<()> {
        self.put_bytes(collection, key, &encode::rust_value(&collection.0, value)?, options)
    }

    /// Reads the document of `key`, lets `change` change it, and writes it. Returns false if there
    /// is no such document. Nothing is written if nothing was changed. An expiry is kept.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let accounts = db.collection("accounts")?;
    /// accounts.put_json("alice", r#"{"balance":100}"#)?;
    /// accounts.put_json("bob", r#"{"balance":0}"#)?;
    /// db.transaction(|tx| {
    ///     tx.update_document(&accounts, "alice", |d| d.inc("balance", -30))?;
    ///     tx.update_document(&accounts, "bob", |d| d.inc("balance", 30))
    /// })?;
    /// assert_eq!(accounts.get("bob")?.and_then(|account| account.int("balance")), Some(30));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error that `change` returns: everything is as before then. Else as
    /// [`Transaction::put_document`].
    pub fn update_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        change: impl FnOnce(&mut DocumentMut) -> Result<()>,
    ) -> Result<bool> {
        let key = sort_keys::of_primary(&key.into())?;
        update::update(&collection.0, Destination::Transaction(self.own()), &key, change)
    }

    /// Changes the document of `key` by `patch` without reading it, as [`Collection::patch`]. Reads
    /// of the transaction see the change. A patch that does not apply changes nothing and is
    /// counted.
    ///
    /// # Errors
    /// As [`Collection::patch`] and [`Transaction::put`].
    pub fn patch(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &Patch,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        update::patch(&collection.0, Destination::Transaction(self.own()), &key, patch)
    }

    /// As [`Transaction::patch`], for a patch that starts from the document `default` where there
    /// is none.
    ///
    /// # Errors
    /// As [`Transaction::patch`].
    pub fn upsert(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &Patch,
        default: impl Into<Value>,
    ) -> Result<()> {
        self.patch(collection, key, &patch.clone().upsert_from(default))
    }

    /// Reads the document of `key`, changes it by `patch` and writes it. Returns false if there is
    /// no such document and the patch is not an upsert.
    ///
    /// # Errors
    /// ConditionFailed if a condition of the patch does not hold, InvalidInput if another part of
    /// it does not apply: everything is as before then. Else as [`Transaction::put_document`].
    pub fn apply_patch(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &Patch,
    ) -> Result<bool> {
        let key = sort_keys::of_primary(&key.into())?;
        update::apply_patch(&collection.0, Destination::Transaction(self.own()), &key, patch)
    }

    /// As [`Transaction::apply_patch`], and tells what the patch met instead of failing.
    ///
    /// # Errors
    /// As [`Collection::patch_if`] and [`Transaction::put`].
    pub fn patch_if(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &Patch,
    ) -> Result<Patched> {
        let key = sort_keys::of_primary(&key.into())?;
        update::patch_if(&collection.0, Destination::Transaction(self.own()), &key, patch)
    }

    /// Reads the document of `key`, does the operations of a JSON Patch and writes it. Returns
    /// false if there is no such document.
    ///
    /// # Errors
    /// As [`Collection::apply_json_patch`] and [`Transaction::put`]: everything is as before then.
    pub fn apply_json_patch(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &JsonPatch,
    ) -> Result<bool> {
        let key = sort_keys::of_primary(&key.into())?;
        json_patch::apply(&collection.0, Destination::Transaction(self.own()), &key, patch)
    }

    /// Reads the document of `key`, merges a JSON Merge Patch into it and writes it. Returns false
    /// if there is no such document and the patch is not an upsert.
    ///
    /// # Errors
    /// As [`Collection::merge_patch`] and [`Transaction::put`]: everything is as before then.
    pub fn merge_patch(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &MergePatch,
    ) -> Result<bool> {
        let key = sort_keys::of_primary(&key.into())?;
        json_patch::merge(&collection.0, Destination::Transaction(self.own()), &key, patch)
    }

    /// Removes the document of `key`, whether it is there or not.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        write::in_transaction(&collection.0, self.own(), &key, Change::Delete)
    }
}
