//! Writes of documents, with the changes of their entries.
//!
//! ```text
//! write --> Call --> queue of the bucket --> leader: a group of calls
//!                                              |
//!            +------- again, if refused -------+
//!            v                                 |
//!     read the rows (serial) --> decide: each call, with what those before it leave
//!            --> one batch: epoch, tokens of the rows, row of the writer --> answers
//! ```
//! **The queue.** The first call of a bucket leads, those that come meanwhile wait and are then
//! taken together. A closure runs on the thread of its caller: the leader hands it the row and
//! waits for what it decides.
//!
//! **Other buckets.** When the collection has got another layout, the calls that wait are returned
//! to their callers, who put them into the new queues.
//!
//! **Blind writes.** Where there are no indexes, a document that is set or removed whatever it was
//! is not read, and has no condition.
//!
//! **Unknown outcomes.** Each batch changes the row of the writer in the bucket from the token of
//! the last batch to its own. If a batch has no answer, this row tells whether it was applied. If
//! it was not, the same batch is sent again; one that then comes late finds another token. So a
//! call ends in Unknown only if the row cannot be read.

mod call;
mod claims;
mod group;
mod queue;
mod send;

mod writer;

pub(crate) use call::{Item, Op};
pub(crate) use claims::{Claimed, Claims, Wanted, has_expired};
pub(crate) use writer::Writer;

#[cfg(test)]
mod tests;
