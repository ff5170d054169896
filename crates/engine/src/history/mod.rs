//! The history of writes: the log, the numbers, what is visible, and who reads at which SeqNo.
//!
//! ```text
//! next, ceiling  --numbered under a lock-->  log, memtables  --published in order-->  visible  --registered-->  snapshots
//! ```

mod expiry;
mod numbering;
mod publish;
mod snapshots;
mod version;

mod writes;

pub(crate) use expiry::ExpiryClock;
pub(crate) use publish::PublishTicket;
pub(crate) use snapshots::{ReadPoint, Registered};
pub(crate) use version::HistoryId;
pub use version::VersionToken;
pub(crate) use writes::History;
