//! Sorting more than fits into memory: an external merge sort.
//!
//! ```text
//! push --> buffer --sort, when memory is full--> runs in a spill file
//!            |                                      |  merged, in passes if there are many
//!            +--sort, if all of it fits             v
//!                            +------------------> Sorted: keys ascending
//! ```
//! A spill file is temporary: [`Scratch`](flagstone_engine::Scratch) names it, and it is removed
//! when the last run in it is dropped, at an error, or by the next open after a crash. Its blocks
//! carry checksums, but it is never synced, and never read by another process.

mod buffer;
mod format;

mod read;
mod write;

mod merge;

mod sorter;

#[cfg(test)]
mod tests;

pub(crate) use sorter::{ExternalSorter, SortOptions, SortedEntries, Spilled};
