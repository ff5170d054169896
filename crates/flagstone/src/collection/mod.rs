//! Collections: keyspaces whose values are documents.

mod handle;
mod parser;
mod part;
mod patch;
mod scan;
#[cfg(feature = "serde")]
mod structs;

pub use handle::Collection;
pub(crate) use handle::{encode_key, key_range, names_attachment};
pub use parser::{DocumentParser, Refused};
pub use scan::DocumentScan;
