//! Writes tables: from memtables, or from tables. Work comes in steps; only an edit changes a tree.

mod ranges;

mod output;

mod key;

mod compact;
mod flush;

pub use compact::Compaction;
pub use flush::Flush;
