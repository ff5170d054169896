//! Reading: snapshots, scans over partitions.

mod count;
mod merge;
mod scan;
mod snapshot;
mod snapshots;

pub use scan::Scan;
pub use snapshot::Snapshot;
pub(crate) use snapshots::{Registered, Snapshots};
