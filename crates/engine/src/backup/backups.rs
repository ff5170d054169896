//! The backups in a directory: what callers do with them.

use super::check::{BackupVerifyReport, verify};
use super::folder::to_read;
use super::generation::Generation;
use super::keep::{KeepReport, keep};
use super::restore::{RestoreReport, restore};
use flagstone_base::{Error, Result, SeqNo};
use flagstone_env::{Disk, OsDisk};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The backups in a directory, made by [`Database::backup`](crate::Engine::backup).
#[derive(Clone)]
pub struct Backups {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
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
        let (_lock, folder) = to_read(&*self.disk, &self.dir)?;
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

    /// Reads every generation and every table that one needs, and checks that each is what was written. Goes on after
    /// damage: the report tells of all of it.
    ///
    /// A damaged table may be removed: the next backup copies it again, if the database has it still.
    ///
    /// # Errors
    /// Io when there is no such directory; Busy while a backup is made there.
    pub fn verify(&self) -> Result<BackupVerifyReport> {
        verify(&*self.disk, &self.dir)
    }

    /// Drops all generations but the `newest`, and the tables that only they needed.
    ///
    /// # Errors
    /// InvalidInput for 0; Io when there is no such directory; Busy while somebody else changes or reads the backups;
    /// Corruption when a generation that stays cannot be read: no table is removed then.
    pub fn keep(&self, newest: usize) -> Result<KeepReport> {
        keep(&*self.disk, &self.dir, newest)
    }

    /// Makes a database of a generation, the newest unless told, in `to`, which must be missing or empty. Every table is
    /// copied, checked, synced and read back, and only then named by a manifest: after an error or a crash there is no
    /// database in `to`.
    ///
    /// # Errors
    /// InvalidInput when there is no such generation, or `to` holds something; Corruption when the generation or
    /// one of its tables is damaged; Busy while a backup is made; OutOfSpace, Io.
    pub fn restore(&self, generation: Option<u64>, to: impl AsRef<Path>) -> Result<RestoreReport> {
        restore(&self.disk, &self.dir, generation, to.as_ref())
    }
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backups({})", self.dir.display())
    }
}
