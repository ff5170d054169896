//! Dropping old generations, then the tables that no other one needs.

use super::folder::{Backups, Folder};
use flagstone_base::{Error, Result};
use flagstone_env::names;

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

impl Backups {
    /// Drops all generations but the `newest`, and the tables that only they needed.
    ///
    /// # Errors
    /// InvalidInput for 0; Io when there is no such directory; Busy while somebody else changes or reads the backups;
    /// Corruption when a generation that stays cannot be read: no table is removed then.
    pub fn keep(&self, newest: usize) -> Result<KeepReport> {
        if newest == 0 {
            return Err(Error::invalid("0 generations to keep: expected at least 1"));
        }
        let disk = &*self.disk;
        let (_lock, folder) = self.to_write()?;
        let dropped = folder.generations.len().saturating_sub(newest);
        for number in &folder.generations[..dropped] {
            disk.remove(&self.dir.join(names::backup_generation(*number)))?;
        }
        // A crash must not bring a generation back whose tables are gone.
        disk.sync_dir(&self.dir)?;
        let removed = Folder::look(disk, &self.dir)?.sweep(disk, &self.dir)?;
        disk.sync_dir(&self.dir)?;
        Ok(KeepReport {
            generations: dropped as u64,
            tables: removed.len() as u64,
            bytes: removed.values().sum(),
        })
    }
}
