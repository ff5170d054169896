//! Stress on real directories: a child process works on a database with several threads, is killed or loses its
//! file system, and what is left is compared with a ledger kept elsewhere.
//!
//! ```text
//! parent: spawn child, wait a moment, kill it (or cut the power) --> open, compare --> again
//! child:  threads, each with keys of its own: batch n is drawn from (seed, thread, n)
//!         bank: transfers between accounts of all threads, the total never changes
//! ledger: one file a thread: "done n", "safe n n n .." as commits return
//! ```
//! A thread commits one batch after the other, so what is left of it is its first m batches: m is at least what
//! was promised, and at most one more than what was done.

mod batch;
mod child;
mod compare;
mod ledger;
mod place;
mod power;

pub mod parent;

pub use child::work;
pub use power::powercut;
