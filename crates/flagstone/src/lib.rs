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
//! Without its default features the crate stores bytes only and needs no C compiler. `Cargo.toml`
//! describes them: `documents`, `lz4`, `zstd`, `regex` and `serde`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

#[cfg(feature = "documents")]
mod bulk;

#[cfg(feature = "documents")]
mod encoders;
#[cfg(feature = "documents")]
mod sort_keys;
#[cfg(feature = "documents")]
mod spill;

#[cfg(feature = "documents")]
mod index;
#[cfg(feature = "documents")]
mod shard;

mod args;

mod scan;
mod write;

mod keyspace;

mod ingest;
mod patch_folds;

pub mod space;

#[cfg(feature = "documents")]
#[doc(hidden)]
pub mod remote;

#[cfg(feature = "documents")]
pub mod codec;
#[cfg(feature = "documents")]
mod loads;
#[cfg(feature = "documents")]
mod typed;

#[cfg(feature = "documents")]
mod collection;
mod commit;
mod contents;

mod batch;
mod snapshot;

#[cfg(all(feature = "doubles", feature = "documents"))]
mod elsewhere;

#[cfg(feature = "documents")]
mod carry;
#[cfg(feature = "documents")]
mod document_parser;

mod transaction;

pub mod changes;
mod database;
mod repair;

#[cfg(all(feature = "documents", any(docsrs, doctest, test)))]
pub mod guide;

#[cfg(feature = "documents")]
pub use args::{As, Json};
pub use args::{Expires, Prefix};
pub use batch::Batch;
#[cfg(feature = "documents")]
pub use codec::Plain;
#[cfg(feature = "documents")]
pub use collection::query::{Cursor, Find, Group};
#[cfg(feature = "documents")]
pub use collection::{Collection, Patched};
pub use database::{Builder, Database, OpenSpace, TransactionOptions};
pub use flagstone_base::{Compression, Error, ErrorKind, Moment, Result, Slice};
#[cfg(feature = "documents")]
pub use flagstone_doc::{
    Document, DocumentMut, Filter, JsonPatch, JsonPath, MergePatch, Patch, Value, View, doc,
};
pub use flagstone_engine::{
    Durability, Expect, KeyspaceOptions, Options, Routing, TryGet, VersionToken, fold,
};
#[cfg(feature = "documents")]
pub use index::Index;
pub use ingest::Ingest;
pub use keyspace::Keyspace;
pub use scan::Scan;
pub use snapshot::Snapshot;
pub use space::Space;
pub use transaction::{Isolation, Transaction};
#[cfg(feature = "documents")]
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
#[cfg(feature = "documents")]
pub mod doc {
    pub use crate::collection::AnyPatch;
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
#[cfg(feature = "documents")]
pub mod load {
    pub use crate::bulk::*;
    pub use crate::document_parser::{DocumentParser, ParsedDocument, Refused};
}

/// What queries take and return besides documents: plans, pages, values, groups.
#[cfg(feature = "documents")]
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
    #[cfg(feature = "documents")]
    pub use crate::collection::{BuildProgress, IndexInfo, IndexStatistics, IndexVerifyReport};
    pub use flagstone_engine::{
        BackupDamage, BackupInfo, BackupReport, BackupVerifyReport, CacheReport, ChangesReport,
        CheckpointReport, CompactProgress, IngestReport, KeepReport, KeyspaceInfo, KeyspaceStats,
        LevelReport, Loss, RepairReport, RestoreReport, ScrubReport, Stats, VerifyReport,
    };
}

#[cfg(feature = "documents")]
mod summary;

#[cfg(feature = "documents")]
#[doc(hidden)]
pub mod internal;

/// The quick start of the README compiles.
#[cfg(all(doctest, feature = "documents"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
