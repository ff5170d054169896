//! The engine: keyspaces of bytes over partitions, each partition a tree; commits, recovery, background work.
//!
//! ```text
//! flagstone (documents, codecs, the public API)
//!     |  Config, Engine, Keyspace, Batch, Snapshot, Scan          ^  ContentFactory: what keyspaces hold
//!     v                                                           |
//! engine: commit -> log, memtables -> flush -> compaction; manifest, catalog; open, close; backup, repair
//! ```
//! Everything here is bytes. There is no promise of stability: the promise is that of crate `flagstone`.
//!
//! The modules are listed from the ground up, except for the knot that an open database is: `shared`, `keyspace` and
//! `handle` are known to those that work on them.

pub mod content;
pub mod fold;

mod event;
mod options;
mod partition;

mod catalog;
mod manifest;

mod long_chains;
mod rate;

mod copying;

mod commit;
mod read;

mod keyspaces;
mod space;

mod keyspace;
mod write;

mod background;
mod inside;
mod open;
mod shared;

mod backup;
mod change;
mod checkpoint;
mod config;
mod engine;
mod handle;
mod repair;
mod stats;
mod verify;

pub mod inspect;

#[cfg(test)]
mod stories;
#[cfg(test)]
mod testing;

pub use background::{Admitted, CompactProgress};
pub use backup::{
    BackupDamage, BackupInfo, BackupReport, BackupVerifyReport, Backups, KeepReport, RestoreReport,
};
pub use change::WantedContent;
pub use checkpoint::CheckpointReport;
pub use commit::{Batch, OP_OVERHEAD, Ticket, VersionToken};
pub use config::{Config, Environment};
pub use engine::Engine;
pub use event::{DamagedTable, Event, Listener, StallCause};
pub use flagstone_base::{Error, ErrorKind, Kind, Result, SeqNo, Slice};
pub use fold::Fold;
pub use keyspace::{Keyspace, owned_range};
pub use options::{Durability, KeyspaceOptions, Options, Routing};
pub use read::{Scan, Snapshot};
pub use repair::{Loss, Repair, RepairReport};
pub use stats::{
    CacheReport, KeyspaceInfo, KeyspaceStats, LevelReport, ScrubReport, Stats, VerifyReport,
};
