//! Copies of a database in other directories: files are copied and checked, and a new directory is
//! a whole database or none at all.

use crate::manifest::ManifestState;
use flagstone_base::checksum::Crc32c;
use flagstone_base::sorted::SortedSet;
use flagstone_base::{Error, Result, interrupt};
use flagstone_env::disk::{Access, create_dir_synced, real_path, real_path_of_held};
use flagstone_env::names::{self, BackupName, Name, parse_backup};
use flagstone_env::{Disk, HeldDir, LockMode, ReadFile};
use flagstone_sst::TableMeta;
use std::path::Path;

/// A file is copied in pieces of this size.
const COPIED_AT_ONCE: usize = 256 << 10;

/// Called with the number of bytes that were read or copied. It may block, and an error ends the
/// copy.
pub(crate) type CopyPace<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

/// A pace without a limit.
pub(crate) fn unpaced(_bytes: u64) -> Result<()> {
    Ok(())
}

/// Refuses to create `what` in a directory that is inside of `from`, the held directory of a
/// database or of backups, or inside of another directory of backups: these hold their own files
/// only. Costs nothing that must be undone.
pub(crate) fn check_outside(disk: &dyn Disk, to: &Path, from: &Path, what: &str) -> Result<()> {
    let real_to = real_path(disk, to)?;
    if let Some(parent) = real_to.parent()
        && let Ok(names) = disk.list(parent)
        && names.iter().any(|name| matches!(parse_backup(name), BackupName::Generation(_)))
    {
        return Err(inside(to, parent, what));
    }
    check_real_outside(to, &real_to, from, what)
}

fn inside(to: &Path, other: &Path, what: &str) -> Error {
    let (to, other) = (to.display(), other.display());
    Error::invalid(format!("{to} is inside of {other}: expected another place for {what}"))
}

/// As [`check_outside`], for a directory that is held: a link in its path may have changed since
/// that was checked.
pub(crate) fn check_held_outside(to: &HeldDir, from: &Path, what: &str) -> Result<()> {
    check_real_outside(&to.path, &real_path_of_held(&to.path), from, what)
}

fn check_real_outside(to: &Path, real_to: &Path, from: &Path, what: &str) -> Result<()> {
    let real_from = real_path_of_held(from);
    // The directory itself is refused since it is not empty, or no directory of backups.
    if real_to == real_from || !real_to.starts_with(&real_from) {
        return Ok(());
    }
    Err(inside(to, from, what))
}

/// Refuses a directory that holds anything but a lock file. `what` names the copy in the error.
pub(crate) fn check_empty(disk: &dyn Disk, dir: &Path, what: &str) -> Result<()> {
    if !disk.exists(dir)? {
        return Ok(());
    }
    match disk.list(dir)?.iter().find(|name| *name != names::LOCK) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "{} holds {name:?}: {what} needs a new or empty directory",
            dir.display()
        ))),
    }
}

/// Creates the directory `dir` outside of `from`, or takes an empty one, and has `fill` create a
/// database in it. The directory is held and locked meanwhile: an open returns Busy. After an error
/// it is empty again.
pub(crate) fn create_database<T>(
    disk: &dyn Disk,
    dir: &Path,
    from: &Path,
    what: &str,
    fill: impl FnOnce(&HeldDir) -> Result<T>,
) -> Result<T> {
    create_dir_synced(disk, dir)?;
    let held = disk.hold(dir)?;
    check_held_outside(&held, from, what)?;
    let (disk, dir) = (&*held.disk, &*held.path);
    let lock = disk.lock(&dir.join(names::LOCK), LockMode::Exclusive)?;
    check_empty(disk, dir, what)?;
    let created = fill(&held);
    if created.is_err() {
        remove_files(disk, dir);
        // Last, and while it is held: whoever waits for it finds that it is another file.
        if disk.list(dir).is_ok_and(|names| names.iter().all(|name| *name == names::LOCK)) {
            let _stays = disk.remove(&dir.join(names::LOCK));
        }
    }
    drop(lock);
    created
}

/// Removes the files in the directory, `CURRENT` first, so that the rest is no database. Not the
/// lock file: it is held, and keeps others out until everything else is gone.
fn remove_files(disk: &dyn Disk, dir: &Path) {
    let Ok(found) = disk.list(dir) else { return };
    let current = dir.join(names::CURRENT);
    let removed = match disk.exists(&current) {
        Ok(false) => Ok(()),
        _ => disk.remove(&current).and_then(|()| disk.sync_dir(dir)),
    };
    if removed.is_err() {
        return;
    }
    for name in found {
        if !matches!(names::parse(&name), Name::Foreign | Name::Current | Name::Lock) {
            let _stays = disk.remove(&dir.join(name));
        }
    }
}

