//! A checkpoint: an independent copy of the database as of one moment, made of hard links.
//!
//! ```text
//! cut (everything acknowledged stands in tables) -> lock of the new directory -> a link per table
//!     -> manifest, synced -> directory synced -> CURRENT, synced
//! ```
//! Tables never change, so both databases may use the same bytes: each removes only its own name of
//! them. The log is overwritten when its segments are used again, so none is linked: what stood in it
//! is in tables by then. Until `CURRENT` is there the directory is no database, and a crash leaves
//! one that is refused.
//!
//! The copy keeps the identity of the database, because the checksums of its tables cover it.

use crate::background::Cut;
use crate::manifest::{Manifest, Place};
use crate::shared::Shared;
use flagstone_base::{Error, FileNumber, Result, SeqNo};
use flagstone_env::disk::{Access, create_dir_synced};
use flagstone_env::names::{self, FileKind, Name};
use flagstone_env::{Disk, LockMode};
use std::fmt;
use std::io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a checkpoint holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// The last write in it.
    pub seqno: SeqNo,
    /// Its tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of the bytes were copied, because the file system made no link.
    pub bytes_copied: u64,
}

/// A table is copied in pieces of this size.
const COPIED_AT_ONCE: usize = 1 << 20;

/// Makes a checkpoint of the database in the directory `to`.
pub(super) fn checkpoint(shared: &Shared, to: &Path) -> Result<CheckpointReport> {
    shared.check_open_for_writing()?;
    let disk = &*shared.environment.disk;
    // Before the flush: a bad argument costs nothing.
    check_empty(disk, to)?;
    let cut = shared.cut()?;
    let copy = Copy { shared, to };
    let report = copy.make(&cut);
    drop(cut);
    shared.sweep();
    report
}

/// Refuses a directory that holds anything but a lock file.
fn check_empty(disk: &dyn Disk, dir: &Path) -> Result<()> {
    if !disk.exists(dir)? {
        return Ok(());
    }
    match disk.list(dir)?.iter().find(|name| *name != names::LOCK) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "{} holds {name:?}: a checkpoint needs a new or empty directory",
            dir.display()
        ))),
    }
}

/// A copy under way.
struct Copy<'a> {
    shared: &'a Shared,
    to: &'a Path,
}

impl Copy<'_> {
    fn disk(&self) -> &Arc<dyn Disk> {
        &self.shared.environment.disk
    }

    fn make(&self, cut: &Cut) -> Result<CheckpointReport> {
        create_dir_synced(&**self.disk(), self.to)?;
        // Whoever would open the directory meanwhile is told that it is busy.
        let lock = self.disk().lock(&self.to.join(names::LOCK), LockMode::Exclusive)?;
        check_empty(&**self.disk(), self.to)?;
        let made = self.fill(cut);
        if made.is_err() {
            self.undo();
        }
        drop(lock);
        made
    }

    fn fill(&self, cut: &Cut) -> Result<CheckpointReport> {
        let mut report = CheckpointReport { seqno: cut.seqno, ..CheckpointReport::default() };
        for tree in cut.state.trees.values() {
            for (_, meta) in tree.tables.values() {
                report.tables += 1;
                report.bytes += meta.bytes;
                report.bytes_copied += self.bring(meta.number)?;
            }
        }
        let mut state = cut.state.clone();
        // As after a clean close: everything is in tables, and the copy's log begins behind the
        // one of the original.
        state.wal_from = self.shared.log.as_ref().map(flagstone_wal::Log::next_number);
        state.clean_close = true;
        let next_file = AtomicU64::new(state.next_file.0);
        let place = Place {
            disk: Arc::clone(self.disk()),
            dir: self.to.to_owned(),
            next_file: Arc::new(move || FileNumber(next_file.fetch_add(1, Ordering::Relaxed))),
        };
        Manifest::create(place, self.shared.id, state)?;
        Ok(report)
    }

    /// Links a table into the copy, or copies it where there are no links between the two; answers
    /// how many bytes were copied.
    fn bring(&self, number: FileNumber) -> Result<u64> {
        let from = self.shared.trees.table_path(number);
        let to = names::path(self.to, FileKind::Table, number);
        let Err(error) = self.disk().link(&from, &to) else { return Ok(0) };
        let refused = error.io_error().is_some_and(|error| {
            matches!(error.kind(), CrossesDevices | Unsupported | PermissionDenied | TooManyLinks)
        });
        if refused { copy_file(&**self.disk(), &from, &to) } else { Err(error) }
    }

    /// Removes what stands in the directory, `CURRENT` first: what is left is no database. The lock stays:
    /// it is held, and keeps others out until everything else is gone.
    fn undo(&self) {
        let disk = &**self.disk();
        let Ok(found) = disk.list(self.to) else { return };
        let current = self.to.join(names::CURRENT);
        let gone = match disk.exists(&current) {
            Ok(false) => Ok(()),
            _ => disk.remove(&current).and_then(|()| disk.sync_dir(self.to)),
        };
        if gone.is_err() {
            return;
        }
        for name in found {
            if !matches!(names::parse(&name), Name::Foreign | Name::Current | Name::Lock) {
                let _stays = disk.remove(&self.to.join(name));
            }
        }
    }
}

/// Copies a file, synced; answers its length.
fn copy_file(disk: &dyn Disk, from: &Path, to: &Path) -> Result<u64> {
    let source = disk.open(from)?;
    source.advise(Access::Sequential);
    let mut copy = disk.create(to)?;
    copy.reserve(source.len())?;
    let mut buffer = vec![0; COPIED_AT_ONCE.min(source.len() as usize)];
    let mut at = 0;
    while at < source.len() {
        let piece = &mut buffer[..COPIED_AT_ONCE.min((source.len() - at) as usize)];
        source.read_exact_at(piece, at)?;
        copy.append(piece)?;
        copy.start_writeback()?;
        at += piece.len() as u64;
    }
    copy.sync()?;
    Ok(at)
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
