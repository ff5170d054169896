//! Reading as of one moment: snapshots, scans over partitions.

mod merge;
mod pin;

mod count;
mod scan;

mod snapshot;
mod try_get;

pub(crate) use count::count;
pub(crate) use pin::Pin;
pub use scan::Scan;
pub use snapshot::{Snapshot, StoredPut};
pub use try_get::TryGet;
