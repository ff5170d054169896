//! A directory of backups: what lies in it, who may change it.

use super::generation::Generation;
use flagstone_base::{Error, Result, SeqNo};
use flagstone_env::names::{self, BackupName, Name};
use flagstone_env::{Disk, DiskLock, LockMode, OsDisk, lock_to_read};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The backups in a directory, made by [`Database::backup`](crate::Engine::backup).
#[derive(Clone)]
pub struct Backups {
    pub(super) dir: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
}

/// A generation of backups.
#[derive(Clone, Debug)]
pub struct BackupInfo {
    /// Its number: they rise.
    pub generation: u64,
    /// The last write in it.
    pub seqno: SeqNo,
    /// When it was made, by the wall's clock, since 1970-01-01 00:00 UTC.
    pub made_at: Duration,
    /// Its tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of these bytes no older generation in the list needs.
    pub bytes_new: u64,
    /// Why its file cannot be read, if it cannot: then nothing else is known of it.
    pub damage: Option<Error>,
}

impl Backups {
    /// The backups in `dir`. Nothing is read yet.
    pub fn in_dir(dir: impl AsRef<Path>) -> Self {
        Self::on_disk(dir, Arc::new(OsDisk))
    }

    /// The same on another disk: for tests.
    #[doc(hidden)]
    pub fn on_disk(dir: impl AsRef<Path>, disk: Arc<dyn Disk>) -> Self {
        Self { dir: dir.as_ref().to_owned(), disk }
    }

    /// The generations, oldest first.
    ///
    /// # Errors
    /// Io when there is no such directory; Busy while a backup is made there.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        let (_lock, folder) = self.to_read()?;
        let mut seen = BTreeSet::new();
        Ok(folder.generations.iter().map(|number| self.info(*number, &mut seen)).collect())
    }

    fn info(&self, number: u64, seen: &mut BTreeSet<String>) -> BackupInfo {
        let mut info = BackupInfo {
            generation: number,
            seqno: SeqNo::ZERO,
            made_at: Duration::ZERO,
            tables: 0,
            bytes: 0,
            bytes_new: 0,
            damage: None,
        };
        match Generation::read(&*self.disk, &self.dir, number) {
            Ok(generation) => {
                (info.seqno, info.made_at) = (generation.seqno, generation.made_at);
                for meta in generation.tables() {
                    info.tables += 1;
                    info.bytes += meta.bytes;
                    let is_new = seen.insert(generation.name_of(meta));
                    info.bytes_new += if is_new { meta.bytes } else { 0 };
                }
            }
            Err(error) => info.damage = Some(error),
        }
        info
    }

    /// Keeps those who change the backups out, where that can be: a directory that may not be written has
    /// no lock file to lock, and nobody who changes it.
    pub(super) fn to_read(&self) -> Result<(Option<Box<dyn DiskLock>>, Folder)> {
        let lock = lock_to_read(&*self.disk, &self.dir.join(names::LOCK))?;
        Ok((lock, Folder::look(&*self.disk, &self.dir)?))
    }

    /// Keeps everybody else out.
    pub(super) fn to_write(&self) -> Result<(Box<dyn DiskLock>, Folder)> {
        // Before a lock file is made in the directory of something else.
        Folder::look(&*self.disk, &self.dir)?;
        let lock = self.disk.lock(&self.dir.join(names::LOCK), LockMode::Exclusive)?;
        Ok((lock, Folder::look(&*self.disk, &self.dir)?))
    }
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backups({})", self.dir.display())
    }
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
