//! Repair: a database of what can still be read of a damaged one, and an account of what is lost.
//!
//! ```text
//! find     CURRENT, manifests, tables, log: what is there, whose it is, what the manifest says
//! trusted keyspaces (the manifest knows their tables)
//!     whole table -> linked; damaged -> its good blocks written as a table of the same level; log -> new tables of L0
//! rebuilt keyspaces (it does not)
//!     all tables found and the log, newest first, key by key -> new tables of the deepest level
//! end      a new manifest; in place: what is not needed any more is renamed aside
//! ```
//! Nothing of the original is written or removed. Modules stand from the ground up.

mod report;

mod find;

mod output;

mod log;
mod merge;

mod work;

mod run;

pub use report::{Loss, RepairReport};
pub use run::Repair;
