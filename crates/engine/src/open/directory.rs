//! The directory of a database: created and locked, no table missing, leftovers removed.

use crate::config::{Config, Environment};
use crate::manifest::{Manifest, ManifestState};
use flagstone_base::{Error, FileNumber, Result};
use flagstone_env::disk::{check_own, create_dir_synced};
use flagstone_env::names::{self, FileKind, Name};
use flagstone_env::{DirGuard, Disk, DiskLock, LockMode, lock_to_read};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// The error of an open where there is no database.
pub(super) fn no_database(dir: &Path) -> Error {
    Error::io(
        "open the database in",
        dir,
        std::io::Error::new(std::io::ErrorKind::NotFound, "there is no database here"),
    )
}

/// The directory of an open database.
pub(super) struct Directory {
    pub(super) lock: Option<Box<dyn DiskLock>>,
    pub(super) guard: Arc<DirGuard>,
}

/// What a database is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    ReadWrite,
    ReadOnly,
}

/// Creates the directory if the options ask for that, holds and locks it. The configuration is then
/// that of the held directory. A reader that may not write the directory opens it without a lock.
pub(super) fn hold_directory(config: Config, mode: OpenMode) -> Result<(Config, Directory)> {
    let read_only = mode == OpenMode::ReadOnly;
    let (disk, dir) = (&*config.environment.disk, &config.dir);
    if !disk.exists(dir)? {
        if read_only || !config.options.create_if_missing {
            return Err(no_database(dir));
        }
        create_dir_synced(disk, dir)?;
    }
    let held = disk.hold(dir)?;
    let (disk, dir) = (&*held.disk, &held.path);
    // Looks for a database before a lock file is created in a directory without one. If a lock file
    // exists, another process may be creating a database: the lock tells. `load` tells a
    // foreign directory from one whose `CURRENT` was lost. If a database has appeared in the
    // meantime, it is locked like any other.
    if (read_only || !config.options.create_if_missing)
        && !disk.exists(&dir.join(names::CURRENT))?
        && !disk.exists(&dir.join(names::LOCK))?
        && Manifest::load(disk, dir)?.is_none()
    {
        return Err(no_database(dir));
    }
    let path = dir.join(names::LOCK);
    let lock = if read_only {
        lock_to_read(disk, &path)?
    } else {
        let lock = disk.lock(&path, LockMode::Exclusive)?;
        // Beside a database a strange file is locked like any other, and stays as it is.
        if !disk.exists(&dir.join(names::CURRENT))? {
            check_own(&*lock, &path)?;
        }
        Some(lock)
    };
    let scratch_dir = config.scratch_dir.map(|dir| held.disk.absolute(&dir)).transpose()?;
    let environment = Environment { disk: held.disk, ..config.environment };
    let config = Config { dir: held.path, scratch_dir, environment, ..config };
    Ok((config, Directory { lock, guard: held.guard }))
}

/// Refuses a database that lacks a table which its manifest names.
pub(super) fn check_tables_exist(
    dir: &Path,
    state: &ManifestState,
    files: &[String],
) -> Result<()> {
    let files: HashSet<&str> = files.iter().map(String::as_str).collect();
    for number in state.live_tables() {
        let name = names::name(FileKind::Table, number);
        if !files.contains(name.as_str()) {
            return Err(Error::corruption(
                dir.join(name).display(),
                0,
                "the manifest names this table, and it is missing",
            ));
        }
    }
    Ok(())
}

/// Removes what is kept for readers of changes if the disk has no more than `needed` bytes left.
/// Returns whether it did.
pub(super) fn free_kept(
    disk: &dyn Disk,
    dir: &Path,
    files: &[String],
    needed: u64,
) -> Result<bool> {
    let kept = files.iter().filter(|name| matches!(names::parse(name), Name::Kept(_)));
    if kept.clone().next().is_none() || disk.free_bytes(dir).is_ok_and(|free| free > needed) {
        return Ok(false);
    }
    for name in kept {
        match disk.remove(&dir.join(name)) {
            Err(error) if !error.is_missing_file() => return Err(error),
            _ => {}
        }
    }
    Ok(true)
}

/// Removes what a crash left: temporary files and spill files, and tables and manifests that
/// nothing names. Returns how many files were removed.
pub(super) fn remove_leftovers(
    disk: &dyn Disk,
    dir: &Path,
    files: &[String],
    manifest: &Manifest,
) -> Result<usize> {
    let live: HashSet<FileNumber> = manifest.state().live_tables().collect();
    let mut removed = 0;
    for name in files {
        let is_leftover = match names::parse(name) {
            Name::Temporary | Name::Spill(_) => true,
            Name::Numbered(FileKind::Table, number) => !live.contains(&number),
            Name::Numbered(FileKind::Manifest, number) => number != manifest.number(),
            _ => false,
        };
        if !is_leftover {
            continue;
        }
        match disk.remove(&dir.join(name)) {
            Ok(()) => removed += 1,
            Err(error) if error.is_missing_file() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}
