//! Refuses collections in a build without the feature `documents`.

use super::{Contents, DOCUMENTS, unknown};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_engine::content::{Described, OpenContent};

/// Refuses a content that is not one of bytes.
pub(super) fn open(_contents: &Contents, keyspace: Described<'_>) -> Result<OpenContent> {
    if keyspace.content.as_str() == DOCUMENTS {
        let name = keyspace.name;
        let text = format!("{name:?} is a collection: it needs flagstone's feature `documents`");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    Err(unknown(keyspace))
}
