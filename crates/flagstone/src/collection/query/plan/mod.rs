//! Chooses how the documents of a query are found, and finds them.
//!
//! ```text
//! filter --bounds--> access: ranges of each index that has all documents that may match
//!                      |  choose: the first entries are read, the rest is estimated
//!                      v
//!                    entries: keys --> Rows: documents, each checked by the whole filter again
//! filter --key bounds--> gets, or scans of ranges of keys
//! filter --alternatives--> a plan for each --keys--> their union
//! two accesses --keys--> those that both have
//! ```
//! A scan of all documents is always possible. An index is used only if it has every document that
//! may match: it is complete, as old as the snapshot, and, if it is partial or sparse, the filter
//! implies that.

mod again;

mod planner;

mod candidate;

mod several;

mod choose;
mod gather;

mod parts;

mod rows;

#[cfg(test)]
pub(super) use again::PLANS_MAX;
pub(super) use again::planned;
pub(super) use choose::Chooser;
pub(super) use rows::{Found, Part, parts, rows};
