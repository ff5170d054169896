//! The directory of temporary files of a command that asks, in that of the system (`TMPDIR`).
//!
//! ```text
//! flagstone-4711-00c0ffee00c0ffee     process, random number; locked while a query uses it
//! ```
//! Nobody else can guess the name, and create it first. A process that was killed leaves its
//! directory, and the next command removes it: its lock tells that nobody uses it.

use flagstone::internal::env::names::{LOCK, Name, parse};
use flagstone::internal::env::os::is_running;
use flagstone::internal::env::{Disk, LockMode, OsDisk, Random, SystemRandom};
use flagstone::{Error, ErrorKind};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

/// A directory this old is in use only if it is locked, even if a process has its number: another
/// process may have got that number.
const OLD: Duration = Duration::from_secs(60);

/// A directory that is created when it is needed, and removed when this is dropped.
pub(super) struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    /// Chooses a new name.
    pub(super) fn new() -> Self {
        let parent = std::env::temp_dir();
        let name = format!("flagstone-{}-{:016x}", std::process::id(), SystemRandom.next_u64());
        Self { path: parent.join(name) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Only a query that did not fit into memory has created it. It is empty by now.
        let _missing = fs::remove_dir(&self.path);
    }
}

/// Removes what killed commands of this user have left, once in a process.
pub(super) fn remove_abandoned() {
    static DONE: Once = Once::new();
    DONE.call_once(|| remove_abandoned_in(&std::env::temp_dir()));
}

/// Removes the directories that killed commands of this user have left in `parent`. What cannot be
/// removed stays.
fn remove_abandoned_in(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(process_of) else { continue };
        // Of the entry itself: a link is not followed.
        let Ok(metadata) = entry.metadata() else { continue };
        let is_ours = metadata.is_dir() && is_of_this_user(&metadata);
        if is_ours && (!is_running(process) || is_old(&metadata)) {
            let _in_use = remove(&parent.join(name), is_old(&metadata));
        }
    }
}

/// The process that has chosen this name, if a command has.
fn process_of(name: &str) -> Option<u32> {
    let (process, random) = name.strip_prefix("flagstone-")?.split_once('-')?;
    let random = u64::from_str_radix(random, 16).ok()?;
    let process = process.parse().ok()?;
    (name == format!("flagstone-{process}-{random:016x}")).then_some(process)
}

#[cfg(unix)]
fn is_of_this_user(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == flagstone::internal::env::os::user_id()
}

/// Other systems have a directory of temporary files for each user.
#[cfg(not(unix))]
fn is_of_this_user(_metadata: &Metadata) -> bool {
    true
}

fn is_old(metadata: &Metadata) -> bool {
    metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|passed| passed > OLD))
}

/// Removes a directory of temporary files, unless it is locked or holds anything else. A new one
/// without a lock may be that of a command in another container, which is about to lock it.
fn remove(dir: &Path, is_old: bool) -> flagstone::Result<()> {
    let held = OsDisk.hold(dir)?;
    let lock = held.path.join(LOCK);
    if held.disk.exists(&lock)? {
        let _locked = held.disk.lock(&lock, LockMode::Exclusive)?;
        let names = held.disk.list(&held.path)?;
        // Also those of an empty database, which a command on a cluster has there.
        if names.iter().any(|name| matches!(parse(name), Name::Foreign)) {
            let text = format!("{} holds other files", dir.display());
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        // The lock last: it keeps others out.
        for name in names.iter().filter(|name| *name != LOCK) {
            held.disk.remove(&held.path.join(name))?;
        }
        held.disk.remove(&lock)?;
    } else if !is_old {
        return Err(Error::new(ErrorKind::InvalidInput, format!("{} is new", dir.display())));
    }
    fs::remove_dir(dir).map_err(|error: io::Error| Error::io("remove", dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that no process has.
    const NOBODY: u32 = i32::MAX as u32;

    /// Creates a directory as a command does, with these files.
    fn made(parent: &Path, process: u32, files: &[&str]) -> PathBuf {
        let dir = parent.join(format!("flagstone-{process}-00c0ffee00c0ffee"));
        fs::create_dir(&dir).unwrap();
        files.iter().for_each(|name| fs::write(dir.join(name), name).unwrap());
        dir
    }

    fn parent(name: &str) -> PathBuf {
        let name = format!("flagstone-tests-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _missing = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        dir
    }

    /// A kill used to leave the temporary files of a query, with its documents, for ever.
    #[test]
    fn what_a_killed_command_has_left_is_removed() {
        let parent = parent("left");
        let spill = "00000000000000ff.spill";
        let left = made(&parent, NOBODY, &[LOCK, spill]);
        let empty = made(&parent, NOBODY - 1, &[]);
        // A command on a cluster has an empty database there.
        let cluster = made(&parent, NOBODY - 2, &[]);
        drop(flagstone::Database::open(&cluster).unwrap());
        fs::write(cluster.join(spill), spill).unwrap();
        assert!(fs::read_dir(&cluster).unwrap().count() > 3);
        remove_abandoned_in(&parent);
        // The process may be one of another container, which has not locked its directory yet.
        assert!(!left.exists() && !cluster.exists() && empty.exists());
        let old = std::time::SystemTime::now() - 2 * OLD;
        fs::File::open(&empty).unwrap().set_modified(old).unwrap();
        remove_abandoned_in(&parent);
        assert!(!empty.exists());
        fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn nothing_else_is_removed() {
        let parent = parent("kept");
        let spill = "00000000000000ff.spill";
        let in_use = made(&parent, NOBODY, &[LOCK, spill]);
        let locked = OsDisk.lock(&in_use.join(LOCK), LockMode::Exclusive).unwrap();
        let kept = [
            made(&parent, NOBODY - 1, &[LOCK, spill, "letter.txt"]),
            made(&parent, NOBODY - 2, &["letter.txt"]),
            made(&parent, std::process::id(), &[LOCK, spill]),
            in_use,
        ];
        let target = parent.join("target");
        fs::create_dir(&target).unwrap();
        fs::write(target.join(spill), "").unwrap();
        let link = parent.join(format!("flagstone-{}-00c0ffee00c0ffee", NOBODY - 3));
        std::os::unix::fs::symlink(&target, link).unwrap();
        for name in ["flagstone-1", "flagstone-x-00c0ffee00c0ffee", "flagstone-01-00c0ffee00c0ffee"]
        {
            fs::create_dir(parent.join(name)).unwrap();
        }
        let count = || fs::read_dir(&parent).unwrap().count();
        let before = count();
        remove_abandoned_in(&parent);
        assert_eq!(count(), before);
        assert!(kept.iter().take(2).all(|dir| dir.join("letter.txt").exists()));
        assert!(kept[2..].iter().all(|dir| dir.join(spill).exists()));
        assert!(target.join(spill).exists());
        drop(locked);
        fs::remove_dir_all(parent).unwrap();
    }
}
