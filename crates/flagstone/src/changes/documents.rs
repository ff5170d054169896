//! One change of a collection: its documents.

use super::change::{Change, ChangeBatch};
use crate::collection::Documents;
use flagstone_base::{Error, ErrorKind, Kind, Malformed, Result, Slice};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{Document, Patch, Value};
use std::sync::Arc;

/// Documents.
impl<'a> Change<'a> {
    /// Returns whether the change is one of a collection.
    pub fn is_of_documents(&self) -> bool {
        self.documents().is_some()
    }

    /// Returns the primary key of the document; `None` for a range, and outside of collections.
    ///
    /// # Errors
    /// Corruption if the bytes are not a key.
    pub fn key(&self) -> Result<Option<Value>> {
        if self.documents().is_none() || self.0.kind == Kind::RangeDelete {
            return Ok(None);
        }
        let key = sort_key::decode(self.0.key, Direction::Ascending);
        key.map(Some).map_err(|malformed| self.corrupt("a primary key", malformed))
    }

    /// Returns the new document; `None` for a patch or a delete, and outside of collections. It
    /// does not depend on the database.
    ///
    /// # Errors
    /// Corruption if the bytes are not a document.
    pub fn document(&self) -> Result<Option<Document>> {
        let Some(documents) = self.documents().filter(|_| self.0.kind == Kind::Put) else {
            return Ok(None);
        };
        let (bytes, names) = (Slice::from(self.0.value.to_vec()), Arc::clone(&documents.names));
        let document = Document::from_bytes(bytes, Some(names));
        document.map(Some).map_err(|malformed| self.corrupt("a document", malformed))
    }

    /// Returns the document before the commit; `None` if there was none, or if it was not kept.
    ///
    /// # Errors
    /// Corruption if the bytes are not a document.
    pub fn old_document(&self) -> Result<Option<Document>> {
        let (Some(Some(old)), Some(documents)) = (self.0.old, self.documents()) else {
            return Ok(None);
        };
        let names = Arc::clone(&documents.names);
        let document = Document::from_bytes(Slice::from(old.to_vec()), Some(names));
        document.map(Some).map_err(|malformed| self.corrupt("an old document", malformed))
    }

    /// Returns the patch of a document; `None` for other changes, and for a merge into a collection
    /// with a fold of the user's. [`Patch::apply_to`] applies it to a copy of the document, or to
    /// what [`Patch::upserted`] returns if there is none.
    ///
    /// # Errors
    /// Corruption if the bytes are not a patch.
    pub fn patch(&self) -> Result<Option<Patch>> {
        let is_patch = |documents: &&Documents| documents.folds_patches();
        let documents = self.documents().filter(|_| self.0.kind == Kind::Merge);
        let Some(documents) = documents.filter(is_patch) else { return Ok(None) };
        let patch = Patch::decode(self.0.value, Some(&documents.names));
        patch.map(Some).map_err(|malformed| self.corrupt("a patch", malformed))
    }

    fn documents(&self) -> Option<&'a Documents> {
        self.0.keyspace.attachment().downcast_ref()
    }

    #[cold]
    fn corrupt(&self, what: &str, malformed: Malformed) -> Error {
        let (name, seqno) = (self.keyspace(), self.0.seqno);
        let text = format!("{what} of {name:?} in the change {seqno}, {malformed}");
        Error::new(ErrorKind::Corruption, text)
    }
}

impl ChangeBatch {
    /// Returns the change of this index, for readers that stop within a commit.
    pub(crate) fn change_at(&self, index: usize) -> Option<Change<'_>> {
        self.0.change_at(index).map(Change)
    }
}
