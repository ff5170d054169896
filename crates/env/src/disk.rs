//! The interface to the file system: a small set of operations.
//!
//! Files are appended, synced, renamed, linked and removed. There are two exceptions, both for the
//! write-ahead log: [`Disk::reuse`] overwrites a recycled segment from its start, and
//! [`WriteFile::blank`] removes a refused record. So the crash model of the tests is small: after a
//! power cut, each unsynced byte and each unsynced directory entry may be there or not.

use crate::guard::DirGuard;
use flagstone_base::{Error, Result};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The size of a page of the page cache or a block of the file system, which a system writes as a
/// whole.
pub(crate) const PAGE: u64 = 4096;

/// A file that is being written. It only grows. Dropping the handle closes the file without a sync.
pub trait WriteFile: Send {
    /// Appends all of `bytes`, or fails. After a failure it is unknown how many bytes were written.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Appends all of `bytes` and leaves the vector empty, perhaps with another buffer: a streamed
    /// file ([`Disk::create_streamed`]) keeps the buffer until its bytes are written.
    fn append_vec(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        self.append(bytes)?;
        bytes.clear();
        Ok(())
    }

    /// Overwrites `len` bytes at `offset` with zeroes, up to the end of the file. The file does not
    /// grow, so this works on a full disk. The position is unchanged. Only for a write-ahead-log
    /// segment whose last append failed.
    fn blank(&mut self, offset: u64, len: u64) -> Result<()>;

    /// Makes everything appended survive a power cut (fdatasync). The name of a new file also needs
    /// [`Disk::sync_dir`].
    fn sync(&mut self) -> Result<()>;

    /// Asks the system to begin writing out the appended bytes. Does not wait, and promises
    /// nothing.
    fn start_writeback(&mut self) -> Result<()>;

    /// Reserves disk space for a length of `len` bytes, where the file system can. Promises
    /// nothing.
    fn reserve(&mut self, len: u64) -> Result<()>;

    /// The number of bytes appended since the file was created or reused.
    fn position(&self) -> u64;

    /// Returns a handle with which another thread can sync this file while this handle appends.
    fn syncer(&self) -> Result<Box<dyn SyncFile>>;
}

/// A second handle of a file that is being written; it can only sync.
pub trait SyncFile: Send + Sync {
    /// Makes everything appended before the call survive a power cut.
    fn sync(&self) -> Result<()>;
}

/// The way in which a file will be read. It decides whether the system reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// In random order: the system should not read ahead.
    Random,
    /// From front to back: the system should read ahead.
    Sequential,
    /// Not again soon: the system may drop the cached pages of the file.
    Done,
}

/// A file that is open for reading, at any offset and from any thread.
pub trait ReadFile: Send + Sync {
    /// Fills all of `buffer` from `offset`, or fails. If the file ends earlier, the error is a
    /// Corruption.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// As [`ReadFile::read_exact_at`], for a single block whose surroundings are not needed. A file
    /// opened with [`Disk::open_direct`] bypasses the page cache.
    fn read_block_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.read_exact_at(buffer, offset)
    }

    /// The length in bytes when the file was opened.
    fn len(&self) -> u64;

    /// Returns whether the file was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells the system how the file will be read. A hint that promises nothing.
    fn advise(&self, access: Access);

    /// The path of the file, for error texts.
    fn path(&self) -> &Path;
}

/// Whether a lock can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// No other handle may hold the lock: for a writer.
    Exclusive,
    /// Other handles may hold the lock in shared mode, too: for readers.
    Shared,
}

/// A held lock of a directory. Dropping it releases the lock.
pub trait DiskLock: Send + Sync {
    /// Returns whether the locked file holds what flagstone does not write into lock files. It is
    /// then left as it is.
    fn is_foreign(&self) -> bool {
        false
    }

    /// From now on the guard of the directory does not miss the file: its holder removes it.
    fn unwatch(&self) {}
}

/// A directory that is held: see [`Disk::hold`].
pub struct HeldDir {
    /// The disk whose paths at and below `path` lead into the held directory.
    pub disk: Arc<dyn Disk>,
    /// The absolute path of the directory, without symbolic links.
    pub path: PathBuf,
    /// Tells whether the path still leads to the directory.
    pub guard: Arc<DirGuard>,
}

