//! The funnel: every write of a document passes here.
//!
//! ```text
//! put, JSON, structs ----------------------> put -------\
//! deletes, blind patches ------------------> one -------\
//! batches, bulk loads ---------------------> in_batch ---+--> the engine
//! deletes of ranges -----------------------> range -----/
//! clear -----------------------------------> clear -----/
//! update, remove, patches that read first -> rewrite ---/
//!
//! in a transaction: all of these ----------> in_transaction, rewrite --> a transaction
//! ```
//! Code that must see changes of documents (indexes, unique keys, a feed of changes) belongs here
//! and nowhere else. Today `rewrite` alone sees the old document, and batches pass when they are
//! filled: docs/decisions/engine.md says what indexes will need.

use super::stored::Stored;
use crate::entry::EntryOptions;
use flagstone_base::{KeyRange, Kind, Result};
use flagstone_engine::{Admitted, Batch, Effect, Transaction};

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

/// Where a document is rewritten.
pub(crate) enum Destination<'t> {
    /// In the database, at once.
    Database,
    /// In a transaction.
    Transaction(&'t mut Transaction),
}

impl Rewrite {
    fn entry(self) -> Option<(Kind, Vec<u8>)> {
        match self {
            Self::Nothing => None,
            Self::Delete => Some((Kind::Delete, Vec::new())),
            Self::Put(bytes) => Some((Kind::Put, bytes)),
        }
    }
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

/// Changes the document of the encoded `key` in a transaction.
pub(crate) fn in_transaction(
    stored: &Stored,
    transaction: &mut Transaction,
    key: &[u8],
    change: Change<'_>,
) -> Result<()> {
    let (effect, value) = change.entry();
    transaction.write(stored.bytes(), effect, key, value)
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
    to: Destination<'_>,
    key: &[u8],
    decide: impl FnOnce(Option<&[u8]>) -> Result<Rewrite>,
) -> Result<bool> {
    let change = |old: Option<&[u8]>| decide(old).map(Rewrite::entry);
    match to {
        Destination::Database => stored.bytes().read_modify_write(key, change),
        Destination::Transaction(transaction) => {
            transaction.read_modify_write(stored.bytes(), key, change)
        }
    }
}
