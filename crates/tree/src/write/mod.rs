//! Writes tables: from memtables, from tables, or from sorted entries. Work comes in steps; only an
//! edit changes a tree.

mod ranges;

mod output;

mod key;

mod compact;
mod flush;
mod ingest;

pub use compact::Compaction;
pub use flush::Flush;
pub use ingest::{Ingest, IngestOptions, choose_levels};
