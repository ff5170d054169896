//! A held directory: its descriptor, and a look whether its path and its lock still lead to it.

use crate::guard::DirGuard;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The mode of new files: only their owner reads and writes them.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The identity of a file or directory. No other one gets it while this one is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    #[allow(clippy::unnecessary_cast, reason = "macOS has signed numbers of devices")]
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev as u64, inode: stat.st_ino }
    }

    /// The file as the system's list of locks names it.
    pub(super) fn in_list_of_locks(self) -> String {
        // Only Linux has the list.
        #[cfg(target_os = "linux")]
        let (major, minor) = (rustix::fs::major(self.device), rustix::fs::minor(self.device));
        #[cfg(not(target_os = "linux"))]
        let (major, minor) = (0, self.device);
        format!("{major:02x}:{minor:02x}:{}", self.inode)
    }
}

/// A directory that is open, and the file that is locked in it.
pub(super) struct OpenDir {
    pub(super) path: PathBuf,
    pub(super) descriptor: OwnedFd,
    /// The mode of files that are created in it.
    pub(super) mode: Mode,
    /// The name and the identity of the locked file.
    locked: Mutex<Option<(PathBuf, FileId)>>,
}

/// An open directory with its guard.
#[derive(Clone)]
pub(super) struct HeldByOs {
    pub(super) dir: Arc<OpenDir>,
    pub(super) guard: Arc<DirGuard>,
}

impl HeldByOs {
    /// Opens the directory at the absolute `path`.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty())?;
        let stat = fstat(&descriptor)?;
        let dir = Arc::new(OpenDir {
            path: path.to_owned(),
            descriptor,
            mode: mode_in(&stat),
            locked: Mutex::default(),
        });
        let looked_at = Arc::clone(&dir);
        let guard = Arc::new(DirGuard::new(path.to_owned(), move || looked_at.what_happened()));
        Ok(Self { dir, guard })
    }
}

impl OpenDir {
    /// Notes the file `name` that is locked now, or that none is any more.
    pub(super) fn set_locked(&self, locked: Option<(&Path, FileId)>) {
        let locked = locked.map(|(name, id)| (name.to_owned(), id));
        *self.locked.lock().unwrap_or_else(PoisonError::into_inner) = locked;
    }

    fn locked(&self) -> Option<(PathBuf, FileId)> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What has happened to the directory, if its path or its lock leads elsewhere. A path that
    /// cannot be followed, say because this process gave up the permission for it, proves nothing.
    fn what_happened(&self) -> Option<String> {
        let found = match statat(CWD, &self.path, AtFlags::empty()) {
            Ok(stat) if self.is(&stat) => None,
            Ok(_) => Some("another one is at its path"),
            Err(Errno::NOENT | Errno::NOTDIR) => Some("it was moved or removed"),
            Err(_) => None,
        };
        if let Some(found) = found {
            return Some(match self.path_now() {
                Some(now) => format!("{found}, and it is {} now", now.display()),
                None => found.to_owned(),
            });
        }
        // A file system may take its time, so the mutex is not held meanwhile.
        let (name, id) = self.locked()?;
        let found = match statat(&self.descriptor, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileId::of(&stat) == id => return None,
            Ok(_) => "was replaced",
            Err(Errno::NOENT) => "was removed",
            Err(_) => return None,
        };
        // Its holder may have released it meanwhile, and removed it.
        if self.locked().is_none_or(|(_, now)| now != id) {
            return None;
        }
        let name = name.display();
        Some(format!("its file {name} {found}, so another process may have opened it"))
    }

    /// Where the directory is now, if the system tells and it is nowhere removed.
    fn path_now(&self) -> Option<PathBuf> {
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        let now = std::fs::read_link(link).ok()?;
        let stat = statat(CWD, &now, AtFlags::empty()).ok()?;
        self.is(&stat).then_some(now)
    }

    /// Returns whether this is the directory. Some file systems give a directory another number
    /// when it is first written, so that of the open one is not kept.
    fn is(&self, found: &Stat) -> bool {
        fstat(&self.descriptor).is_ok_and(|stat| FileId::of(&stat) == FileId::of(found))
    }
}

/// The mode of new files in a directory. Its owner shares a directory with its group by the bits
/// for reading and for the group of new files: `chmod g+rxs`.
fn mode_in(dir: &Stat) -> Mode {
    let mode = Mode::from_raw_mode(dir.st_mode);
    if mode.contains(Mode::SGID | Mode::RGRP) { PRIVATE | Mode::RGRP } else { PRIVATE }
}

/// The mode of new files outside of held directories.
pub(super) const fn mode_elsewhere() -> Mode {
    PRIVATE
}
