//! Patches of documents in a transaction.

use super::handle::Transaction;
use crate::args::Key;
use crate::collection::{AnyPatch, Collection, Patched, update};
use flagstone_base::Result;
use flagstone_doc::Patch;

/// Documents.
impl Transaction {
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
