//! The values at some paths of the documents that a query finds, for readers of columns: from the
//! entries of an index, if one has them all.

mod value;

mod cursor;

pub use cursor::Values;
pub use value::{EntryValues, IndexedValue, ValueRow};
