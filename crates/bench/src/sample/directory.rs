//! The files of a store: their bytes, and a sync of them all.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Bytes that all files in `dir` and below take on the device; what is not allocated in a sparse file
/// does not count. Files that go meanwhile are passed over.
pub fn directory_bytes(dir: &Path) -> u64 {
    let DirectoryBytes { all, .. } = DirectoryBytes::of(dir);
    all
}

/// Bytes that the files of a store take on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryBytes {
    /// All of them.
    pub all: u64,
    /// Those of a write-ahead log, as far as names tell: `.wal`, `.log` and `.jnl`, and what has `-wal` or `journal` in its name.
    pub log: u64,
}

impl DirectoryBytes {
    /// Those of all files in `dir` and below; what goes meanwhile is passed over.
    pub fn of(dir: &Path) -> Self {
        let mut sum = Self::default();
        let Ok(entries) = fs::read_dir(dir) else { return sum };
        for entry in entries.flatten() {
            let Ok(found) = entry.metadata() else { continue };
            let below = match found.is_dir() {
                true => Self::of(&entry.path()),
                false => Self { all: file_bytes(&found), log: 0 },
            };
            sum.all += below.all;
            sum.log += if is_log(&entry.path()) { below.all } else { below.log };
        }
        sum
    }

    /// What is no log.
    pub const fn data(self) -> u64 {
        self.all.saturating_sub(self.log)
    }
}

fn is_log(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["wal", "log", "jnl"].contains(&extension) || name.ends_with("-wal") || name.contains("journal")
}

#[cfg(unix)]
fn file_bytes(found: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    found.blocks() * 512
}

#[cfg(not(unix))]
fn file_bytes(found: &fs::Metadata) -> u64 {
    found.len()
}

/// Syncs every file in `dir` and below, so that nothing of them waits in the page cache. Files that
/// go meanwhile are passed over.
///
/// # Errors
/// What the file system says.
pub fn sync_files(dir: &Path) -> io::Result<()> {
    let pass_missing = |result: io::Result<()>| match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            pass_missing(sync_files(&path))?;
        } else if path.is_file() {
            pass_missing(File::open(&path).and_then(|file| file.sync_all()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_from_the_data() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("journals")).unwrap();
        for (name, bytes) in [("1.sst", 40_000), ("2.wal", 20_000), ("journals/3", 20_000)] {
            fs::write(dir.path().join(name), vec![1; bytes]).unwrap();
        }
        sync_files(dir.path()).unwrap();
        let found = DirectoryBytes::of(dir.path());
        assert_eq!(found.all, directory_bytes(dir.path()));
        assert!((40_000..60_000).contains(&found.data()), "{found:?}");
        assert!((40_000..60_000).contains(&found.log), "{found:?}");
    }

    #[test]
    fn files_in_folders_count_and_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("below/a"), vec![1; 100_000]).unwrap();
        fs::write(dir.path().join("b"), vec![1; 50_000]).unwrap();
        sync_files(dir.path()).unwrap();
        let bytes = directory_bytes(dir.path());
        assert!((150_000..300_000).contains(&bytes), "{bytes}");
        assert_eq!(directory_bytes(&dir.path().join("absent")), 0);
        assert!(sync_files(&dir.path().join("absent")).is_err());
    }
}
