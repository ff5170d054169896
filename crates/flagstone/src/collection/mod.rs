//! Collections: keyspaces whose values are documents.

mod core;
mod handle;
mod parser;
mod part;
mod patch;
mod scan;
#[cfg(feature = "serde")]
mod structs;

pub(crate) use core::{Documents, PATCH_FOLD};
pub use handle::Collection;
pub(crate) use handle::{encode_key, key_range};
pub use parser::{DocumentParser, Refused};
pub use scan::DocumentScan;
