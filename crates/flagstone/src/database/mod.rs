//! The database: the handle that users hold, how it is built, what it tells of itself.

mod builder;
mod database;
mod handle;
mod report;

pub use builder::Builder;
pub use database::Database;
pub(crate) use handle::Handle;
pub use report::{CacheReport, KeyspaceInfo, KeyspaceStats, LevelReport, Stats, VerifyReport};