/// The state of a copy that has only tables, as after a clean close. `log_from` is above the number
/// of every segment of the original's log, if that is known.
pub(crate) fn state_of_copy(
    original: &ManifestState,
    log_from: Option<flagstone_base::FileNumber>,
) -> ManifestState {
    let mut state = original.clone();
    state.wal_from = log_from.or(state.wal_from);
    state.clean_close = true;
    state.log_files = SortedSet::new();
    // An open of the copy for writing begins a new history, a different one in each copy.
    state.history = None;
    // It has none of the changes that are kept.
    state.newest_kept = None;
    state.unlogged_through = flagstone_base::SeqNo::ZERO;
    state
}

/// The bytes of a file that were copied or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSum {
    pub(crate) bytes: u64,
    pub(crate) checksum: u32,
}

/// Copies a file and syncs the copy.
pub(crate) fn copy_file(
    disk: &dyn Disk,
    from: &Path,
    to: &Path,
    pace: CopyPace<'_>,
) -> Result<FileSum> {
    let source = disk.open(from)?;
    let mut copy = disk.create(to)?;
    copy.reserve(source.len())?;
    let read = read_file(&*source, |piece| {
        copy.append(piece)?;
        copy.start_writeback()?;
        pace(piece.len() as u64)
    })?;
    copy.sync()?;
    Ok(read)
}

/// Reads a file from front to back and calls `visit` with every piece.
fn read_file(source: &dyn ReadFile, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<FileSum> {
    source.advise(Access::Sequential);
    let mut buffer = vec![0; COPIED_AT_ONCE.min(source.len() as usize)];
    let (mut at, mut sum) = (0, Crc32c::default());
    while at < source.len() {
        let piece = &mut buffer[..COPIED_AT_ONCE.min((source.len() - at) as usize)];
        interrupt::check()?;
        source.read_exact_at(piece, at)?;
        sum.update(piece);
        visit(piece)?;
        at += piece.len() as u64;
    }
    Ok(FileSum { bytes: at, checksum: sum.value() })
}

/// Copies a table and syncs the copy. Checks both the bytes that were read and the bytes that the
/// device then has of the copy. Both are read at `pace`.
///
/// # Errors
/// Corruption if the original or the copy differs from the manifest; the copy is removed.
pub(crate) fn copy_table(
    disk: &dyn Disk,
    from: &Path,
    to: &Path,
    meta: &TableMeta,
    pace: CopyPace<'_>,
) -> Result<()> {
    let copied = copy_file(disk, from, to, pace)
        .and_then(|read| check_read(read, from, meta))
        .and_then(|()| check_table(disk, to, meta, pace));
    if copied.is_err() {
        let _stays = disk.remove(to);
    }
    copied
}

/// Reads a table from the device, and compares it with the manifest's record of it.
///
/// # Errors
/// Corruption; errors of reading the file.
pub(crate) fn check_table(
    disk: &dyn Disk,
    path: &Path,
    meta: &TableMeta,
    pace: CopyPace<'_>,
) -> Result<()> {
    let file = disk.open(path)?;
    file.advise(Access::Done);
    let read = read_file(&*file, |piece| pace(piece.len() as u64))?;
    file.advise(Access::Done);
    check_read(read, path, meta)
}

fn check_read(read: FileSum, path: &Path, meta: &TableMeta) -> Result<()> {
    let expected = FileSum { bytes: meta.bytes, checksum: meta.checksum };
    if read == expected {
        return Ok(());
    }
    Err(Error::corruption(
        path.display(),
        0,
        format_args!(
            "{} bytes with the checksum {:08x}: expected {} with {:08x}",
            read.bytes, read.checksum, expected.bytes, expected.checksum
        ),
    ))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use flagstone_env::OsDisk;

    /// The path was checked, and then followed again: a link that had changed since led into the
    /// source.
    #[test]
    fn a_copy_is_not_created_where_a_changed_link_leads_into_its_source() {
        let made = tempfile::tempdir().unwrap();
        let path = |name: &str| made.path().join(name);
        std::fs::create_dir_all(path("from/inner")).unwrap();
        std::os::unix::fs::symlink(path("from/inner"), path("link")).unwrap();
        let from = OsDisk.hold(&path("from")).unwrap().path;
        let create = |to: &str| create_database(&OsDisk, &path(to), &from, "a copy", |_| Ok(()));
        for to in ["link", "link/new"] {
            let refused = create(to).unwrap_err().to_string();
            assert!(refused.contains("is inside of"), "{refused}");
        }
        assert_eq!(OsDisk.list(&path("from/inner")).unwrap(), ["new"]);
        assert!(OsDisk.list(&path("from/inner/new")).unwrap().is_empty());
        create("copy").unwrap();
    }
}
