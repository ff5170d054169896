//! What a handle, a scan or a parser of a collection holds: the engine's keyspace, and what all of
//! them share.

use super::core::Documents;
use crate::remote::{Area, Remote, unsupported};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, ErrorKind, Malformed, Result, Slice};
use flagstone_doc::{Names, View};
use flagstone_engine::{Engine, Keyspace, Scratch};
use std::sync::Arc;

/// Where the documents of a collection are, with what is needed to encode and decode them. A clone
/// counts one reference: each query makes several, and threads contend for the counts.
#[derive(Clone)]
pub struct Stored(Arc<Parts>);

struct Parts {
    /// The database of the collection, or the one whose directory takes what its queries spill.
    engine: Engine,
    place: CollectionPlace,
    documents: Arc<Documents>,
    check: Option<DocumentCheck>,
}

/// What a handle asks of documents beyond what the collection does.
#[derive(Clone, Copy, Debug)]
pub struct DocumentCheck {
    /// Documents of up to this many stored bytes are not checked.
    pub above: usize,
    /// Refuses a document.
    pub check: fn(&View<'_>) -> Result<()>,
}

/// What holds a collection.
#[derive(Clone)]
enum CollectionPlace {
    Keyspace(Keyspace),
    Remote(Arc<dyn Remote>),
}

/// The most bytes that one write of a remote collection takes: what one partition takes well.
const REMOTE_BATCH_BYTES_MAX: u64 = 8 << 20;

impl Stored {
    /// Returns what handles of the collection in `keyspace` hold.
    ///
    /// # Errors
    /// InvalidInput if the keyspace is not a collection.
    pub(super) fn new(engine: &Engine, keyspace: Keyspace) -> Result<Self> {
        match Arc::clone(keyspace.attachment()).downcast() {
            Ok(documents) => {
                let (engine, place) = (engine.clone(), CollectionPlace::Keyspace(keyspace));
                Ok(Self(Arc::new(Parts { engine, place, documents, check: None })))
            }
            Err(_other) => {
                Err(Error::invalid(format!("{:?} is not a collection", keyspace.name())))
            }
        }
    }

    /// Returns what handles of a remote collection hold. `engine` is an empty database, in whose
    /// directory queries spill.
    pub(crate) fn remote_of(remote: Arc<dyn Remote>, engine: &Engine) -> Self {
        let (engine, place) = (engine.clone(), CollectionPlace::Remote(remote));
        let documents = Arc::new(Documents::of_remote());
        Self(Arc::new(Parts { engine, place, documents, check: None }))
    }

    /// Returns what a handle holds that checks what is written through it.
    pub(crate) fn checked(&self, check: DocumentCheck) -> Self {
        let Parts { engine, place, documents, .. } = &*self.0;
        let (engine, place, documents) = (engine.clone(), place.clone(), Arc::clone(documents));
        Self(Arc::new(Parts { engine, place, documents, check: Some(check) }))
    }

    pub(crate) fn name(&self) -> String {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.name(),
            CollectionPlace::Remote(remote) => remote.name(),
        }
    }

