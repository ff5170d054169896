//! The database: the handle that users hold, how it is built, what it tells of itself.

mod builder;
mod handle;

mod catalog;
mod checkpoint;
mod report;
mod verify;

mod api;

pub use api::Database;
pub use builder::Builder;
pub(crate) use catalog::WantedContent;
pub use checkpoint::CheckpointReport;
pub(crate) use handle::Handle;
pub use report::{
    CacheReport, KeyspaceInfo, KeyspaceStats, LevelReport, ScrubReport, Stats, VerifyReport,
};
