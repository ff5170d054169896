//! One LSM-tree: memtables, levels, reads, flushes and compactions.
//!
//! ```text
//! insert -> memtable --seal--> sealed memtable --flush--> L0 --compaction--> L1 .. L6
//! get, scan: pin a View (memtables + Version), then read its sources, newest first
//! flush, compaction: pick (pure) -> steps that only write new files -> TreeEdit -> install
//! ingest: sorted entries -> new files -> TreeEdit, numbered when it is appended -> install
//! ```
//!
//! A tree is one partition. It knows no write-ahead log, no manifest and no names: the crate above
//! numbers writes, syncs edits and removes files. A module uses only modules that are listed above
//! it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod bounds;
mod damage;
mod fold;
mod ranges;
mod read_load;
mod write_load;

mod options;
mod scans;

#[expect(unsafe_code, reason = "memory is handed out in pieces and freed together")]
mod arena;

mod context;
mod counters;
mod dead_ranges;
mod memtable;

mod version;

mod deletes;
mod merge;
mod space;

mod pick;
mod view;
mod work_slot;

mod tree;

mod replace;
mod sampled_keys;
mod split_key;

mod read;
mod scrub;
mod verify;
mod write;

pub use arena::ChunkPool;
pub use bounds::{HashBounds, KeyBounds};
pub use context::{Obsolete, TreeContext, Unfinished};
pub use counters::TreeCounters;
pub use damage::{Damage, Damages};
pub use deletes::{DeletedBytes, DeletesInMemory};
pub use fold::Fold;
pub use options::{Direction, OutputCheck, TreeOptions};
pub use pick::{
    FullPass, Job, JobReason, Policy, Pressure, next_expiry, pick, pick_above, pick_expired,
    pick_hidden, pick_trim, pressure,
};
pub use read::{GetResult, Look, Now, ScanOptions, TreeScan, written_after};
#[doc(hidden)]
pub use read_load::seed_sampling;
pub use replace::{Successor, inherited, replace, retire};
pub use sampled_keys::{SampledKeys, sampled_keys, tables_stamp};
pub use scans::Scans;
pub use scrub::Scrub;
pub use space::Space;
pub use split_key::split_key;
pub use tree::{LevelStats, Tree, TreeReport, TreeStats};
pub use version::{LEVELS, OpenTables, TableHandle, TreeEdit, Version};
pub use view::{MemtableRef, View};
pub use write::{Compaction, Flush, Ingest, IngestOptions, choose_levels};
pub use write_load::WriteLoad;
