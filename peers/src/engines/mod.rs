//! The engines, each in a file of its own that says how it is tuned and why.

#[cfg(test)]
mod agree;
mod ticker;
mod versions;

mod fjall;
mod flagstone;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "rocksdb")]
mod rocksdb_comments;
mod sqlite;
mod sqlite_comments;

mod choice;

pub(crate) use choice::{Choice, KINDS};
