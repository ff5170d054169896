//! An embedded, partitioned, log-structured storage engine for keys, values and documents.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("data");
//! let db = flagstone::Database::open(path)?;
//!
//! let kv = db.keyspace("sessions")?;                       // bytes to bytes
//! kv.put("alice", "logged in")?;
//! assert_eq!(kv.get("alice")?.as_deref(), Some(b"logged in".as_slice()));
//!
//! let comments = db.collection("comments")?;               // documents
//! comments.put_json("evn2i5p", r#"{"author":"x","score":1.10}"#)?;
//! comments.update("evn2i5p", |d| d.set("score", 2))?;
//!
//! let mut batch = db.batch();                              // together or not at all
//! batch.put(&kv, "bob", "logged in")?;
//! batch.delete(&kv, "alice")?;
//! db.commit(batch)?;
//! db.close()?;
//! # Ok::<(), flagstone::Error>(())
//! ```
//!
//! Modules stand from the ground up, but for the knot that a database is: `shared`, `keyspace`, `collection` and
//! `database::Handle` are known to those that work on them.

pub mod bulk;
pub mod codec;
pub mod fold;

mod event;
mod options;
mod partition;

mod catalog;
mod content;
mod manifest;

mod long_chains;
mod rate;

mod copying;

mod commit;
mod read;

mod keyspace;
mod keyspaces;
mod write;

mod typed;

mod collection;
mod contents;

mod background;
mod inside;
mod open;
mod shared;

mod backup;
mod database;
mod repair;

#[doc(hidden)]
pub mod inspect;

#[cfg(test)]
mod stories;

pub use background::CompactProgress;
pub use backup::{
    BackupDamage, BackupInfo, BackupReport, BackupVerifyReport, Backups, KeepReport, RestoreReport,
};
pub use codec::{Codec, KeyCodec};
pub use collection::{Collection, DocumentParser, DocumentScan, Refused};
pub use commit::{Batch, Ticket, VersionToken};
pub use database::{
    Builder, CacheReport, CheckpointReport, Database, KeyspaceInfo, KeyspaceStats, LevelReport,
    ScrubReport, Stats, VerifyReport,
};
pub use event::{DamagedTable, Event, Listener, StallCause};
pub use flagstone_base::{Compression, Decoder, Error, ErrorKind, Malformed, Result, SeqNo, Slice};
#[cfg(feature = "serde")]
pub use flagstone_doc::adapt;
pub use flagstone_doc::{
    DateTime, Document, DocumentMut, Duplicates, JsonError, JsonOptions, Map, NoJson, Number,
    Patch, Surrogates, Value, View, doc, json,
};
pub use fold::Fold;
pub use keyspace::Keyspace;
pub use options::{Durability, KeyspaceOptions, Options, Routing};
pub use read::{Scan, Snapshot};
pub use repair::{Loss, Repair, RepairReport};
pub use shared::Environment;
pub use typed::{Typed, TypedScan};

/// The outside world: disks, clocks, executors; for tests that bring their own.
#[doc(hidden)]
pub use flagstone_env as env;

/// The quick start of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The guide to serde compiles.
#[cfg(all(doctest, feature = "serde"))]
#[doc = include_str!("../../../docs/guide/serde.md")]
struct SerdeGuide;
