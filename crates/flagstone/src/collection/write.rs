//! The funnel: every write of a document passes here.
//!
//! ```text
//! put, JSON, structs -------------------------> write_put  -\
//! deletes, blind patches ---------------------> write       -\
//! batches, bulk loads ------------------------> write_in    --+--> the engine
//! deletes of ranges --------------------------> write_range -/
//! clear --------------------------------------> write_clear -/
//! update, remove, patches that read first ----> rewrite    -/
//! ```
//! Whatever must see documents change (indexes, unique keys, a feed of changes) belongs here and nowhere else.

use super::Collection;
use crate::batch::Batch;
use crate::entry::EntryOptions;
use flagstone_base::{KeyRange, Kind, Result};
use flagstone_engine::{Admitted, Effect};

/// What a write does to one document.
#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    /// Sets it to these bytes.
    Put(&'a [u8]),
    /// Sets it to these bytes, with options of its own.
    PutWith(&'a [u8], EntryOptions),
    /// Removes it.
    Delete,
    /// Changes it by a patch, without reading it.
    Patch(&'a [u8]),
}

/// What becomes of a document that was read.
pub(super) enum Rewrite {
    /// It stays.
    Nothing,
    /// It is removed.
    Delete,
    /// It is set to these bytes.
    Put(Vec<u8>),
}

impl<'a> Change<'a> {
    fn entry(self) -> (Effect, &'a [u8]) {
        match self {
            Self::Put(bytes) => (Kind::Put.into(), bytes),
            Self::PutWith(bytes, options) => (options.effect(), bytes),
            Self::Delete => (Kind::Delete.into(), b""),
            Self::Patch(operand) => (Kind::Merge.into(), operand),
        }
    }
}

impl Collection {
    /// Sets the document of the encoded `key` to `bytes`; a large one has asked for its `turn` before it was encoded.
    pub(super) fn write_put(
        &self,
        key: &[u8],
        (bytes, options): (Vec<u8>, EntryOptions),
        turn: Option<Admitted<'_>>,
    ) -> Result<()> {
        self.bytes().put_encoded(key, (bytes, options.expires), turn)
    }

    /// Changes the document of the encoded `key`, by itself.
    pub(super) fn write(&self, key: &[u8], change: Change<'_>) -> Result<()> {
        let (effect, value) = change.entry();
        self.bytes().write_one(effect, key, value)
    }

    /// Changes the document of the encoded `key` together with the rest of `batch`.
    pub(super) fn write_in(&self, batch: &mut Batch, key: &[u8], change: Change<'_>) -> Result<()> {
        let (effect, value) = change.entry();
        batch.0.push(self.bytes(), effect, key, value)
    }

    /// Removes the documents of a range of encoded keys.
    pub(super) fn write_range(&self, range: KeyRange) -> Result<()> {
        self.bytes().delete_range((range.start, range.end))
    }

    /// Removes all documents.
    pub(super) fn write_clear(&self) -> Result<()> {
        self.bytes().clear()
    }

    /// Reads the document of the encoded `key` and does what `decide` says; no other write of the key comes between.
    /// Returns whether something was written.
    pub(super) fn rewrite(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> Result<Rewrite>,
    ) -> Result<bool> {
        self.bytes().read_modify_write(key, |old| {
            Ok(match decide(old)? {
                Rewrite::Nothing => None,
                Rewrite::Delete => Some((Kind::Delete, Vec::new())),
                Rewrite::Put(bytes) => Some((Kind::Put, bytes)),
            })
        })
    }
}
