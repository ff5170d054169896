//! Patches of documents: written without a read, as merge operands, or after a read.

use super::Collection;
use super::core::PatchFold;
use super::write::{Change, Rewrite};
use crate::batch::Batch;
use crate::{encoders, sort_keys};
use flagstone_base::{Error, Result};
use flagstone_doc::{Patch, Value};
use std::sync::Arc;

impl Collection {
    /// Changes the document of `key` by `patch` without reading it. Costs as much as a put: the patch is
    /// written, and applied when the document is read or compacted.
    ///
    /// **A patch that does not apply changes nothing, and this call does not report it.** That is the case
    /// if there is no document and the patch is not an upsert, or if it adds to something that is not a
    /// number. [`KeyspaceStats::operands_refused`](crate::KeyspaceStats::operands_refused) counts such
    /// patches; [`Collection::apply_patch`] reads first and returns an error.
    ///
    /// [`Options::document_bytes_max`](crate::Options::document_bytes_max) limits the patch, not the
    /// document that results: the document is not read now, and what was acknowledged is never dropped
    /// later. Beyond 512 MiB a patch does not apply. A collection with another fold, or none, reads and
    /// writes the document instead.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Patch;
    /// let comments = db.collection("comments")?;
    /// comments.put_json("evn2i5p", r#"{"author":"x","score":1.10}"#)?;
    /// comments.patch("evn2i5p", &Patch::new().inc("score", 1).push("tags", "hot"))?;
    /// let document = comments.get("evn2i5p")?.expect("it was put");
    /// assert_eq!(document.to_json().unwrap(), r#"{"author":"x","score":2.10,"tags":["hot"]}"#);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a patch that no document could take (without changes, or adding something that is
    /// not a number), or one over the limit of documents; else as [`Collection::put`].
    pub fn patch(&self, key: impl Into<Value>, patch: &Patch) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let operand = self.encode_patch(patch)?;
        if self.documents.patches.is_some() {
            return self.write(&key, Change::Patch(&operand));
        }
        let fold = self.patch_fold();
        self.rewrite(&key, |old| {
            let mut document = old.map(<[u8]>::to_vec);
            let is_changed = fold.apply(&operand, &mut document) && document.as_deref() != old;
            match document.filter(|_| is_changed) {
                Some(new) => Ok(Rewrite::Put(self.check_size(new)?)),
                None => Ok(Rewrite::Nothing),
            }
        })?;
        Ok(())
    }

    /// Reads the document of `key`, changes it by `patch` and writes it. No other write of the key comes
    /// between. Returns false if there is no such document and the patch is not an upsert.
    ///
    /// Where possible the bytes of the document are changed without decoding them.
    ///
    /// # Errors
    /// InvalidInput if a part of the patch does not apply: nothing is written then. Else as
    /// [`Collection::put`].
    pub fn apply_patch(&self, key: impl Into<Value>, patch: &Patch) -> Result<bool> {
        let key = sort_keys::of_primary(&key.into())?;
        let operand = self.encode_patch(patch)?;
        let fold = self.patch_fold();
        let mut found = true;
        self.rewrite(&key, |old| {
            let mut document = old.map(<[u8]>::to_vec);
            if document.is_none() && !patch.is_upsert() {
                found = false;
                return Ok(Rewrite::Nothing);
            }
            if !fold.apply(&operand, &mut document) {
                return Err(Error::invalid(format!(
                    "the document cannot be changed by: {patch}; a part of it does not apply"
                )));
            }
            match document.filter(|new| Some(new.as_slice()) != old) {
                Some(new) => Ok(Rewrite::Put(self.check_size(new)?)),
                None => Ok(Rewrite::Nothing),
            }
        })?;
        Ok(found)
    }

    fn patch_fold(&self) -> Arc<PatchFold> {
        if let Some(fold) = &self.documents.patches {
            return Arc::clone(fold);
        }
        Arc::new(PatchFold::new(Arc::clone(&self.documents.names)))
    }

    fn encode_patch(&self, patch: &Patch) -> Result<Vec<u8>> {
        let mut operand = Vec::with_capacity(64);
        let names = Some(self.names());
        encoders::for_collections(|encoder| patch.encode(encoder, names, &mut operand))?;
        self.check_size(operand)
    }
}

impl Batch {
    /// Changes the document of `key` in `collection` by `patch` without reading it. A patch that does not
    /// apply changes nothing and is counted: see [`Collection::patch`].
    ///
    /// # Errors
    /// As [`Collection::patch`]; InvalidInput for a collection with another fold, or none. The batch
    /// stays as it was.
    pub fn patch(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        patch: &Patch,
    ) -> Result<()> {
        if collection.documents.patches.is_none() {
            return Err(Error::invalid(format!(
                "collection {:?} does not fold patches, so a batch cannot hold one for it",
                collection.name()
            )));
        }
        let key = sort_keys::of_primary(&key.into())?;
        collection.write_in(self, &key, Change::Patch(&collection.encode_patch(patch)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, Options};
    use flagstone_base::ErrorKind;
    use flagstone_doc::Patch;

    #[test]
    fn a_document_that_patches_make_larger_than_the_limit_is_whole_and_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let limit = |document_bytes_max| {
            let mut options = Options::new().document_bytes_max(document_bytes_max);
            options.memory_budget = 64 << 20;
            Database::builder(dir.path()).options(options).open().unwrap()
        };
        let patch = Patch::new().upsert().push("tags", "x".repeat(100)).inc("n", 1);
        let db = limit(2000);
        let documents = db.collection("documents").unwrap();
        for _ in 0..50 {
            documents.patch("a", &patch).unwrap();
        }
        let whole = documents.get("a").unwrap().unwrap();
        assert_eq!((whole.int("n"), whole.str("tags.49").len()), (50, 100));
        assert_eq!(documents.apply_patch("a", &patch).unwrap_err().kind(), ErrorKind::InvalidInput);
        db.close().unwrap();
        let db = limit(500);
        db.compact().unwrap();
        let documents = db.collection("documents").unwrap();
        assert_eq!(documents.get("a").unwrap().unwrap(), whole);
        let stats = db.stats();
        let refused: u64 = stats.keyspaces.iter().map(|keyspace| keyspace.operands_refused).sum();
        assert_eq!(refused, 0);
        assert!(documents.apply_patch("a", &Patch::new().set("tags", 1)).unwrap());
    }
}
