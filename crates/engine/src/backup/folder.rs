//! A directory of backups: the files in it, and its lock.

use super::generation::Generation;
use flagstone_base::sorted::sort_by;
use flagstone_base::{Error, Result};
use flagstone_env::names::{self, BackupName, Name};
use flagstone_env::{Disk, DiskLock, LockMode, lock_to_read};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Locks `dir` against changes and returns its contents. A directory that cannot be written is not
/// locked: nothing can change it.
pub(super) fn open_to_read(
    disk: &dyn Disk,
    dir: &Path,
) -> Result<(Option<Box<dyn DiskLock>>, Folder)> {
    let lock = lock_to_read(disk, &dir.join(names::LOCK))?;
    Ok((lock, Folder::list(disk, dir)?))
}

/// Locks `dir` exclusively and returns its contents.
pub(super) fn open_to_write(disk: &dyn Disk, dir: &Path) -> Result<(Box<dyn DiskLock>, Folder)> {
    // Checked first, so that no lock file is created in a foreign directory.
    Folder::list(disk, dir)?;
    let lock = disk.lock(&dir.join(names::LOCK), LockMode::Exclusive)?;
    Ok((lock, Folder::list(disk, dir)?))
}

/// The contents of a directory of backups.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// The generations, oldest first.
    pub(super) generations: Vec<u64>,
    /// The names of the tables.
    pub(super) tables: BTreeSet<String>,
    /// The names of temporary files that interrupted copies left.
    pub(super) temporary: Vec<String>,
}

impl Folder {
    /// Lists the directory `dir`.
    ///
    /// # Errors
    /// InvalidInput when `dir` holds a database; Io.
    pub(super) fn list(disk: &dyn Disk, dir: &Path) -> Result<Self> {
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
        sort_by(&mut folder.generations, Ord::cmp);
        Ok(folder)
    }

    /// Returns the names of all tables that the generations need.
    ///
    /// # Errors
    /// Corruption when a generation cannot be read: then the tables it needs are unknown.
    pub(super) fn needed(&self, disk: &dyn Disk, dir: &Path) -> Result<BTreeSet<String>> {
        let mut needed = BTreeSet::new();
        for number in &self.generations {
            let generation = Generation::read(disk, dir, *number)?;
            needed.extend(generation.tables().map(|meta| generation.name_of(meta)));
        }
        Ok(needed)
    }

    /// Removes temporary files, and the tables that no generation needs. No table is removed while
    /// a generation cannot be read. Returns the names of the removed tables and their sizes in
    /// bytes.
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

/// Removes a file, which may be missing already.
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
