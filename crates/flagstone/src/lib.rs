//! An embedded, partitioned, log-structured storage engine for keys, values and documents.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("data");
//! use flagstone::{Json, Space};
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

mod bulk;

mod encoders;
mod sort_keys;
mod spill;

pub mod codec;

mod args;

mod index;

mod shard;

#[doc(hidden)]
pub mod remote;

mod scan;

mod keyspace;
mod loads;

mod ingest;

mod typed;

mod collection;
mod contents;

#[cfg(feature = "doubles")]
mod elsewhere;

pub mod space;

mod batch;
mod document_parser;
mod snapshot;

mod carry;

mod transaction;

pub mod changes;
mod database;
mod repair;

#[cfg(any(docsrs, doctest, test))]
pub mod guide;

pub use args::{As, Expires, Json, Prefix};
pub use batch::Batch;
pub use codec::Plain;
pub use collection::query::{Cursor, Find, Group};
pub use collection::{Collection, Patched};
pub use database::{Builder, Database, OpenSpace, TransactionOptions};
pub use flagstone_base::{Compression, Error, ErrorKind, Moment, Result, Slice};
pub use flagstone_doc::{
    Document, DocumentMut, Filter, JsonPatch, JsonPath, MergePatch, Patch, Value, View, doc,
};
pub use flagstone_engine::{
    Durability, Expect, KeyspaceOptions, Options, Routing, TryGet, VersionToken, fold,
};
pub use index::Index;
pub use ingest::Ingest;
pub use keyspace::Keyspace;
pub use scan::Scan;
pub use snapshot::Snapshot;
pub use space::Space;
pub use transaction::{Isolation, Transaction};
pub use typed::Typed;

/// Operation: events, backups, repair, commits that do not wait.
pub mod admin {
    pub use crate::repair::Repair;
    pub use flagstone_engine::{
        Backups, DamagedTable, Environment, Event, Listener, StallCause, Ticket, TryCommit,
        parse_bytes,
    };
}

/// Parts of documents: maps, numbers, dates, paths, JSON in all its forms.
pub mod doc {
    pub use flagstone_base::Malformed;
    #[cfg(feature = "serde")]
    pub use flagstone_doc::adapt;
    pub use flagstone_doc::{
        DateTime, Duplicates, FieldKey, FieldPath, JsonError, JsonMode, JsonOptions, Location, Map,
        NoObjectId, Node, Nodes, Number, ObjectId, OpenView, PathError, PathStep, Pointer, Reached,
        Surrogates, ValueType, json,
    };
}

/// Loads of JSON lines: splitting input, parsing documents into batches.
pub mod load {
    pub use crate::bulk::*;
    pub use crate::document_parser::{DocumentParser, ParsedDocument, Refused};
}

/// What queries take and return besides documents: plans, pages, values, groups.
pub mod query {
    #[cfg(feature = "serde")]
    pub use crate::collection::query::CursorAs;
    pub use crate::collection::query::{
        Actual, Changed, Distinct, EntryValues, Explain, Groups, Hint, IndexedValue, Interrupted,
        IntoChange, IntoFilter, IntoProjection, IntoSort, Page, PageToken, PlanInfo, Returning,
        ValueRow, Values, WriteIn, WriteMany,
    };
    pub use flagstone_doc::{
        Direction, FieldTest, FilterError, Matcher, Projection, Projector, SortSpec,
    };
}

/// What operations report: statistics, and the results of checks, copies and builds.
pub mod report {
    pub use crate::collection::{BuildProgress, IndexInfo, IndexStatistics, IndexVerifyReport};
    pub use flagstone_engine::{
        BackupDamage, BackupInfo, BackupReport, BackupVerifyReport, CacheReport, ChangesReport,
        CheckpointReport, CompactProgress, IngestReport, KeepReport, KeyspaceInfo, KeyspaceStats,
        LevelReport, Loss, RepairReport, RestoreReport, ScrubReport, Stats, VerifyReport,
    };
}

mod summary;

#[doc(hidden)]
pub mod internal;

/// The quick start of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
