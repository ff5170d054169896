//! Compares the memory of databases, under loads that are hard on it, with the bound that the
//! budget promises.
//!
//! ```text
//! parent: for each case a child process --> lines of its phases
//!         --> a table: case, budget, bound, peak, ok
//! child:  opens a database with a small budget, works, and prints the peak of its resident set
//!         after each phase
//! ```
//! The bound is the budget times 1.15 plus 100 MiB. The peak is that of the whole process, less
//! what the case itself holds, which the case computes.

#![allow(clippy::print_stdout, reason = "a child tells its parent by its output")]

mod cases;
mod documents;
mod large;
mod meter;
mod parent;
mod recovery;
mod snapshots;
mod work;

pub use cases::{NAMES, run_child};
pub use parent::{Asked, Row, run};
