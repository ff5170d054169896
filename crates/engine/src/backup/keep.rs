//! Dropping old generations, then the tables that no other one needs.

use super::folder::{Folder, to_write};
use flagstone_base::{Error, Result};
use flagstone_env::{Disk, names};
use std::path::Path;

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepReport {
    /// Generations.
    pub generations: u64,
    /// Tables that no generation needs any more.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Drops all generations in `dir` but the `newest`: see [`Backups::keep`](super::Backups::keep).
pub(super) fn keep(disk: &dyn Disk, dir: &Path, newest: usize) -> Result<KeepReport> {
    if newest == 0 {
        return Err(Error::invalid("0 generations to keep: expected at least 1"));
    }
    let (_lock, folder) = to_write(disk, dir)?;
    let dropped = folder.generations.len().saturating_sub(newest);
    for number in &folder.generations[..dropped] {
        disk.remove(&dir.join(names::backup_generation(*number)))?;
    }
    // A crash must not bring a generation back whose tables are gone.
    disk.sync_dir(dir)?;
    let removed = Folder::look(disk, dir)?.sweep(disk, dir)?;
    disk.sync_dir(dir)?;
    Ok(KeepReport {
        generations: dropped as u64,
        tables: removed.len() as u64,
        bytes: removed.values().sum(),
    })
}
