//! A directory of backups: what lies in it, who may change it.

use super::generation::Generation;
use flagstone_base::{Error, Result};
use flagstone_env::names::{self, BackupName, Name};
use flagstone_env::{Disk, DiskLock, LockMode, lock_to_read};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// What lies in `dir`, locked against those who change it, where that can be: a directory that may not be written has
/// no lock file to lock, and nobody who changes it.
pub(super) fn to_read(disk: &dyn Disk, dir: &Path) -> Result<(Option<Box<dyn DiskLock>>, Folder)> {
    let lock = lock_to_read(disk, &dir.join(names::LOCK))?;
    Ok((lock, Folder::look(disk, dir)?))
}

/// What lies in `dir`, locked against everybody else.
pub(super) fn to_write(disk: &dyn Disk, dir: &Path) -> Result<(Box<dyn DiskLock>, Folder)> {
    // Before a lock file is made in the directory of something else.
    Folder::look(disk, dir)?;
    let lock = disk.lock(&dir.join(names::LOCK), LockMode::Exclusive)?;
    Ok((lock, Folder::look(disk, dir)?))
}

/// What lies in a directory of backups.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// The generations, oldest first.
    pub(super) generations: Vec<u64>,
    /// The names of the tables.
    pub(super) tables: BTreeSet<String>,
    /// What an interrupted copy left.
    pub(super) temporary: Vec<String>,
}

impl Folder {
    /// Looks at what is there.
    ///
    /// # Errors
    /// InvalidInput when a database lies there; Io.
    pub(super) fn look(disk: &dyn Disk, dir: &Path) -> Result<Self> {
        let mut folder = Self::default();
        for name in disk.list(dir)? {
            match names::parse_backup(&name) {
                BackupName::Generation(number) => folder.generations.push(number),
                BackupName::Table(..) => drop(folder.tables.insert(name)),
                BackupName::Temporary => folder.temporary.push(name),
                BackupName::Lock => {}
                BackupName::Foreign => refuse_database(dir, &name)?,
            }
        }
        folder.generations.sort_unstable();
        Ok(folder)
    }

    /// The names of all tables that the generations need.
    ///
    /// # Errors
    /// Corruption when a generation cannot be read: what it needs is not known then.
    pub(super) fn needed(&self, disk: &dyn Disk, dir: &Path) -> Result<BTreeSet<String>> {
        let mut needed = BTreeSet::new();
        for number in &self.generations {
            let generation = Generation::read(disk, dir, *number)?;
            needed.extend(generation.tables().map(|meta| generation.name_of(meta)));
        }
        Ok(needed)
    }

    /// Removes tables that no generation needs, and what interrupted copies left. Nothing is removed while a generation
    /// cannot be read. The number of tables removed, and their bytes.
    pub(super) fn sweep(&self, disk: &dyn Disk, dir: &Path) -> Result<HashMap<String, u64>> {
        for name in &self.temporary {
            remove(disk, &dir.join(name))?;
        }
        let needed = self.needed(disk, dir)?;
        let mut removed = HashMap::new();
        for name in self.tables.difference(&needed) {
            let path = dir.join(name);
            let bytes = disk.open(&path).map_or(0, |file| file.len());
            remove(disk, &path)?;
            removed.insert(name.clone(), bytes);
        }
        Ok(removed)
    }
}

/// Removes a file that may be gone already.
fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Err(error) if !error.is_missing_file() => Err(error),
        _ => Ok(()),
    }
}

fn refuse_database(dir: &Path, name: &str) -> Result<()> {
    if matches!(names::parse(name), Name::Foreign) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} holds {name:?}, a file of a database: backups need a directory of their own",
        dir.display()
    )))
}
