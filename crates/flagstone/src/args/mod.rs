//! What the methods of all spaces take: keys, values and ranges of keys.
//!
//! Each trait has a parameter `S`, the space: a key of a `Keyspace` is bytes, one of a `Collection`
//! a document value. The traits are implemented beside the three handles.

#[cfg(feature = "documents")]
mod document;
mod key;
mod range;
mod value;

#[cfg(feature = "documents")]
pub use document::{As, Json};
pub use key::Key;
pub use range::{KeyBound, KeyPrefix, KeyRange, Prefix};
pub use value::{Expires, Expiring, NewValue};
