//! What all parts of a collection's protocol stand on: the store, what is known of the catalog, and
//! the epochs of buckets.
//!
//! ```text
//! create_index, drop_index: the epoch of the note rises; then that of each bucket: settle
//! clear: state Clearing -> a fence in each bucket -> the next generation, state Live -> rows go
//! rebalance: state Moving -> the epochs of all buckets rise: from here on writers note what they
//!        write -> rows are copied into the next generation -> state Switching -> a fence in each
//!        bucket -> what was written since is copied -> the next generation, state Live -> rows go
//! drop:  state Dropping -> a fence in each bucket -> rows go -> state Dropped
//! ```
//! A fence is there before the catalog says that the generation has ended: so no write is
//! acknowledged that the next generation does not have. Whoever meets one completes what has set
//! it. A fence stays for ever, and no number of a generation is used twice: a process that slept
//! through it all is still refused.

mod copy;
mod core;
mod entries;
mod epochs;
mod generations;
mod parts;
mod sample;

mod clear;
mod rebalance;

pub(crate) use self::core::{Ground, View, no_answer, place};
pub(crate) use clear::{clear, sweep as sweep_replaced};
pub(crate) use epochs::{raise_all, settle};
pub(crate) use generations::{begun, drop_rows, pass_fence, unanswered};
pub(crate) use rebalance::{rebalance, refuse_while_moving};
