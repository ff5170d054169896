//! The load: readers, parsers and writers on threads of their own, bounded queues between them.
//!
//! ```text
//!   task --> readers --> Parcel (a chunk) --> parsers --> Work (a batch) --> writers --> totals
//!              ^                                                               |
//!              +---------------- gate: bytes under way are bounded <-----------+
//! ```
//! Only what a commit has acknowledged is counted. Memory does not depend on the size of the input.
//! Modules stand from the ground up.

mod gate;
mod totals;

mod input;
mod lines;

mod bad;
mod control;

mod parse;
mod read;
mod write;

mod pipeline;
mod progress;

pub(crate) use bad::BadDocuments;
pub(crate) use input::Input;
pub(crate) use pipeline::{Outcome, Plan, carry_out};
pub(crate) use progress::{Progress, rates};
