//! The soak: a process works on one database for an hour or for days, and its use of resources must
//! not grow.
//!
//! ```text
//! child:  a life:  open, read all and compare --> threads write and read --> close; and so on
//!         threads: each has keys of its own and knows what every one of them must hold
//! parent: every few seconds: memory, threads, descriptors, bytes on disk, bytes alive --> a row
//!         in the end:        the last third of the rows against the middle third
//! ```
//! The live data keeps its size, so anything that grows from the middle third to the last is a
//! leak. Each third has the same lives, one longer than the others, so both thirds have the same
//! work.

mod child;
mod judge;
mod parent;
mod place;
mod readers;
mod sample;
mod sessions;
mod worker;

pub use child::work;
pub use parent::{Asked, soak};
pub use place::Setting;
