//! The seam to the file system: fifteen operations, no more.
//!
//! Files are appended, synced, renamed, linked and removed. There are two exceptions, both of the write-ahead log:
//! [`Disk::reuse`] writes a recycled segment again from its start, and [`WriteFile::blank`] takes back a record that
//! was refused. So the crash model that tests run against is small: after a power cut, bytes that were not synced and
//! directory entries that were not synced may each be there or not.

use flagstone_base::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A page of the page cache, or a block of the file system: what a system writes at once.
pub(crate) const PAGE: u64 = 4096;

/// A file being written: it only grows. Dropping it closes it and syncs nothing.
pub trait WriteFile: Send {
    /// Appends all of `bytes`, or fails; after a failure how much arrived is unknown.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Appends all of `bytes` and leaves it empty, perhaps with another memory: a file that is streamed
    /// ([`Disk::create_streamed`]) keeps the buffer until its bytes are written.
    fn append_vec(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        self.append(bytes)?;
        bytes.clear();
        Ok(())
    }

    /// Writes zeroes over `len` bytes at `offset`, as far as the file goes: it grows by nothing, so a full disk does
    /// not refuse it. The position stays. Only for a write-ahead-log segment whose last append failed.
    fn blank(&mut self, offset: u64, len: u64) -> Result<()>;

    /// Makes everything appended survive a power cut (fdatasync). The name of a new file needs
    /// [`Disk::sync_dir`] besides.
    fn sync(&mut self) -> Result<()>;

    /// Asks the system to begin writing out what was appended; promises nothing and does not wait.
    fn start_writeback(&mut self) -> Result<()>;

    /// Reserves room up to `len` bytes where the file system can; promises nothing.
    fn reserve(&mut self, len: u64) -> Result<()>;

    /// How many bytes were appended since the file was created or reused.
    fn position(&self) -> u64;

    /// A handle that syncs this file from another thread while this one appends.
    fn syncer(&self) -> Result<Box<dyn SyncFile>>;
}

/// A second handle of a file being written, which can only sync it.
pub trait SyncFile: Send + Sync {
    /// Makes everything appended before the call survive a power cut.
    fn sync(&self) -> Result<()>;
}

/// How a file will be read, so that the system reads ahead or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Here and there: no reading ahead.
    Random,
    /// From front to back: read ahead.
    Sequential,
    /// Not again soon: cached pages of the file may go.
    Done,
}

/// An open file for reading at any offset, from any thread.
pub trait ReadFile: Send + Sync {
    /// Fills all of `buffer` from `offset`, or fails; a file that ends earlier is a Corruption.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// The same of a block of which nothing around is wanted. A file opened by [`Disk::open_direct`] reads it
    /// past the page cache.
    fn read_block_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.read_exact_at(buffer, offset)
    }

    /// The length when it was opened.
    fn len(&self) -> u64;

    /// Whether it was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells the system how the file will be read; promises nothing.
    fn advise(&self, access: Access);

    /// Its path, for error texts.
    fn path(&self) -> &Path;
}

/// Who else may hold a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Nobody: for the one who writes.
    Exclusive,
    /// Others who hold it shared: for those who only read.
    Shared,
}

/// A lock of a directory; given back when dropped.
pub trait DiskLock: Send + Sync {}

/// A file system.
pub trait Disk: Send + Sync {
    /// Creates a new file; one that exists is an error.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Creates a new file that is written from front to end and then synced: a disk may carry out its
    /// appends on a thread of its own. An append that failed is answered by a later call, at the latest by
    /// `sync`.
    fn create_streamed(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.create(path)
    }

    /// Opens an existing file to be written again from its start, its length and old bytes staying
    /// until they are written over, or zeros are written up to the end of a page that an append has
    /// begun. Only for write-ahead-log segments.
    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;

    /// Opens a file for reading whose single blocks come past the page cache
    /// ([`ReadFile::read_block_at`]), where the system can do that.
    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.open(path)
    }

    /// Renames a file, replacing `to` if it exists, atomically.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name (a hard link); `to` must not exist.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file's name.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Makes a directory and its missing parents.
    fn create_dir(&self, path: &Path) -> Result<()>;

    /// The names (not paths) of the files in a directory, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Makes the directory's entries (creations, renames, links, removals) survive a power cut.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Whether there is a file or directory of this name.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Locks `path`, or answers Busy at once. An exclusive lock makes the file if it is missing; a
    /// shared one needs no right to write it.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>>;

    /// How many bytes can still be written below `path`.
    fn free_bytes(&self, path: &Path) -> Result<u64>;
}

/// A shared lock for a reader, or `None` where there can be none: no lock file, or one that it may not open; or a file
/// system without locks.
///
/// # Errors
/// Busy while somebody writes; any other failure: a reader without a lock may meet files that are being removed.
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

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// Corruption when it is longer: what is read whole is small by design.
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

/// Writes `bytes` as the whole content of `path`, atomically: a temporary file beside it is
/// written, synced and renamed, then the directory synced.
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

/// Makes a directory, and those above it that are missing, so that all their names survive a power cut.
///
/// # Errors
/// Io.
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
}
