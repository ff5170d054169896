//! Dropping old generations, and the tables that no other generation needs.

use super::folder::{Folder, open_to_write};
use flagstone_base::{Error, Result};
use flagstone_env::{Disk, names};
use std::path::Path;

/// What [`Backups::keep`](super::Backups::keep) has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepReport {
    /// The number of generations removed.
    pub generations: u64,
    /// The number of tables removed: no generation needs them any more.
    pub tables: u64,
    /// The size of the removed tables, in bytes.
    pub bytes: u64,
}

/// Drops all but the `newest` generations in `dir`: see [`Backups::keep`](super::Backups::keep).
pub(super) fn keep(disk: &dyn Disk, dir: &Path, newest: usize) -> Result<KeepReport> {
    if newest == 0 {
        return Err(Error::invalid("0 generations to keep: expected at least 1"));
    }
    let (_lock, folder) = open_to_write(disk, dir)?;
    let dropped = folder.generations.len().saturating_sub(newest);
    for number in &folder.generations[..dropped] {
        disk.remove(&dir.join(names::backup_generation(*number)))?;
    }
    // Synced first: a crash must not bring back a generation whose tables are gone.
    disk.sync_dir(dir)?;
    let removed = Folder::list(disk, dir)?.sweep(disk, dir)?;
    disk.sync_dir(dir)?;
    Ok(KeepReport {
        generations: dropped as u64,
        tables: removed.len() as u64,
        bytes: removed.values().sum(),
    })
}
