//! Paths of fields and positions, compiled once and followed in many documents, through arrays.
//!
//! Filters, sorts and indexes use the same paths, so that an index has exactly the keys that a
//! filter compares. The modules are listed from the ground up.

mod path;

mod parse;

mod reach;

mod keys;

pub use keys::IndexKeys;
pub use path::FieldPath;
pub(crate) use path::Step;
pub use reach::{Arrays, Reached, Trace};
