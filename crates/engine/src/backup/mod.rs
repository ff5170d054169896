//! Backups: generations of one database in a directory. They share the tables that did not change.
//!
//! ```text
//! Database --backup--> LOCK  000001.backup  000002.backup  000031-<digest>.sst ..
//!                            \ a state of the manifest, and so the tables that it needs
//!          <--restore-- into a new database
//!
//! tables: copied to a temporary name, synced, read back, renamed
//!     -> directory synced -> generation: written in the same way
//! ```
//! A generation exists as a whole or not at all, and a table is removed only after every generation
//! that needs it. Modules are listed from the ground up.

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
pub(crate) use create::create;
pub use keep::KeepReport;
pub use restore::RestoreReport;
