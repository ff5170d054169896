//! The backups in a directory: list, verify, drop and restore them.

use super::check::{BackupVerifyReport, verify};
use super::folder::open_to_read;
use super::generation::Generation;
use super::keep::{KeepReport, keep};
use super::restore::{RestoreReport, WHAT, restore};
use crate::copying::{check_empty, check_outside};
use flagstone_base::{Error, Result, SeqNo};
use flagstone_env::{Disk, HeldDir, OsDisk};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The backups in a directory, created by `Database::backup`.
#[derive(Clone)]
pub struct Backups {
    dir: PathBuf,
    /// Why a relative path has no meaning, if so: each call says so.
    lost: Option<Error>,
    disk: Arc<dyn Disk>,
}

/// One generation of a directory of backups.
#[derive(Clone, Debug)]
pub struct BackupInfo {
    /// The number of the generation: newer generations have larger numbers.
    pub generation: u64,
    /// The SeqNo of the last write in the generation.
    pub seqno: SeqNo,
    /// When the generation was written: wall-clock time since 1970-01-01 00:00 UTC.
    pub made_at: Duration,
    /// The number of tables that the generation needs.
    pub tables: u64,
    /// The size of these tables, in bytes.
    pub bytes: u64,
    /// The part of `bytes` that no older generation in the list needs.
    pub bytes_new: u64,
    /// Why the file of the generation cannot be read, if so: then the other fields are zero.
    pub damage: Option<Error>,
}

impl Backups {
    /// Returns the backups in `dir`. Nothing is read yet.
    pub fn in_dir(dir: impl AsRef<Path>) -> Self {
        Self::on_disk(dir, Arc::new(OsDisk))
    }

    /// Returns the backups in `dir` on another disk, for tests.
    #[doc(hidden)]
    pub fn on_disk(dir: impl AsRef<Path>, disk: Arc<dyn Disk>) -> Self {
        // A relative path means what it means now. If even the current directory is gone, each
        // call says so.
        match disk.absolute(dir.as_ref()) {
            Ok(dir) => Self { dir, lost: None, disk },
            Err(error) => Self { dir: dir.as_ref().to_owned(), lost: Some(error), disk },
        }
    }

    fn hold(&self) -> Result<HeldDir> {
        self.lost.clone().map_or(Ok(()), Err)?;
        self.disk.hold(&self.dir)
    }

    /// Returns the generations, oldest first.
    ///
    /// # Errors
    /// Io when there is no such directory; Busy while a backup is being written there.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        let held = self.hold()?;
        let (_lock, folder) = open_to_read(&*held.disk, &held.path)?;
        let mut seen = BTreeSet::new();
        Ok(folder.generations.iter().map(|number| Self::info(&held, *number, &mut seen)).collect())
    }

    fn info(held: &HeldDir, number: u64, seen: &mut BTreeSet<String>) -> BackupInfo {
        let mut info = BackupInfo {
            generation: number,
            seqno: SeqNo::ZERO,
            made_at: Duration::ZERO,
            tables: 0,
            bytes: 0,
            bytes_new: 0,
            damage: None,
        };
        match Generation::read(&*held.disk, &held.path, number) {
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

    /// Reads every generation and every table that one needs, and checks that each is what was
    /// written. Continues after damage: the report lists all of it.
    ///
    /// A damaged table may be removed: the next backup copies it again if the database still has
    /// it.
    ///
    /// # Errors
    /// Io when there is no such directory; Busy while a backup is being written there.
    pub fn verify(&self) -> Result<BackupVerifyReport> {
        let held = self.hold()?;
        verify(&*held.disk, &held.path)
    }

    /// Drops all but the `newest` generations, and the tables that only dropped ones needed.
    ///
    /// # Errors
    /// InvalidInput for 0; Io when there is no such directory; Busy while another process changes
    /// or reads the backups; Corruption when a generation that stays cannot be read: then no table
    /// is removed.
    pub fn keep(&self, newest: usize) -> Result<KeepReport> {
        let held = self.hold()?;
        keep(&*held.disk, &held.path, newest)
    }

    /// Creates a database from a generation, by default the newest, in `to`, which must be missing
    /// or empty. Every table is copied, checked, synced and read back before a manifest names it:
    /// after an error or a crash `to` holds no database.
    ///
    /// # Errors
    /// InvalidInput when there is no such generation, or `to` is not empty or inside of the
    /// directory of the backups; Corruption when the generation or one of its tables is damaged;
    /// Busy while a backup is being written; OutOfSpace, Io.
    pub fn restore(&self, generation: Option<u64>, to: impl AsRef<Path>) -> Result<RestoreReport> {
        // Before anything else, lest a relative path change its meaning.
        let to = self.disk.absolute(to.as_ref())?;
        let held = self.hold()?;
        check_outside(&*held.disk, &to, &held.path, WHAT)?;
        check_empty(&*held.disk, &to, WHAT)?;
        restore(&*held.disk, &held.path, generation, &to)
    }
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backups({})", self.dir.display())
    }
}
