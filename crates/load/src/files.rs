//! Files that a command writes beside a database.

use flagstone::internal::env::names::{BackupName, CURRENT, LOCK, Name, parse, parse_backup};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Refuses `path` if it, or the file that it leads to, is in the directory of a database or of
/// backups: these hold their own files only.
///
/// # Errors
/// What it is.
pub fn check_outside(path: &Path) -> Result<(), String> {
    let file = &*target_of(path);
    let folder = folder_of(file);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_of_database = !matches!(parse(&name), Name::Foreign) && folder.join(LOCK).exists();
    let is_in_database = || folder.join(LOCK).exists() && folder.join(CURRENT).exists();
    let found = if holds_backups(folder) {
        "backups"
    } else if is_of_database || is_in_database() {
        "a database"
    } else {
        return Ok(());
    };
    let text = "expected a file elsewhere";
    Err(format!("{} is in the directory of {found}: {text}", path.display()))
}

/// Returns the file to which a path leads through links, whether it is there or not.
pub fn target_of(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(next) = std::fs::read_link(&path) else { break };
        path = folder_of(&path).join(next);
    }
    match (folder_of(&path).canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

fn holds_backups(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    names.any(|name| matches!(parse_backup(&name.to_string_lossy()), BackupName::Generation(_)))
}

/// Returns a handle of the descriptor that `path` names, such as `/dev/stdout` or `/dev/fd/3`, or a
/// link to one: what is written to it goes where the descriptor is. `None` for other paths.
///
/// # Errors
/// When the process was not started with this descriptor.
pub fn descriptor_of(path: &Path) -> io::Result<Option<File>> {
    #[cfg(unix)]
    return match number_of(path) {
        Some(number) => flagstone::internal::env::os::inherited(number).map(Some),
        None => Ok(None),
    };
    #[cfg(not(unix))]
    {
        // Elsewhere descriptors have no names.
        let _ = path;
        Ok(None)
    }
}

/// Returns the number of the descriptor that `path` names. Links are followed one by one: that of a
/// descriptor itself would lead on to its file.
#[cfg(unix)]
fn number_of(path: &Path) -> Option<i32> {
    let process = format!("/proc/{}/", std::process::id());
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = folder_of(&path).canonicalize().ok()?;
        // The first on macOS, where it is no link; the second also for a thread.
        if folder == Path::new("/dev/fd") || folder.starts_with(&process) && folder.ends_with("fd")
        {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = folder.join(std::fs::read_link(&path).ok()?);
    }
    None
}

/// How many links a path may lead through, as in Linux.
const LINKS_MAX: usize = 40;

/// Syncs the directory of a file: its name stays after a power cut.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync_folder(File::open(folder_of(path)))
}

/// Syncs a directory. One that cannot be opened or synced is left.
///
/// # Errors
/// When the directory cannot be written.
pub fn sync_folder(opened: io::Result<File>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    if cfg!(not(unix)) {
        return Ok(());
    }
    match opened.and_then(|folder| folder.sync_all()) {
        Err(error) if !matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
