//! Conditions on documents: a batch is refused unless they are as they were read.

use super::Collection;
use crate::batch::Batch;
use crate::sort_keys;
use flagstone_base::Result;
use flagstone_doc::{Document, Value};
use flagstone_engine::VersionToken;

impl Collection {
    /// Returns the document of `key` with a token of the write that set it, for
    /// [`Batch::expect_document_version`]; `None` if there is no document.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let accounts = db.collection("accounts")?;
    /// accounts.put_json("alice", r#"{"balance":100}"#)?;
    /// let Some((version, document)) = accounts.get_versioned("alice")? else { return Ok(()) };
    ///
    /// let mut edited = document.edit();
    /// edited.set("balance", document.int("balance") - 10)?;
    /// let mut batch = db.batch();
    /// batch.expect_document_version(&accounts, "alice", version)?;
    /// batch.put_value(&accounts, "alice", edited.value())?;
    /// db.commit(batch)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn get_versioned(&self, key: impl Into<Value>) -> Result<Option<(VersionToken, Document)>> {
        let found = self.bytes().get_versioned(sort_keys::of_primary(&key.into())?)?;
        found.map(|(version, bytes)| Ok((version, self.document(bytes)?))).transpose()
    }
}

impl Batch {
    /// Makes the commit return Conflict if `collection` has a document of `key` then.
    ///
    /// # Errors
    /// InvalidInput for a key over 65,535 bytes encoded.
    pub fn expect_no_document(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> Result<()> {
        self.0.expect_absent(collection.bytes(), sort_keys::of_primary(&key.into())?)
    }

    /// Makes the commit return Conflict unless the newest write of the document of `key` is the one that
    /// [`Collection::get_versioned`] returned.
    ///
    /// # Errors
    /// InvalidInput for a key over 65,535 bytes encoded.
    pub fn expect_document_version(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        version: VersionToken,
    ) -> Result<()> {
        self.0.expect_version(collection.bytes(), sort_keys::of_primary(&key.into())?, version)
    }

    /// Makes the commit return Conflict if the document of `key` was written or removed after `version`,
    /// as [`Batch::expect_unchanged_since`].
    ///
    /// # Errors
    /// InvalidInput for a key over 65,535 bytes encoded.
    pub fn expect_document_unchanged_since(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        version: VersionToken,
    ) -> Result<()> {
        self.0.expect_unchanged_since(
            collection.bytes(),
            sort_keys::of_primary(&key.into())?,
            version,
        )
    }
}
