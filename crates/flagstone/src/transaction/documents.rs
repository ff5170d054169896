//! Patches of documents in a transaction.

use super::handle::Transaction;
use crate::args::Key;
use crate::collection::{AnyPatch, Collection, Patched, update};
use crate::space::Space;
use flagstone_base::{Moment, Result};
use flagstone_doc::Patch;

/// Documents.
impl Transaction {
    /// Changes the document of `key` by `patch` without reading it, as [`Collection::patch`]. Reads
    /// of the transaction see the change. A patch that does not apply changes nothing and is
    /// counted.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Patch, Space, doc};
    /// let pages = db.collection("pages")?;
    /// pages.put("a", doc!({ "visits": 1 }))?;
    /// let mut tx = db.begin()?;
    /// tx.patch(&pages, "a", &Patch::new().inc("visits", 1))?;
    /// assert_eq!(tx.get(&pages, "a")?.and_then(|page| page.int("visits")), Some(2));
    /// tx.commit()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
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
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Patch, Patched, Space, doc};
    /// let pages = db.collection("pages")?;
    /// pages.put("a", doc!({ "visits": 1 }))?;
    /// let visit = Patch::new().inc("visits", 1);
    /// let mut tx = db.begin()?;
    /// assert_eq!(tx.patch_if(&pages, "a", &visit)?, Patched::Changed);
    /// assert_eq!(tx.patch_if(&pages, "b", &visit)?, Patched::NoDocument);
    /// tx.commit()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
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

    /// See [`crate::internal::expiry_in`].
    pub(crate) fn expiry<S: Space>(&self, space: &S, key: impl Key<S>) -> Result<Option<Moment>> {
        Ok(self.inner.get_with_expiry(space.engine_keyspace()?, key.key_bytes()?.as_ref())?.1)
    }
}
