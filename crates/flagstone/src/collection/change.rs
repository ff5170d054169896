//! What a write does to a document.

use flagstone_base::{Kind, Moment};
use flagstone_engine::Effect;

/// What a write does to one document.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// Sets the document to these bytes, with an expiry.
    Put(&'a [u8], Option<Moment>),
    /// Removes the document.
    Delete,
    /// Changes the document by a patch, without reading it.
    Patch(&'a [u8]),
}

/// The result of an update for a document that was read.
pub(crate) enum Rewrite {
    /// The document stays as it is.
    Nothing,
    /// The document is removed.
    Delete,
    /// The document is set to these bytes.
    Put(Vec<u8>),
}

impl Rewrite {
    pub(super) fn entry(self) -> Option<(Kind, Vec<u8>)> {
        match self {
            Self::Nothing => None,
            Self::Delete => Some((Kind::Delete, Vec::new())),
            Self::Put(bytes) => Some((Kind::Put, bytes)),
        }
    }
}

impl<'a> Change<'a> {
    pub(crate) fn entry(self) -> (Effect, &'a [u8]) {
        match self {
            Self::Put(bytes, expiry) => (Effect::put(expiry), bytes),
            Self::Delete => (Kind::Delete.into(), b""),
            Self::Patch(operand) => (Kind::Merge.into(), operand),
        }
    }
}
