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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Queries spill documents into it, and temporary directories are everybody's.
    #[test]
    fn it_is_for_this_user_alone_and_goes_with_the_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scratch");
        let scratch = ScratchDir::create(path.clone()).unwrap();
        let mode = std::fs::metadata(scratch.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(path.join("00000000000000ff.spill"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
