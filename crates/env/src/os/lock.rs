//! The lock of a directory: an advisory lock of a file in it.

use super::held::{FileId, HeldByOs};
use super::holder;
use super::place::Place;
use crate::disk::{DiskLock, LockMode, failed};
use crate::forks::{ClosedInChild, Origin, check_may_open};
use flagstone_base::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, FlockOperation, OFlags, flock, fstat, statat};
use rustix::io::Errno;
use std::fs::File;

/// So often the file may be replaced between its opening and its locking.
const TRIES: usize = 10;

/// A held lock.
struct OsLock {
    locked: Option<LockedFile>,
    origin: Origin,
    /// The file holds what flagstone does not write.
    is_foreign: bool,
    /// The file says who holds it.
    is_noted: bool,
    held: Option<HeldByOs>,
}

/// A locked file. In the child of a fork it is closed already, and its number may be that of
/// another one.
struct LockedFile {
    closed_in_child: ClosedInChild,
    file: File,
}

impl DiskLock for OsLock {
    fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    fn unwatch(&self) {
        if let Some(held) = &self.held {
            held.dir.set_locked(None);
        }
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        let Some(locked) = self.locked.take() else { return };
        if !self.origin.is_here() {
            return std::mem::forget(locked);
        }
        self.unwatch();
        if self.is_noted {
            holder::clear(&locked.file);
        }
        // Not left to the close of the last copy of the descriptor: a process that another thread
        // is just starting has one.
        let _unlocked = flock(&locked.file, FlockOperation::Unlock);
        // First the child's duty ends, then the number may be given to another file.
        drop(locked.closed_in_child);
    }
}

/// Locks the file at `place`.
pub(super) fn lock(place: &Place<'_>, mode: LockMode) -> Result<Box<dyn DiskLock>> {
    check_may_open()?;
    place.check()?;
    for _ in 0..TRIES {
        if let Some(lock) = try_lock(place, mode)? {
            place.check()?;
            return Ok(Box::new(lock));
        }
    }
    let text = format!("{} is replaced again and again", place.path.display());
    Err(Error::new(ErrorKind::Busy, text))
}

/// Returns `None` if the file was removed or replaced before it was locked.
fn try_lock(place: &Place<'_>, mode: LockMode) -> Result<Option<OsLock>> {
    // A link would lead the note of the holder elsewhere, and the open of a pipe might wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let (flags, operation) = match mode {
        LockMode::Exclusive => {
            (flags | OFlags::RDWR | OFlags::CREATE, FlockOperation::NonBlockingLockExclusive)
        }
        LockMode::Shared => (flags | OFlags::RDONLY, FlockOperation::NonBlockingLockShared),
    };
    let open = || place.open_with("open", flags).map(File::from);
    let (closed_in_child, file) = ClosedInChild::open(open)?;
    let locked = LockedFile { closed_in_child, file };
    let stat = fstat(&locked.file).map_err(|errno| place.error("examine", errno))?;
    let is_file = locked.file.metadata().map_err(failed("examine", place.path))?.is_file();
    if !is_file {
        let text = format!("{}: expected a regular file to lock", place.path.display());
        return Err(Error::invalid(text));
    }
    let id = FileId::of(&stat);
    match flock(&locked.file, operation) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let holders = holder::named(&locked.file, Some(id));
            let text = format!("{} is locked {holders}", place.path.display());
            return Err(Error::new(ErrorKind::Busy, text));
        }
        Err(errno) => return Err(place.error("lock", errno)),
    }
    let is_same = statat(place.at, place.name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileId::of(&stat) == id);
    if !is_same {
        return Ok(None);
    }
    let is_foreign = !holder::is_ours(&locked.file);
    // A file with other names may be anything, too.
    let is_noted = mode == LockMode::Exclusive && stat.st_nlink == 1 && !is_foreign;
    if is_noted {
        holder::note(&locked.file);
    }
    let held = place.held.cloned();
    if let Some(held) = &held {
        held.dir.set_locked(Some((place.name, id)));
    }
    Ok(Some(OsLock { locked: Some(locked), origin: Origin::here(), is_foreign, is_noted, held }))
}
