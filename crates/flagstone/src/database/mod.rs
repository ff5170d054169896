//! The database: the handle that users hold, how it is built, what it tells of itself.

mod api;
mod builder;
mod handle;
mod report;

pub use api::Database;
pub use builder::Builder;
pub(crate) use handle::Handle;
pub use report::{CacheReport, KeyspaceInfo, KeyspaceStats, LevelReport, Stats, VerifyReport};