    /// Returns a number that no other collection of the database has, nor one of its indexes.
    pub(crate) fn id(&self) -> u32 {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.id().0,
            CollectionPlace::Remote(remote) => remote.id(),
        }
    }

    /// Returns the engine's keyspace of the stored bytes.
    ///
    /// # Errors
    /// Unsupported for a remote collection: whoever calls this has no other way than the engine's.
    #[inline]
    pub(crate) fn keyspace(&self) -> Result<&Keyspace> {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => Ok(keyspace),
            CollectionPlace::Remote(_) => Err(unsupported(
                "a batch, snapshot, transaction, feed of changes, or read of memory alone",
                "calls of the collection for one document, find or update_many",
            )),
        }
    }

    /// Returns what holds a remote collection.
    #[inline]
    pub(crate) fn remote(&self) -> Option<&Arc<dyn Remote>> {
        match &self.0.place {
            CollectionPlace::Keyspace(_) => None,
            CollectionPlace::Remote(remote) => Some(remote),
        }
    }

    /// Returns the stored document of a stored key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.get(key),
            CollectionPlace::Remote(remote) => Ok(remote.get(key)?.map(|row| row.document)),
        }
    }

    /// About how many documents there are.
    pub(crate) fn approximate_count(&self) -> u64 {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.approximate_count(),
            CollectionPlace::Remote(remote) => remote.about(Area::Documents),
        }
    }

    /// Counts the documents.
    pub(crate) fn count(&self) -> Result<u64> {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.count(),
            CollectionPlace::Remote(remote) => remote.count(Area::Documents, &KeyRange::ALL),
        }
    }

    /// Returns a number that differs once indexes were created or dropped.
    pub(crate) fn index_epoch(&self) -> u64 {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.owned_set().epoch,
            CollectionPlace::Remote(remote) => remote.catalog().version,
        }
    }

    /// Returns where queries spill.
    pub(crate) fn scratch(&self) -> &Arc<Scratch> {
        self.0.engine.scratch()
    }

    /// The most bytes that one commit takes.
    pub(crate) fn batch_bytes_max(&self) -> u64 {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.batch_bytes_max(),
            CollectionPlace::Remote(_) => REMOTE_BATCH_BYTES_MAX,
        }
    }

    /// The memory budget of the database.
    pub(crate) fn memory_budget(&self) -> u64 {
        self.0.engine.options().memory_budget
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
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.has_owned(),
            CollectionPlace::Remote(remote) => !remote.catalog().indexes().is_empty(),
        }
    }

    /// Returns the names of fields; `None` where each document has its own.
    #[inline]
    pub(crate) fn names(&self) -> Option<&Names> {
        match &self.0.place {
            CollectionPlace::Keyspace(_) => Some(&self.0.documents.names),
            CollectionPlace::Remote(_) => None,
        }
    }

    /// As [`Stored::names`].
    #[inline]
    pub(crate) fn shared_names(&self) -> Option<Arc<Names>> {
        match &self.0.place {
            CollectionPlace::Keyspace(_) => Some(Arc::clone(&self.0.documents.names)),
            CollectionPlace::Remote(_) => None,
        }
    }

    pub(crate) fn document_bytes_max(&self) -> usize {
        match &self.0.place {
            CollectionPlace::Keyspace(keyspace) => keyspace.options().document_bytes_max,
            CollectionPlace::Remote(remote) => remote.document_bytes_max(),
        }
    }

    /// Returns the document `old` of `key` after the merge of `operand`.
    pub(super) fn fold(&self, key: &[u8], old: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        match self.keyspace().ok().and_then(|keyspace| keyspace.fold()) {
            Some(fold) => fold.fold(key, old, &[operand]),
            None => old.map(<[u8]>::to_vec),
        }
    }

    /// Refuses the bytes of a document or patch that is too long.
    pub(crate) fn check_size<B: AsRef<[u8]>>(&self, bytes: B) -> Result<B> {
        let limit = self.document_bytes_max();
        let len = bytes.as_ref().len();
        if len <= limit {
            return Ok(bytes);
        }
        let by = match &self.0.place {
            CollectionPlace::Keyspace(_) => "option document_bytes_max",
            CollectionPlace::Remote(_) => "a row of a cluster",
        };
        Err(Error::invalid(format!("a document of {len} bytes: expected at most {limit} ({by})")))
    }

    /// Refuses the stored form of a document that is too long, or that the handle does not take.
    pub(crate) fn check_document<B: AsRef<[u8]>>(&self, bytes: B) -> Result<B> {
        let bytes = self.check_size(bytes)?;
        self.check_form(bytes.as_ref())?;
        Ok(bytes)
    }

    /// Refuses the stored form of a document that the handle does not take.
    pub(crate) fn check_form(&self, bytes: &[u8]) -> Result<()> {
        let Some(DocumentCheck { above, check }) = self.0.check else { return Ok(()) };
        if bytes.len() <= above {
            return Ok(());
        }
        let view = View::of(bytes, self.names());
        check(&view.map_err(|malformed| self.corrupt("a document", malformed))?)
    }

    /// Returns the error of stored bytes that cannot be decoded. `what` names them: `a stored
    /// document`.
    pub(super) fn corrupt(&self, what: &str, malformed: Malformed) -> Error {
        let text = format!("{what} of {:?}, {malformed}", self.name());
        Error::new(ErrorKind::Corruption, text)
    }
}
