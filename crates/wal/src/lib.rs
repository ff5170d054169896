//! The write-ahead log: records, segments, writer, reader.
//!
//! A database has one log, which all its partitions share. Modules are listed from the ground up.
//!
//! ```text
//!   enqueue ----> queue ----> write_through ----> segment file ----> sync_through ----> disk
//!   (in SeqNo     (frames,    (one leader, one    (the process      (one leader, one
//!    order)        memcpy)     append a group)     may die)          fdatasync a group)
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod record;
pub mod segment;

mod headless;
mod queue;
mod running_syncs;
mod waiters;
mod window;

pub mod inspect;
mod reader;
mod salvage;

mod keep;
mod log;
mod write;

mod pool;
mod sync;
mod verify;

mod follow;

pub use follow::{ChangeSource, LogCursor};
pub use keep::{ChangesInfo, DroppedChanges, Keep, LogFiles};
pub use log::{Log, LogOptions, LogStats, NewRecord};
pub use queue::Lsn;
pub use reader::{Listed, NewestKept, Record, Recovered, read, read_from_device};
pub use record::{RecordKind, payload_checksum, payload_checksum_of_parts};
pub use salvage::{LostRecords, Salvaged, database_of, salvage};
pub use segment::{ManifestPlace, SegmentInfo};
pub use verify::{LogReport, VerifyDepth};
