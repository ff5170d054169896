//! Ingests: sorted entries become tables that one edit of the manifest adds, all or none.
//!
//! ```text
//! entries, ascending -> tables of each partition, synced      writers go on
//! memtables of these partitions flushed, perhaps repeatedly   writers go on
//! gate of the keyspace, trees held, the rest flushed          writers of these partitions wait
//! manifest's lock -> SeqNo -> log synced -> edit, synced      all commits wait to be visible
//! -> trees install -> publish
//! ```
//! All entries have one SeqNo, above everything before. Readers search memtables before tables, so
//! no memtable of a tree may hold an older entry when its new tables are installed. Newer ones are
//! in newer memtables, and above.
//!
//! The log has nothing of an ingest. Before the edit it is synced through everything that was
//! numbered before, so that a power cut does not keep the ingest and lose what came before.

mod install;
mod number;
mod pace;

mod floor;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use floor::Floor;
pub use write::{Ingest, IngestReport};
