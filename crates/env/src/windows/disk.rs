//! `OsDisk`: the `Disk` that is the file system of Windows.

use super::file::{OsReadFile, OsWriteFile};
use super::lock::lock;
use super::process::free_bytes;
use crate::disk::{Disk, DiskLock, HeldDir, LockMode, ReadFile, WriteFile, failed};
use crate::guard::DirGuard;
use crate::stream::StreamedFile;
use flagstone_base::Result;
use std::fs::{File, OpenOptions};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `FILE_FLAG_BACKUP_SEMANTICS`: opens a directory.
const DIRECTORY: u32 = 0x0200_0000;
/// `FILE_SHARE_READ | FILE_SHARE_WRITE`: others may use a file, and not move or remove it.
const SHARE_IN_PLACE: u32 = 3;

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(failed("find", path))
    }

    fn hold(&self, dir: &Path) -> Result<HeldDir> {
        let path = self.absolute(dir)?;
        let mut options = OpenOptions::new();
        options.read(true).share_mode(SHARE_IN_PLACE).custom_flags(DIRECTORY);
        let kept: File = options.open(&path).map_err(failed("open", dir))?;
        let look = move || {
            let _kept_in_its_place = &kept;
            None
        };
        let guard = Arc::new(DirGuard::new(path.clone(), look));
        Ok(HeldDir { disk: Arc::new(*self), path, guard })
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        Ok(Box::new(OsWriteFile::new(file.map_err(failed("create", path))?, path)?))
    }

    fn create_streamed(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(StreamedFile::new(self.create(path)?)))
    }

    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = OpenOptions::new().write(true).open(path);
        Ok(Box::new(OsWriteFile::new(file.map_err(failed("reuse", path))?, path)?))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = File::open(path).map_err(failed("open", path))?;
        Ok(Arc::new(OsReadFile::new(file, path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(failed("rename", from))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::hard_link(from, to).map_err(failed("link", from))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(failed("remove", path))
    }

    fn remove_own(&self, path: &Path) -> Result<()> {
        self.remove(path)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(path).map_err(failed("create the directory", path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed("list", dir))? {
            let entry = entry.map_err(failed("list", dir))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// NTFS keeps its entries in a log of its own, in their order, and has no call that waits for
    /// it: only a flush of the whole volume, which needs an administrator.
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        std::fs::metadata(dir).map(drop).map_err(failed("sync the directory", dir))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        std::fs::exists(path).map_err(failed("examine", path))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        lock(path, mode)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        free_bytes(path).map_err(failed("examine the file system of", path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::lock_to_read;
    use flagstone_base::ErrorKind;

    #[test]
    fn a_file_is_written_renamed_read_and_removed_while_it_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let held = OsDisk.hold(dir.path()).unwrap();
        let (disk, a, b) = (&held.disk, held.path.join("a"), held.path.join("b"));
        let mut file = disk.create(&a).unwrap();
        file.append(b"hello ").unwrap();
        file.append(b"world").unwrap();
        file.sync().unwrap();
        assert!(disk.create(&a).is_err());
        disk.rename(&a, &b).unwrap();
        disk.sync_dir(&held.path).unwrap();
        let read = disk.open(&b).unwrap();
        let mut bytes = [0; 5];
        read.read_exact_at(&mut bytes, 6).unwrap();
        assert_eq!((&bytes, read.len()), (b"world", 11));
        let short = read.read_exact_at(&mut bytes, 8).unwrap_err();
        assert_eq!(short.kind(), ErrorKind::Corruption);
        drop(disk.reuse(&b).map(|mut file| file.append(b"HELLO")).unwrap());
        read.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"HELLO");
        disk.link(&b, &a).unwrap();
        disk.remove(&b).unwrap();
        // Before version 10, on drives other than NTFS and under Wine, a removed file keeps its
        // name until the last handle is closed.
        drop((file, read));
        assert_eq!(disk.list(&held.path).unwrap(), ["a"]);
        assert!(disk.open(&b).err().unwrap().is_missing_file());
        assert!(disk.free_bytes(&held.path).unwrap() > 0);
        assert!(held.guard.check().is_ok());
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        assert!(lock_to_read(&OsDisk, &path).unwrap().is_none());
        let writer = OsDisk.lock(&path, LockMode::Exclusive).unwrap();
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            assert_eq!(OsDisk.lock(&path, mode).err().unwrap().kind(), ErrorKind::Busy);
        }
        drop(writer);
        let readers = [(); 2].map(|()| OsDisk.lock(&path, LockMode::Shared).unwrap());
        assert!(OsDisk.lock(&path, LockMode::Exclusive).is_err());
        drop(readers);
        assert!(!OsDisk.lock(&path, LockMode::Exclusive).unwrap().is_foreign());
        std::fs::write(&path, "no note").unwrap();
        assert!(OsDisk.lock(&path, LockMode::Exclusive).unwrap().is_foreign());
    }
}
