//! Files that a command writes beside a database.

use flagstone::internal::env::names::{LOCK, Name, parse};
use std::io;
use std::path::Path;

/// Returns whether `path`, or the file that it leads to, has the name of a file of a database, and
/// is in the directory of one.
pub fn is_of_database(path: &Path) -> bool {
    let found = path.canonicalize();
    let path = found.as_deref().unwrap_or(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !matches!(parse(&name), Name::Foreign) && folder_of(path).join(LOCK).exists()
}

/// Syncs the directory of a file: its name stays after a power cut. Directories that cannot be
/// synced are left.
///
/// # Errors
/// When the directory cannot be written.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    if cfg!(not(unix)) {
        return Ok(());
    }
    match std::fs::File::open(folder_of(path)).and_then(|folder| folder.sync_all()) {
        Err(error) if !matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
