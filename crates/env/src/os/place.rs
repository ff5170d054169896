//! A place on the disk: a name in a held directory, or a path. Does what a disk does there.

use super::file::{OsReadFile, OsWriteFile};
use super::held::{HeldByOs, mode_elsewhere};
#[cfg(target_os = "linux")]
use crate::direct::DirectReadFile;
use crate::disk::{ReadFile, WriteFile, failed};
use flagstone_base::{Error, Result};
use rustix::fs::{AtFlags, CWD, Dir, OFlags, linkat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

/// The mode of new directories: only their owner uses them.
const DIR_MODE: u32 = 0o700;

/// A place on the disk.
pub(super) struct Place<'a> {
    /// The held directory in which it is.
    pub(super) held: Option<&'a HeldByOs>,
    /// Where `name` begins.
    pub(super) at: BorrowedFd<'a>,
    pub(super) name: &'a Path,
    /// The whole path, for error texts.
    pub(super) path: &'a Path,
}

impl<'a> Place<'a> {
    /// The place of `path`: in the innermost of these directories, or wherever it leads.
    pub(super) fn of(held: &'a [HeldByOs], path: &'a Path) -> Self {
        let inside = held.iter().filter(|held| path.starts_with(&held.dir.path));
        let innermost = inside.max_by_key(|held| held.dir.path.as_os_str().len());
        let here = |name: &'a Path| if name.as_os_str().is_empty() { Path::new(".") } else { name };
        match innermost.map(|held| (held, path.strip_prefix(&held.dir.path).unwrap_or(path))) {
            Some((held, name)) => {
                Self { held: Some(held), at: held.dir.descriptor.as_fd(), name: here(name), path }
            }
            None => Self { held: None, at: CWD, name: here(path), path },
        }
    }

    pub(super) fn error(&self, doing: &str, errno: Errno) -> Error {
        // What is missing in a directory that is gone is no news.
        match self.held.map(|held| held.guard.check()) {
            Some(Err(lost)) if errno == Errno::NOENT => lost,
            _ => Error::io(doing, self.path, errno.into()),
        }
    }

    /// Refuses a change in a directory that is held and lost.
    pub(super) fn check(&self) -> Result<()> {
        self.held.map_or(Ok(()), |held| held.guard.check())
    }

    /// Opens the file, or creates it as `flags` say.
    pub(super) fn open_with(&self, doing: &str, flags: OFlags) -> Result<OwnedFd> {
        let mode = self.held.map_or(mode_elsewhere(), |held| held.dir.mode);
        loop {
            match openat(self.at, self.name, flags | OFlags::CLOEXEC, mode) {
                Err(Errno::INTR) => {}
                opened => return opened.map_err(|errno| self.error(doing, errno)),
            }
        }
    }

    fn writer(&self, doing: &str, flags: OFlags) -> Result<OsWriteFile> {
        self.check()?;
        let file = File::from(self.open_with(doing, OFlags::WRONLY | flags)?);
        OsWriteFile::new(file, self.path, self.held.map(|held| Arc::clone(&held.guard)))
    }

    pub(super) fn create(&self) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(self.writer("create", OFlags::CREATE | OFlags::EXCL)?))
    }

    pub(super) fn reuse(&self) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(self.writer("reuse", OFlags::empty())?))
    }

    pub(super) fn open(&self) -> Result<Arc<dyn ReadFile>> {
        let file = File::from(self.open_with("open", OFlags::RDONLY)?);
        Ok(Arc::new(OsReadFile::new(file, self.path)?))
    }

    #[cfg(target_os = "linux")]
    pub(super) fn open_direct(&self) -> Result<Arc<dyn ReadFile>> {
        let cached = self.open()?;
        let flags = OFlags::RDONLY | OFlags::DIRECT;
        DirectReadFile::open(cached, || self.open_with("open", flags).map(File::from))
    }

    pub(super) fn rename(&self, to: &Place<'_>) -> Result<()> {
        self.check()?;
        to.check()?;
        renameat(self.at, self.name, to.at, to.name).map_err(|errno| self.error("rename", errno))
    }

    pub(super) fn link(&self, to: &Place<'_>) -> Result<()> {
        to.check()?;
        linkat(self.at, self.name, to.at, to.name, AtFlags::empty())
            .map_err(|errno| self.error("link", errno))
    }

    pub(super) fn remove(&self) -> Result<()> {
        self.check()?;
        self.unlink()
    }

    pub(super) fn remove_own(&self) -> Result<()> {
        self.held.map_or(Ok(()), |held| held.guard.check_process())?;
        self.unlink()
    }

    fn unlink(&self) -> Result<()> {
        unlinkat(self.at, self.name, AtFlags::empty()).map_err(|errno| self.error("remove", errno))
    }

    pub(super) fn create_dir(&self) -> Result<()> {
        self.check()?;
        let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(self.path);
        made.map_err(failed("create the directory", self.path))
    }

    fn open_dir(&self, doing: &str) -> Result<OwnedFd> {
        self.open_with(doing, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    pub(super) fn list(&self) -> Result<Vec<String>> {
        let failed = |errno| self.error("list", errno);
        let mut names = Vec::new();
        for entry in Dir::new(self.open_dir("list")?).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn sync_dir(&self) -> Result<()> {
        self.check()?;
        let dir = File::from(self.open_dir("sync the directory")?);
        dir.sync_all().map_err(failed("sync the directory", self.path))
    }

    pub(super) fn exists(&self) -> Result<bool> {
        match statat(self.at, self.name, AtFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.error("examine", errno)),
        }
    }

    pub(super) fn free_bytes(&self) -> Result<u64> {
        let found = match self.held {
            Some(held) => rustix::fs::fstatvfs(&held.dir.descriptor),
            None => rustix::fs::statvfs(self.path),
        };
        let found = found.map_err(|errno| self.error("examine the file system of", errno))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}
