//! Stored bytes as documents, views and Rust values.

use super::stored::Stored;
use flagstone_base::{Error, Malformed, Result, Slice};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{Document, Value, View};

/// The name of stored bytes in errors.
const DOCUMENT: &str = "a stored document";

/// Returns the document of these bytes, which it shares.
///
/// # Errors
/// Corruption if the bytes are not a document, here and in the functions below.
pub(crate) fn document(stored: &Stored, bytes: Slice) -> Result<Document> {
    Document::from_bytes(bytes, stored.shared_names())
        .map_err(|malformed| stored.corrupt(DOCUMENT, malformed))
}

/// Returns the primary key of this sort key.
pub(crate) fn primary_key(stored: &Stored, key: &[u8]) -> Result<Value> {
    sort_key::decode(key, Direction::Ascending)
        .map_err(|malformed| stored.corrupt("a primary key", malformed))
}

/// Returns the value of this sort key, which was taken from a document.
pub(crate) fn sort_key(stored: &Stored, key: &[u8]) -> Result<Value> {
    sort_key::decode(key, Direction::Ascending)
        .map_err(|malformed| stored.corrupt("a value", malformed))
}

/// Returns the value of a sort key that the order of its fields follows.
pub(crate) fn ordered_key(stored: &Stored, key: &[u8]) -> Result<Value> {
    sort_key::decode_ordered(key).map_err(|malformed| stored.corrupt("a value", malformed))
}

/// Returns a view of a stored document.
pub(crate) fn view<'a>(stored: &'a Stored, bytes: &'a [u8]) -> Result<View<'a>> {
    View::of(bytes, stored.names()).map_err(|malformed| corrupt(stored, malformed))
}

/// Returns the error of a stored document that cannot be decoded.
#[cold]
pub(crate) fn corrupt(stored: &Stored, malformed: Malformed) -> Error {
    stored.corrupt(DOCUMENT, malformed)
}

/// Returns what `read` returns for a view of the document.
pub(crate) fn look<R>(
    stored: &Stored,
    bytes: &[u8],
    read: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
) -> Result<R> {
    let root = View::of(bytes, stored.names());
    root.and_then(|root| read(&root)).map_err(|malformed| stored.corrupt(DOCUMENT, malformed))
}

/// Returns the document as a Rust value. Fields that the type lacks are skipped.
#[cfg(feature = "serde")]
pub(crate) fn rust_value<T: serde::de::DeserializeOwned>(
    stored: &Stored,
    bytes: &[u8],
) -> Result<T> {
    use flagstone_base::ErrorKind;
    let root = View::of(bytes, stored.names());
    let root = root.map_err(|malformed| Error::new(ErrorKind::Corruption, malformed.to_string()));
    root.and_then(|root| root.to())
        .map_err(|error| error.context(format_args!("{DOCUMENT} of {:?}", stored.name())))
}
