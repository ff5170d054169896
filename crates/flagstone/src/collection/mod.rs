//! Collections: keyspaces whose values are documents.

mod conditions;
mod core;
mod handle;
mod parser;
mod part;
mod patch;
mod scan;
#[cfg(feature = "serde")]
mod structs;
mod view;
mod write;

pub(crate) use core::{Documents, PATCH_FOLD};
pub use handle::Collection;
pub use parser::{DocumentParser, Refused};
pub use scan::DocumentScan;
pub use view::StoredView;
