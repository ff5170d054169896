//! A checkpoint: an independent copy of the database as of one moment, made of hard links.
//!
//! ```text
//! cut (everything acknowledged is in tables) -> lock of the new directory -> a link per table
//!     -> manifest, synced -> directory synced -> CURRENT, synced
//! ```
//! Tables never change, so both databases may use the same bytes: each removes only its own name of
//! a file. The log is not linked, since its segments are overwritten when they are recycled, and
//! its entries are in tables by then. Until `CURRENT` exists the directory is no database, and a
//! crash leaves one that an open refuses.
//!
//! The copy keeps the identity of the database, because the checksums of its tables cover it.

use crate::background::{cut, sweep};
use crate::copy_pace::copy_pace;
use crate::copying::{
    CopyPace, check_empty, check_outside, copy_file, create_database, state_of_copy,
};
use crate::manifest::{Location, Manifest};
use crate::parts::Parts;
use crate::queue::Cut;
use flagstone_base::{FileNumber, Result, SeqNo};
use flagstone_env::names::{self, FileKind};
use flagstone_env::{Disk, HeldDir};
use std::fmt;
use std::io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
use std::path::Path;
use std::sync::Arc;

/// The content of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// The last write in the checkpoint.
    pub seqno: SeqNo,
    /// The number of tables.
    pub tables: u64,
    /// The bytes of the tables.
    pub bytes: u64,
    /// The part of the bytes that was copied, because the file system supports no links.
    pub bytes_copied: u64,
}

const WHAT: &str = "a checkpoint";

/// Creates a checkpoint of the database in the directory `to`.
pub(crate) fn checkpoint(parts: &Parts, to: &Path) -> Result<CheckpointReport> {
    parts.core.health.check_open_for_writing()?;
    let disk = &*parts.core.setup().environment.disk;
    // Before the flush: a bad argument costs nothing.
    let to = disk.absolute(to)?;
    let from = &*parts.core.setup().dir;
    check_outside(disk, &to, from, WHAT)?;
    check_empty(disk, &to, WHAT)?;
    let cut = cut(&parts.upkeep)?;
    let report =
        create_database(disk, &to, from, WHAT, |held| CheckpointWriter { parts, held }.fill(&cut));
    drop(cut);
    sweep(&parts.upkeep);
    report
}

/// A checkpoint that is being created.
struct CheckpointWriter<'a> {
    parts: &'a Parts,
    held: &'a HeldDir,
}

impl CheckpointWriter<'_> {
    fn disk(&self) -> &Arc<dyn Disk> {
        &self.held.disk
    }

    fn fill(&self, cut: &Cut) -> Result<CheckpointReport> {
        let mut report = CheckpointReport { seqno: cut.seqno, ..CheckpointReport::default() };
        let mut pace = copy_pace(&self.parts.core.health);
        for meta in cut.state.tables() {
            report.tables += 1;
            report.bytes += meta.bytes;
            report.bytes_copied += self.link_or_copy(meta.number, &mut pace)?;
        }
        // The copy's log begins after the one of the original.
        let log_from = self.parts.core.history.log.as_ref().map(flagstone_wal::Log::next_number);
        let state = state_of_copy(&cut.state, log_from);
        let location = Location::of_copy(self.disk(), &self.held.path, &state);
        Manifest::create(location, self.parts.core.setup().id, state)?;
        Ok(report)
    }

    /// Links a table into the copy, or copies it where no link is possible. Returns the number of
    /// bytes copied.
    fn link_or_copy(&self, number: FileNumber, pace: CopyPace<'_>) -> Result<u64> {
        let from = self.parts.core.trees.table_path(number);
        let to = names::path(&self.held.path, FileKind::Table, number);
        let Err(error) = self.disk().link(&from, &to) else { return Ok(0) };
        let refused = error.io_error().is_some_and(|error| {
            matches!(error.kind(), CrossesDevices | Unsupported | PermissionDenied | TooManyLinks)
        });
        if refused { Ok(copy_file(&**self.disk(), &from, &to, pace)?.bytes) } else { Err(error) }
    }
}

impl fmt::Display for CheckpointReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seqno, tables, bytes, bytes_copied } = self;
        write!(f, "{tables} tables of {bytes} bytes at {seqno}")?;
        if *bytes_copied > 0 {
            write!(f, ", {bytes_copied} of them copied")?;
        }
        Ok(())
    }
}
