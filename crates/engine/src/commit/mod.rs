//! The commit path: batch -> admission -> stripes -> numbering -> log -> memtables
//! -> publication.
//!
//! The commit path calls nothing above it: a commit returns what is due after it.

mod recent;

mod read_set;

mod batch;
mod definitions;
mod deleted_ranges;
mod in_flight;
mod large;
pub(crate) mod record;
mod stripes;
mod targets;

mod throttle;

mod admission;
mod after;

mod condition;
mod noted;
mod resolve;
mod watched;

mod pipeline;
mod prepare;
mod tables;
mod ticket;

pub use admission::Admitted;
pub(crate) use admission::{Admission, WriteAdmission};
pub use batch::{Batch, CONDITION_OVERHEAD, Effect, Expect, OP_OVERHEAD};
pub(crate) use batch::{BatchOp, Write, encode_op};
pub(crate) use condition::{check_expected, conflict};
pub(crate) use in_flight::InFlight;
pub(crate) use large::{LARGE_WRITE, LargeWrite};
pub(crate) use noted::note_lost;
pub(crate) use pipeline::{Commits, Committed};
pub(crate) use prepare::Locked;
pub use prepare::too_large_with_owned;
pub(crate) use read_set::{RangeRead, ReadSet};
#[cfg(test)]
pub(crate) use recent::RecentWrite;
pub(crate) use recent::RecentWrites;
pub(crate) use record::LogNote;
pub(crate) use resolve::Resolves;
pub(crate) use stripes::{HeldStripes, HeldValues, Stripes};
pub(crate) use tables::{note_ahead, number_tables};
pub(crate) use targets::trees_of;
pub(crate) use throttle::retry_after;
pub use ticket::{Ticket, TryCommit};
