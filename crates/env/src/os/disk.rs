//! `OsDisk`: the `Disk` that is the file system of the operating system.

use super::held::HeldByOs;
use super::lock::lock;
use super::place::Place;
use crate::disk::{Disk, DiskLock, HeldDir, LockMode, ReadFile, WriteFile, failed};
use crate::forks::check_may_open;
use crate::stream::StreamedFile;
use flagstone_base::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

/// The same with directories that are held.
struct HoldingDisk {
    held: Vec<HeldByOs>,
}

impl OsDisk {
    #[expect(clippy::unused_self, reason = "as of a disk that holds directories")]
    fn held(&self) -> &[HeldByOs] {
        &[]
    }
}

impl HoldingDisk {
    fn held(&self) -> &[HeldByOs] {
        &self.held
    }
}

fn hold(held: &[HeldByOs], path: &Path) -> Result<HeldDir> {
    check_may_open()?;
    // Symbolic links that are changed later are no concern of the directory. If the path above it
    // cannot be followed, links stay in it.
    let path = match path.canonicalize() {
        Ok(path) => path,
        Err(_) => std::path::absolute(path).map_err(failed("find", path))?,
    };
    let new = HeldByOs::open(&path).map_err(|errno| Error::io("open", &path, errno.into()))?;
    let guard = Arc::clone(&new.guard);
    let held = held.iter().cloned().chain([new]).collect();
    Ok(HeldDir { disk: Arc::new(HoldingDisk { held }), path, guard })
}

macro_rules! disk {
    ($disk:ty) => {
        impl Disk for $disk {
            fn absolute(&self, path: &Path) -> Result<PathBuf> {
                std::path::absolute(path).map_err(failed("find", path))
            }

            fn hold(&self, dir: &Path) -> Result<HeldDir> {
                hold(self.held(), dir)
            }

            fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
                Place::of(self.held(), path).create()
            }

            fn create_streamed(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
                Ok(Box::new(StreamedFile::new(self.create(path)?)))
            }

            fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
                Place::of(self.held(), path).reuse()
            }

            fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
                Place::of(self.held(), path).open()
            }

            #[cfg(target_os = "linux")]
            fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
                Place::of(self.held(), path).open_direct()
            }

            fn rename(&self, from: &Path, to: &Path) -> Result<()> {
                Place::of(self.held(), from).rename(&Place::of(self.held(), to))
            }

            fn link(&self, from: &Path, to: &Path) -> Result<()> {
                Place::of(self.held(), from).link(&Place::of(self.held(), to))
            }

            fn remove(&self, path: &Path) -> Result<()> {
                Place::of(self.held(), path).remove()
            }

            fn remove_own(&self, path: &Path) -> Result<()> {
                Place::of(self.held(), path).remove_own()
            }

            fn create_dir(&self, path: &Path) -> Result<()> {
                Place::of(self.held(), path).create_dir()
            }

            fn list(&self, dir: &Path) -> Result<Vec<String>> {
                Place::of(self.held(), dir).list()
            }

            fn sync_dir(&self, dir: &Path) -> Result<()> {
                Place::of(self.held(), dir).sync_dir()
            }

            fn exists(&self, path: &Path) -> Result<bool> {
                Place::of(self.held(), path).exists()
            }

            fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
                lock(&Place::of(self.held(), path), mode)
            }

            fn free_bytes(&self, path: &Path) -> Result<u64> {
                Place::of(self.held(), path).free_bytes()
            }
        }
    };
}

disk!(OsDisk);
disk!(HoldingDisk);
