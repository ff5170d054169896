//! The funnel: every write of a document passes here.
//!
//! ```text
//! put, JSON, structs ----------------------> put -------\
//! deletes, blind patches ------------------> one -------\
//! batches, bulk loads ---------------------> in_batch ---+--> the engine
//! deletes of ranges -----------------------> range -----/
//! clear -----------------------------------> clear -----/
//! update, remove, patches that read first -> rewrite ---/
//! ```
//! Code that must see changes of documents (indexes, unique keys, a feed of changes) belongs here
//! and nowhere else. Today `rewrite` alone sees the old document, and batches pass when they are
//! filled: docs/decisions/engine.md says what indexes will need.

use super::stored::Stored;
use crate::entry::EntryOptions;
use flagstone_base::{KeyRange, Kind, Result};
use flagstone_engine::{Admitted, Batch, Effect};

/// What a write does to one document.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// Sets the document to these bytes.
    Put(&'a [u8], EntryOptions),
    /// Removes the document.
    Delete,
    /// Changes the document by a patch, without reading it.
    Patch(&'a [u8]),
}

/// The result of an update for a document that was read.
pub(super) enum Rewrite {
    /// The document stays as it is.
    Nothing,
    /// The document is removed.
    Delete,
    /// The document is set to these bytes.
    Put(Vec<u8>),
}

impl<'a> Change<'a> {
    fn entry(self) -> (Effect, &'a [u8]) {
        match self {
            Self::Put(bytes, options) => (options.effect(), bytes),
            Self::Delete => (Kind::Delete.into(), b""),
            Self::Patch(operand) => (Kind::Merge.into(), operand),
        }
    }
}

/// Waits for the admission of a document of about `bytes`, if it is large. Called before the
/// document is encoded, because that allocates its first copy.
pub(super) fn admission_for<'a>(
    stored: &'a Stored,
    key: &[u8],
    bytes: usize,
) -> Result<Option<Admitted<'a>>> {
    stored.bytes().admission_for(key, bytes.min(stored.document_bytes_max()))
}

/// Sets the document of the encoded `key` to `bytes`. `admission` is what [`admission_for`]
/// returned, if it was called.
pub(super) fn put(
    stored: &Stored,
    key: &[u8],
    (bytes, options): (Vec<u8>, EntryOptions),
    admission: Option<Admitted<'_>>,
) -> Result<()> {
    stored.bytes().put_encoded(key, (bytes, options.expires), admission)
}

/// Changes the document of the encoded `key`, by itself.
pub(super) fn one(stored: &Stored, key: &[u8], change: Change<'_>) -> Result<()> {
    let (effect, value) = change.entry();
    stored.bytes().write_one(effect, key, value)
}

/// Changes the document of the encoded `key` together with the rest of `batch`.
pub(crate) fn in_batch(
    stored: &Stored,
    batch: &mut Batch,
    key: &[u8],
    change: Change<'_>,
) -> Result<()> {
    let (effect, value) = change.entry();
    batch.push(stored.bytes(), effect, key, value)
}

/// Removes the documents of a range of encoded keys.
pub(super) fn range(stored: &Stored, range: KeyRange) -> Result<()> {
    stored.bytes().delete_range((range.start, range.end))
}

/// Removes all documents.
pub(super) fn clear(stored: &Stored) -> Result<()> {
    stored.bytes().clear()
}

/// Reads the document of the encoded `key` and does what `decide` returns. No other write of the
/// key comes between. Returns whether something was written.
pub(super) fn rewrite(
    stored: &Stored,
    key: &[u8],
    decide: impl FnOnce(Option<&[u8]>) -> Result<Rewrite>,
) -> Result<bool> {
    stored.bytes().read_modify_write(key, |old| {
        Ok(match decide(old)? {
            Rewrite::Nothing => None,
            Rewrite::Delete => Some((Kind::Delete, Vec::new())),
            Rewrite::Put(bytes) => Some((Kind::Put, bytes)),
        })
    })
}
