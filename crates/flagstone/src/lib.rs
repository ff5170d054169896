//! An embedded, partitioned, log-structured storage engine for keys, values and documents.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("data");
//! use flagstone::Json;
//! let db = flagstone::Database::open(path)?;
//!
//! let kv = db.keyspace("sessions")?;                       // bytes to bytes
//! kv.put("alice", "logged in")?;
//! assert_eq!(kv.get("alice")?.as_deref(), Some(b"logged in".as_slice()));
//!
//! let comments = db.collection("comments")?;               // documents
//! comments.put("evn2i5p", Json(r#"{"author":"x","score":1.10}"#))?;
//! comments.update("evn2i5p", |d| d.set("score", 2))?;
//!
//! let mut batch = db.batch();                              // together or not at all
//! batch.put(&kv, "bob", "logged in")?;
//! batch.delete(&kv, "alice")?;
//! db.commit(batch)?;
//!
//! # #[cfg(feature = "serde")] {
//! let ages = db.typed::<String, u8>("ages")?;              // Rust types, structs with serde too
//! ages.put("alice", &40)?;
//! assert_eq!(ages.get("alice")?, Some(40));
//! # }
//! db.close()?;
//! # Ok::<(), flagstone::Error>(())
//! ```
//!
//! Start with the guide: on docs.rs it is module `guide`, in the repository docs/guide. Crate
//! `flagstone-engine` stores keyspaces of bytes; this crate gives the bytes a meaning: documents
//! and typed values.
//!
//! Without its default features the crate needs no C compiler: see `lz4`, `zstd`, `regex` and
//! `serde` in `Cargo.toml`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod bulk;

mod encoders;
mod sort_keys;
mod spill;

pub mod codec;

mod entry;

mod args;

mod scan;

mod keyspace;
mod loads;

mod ingest;

mod typed;

mod index;

mod collection;
mod contents;

pub mod space;

mod batch;
mod document_parser;
mod snapshot;

mod transaction;

mod changes;
mod database;
mod repair;

#[cfg(any(docsrs, doctest, test))]
pub mod guide;

pub use args::{As, Expires, Expiring, Json, Prefix};
pub use batch::{Batch, Expect};
pub use changes::{Change, ChangeBatch, ChangeKind, Changes, Delivery, Happened};
pub use codec::{AsKey, Codec, KeyCodec, Plain, Serde};
#[cfg(feature = "serde")]
pub use collection::query::CursorAs;
pub use collection::query::{
    Actual, Changed, Cursor, Distinct, EntryValues, Explain, Find, Group, Groups, Hint,
    IndexedValue, Interrupted, IntoFilter, IntoProjection, IntoSort, Page, PageToken, PlanInfo,
    ValuePart, ValueRow, Values, WriteMany,
};
pub use collection::{
    BuildProgress, Collection, IndexInfo, IndexStatistics, IndexVerifyReport, Patched,
};
pub use database::{Builder, Database, ExistingSpace, OpenSpace};
pub use document_parser::{DocumentParser, ParsedDocument, Refused};
pub use entry::CommitOptions;
pub use flagstone_base::interrupt::{check as interrupt_check, interrupted, interruptible};
pub use flagstone_base::{
    Compression, Decoder, Error, ErrorKind, Malformed, Moment, Result, SeqNo, Slice,
};
#[cfg(feature = "serde")]
pub use flagstone_doc::adapt;
pub use flagstone_doc::{
    DateTime, Document, DocumentMut, Duplicates, FieldKey, FieldPath, FieldTest, Filter,
    FilterError, JsonError, JsonMode, JsonOptions, JsonPatch, JsonPath, Location, Map, Matcher,
    MergePatch, Node, Nodes, Number, OpenView, Patch, PathError, PathStep, Pointer, Projection,
    Projector, Reached, SortSpec, Surrogates, Value, ValueType, View, doc, json,
};
pub use flagstone_engine::fold::{self, Fold};
pub use flagstone_engine::{
    BackupDamage, BackupInfo, BackupReport, BackupVerifyReport, Backups, CacheReport,
    ChangeRetention, ChangeToken, ChangesFrom, ChangesReport, CheckpointReport, CompactProgress,
    DamagedTable, Durability, Environment, Event, IngestReport, KeepReport, KeyspaceInfo,
    KeyspaceOptions, KeyspaceStats, LevelReport, Listener, Loss, Options, RepairReport,
    RestoreReport, Routing, ScrubReport, StallCause, Stats, Ticket, TryCommit, TryGet,
    VerifyReport, VersionToken, parse_bytes,
};
pub use index::Index;
pub use ingest::Ingest;
pub use keyspace::Keyspace;
pub use repair::Repair;
pub use scan::Scan;
pub use snapshot::Snapshot;
pub use space::Space;
pub use transaction::{Isolation, Transaction, TransactionOptions};
pub use typed::Typed;

#[doc(hidden)]
pub mod internal;

/// The outside world: disks, clocks, executors; for tests that bring their own.
#[doc(hidden)]
pub use flagstone_env as env;

/// The quick start of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
