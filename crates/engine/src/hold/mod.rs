//! Batches that are completed under their locks: what must be written besides, such as entries of
//! indexes, depends on what the batch changes.
//!
//! ```text
//! hold(batch)                admission, then the locks of all that the batch writes and depends on
//!   closure: HeldBatch       reads what the batch changes, adds writes, locks unique values
//! -> number, log, publish    as any batch; then the locks are released
//! ```
//! Writes to a keyspace that owns others pass only here, and transactions pass here, too.

mod batch;
mod builder;

#[cfg(test)]
pub(crate) mod tests;

pub use batch::{HeldBatch, HeldOp, HeldValue};
pub use builder::Hold;
pub(crate) use builder::empty;
