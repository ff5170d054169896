//! The directory to which queries spill.

use flagstone_base::Result;
use flagstone_env::{Disk, OsDisk};
use std::path::{Path, PathBuf};

/// A directory that is removed in the end: when the cluster and the handles of its collections are.
pub(crate) struct ScratchDir(PathBuf);

impl Drop for ScratchDir {
    fn drop(&mut self) {
        self.remove();
    }
}

impl ScratchDir {
    /// Creates the directory.
    ///
    /// # Errors
    /// Io.
    pub(crate) fn create(dir: PathBuf) -> Result<Self> {
        // For this user alone.
        OsDisk.create_dir(&dir)?;
        Ok(Self(dir))
    }

    /// Removes it. What cannot be removed stays in the directory for such files: nothing in it is
    /// needed.
    pub(crate) fn remove(&self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}