/// A file system. Its methods are called from any thread.
pub trait Disk: Send + Sync {
    /// The absolute path that `path` is now: a relative one means another file once the process
    /// has changed its directory.
    fn absolute(&self, path: &Path) -> Result<PathBuf>;

    /// Holds the directory `dir` itself: on the returned disk its path leads there, even if it is
    /// moved or another directory takes its place. After that nothing is created, renamed or
    /// removed, and syncs of the directory and its files fail, with the error of the guard. The
    /// same holds when the file that was locked in the directory is removed or replaced. What this
    /// disk holds already, the returned one holds, too.
    fn hold(&self, dir: &Path) -> Result<HeldDir>;

    /// Creates a new file. It is an error if the file exists. Only its owner may read it.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Creates a new file that is written from front to end and then synced. A disk may do its
    /// appends in another thread. The error of a failed append is then returned by a later call, at
    /// the latest by `sync`.
    fn create_streamed(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.create(path)
    }

    /// Opens an existing file to be overwritten from its start. The length stays. Old bytes stay
    /// until they are overwritten by an append, or by the zeros that an append may write up to the
    /// end of its last page. Only for write-ahead-log segments.
    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;

    /// Opens a file for reading. [`ReadFile::read_block_at`] then bypasses the page cache, where
    /// the system can do that.
    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.open(path)
    }

    /// Renames a file atomically. If `to` exists, it is replaced.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name, a hard link. `to` must not exist.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes the name of a file.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes a file that only this process knows, by a random name. On a disk of the system that
    /// works even in a held directory that is lost, but not in a forked process.
    fn remove_own(&self, path: &Path) -> Result<()> {
        self.remove(path)
    }

    /// Creates a directory and its missing parents. Only their owner may use them.
    fn create_dir(&self, path: &Path) -> Result<()>;

    /// The names (not paths) of the files and directories in a directory, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Makes the directory's entries (creations, renames, links, removals) survive a power cut.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Returns whether there is a file or directory at `path`.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Locks `path`, or returns Busy at once; its text names the holder where that is known. An
    /// exclusive lock creates a missing file, and notes there who holds it. A shared lock needs no
    /// permission to write the file. A child of a fork does not hold the lock.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>>;

    /// The number of bytes that can still be written to the file system of `path`.
    fn free_bytes(&self, path: &Path) -> Result<u64>;
}

