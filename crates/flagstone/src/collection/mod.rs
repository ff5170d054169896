//! Collections: keyspaces whose values are documents.

mod collection;
mod parser;
mod scan;

pub use collection::Collection;
pub(crate) use collection::names_attachment;
pub use parser::{DocumentParser, Refused};
pub use scan::DocumentScan;
