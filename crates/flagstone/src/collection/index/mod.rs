//! The indexes of a collection: how they change with its documents, how they are read, built and
//! verified. Module [`crate::index`] says what an index holds.
//!
//! ```text
//! a write of documents --> commit ---------> changes, unique --> a part of the commit
//! one in a transaction --> in_transaction -> changes ----------> own writes; unique at the commit
//! create_index --> create --> build: documents of a snapshot, sorted, ingested
//! ```
//! The modules are listed from the ground up.

mod blind;
mod duplicate;
mod entry_change;
mod show;

mod unique;

mod changes;

mod commit;
mod in_transaction;

mod scan;

mod build;
mod distinct;
mod extremes;
mod statistics;

mod create;

mod verify_remote;

mod verify;

pub use build::BuildProgress;
pub(crate) use changes::own_expiry;
pub(super) use commit::{one, push_dated, remove_range, rewrite};
pub(crate) use commit::{start, try_start};
pub use create::IndexInfo;
pub(crate) use create::create;
pub(super) use create::{drop, list};
pub use duplicate::DuplicateValue;
pub(crate) use in_transaction::{AtCommit, Indexed};
pub(crate) use scan::entries;
pub(super) use scan::{IndexRange, IndexScan, Order, Reader, UsableIndex, usable};
pub use statistics::IndexStatistics;
pub(super) use statistics::statistics;
pub(crate) use unique::duplicate_of;
pub use verify::IndexVerifyReport;
pub(crate) use verify::verify;
