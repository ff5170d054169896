//! Collections: keyspaces whose values are documents.

mod handle;
mod parser;
mod scan;

pub use handle::Collection;
pub(crate) use handle::names_attachment;
pub use parser::{DocumentParser, Refused};
pub use scan::DocumentScan;
