//! A whole file system in memory that can lose what was not synced, as a power cut does.
//!
//! ```text
//!   names    now ------ pending: make, move, remove ------> durable   (per directory, by sync_dir)
//!   a file   data ----- dirty 512-byte sectors -----------> synced    (by sync)
//! ```
//!
//! A crash starts from the right side and lets any subset of the middle survive.

mod disk;
mod file;
mod names;

pub use disk::MemDisk;
