//! BSON to stored documents and back, without a tree in between.
//!
//! ```text
//! double           float             int32    integer in as few bytes as it needs
//! string           text              int64    integer; below 2^31 in more bytes than it needs
//! document, array  map, array        decimal  exact number, as its literal; NaN, infinities: float
//! binary 00, 04    bytes, UUID       date     datetime
//! objectId         ObjectId          bool, null
//! ```
//! All other types are stored as the maps by which Extended JSON writes them, such as
//! `{"$timestamp":{"t":1,"i":2}}`, and such maps go out as these types again.
//!
//! Documents that did not come from BSON may have more than it has. An exact number goes out as a
//! double if that prints the same digits, otherwise as a decimal. A datetime loses what is finer
//! than a millisecond. A map with keys that are not text, or have a zero, goes out as
//! `{"$pairs":[[key, value]]}`.

mod decimal;
mod error;
pub(crate) mod kind;

mod read;

mod element;

mod write;

use flagstone::{Document, View};

pub(crate) use element::values;
pub use element::{Element, Elements, elements};
pub use error::BsonError;
pub use read::{BsonReader, document_len};
pub use write::BsonWriter;

/// A stored document of up to this many bytes is taken to fit as BSON, where a number of one byte
/// takes up to 18. A long name that many maps share may still make it too long: a read refuses it.
pub(crate) const UNMEASURED: usize = 512 << 10;

/// Returns whether a document that is to be stored takes more than `most` bytes as BSON, so that no
/// driver could read it.
pub(crate) fn is_longer(document: &Document, most: usize) -> bool {
    document.as_bytes().len() > UNMEASURED && takes_more(&document.root(), most)
}

/// Returns whether a document takes more than `most` bytes as BSON.
pub(crate) fn takes_more(root: &View<'_>, most: usize) -> bool {
    let mut bson = Vec::new();
    BsonWriter::new(&mut bson).document(root).is_ok() && bson.len() > most
}
