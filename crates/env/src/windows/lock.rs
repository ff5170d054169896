//! The lock of a directory: a file in it that is locked.
//!
//! Windows keeps others from reading a locked file, so no note in it names its holder.

use crate::disk::{DiskLock, LockMode, failed};
use flagstone_base::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::os::windows::fs::FileExt;
use std::path::Path;

/// The longest note that other systems write into a lock file.
const NOTE_BYTES_MAX: usize = 512;

/// A held lock. The system releases it when the file is closed.
struct OsLock {
    _file: File,
    is_foreign: bool,
}

impl DiskLock for OsLock {
    fn is_foreign(&self) -> bool {
        self.is_foreign
    }
}

/// Locks the file at `path`.
pub(super) fn lock(path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
    let is_exclusive = mode == LockMode::Exclusive;
    let mut options = OpenOptions::new();
    options.read(true).write(is_exclusive).create(is_exclusive).truncate(false);
    let file = options.open(path).map_err(failed("open", path))?;
    if !file.metadata().map_err(failed("examine", path))?.is_file() {
        let text = format!("{}: expected a regular file to lock", path.display());
        return Err(Error::invalid(text));
    }
    match if is_exclusive { file.try_lock() } else { file.try_lock_shared() } {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let text = format!(
                "{} is locked by another process, or another handle of this one",
                path.display()
            );
            return Err(Error::new(ErrorKind::Busy, text));
        }
        Err(TryLockError::Error(error)) => return Err(Error::io("lock", path, error)),
    }
    let is_foreign = !is_ours(&file);
    Ok(Box::new(OsLock { _file: file, is_foreign }))
}

/// Returns whether a file is empty or holds what other systems note there.
fn is_ours(file: &File) -> bool {
    let mut bytes = [0; NOTE_BYTES_MAX + 1];
    let Ok(read) = file.seek_read(&mut bytes, 0) else { return false };
    let note = bytes[..read].strip_suffix(b"\n").unwrap_or_default();
    read <= NOTE_BYTES_MAX && (bytes.iter().all(|byte| *byte == 0) || note.starts_with(b"pid "))
}
