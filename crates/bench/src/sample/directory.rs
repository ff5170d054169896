//! The files of a store: their bytes, and a sync of them all.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Bytes that all files in `dir` and below take on the device; what is not allocated in a sparse file
/// does not count. Files that go meanwhile are passed over.
pub fn directory_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => directory_bytes(&entry.path()),
        Ok(found) => file_bytes(&found),
        Err(_) => 0,
    });
    bytes.sum()
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
