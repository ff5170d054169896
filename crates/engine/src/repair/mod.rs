//! Repair: writes a new database of everything that can still be read of a damaged one, and reports
//! what is lost.
//!
//! ```text
//! find     CURRENT, manifests, tables, log: which files exist, whose they are,
//!          what the manifest says
//! trusted keyspaces (the manifest lists their tables)
//!     whole table -> linked; damaged -> its good blocks in a new table of the same level;
//!     log -> new tables of L0
//! rebuilt keyspaces (the manifest does not)
//!     all tables found and the log, newest first, key by key -> new tables of the deepest level
//! end      a new manifest; in place: files that are not needed any more are renamed
//! ```
//! No file of the original is written or removed. Modules are listed from the ground up.

mod report;

mod find;

mod output;

mod log;
mod merge;

mod active;

mod log_tables;
mod rebuild;
mod tables;

mod trust;

mod run;

pub use report::{Loss, RepairReport};
pub use run::Repair;
