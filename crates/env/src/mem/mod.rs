//! A whole file system in memory that can lose what was not synced, as a power cut does.
//!
//! ```text
//!   names    now ------ pending: create, move, remove ----> durable   (per directory, by sync_dir)
//!   a file   data ----- dirty 512-byte sectors -----------> synced    (by sync)
//! ```
//!
//! After a crash, the right side survives, and any subset of the middle.

mod crash;
mod file;
mod names;
mod state;

mod held;

mod disk;

pub use disk::MemDisk;
