//! Patches of documents in a transaction, and documents as Rust values.

use super::handle::Transaction;
use crate::args::Key;
#[cfg(feature = "serde")]
use crate::collection::decode;
use crate::collection::{AnyPatch, Collection, Patched, update};
use flagstone_base::Result;
use flagstone_doc::{Patch, Value};

/// Documents.
impl Transaction {
    /// Returns the document of `key` as a Rust value.
    ///
    /// # Errors
    /// As [`Collection::get_as`]; InvalidInput for a collection of another database.
    #[cfg(feature = "serde")]
    pub fn get_as<T: serde::de::DeserializeOwned>(
        &self,
        collection: &Collection,
        key: impl Key<Collection>,
    ) -> Result<Option<T>> {
        let found = self.inner.get(collection.0.bytes(), key.key_bytes()?)?;
        found.map(|bytes| decode::rust_value(&collection.0, &bytes)).transpose()
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
        key: impl Key<Collection>,
        patch: &Patch,
    ) -> Result<()> {
        let key = key.key_bytes()?;
        update::patch(&collection.0, self.destination(), key.as_ref(), patch)
    }

    /// As [`Transaction::patch`], for a patch that starts from the document `default` where there
    /// is none.
    ///
    /// # Errors
    /// As [`Transaction::patch`].
    pub fn upsert(
        &mut self,
        collection: &Collection,
        key: impl Key<Collection>,
        patch: &Patch,
        default: impl Into<Value>,
    ) -> Result<()> {
        self.patch(collection, key, &patch.clone().upsert_from(default))
    }

    /// Reads the document of `key`, changes it by `patch` and writes it, and tells what the patch
    /// met, as [`Collection::patch_if`]. If the patch does not apply, everything is as before.
    ///
    /// # Errors
    /// As [`Collection::patch_if`] and [`Transaction::put`].
    pub fn patch_if(
        &mut self,
        collection: &Collection,
        key: impl Key<Collection>,
        patch: impl AnyPatch,
    ) -> Result<Patched> {
        let key = key.key_bytes()?;
        patch.write(&collection.0, self.destination(), key.as_ref())
    }
}
