//! What a handle, a scan or a parser of a collection holds: the engine's keyspace, and what all of
//! them share.

use super::core::Documents;
use flagstone_base::{Error, ErrorKind, Malformed, Result};
use flagstone_doc::Names;
use flagstone_engine::{Engine, Keyspace};
use std::sync::Arc;

/// The keyspace of a collection, with what is needed to encode and decode its documents. A clone
/// counts one reference: each query makes several, and threads contend for the counts.
#[derive(Clone)]
pub struct Stored(Arc<Parts>);

struct Parts {
    engine: Engine,
    keyspace: Keyspace,
    documents: Arc<Documents>,
}

impl Stored {
    /// Returns what handles of the collection in `keyspace` hold.
    ///
    /// # Errors
    /// InvalidInput if the keyspace is not a collection.
    pub(super) fn new(engine: &Engine, keyspace: Keyspace) -> Result<Self> {
        match Arc::clone(keyspace.attachment()).downcast() {
            Ok(documents) => {
                Ok(Self(Arc::new(Parts { engine: engine.clone(), keyspace, documents })))
            }
            Err(_other) => {
                Err(Error::invalid(format!("{:?} is not a collection", keyspace.name())))
            }
        }
    }

    pub(super) fn name(&self) -> String {
        self.bytes().name()
    }

    /// Returns the engine's keyspace of the stored bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &Keyspace {
        &self.0.keyspace
    }

    /// Returns the database of the collection.
    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns what all handles of the collection share.
    pub(super) fn documents(&self) -> &Documents {
        &self.0.documents
    }

    /// Returns whether the collection has indexes, or one that is being built.
    #[inline]
    pub(crate) fn is_indexed(&self) -> bool {
        self.bytes().has_owned()
    }

    pub(crate) fn names(&self) -> &Names {
        &self.0.documents.names
    }

    pub(crate) fn shared_names(&self) -> Arc<Names> {
        Arc::clone(&self.0.documents.names)
    }

    pub(crate) fn document_bytes_max(&self) -> usize {
        self.bytes().options().document_bytes_max
    }

    /// Returns the document `old` of `key` after the merge of `operand`.
    pub(super) fn fold(&self, key: &[u8], old: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        match self.bytes().fold() {
            Some(fold) => fold.fold(key, old, &[operand]),
            None => old.map(<[u8]>::to_vec),
        }
    }

    /// Refuses the bytes of a document or patch that is too long.
    pub(super) fn check_size<B: AsRef<[u8]>>(&self, bytes: B) -> Result<B> {
        let limit = self.document_bytes_max();
        let len = bytes.as_ref().len();
        if len <= limit {
            return Ok(bytes);
        }
        Err(Error::invalid(format!(
            "a document of {len} bytes: expected at most {limit} (option document_bytes_max)"
        )))
    }

    /// Returns the error of stored bytes that cannot be decoded. `what` names them: `a stored
    /// document`.
    pub(super) fn corrupt(&self, what: &str, malformed: Malformed) -> Error {
        let text = format!("{what} of {:?}, {malformed}", self.name());
        Error::new(ErrorKind::Corruption, text)
    }
}
