//! The engine: keyspaces of bytes over partitions, each partition a tree; commits, recovery,
//! background work.
//!
//! ```text
//! flagstone (documents, codecs, the public API)
//!     |  Config, Engine, Keyspace, Batch, Transaction, ..    ^  ContentFactory: keyspace contents
//!     v                                                     |
//! engine: commit -> log, memtables -> flush -> compaction; manifest, catalog; open, close;
//!         backup, repair
//! ```
//! Everything here is bytes. This crate promises no stability; crate `flagstone` does.
//!
//! The modules are listed from the ground up: each names only modules above it in this list. An
//! open database is a set of parts, each with its own fields and locks: `core` holds the lower
//! ones, `parts` the upper ones.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod fold;

mod event;
mod options;
mod partition;

mod catalog;

pub mod content;

mod config;
mod history;
mod manifest;

mod copying;
mod long_chains;
mod rate;

mod due;
mod gate;
mod notifier;
mod user_code;

mod setup;

mod health;

mod copy_pace;
mod keyspace_core;
mod memory;

mod ballast;
mod keyspaces;

mod damage;
mod edits;
mod log_upkeep;
mod queue;

mod stall;
mod supply;

mod core;

mod reads;
mod scratch;

mod commit;

mod background;

mod parts;

mod open;

mod handle;
mod note;
mod write;

mod change;

mod read;

mod ingest;

mod feed;
mod fill;
mod hold;

mod keyspace;
mod transaction;

mod owned;

mod backup;
mod checkpoint;
mod repair;
mod stats;
mod verify;

mod engine;

pub mod inspect;

#[cfg(test)]
mod stories;
#[cfg(test)]
mod testing;

pub use background::CompactProgress;
pub use backup::{
    BackupDamage, BackupInfo, BackupReport, BackupVerifyReport, Backups, KeepReport, RestoreReport,
};
pub use catalog::NOTE_BYTES_MAX;
pub use change::WantedContent;
pub use checkpoint::CheckpointReport;
pub use commit::{
    Admitted, Batch, CONDITION_OVERHEAD, Effect, Expect, OP_OVERHEAD, Ticket, TryCommit,
    too_large_with_owned,
};
pub use config::{Config, Environment};
pub use engine::{Engine, InTransaction};
pub use event::{DamagedTable, Event, Listener, StallCause};
pub use feed::{At, ChangeToken, Changes, ChangesFrom, FeedBatch, FeedChange, FeedItem};
pub use fill::Fill;
pub use flagstone_base::{Error, ErrorKind, KeyspaceId, Kind, Moment, Result, SeqNo, Slice};
pub use fold::Fold;
pub use history::VersionToken;
pub use hold::{HeldBatch, HeldOp, HeldValue, Hold};
pub use ingest::{Ingest, IngestReport};
pub use keyspace::{Keyspace, owned_range};
pub use keyspace_core::{KeyspaceCore, OwnedSet};
pub use options::{ChangeRetention, Durability, KeyspaceOptions, Options, Routing, parse_bytes};
pub use owned::{OwnedCreated, WantedOwned};
pub use read::{Scan, Snapshot, StoredPut, TryGet};
pub use repair::{Loss, Repair, RepairReport};
pub use scratch::{QueryMemory, Scratch, ScratchFile};
pub use stall::Wait;
pub use stats::{
    CacheReport, ChangesReport, KeyspaceInfo, KeyspaceStats, LevelReport, ScrubReport, Stats,
    VerifyReport,
};
pub use transaction::{Isolation, Transaction, TransactionScan};
