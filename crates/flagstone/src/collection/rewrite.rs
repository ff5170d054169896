//! What an update does to a document.

use flagstone_base::Kind;

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
