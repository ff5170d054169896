//! Memtables: the newest entries of a tree, in memory.
//!
//! A hash table finds keys (one cache miss or two), sorted runs give their order, and one arena
//! holds their bytes. Readers take no lock. Writers hold the lock of the memtable for a few hundred
//! nanoseconds, so the partition is the unit of write concurrency.

#[expect(unsafe_code, reason = "readers follow links while a writer adds to them")]
mod versions;

#[expect(unsafe_code, reason = "readers find keys while a writer adds to them")]
mod store;

mod ordered;
mod shortcuts;

mod table;

mod cursor;

pub(crate) use cursor::{History, MemCursor, Shortcuts};
pub(crate) use store::MemtableSize;
pub(crate) use table::Memtable;