/// Takes a shared lock for a reader. Returns `None` where a lock is impossible: the lock file is
/// missing or may not be opened, or the file system has no locks.
///
/// # Errors
/// Busy while a writer holds the lock. Any other error is returned as well, because a reader
/// without a lock may meet files that are being removed.
pub fn lock_to_read(disk: &dyn Disk, path: &Path) -> Result<Option<Box<dyn DiskLock>>> {
    let is_impossible = |error: &Error| {
        let kind = error.io_error().map(std::io::Error::kind);
        kind.is_some_and(|kind| {
            use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, Unsupported};
            matches!(kind, NotFound | PermissionDenied | ReadOnlyFilesystem | Unsupported)
        })
    };
    match disk.lock(path, LockMode::Shared) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if is_impossible(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a locked file that is not one of flagstone, in a directory without a database.
///
/// # Errors
/// InvalidInput.
pub fn check_own(lock: &dyn DiskLock, path: &Path) -> Result<()> {
    if !lock.is_foreign() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} is not a file of flagstone, which locks the file of that name: use another directory",
        path.display()
    )))
}

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// Corruption when the file is longer: files that are read as a whole are small by design.
pub fn read_whole(disk: &dyn Disk, path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = disk.open(path)?;
    if file.len() > limit {
        return Err(flagstone_base::Error::corruption(
            path.display(),
            limit,
            format_args!("{} bytes: expected at most {limit}", file.len()),
        ));
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Replaces the content of `path` by `bytes`, atomically and durably: writes and syncs a temporary
/// file next to it, renames that file, and syncs the directory.
pub fn replace_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    if disk.exists(&temporary)? {
        disk.remove(&temporary)?;
    }
    let mut file = disk.create(&temporary)?;
    file.append(bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Creates a directory and its missing parents, so that all their names survive a power cut.
///
/// # Errors
/// Errors of the disk.
pub fn create_dir_synced(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let mut parents = Vec::new();
    for ancestor in dir.ancestors() {
        if ancestor.as_os_str().is_empty() || disk.exists(ancestor)? {
            break;
        }
        parents.extend(ancestor.parent());
    }
    if parents.is_empty() {
        return Ok(());
    }
    disk.create_dir(dir)?;
    parents.into_iter().try_for_each(|parent| disk.sync_dir(parent))
}

/// Returns the absolute path of the directory `path`, without symbolic links and `..`. It need not
/// exist: the part of the path that exists says where the directory will be.
///
/// # Errors
/// Errors of the disk.
pub fn real_path(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    let path = disk.absolute(path)?;
    for part in path.ancestors().filter(|part| !part.as_os_str().is_empty()) {
        if !disk.exists(part)? {
            continue;
        }
        let found = real_path_of_held(&disk.hold(part)?.path);
        let missing = path.strip_prefix(part).unwrap_or(Path::new(""));
        if missing.as_os_str().is_empty() {
            return Ok(found);
        }
        if !missing.components().any(|component| component == Component::ParentDir) {
            return Ok(found.join(missing));
        }
        // A directory that is still to be created is no link, so `..` leads out of it again, and
        // perhaps to one that exists.
        let mut real = found;
        for component in missing.components() {
            match component {
                Component::ParentDir => {
                    real.pop();
                }
                component => real.push(component),
            }
        }
        return real_path(disk, &real);
    }
    Ok(path)
}

/// Returns the path of a held directory without symbolic links. It need not be followed, for which
/// the process may have lost the permission.
pub fn real_path_of_held(path: &Path) -> PathBuf {
    // On Windows a held directory keeps the path that was given.
    let real = if cfg!(windows) { path.canonicalize().ok() } else { None };
    real.unwrap_or_else(|| path.to_owned())
}

/// Makes an error of the system the error that `doing` something with a file failed.
pub(crate) fn failed<'a>(
    doing: &'a str,
    path: &'a Path,
) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |source| Error::io(doing, path, source)
}

/// Returns the error that a file ends before the `len` bytes at `offset`.
pub(crate) fn too_short(path: &Path, offset: u64, len: usize) -> Error {
    let why = format_args!("expected {len} bytes, the file ends before");
    Error::corruption(path.display(), offset, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDisk;

    #[test]
    fn a_directory_and_those_above_it_survive_a_power_cut() {
        let disk = MemDisk::default();
        create_dir_synced(&disk, Path::new("a/b/c")).unwrap();
        let after = disk.crash_losing_unsynced();
        assert!(after.exists(Path::new("a/b/c")).unwrap());
        create_dir_synced(&after, Path::new("a/b/c")).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_real_path_follows_links_and_parents_and_needs_no_directory() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::os::unix::fs::symlink(top.join("a/b"), top.join("link")).unwrap();
        for (path, expected) in [
            ("a/b", "a/b"),
            ("link", "a/b"),
            ("link/c/d", "a/b/c/d"),
            // The parent of what the link leads to, as for the system.
            ("link/../c", "a/c"),
            ("new", "new"),
            ("new/../a/b/c", "a/b/c"),
            ("new/../link/c", "a/b/c"),
            ("a/new/more/../../../link", "a/b"),
            ("a/./b/./c", "a/b/c"),
        ] {
            let found = real_path(&crate::OsDisk, &top.join(path)).unwrap();
            assert_eq!(found, top.join(expected), "{path}");
        }
        std::fs::write(top.join("file"), "").unwrap();
        assert!(real_path(&crate::OsDisk, &top.join("file")).is_err());
        assert!(real_path(&crate::OsDisk, &top.join("file/below")).is_err());
    }

    #[test]
    fn a_relative_real_path_begins_in_the_current_directory() {
        let disk = MemDisk::default();
        create_dir_synced(&disk, Path::new("/a/b")).unwrap();
        disk.change_dir(Path::new("/a"));
        assert_eq!(real_path(&disk, Path::new("b/c")).unwrap(), Path::new("/a/b/c"));
        assert_eq!(real_path(&disk, Path::new("new/../b")).unwrap(), Path::new("/a/b"));
    }
}
