//! What all parts of a collection's protocol stand on: the store, what is known of the catalog, and
//! the epochs of buckets.
//!
//! ```text
//! create_index, drop_index: the epoch of the note rises; then that of each bucket: settle
//! clear: state Clearing -> a fence in each bucket -> the next generation, state Live -> rows go
//! drop:  state Dropping -> a fence in each bucket -> rows go -> state Dropped
//! ```
//! A fence is there before the catalog says that the generation has ended: so no write is
//! acknowledged that the next generation does not have. Whoever meets one completes the clear. A
//! fence stays for ever, and no number of a generation is used twice: a process that slept through
//! it all is still refused.

mod core;
mod epochs;
mod generations;

pub(crate) use self::core::{Ground, View, no_answer, place};
pub(crate) use epochs::{raise_all, settle};
pub(crate) use generations::{clear, drop_rows, pass_fence};
