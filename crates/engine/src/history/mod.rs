//! The history of writes: the log, the SeqNos, what is visible, and the readers at older SeqNos.
//!
//! ```text
//! next, ceiling  --numbered under a lock-->   log, memtables
//!                --published in order-->      visible
//!                --registered by readers-->   snapshots
//! ```

mod expiry;
mod numbering;
mod publish;
mod snapshots;
mod version;

mod writes;

mod held;

pub(crate) use expiry::ExpiryClock;
pub(crate) use held::HeldTrees;
pub(crate) use numbering::Numbering;
pub(crate) use publish::PublishTicket;
pub(crate) use snapshots::{ReadPoint, Registered};
pub(crate) use version::HistoryId;
pub use version::VersionToken;
pub(crate) use writes::History;
