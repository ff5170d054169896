//! Backups: generations of one database in a directory, which share the tables that did not change.
//!
//! ```text
//! Database --backup--> LOCK  000001.backup  000002.backup  000031-<digest>.sst ..  --restore--> a new database
//!                            \ a state of the manifest, and so the tables that it needs
//!
//! table: copied to a temporary name, synced, read back, renamed  ->  directory synced  ->  generation: the same way
//! ```
//! A generation is there as a whole or not at all, and nothing it needs is removed before it is. Modules stand from the
//! ground up.

mod folder;
mod generation;

mod check;
mod create;
mod keep;
mod restore;

mod backups;

pub use backups::{BackupInfo, Backups};
pub use check::{BackupDamage, BackupVerifyReport};
pub use create::BackupReport;
pub(crate) use create::make;
pub use keep::KeepReport;
pub use restore::RestoreReport;
