//! A file that appears under its name when it is complete.
//!
//! ```text
//! a file without a name, in the directory of the target (Linux) -> its content -> its name
//! a file with a name of its own, removed by a signal            -> its content -> renamed
//! ```
//! The content is synced before it has the name, and the directory after it: a power cut leaves
//! the old file or the new one. The first leaves nothing however the process ends. The second is
//! for file systems and systems without such files; after `kill -9` or a power cut it is left.
//!
//! The directory is opened before the file is written, and everything happens in that one. If its
//! path leads elsewhere in the end, the file gets no name.

use crate::failure::Failure;
use crate::interrupt::{self, Part};
use flagstone::internal::env::{Random, SystemRandom};
use flagstone_load::{check_outside, descriptor_of, target_of};
use folder::Folder;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lets `work` write to a file that takes the name `path` in the end. What is no regular file, such
/// as a pipe, is written itself, and so is a descriptor such as `/dev/stdout`, where it is; of a
/// link, the file that it leads to is replaced. `work` gets the path for its errors.
pub(super) fn write<T>(
    path: &Path,
    work: impl FnOnce(File, &Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let target = match destination(path)? {
        Destination::Descriptor(file) => return work(file, path),
        Destination::Itself => {
            let file = File::create(path).map_err(|error| Failure::io("write", path, &error))?;
            return work(file, path);
        }
        Destination::File(target) => target,
    };
    write_new(path, &target, work, New::create)
}

/// Writes to a file that `create` returns, which then becomes `target`.
fn write_new<T>(
    path: &Path,
    target: &Path,
    work: impl FnOnce(File, &Path) -> Result<T, Failure>,
    create: Create,
) -> Result<T, Failure> {
    let failed = |error: io::Error| Failure::io("create", path, &error);
    let name = target.file_name().ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = Folder::open(parent.unwrap_or(Path::new("."))).map_err(failed)?;
    let new = create(folder)?.map_err(failed)?;
    let file = new.file.try_clone().map_err(failed)?;
    new.folder.give_mode_of(name, &file).map_err(failed)?;
    let done = work(file, path)?;
    new.take_name(name).map_err(failed)?;
    Ok(done)
}

/// Where the bytes go.
enum Destination {
    /// To a descriptor, which may be in the middle of a file.
    Descriptor(File),
    /// To what has the name: a pipe, a device.
    Itself,
    /// To a new file of this name.
    File(PathBuf),
}

/// Returns where bytes for `path` go. Refuses a file in the directory of a database
/// or of backups.
fn destination(path: &Path) -> Result<Destination, Failure> {
    let descriptor = descriptor_of(path).map_err(|error| Failure::io("write", path, &error))?;
    if let Some(file) = descriptor {
        return Ok(Destination::Descriptor(file));
    }
    let found = fs::canonicalize(path);
    let target = match found {
        Ok(found) if found.is_file() => found,
        // A link may lead to a file that is not there yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => target_of(path),
        _ => return Ok(Destination::Itself),
    };
    check_outside(&target).map_err(Failure::Usage)?;
    Ok(Destination::File(target))
}

/// How a file is created. The outer error is of what removes it after a signal.
type Create = fn(Folder) -> Result<io::Result<New>, Failure>;

/// A file that is not complete.
struct New {
    folder: Arc<Folder>,
    file: File,
    /// The name that it has until it is complete, if it has one.
    part: Option<(String, Part)>,
}

impl New {
    fn create(folder: Folder) -> Result<io::Result<Self>, Failure> {
        match folder.unnamed() {
            Some(file) => Ok(Ok(Self { folder: Arc::new(folder), file, part: None })),
            None => Self::named(folder),
        }
    }

    fn named(folder: Folder) -> Result<io::Result<Self>, Failure> {
        let (folder, name) = (Arc::new(folder), new_name());
        let (of_part, to_remove) = (Arc::clone(&folder), name.clone());
        // Listed first: a signal between the two finds no file, or this one.
        let part = interrupt::remove_at_end(move || of_part.remove(&to_remove))?;
        let created = folder.create_new(&name);
        Ok(created.map(|file| Self { folder, file, part: Some((name, part)) }))
    }

    /// Syncs the complete file, and gives it the name.
    fn take_name(self, name: &OsStr) -> io::Result<()> {
        let Self { folder, file, part } = &self;
        file.sync_all()?;
        folder.check()?;
        match part {
            Some((part, _)) => folder.rename(part, name)?,
            None if folder.link(file, name).is_ok() => {}
            None => {
                // A name that exists is replaced by a rename.
                let part = new_name();
                folder.link(file, part.as_ref())?;
                folder.rename(&part, name).inspect_err(|_| folder.remove(&part))?;
            }
        }
        folder.sync()
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if let Some((name, _)) = &self.part {
            // Renamed, if it is complete.
            self.folder.remove(name);
        }
    }
}

/// Returns a name that no file has.
fn new_name() -> String {
    format!(".flagstone-{:016x}.part", SystemRandom.next_u64())
}

#[cfg(unix)]
mod folder {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    use rustix::fs::{fchmod, fstat, openat, renameat, statat, unlinkat};
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::{Path, PathBuf};

    /// What a directory is opened for: on Linux not even to be read.
    #[cfg(target_os = "linux")]
    const HELD: OFlags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    const HELD: OFlags = OFlags::RDONLY;
    /// The mode of new files, less what the process keeps from others.
    const MODE: Mode = Mode::from_raw_mode(0o666);

    /// An open directory. Names are in it, wherever it is.
    pub(super) struct Folder {
        /// The absolute path at which it was opened.
        path: PathBuf,
        at: OwnedFd,
    }

    impl Folder {
        pub(super) fn open(path: &Path) -> io::Result<Self> {
            let flags = HELD | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let at = openat(CWD, path, flags, Mode::empty())?;
            Ok(Self { path: std::path::absolute(path)?, at })
        }

        /// Refuses a directory to which its path no longer leads.
        pub(super) fn check(&self) -> io::Result<()> {
            let found = statat(CWD, &self.path, AtFlags::empty());
            let held = fstat(&self.at)?;
            if found.is_ok_and(|found| (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)) {
                return Ok(());
            }
            Err(io::Error::other(format!(
                "the directory {} was moved or replaced while the file was written",
                self.path.display()
            )))
        }

        /// Gives a new file the mode of the one that it replaces, if there is one.
        pub(super) fn give_mode_of(&self, name: &OsStr, file: &File) -> io::Result<()> {
            match statat(&self.at, name, AtFlags::empty()) {
                Ok(found) => Ok(fchmod(file, Mode::from_raw_mode(found.st_mode))?),
                Err(_) => Ok(()),
            }
        }

        pub(super) fn create_new(&self, name: &str) -> io::Result<File> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            Ok(openat(&self.at, name, flags, MODE)?.into())
        }

        pub(super) fn rename(&self, from: &str, to: &OsStr) -> io::Result<()> {
            Ok(renameat(&self.at, from, &self.at, to)?)
        }

        /// Removes a file, if it is there.
        pub(super) fn remove(&self, name: &str) {
            let _gone = unlinkat(&self.at, name, AtFlags::empty());
        }

        pub(super) fn sync(&self) -> io::Result<()> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = openat(&self.at, ".", flags, Mode::empty());
            flagstone_load::sync_folder(opened.map(File::from).map_err(io::Error::from))
        }

        /// Returns a file without a name, or `None` if there are none such here.
        #[cfg(target_os = "linux")]
        pub(super) fn unnamed(&self) -> Option<File> {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = File::from(openat(&self.at, ".", flags, MODE).ok()?);
            // Without /proc it could never get a name.
            link_to(&file).symlink_metadata().is_ok().then_some(file)
        }

        /// Gives a file without a name one that does not exist.
        #[cfg(target_os = "linux")]
        pub(super) fn link(&self, file: &File, name: &OsStr) -> io::Result<()> {
            let (from, flags) = (link_to(file), AtFlags::SYMLINK_FOLLOW);
            Ok(rustix::fs::linkat(CWD, from, &self.at, name, flags)?)
        }

        #[cfg(not(target_os = "linux"))]
        pub(super) fn unnamed(&self) -> Option<File> {
            None
        }

        #[cfg(not(target_os = "linux"))]
        pub(super) fn link(&self, _: &File, _: &OsStr) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[cfg(target_os = "linux")]
    fn link_to(file: &File) -> PathBuf {
        use std::os::fd::AsRawFd;
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }
}

/// A system that renames no directory with an open file in it.
#[cfg(not(unix))]
mod folder {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::io;
    use std::path::{Path, PathBuf};

    /// A directory.
    pub(super) struct Folder(PathBuf);

    impl Folder {
        pub(super) fn open(path: &Path) -> io::Result<Self> {
            std::path::absolute(path).map(Self)
        }

        pub(super) fn check(&self) -> io::Result<()> {
            Ok(())
        }

        pub(super) fn give_mode_of(&self, name: &OsStr, file: &File) -> io::Result<()> {
            match fs::metadata(self.0.join(name)) {
                Ok(replaced) => file.set_permissions(replaced.permissions()),
                Err(_) => Ok(()),
            }
        }

        pub(super) fn create_new(&self, name: &str) -> io::Result<File> {
            File::create_new(self.0.join(name))
        }

        pub(super) fn rename(&self, from: &str, to: &OsStr) -> io::Result<()> {
            fs::rename(self.0.join(from), self.0.join(to))
        }

        pub(super) fn remove(&self, name: &str) {
            let _gone = fs::remove_file(self.0.join(name));
        }

        pub(super) fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        pub(super) fn unnamed(&self) -> Option<File> {
            None
        }

        pub(super) fn link(&self, _: &File, _: &OsStr) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;
    use std::io::Write;

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let dir = std::env::temp_dir().join(format!("flagstone-mode-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let target = dir.join("out");
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        let failed = |error: io::Error| Failure::io("write", &target, &error);
        write(&target, |mut file, _| file.write_all(b"new").map_err(failed)).unwrap();
        let mode = fs::metadata(&target).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode, fs::read(&target).unwrap()), (0o600, b"new".to_vec()));
        fs::remove_dir_all(&dir).unwrap();
    }

    /// The two ways.
    const WAYS: [Create; 2] = [New::create, New::named];

    fn content(mut file: File, path: &Path) -> Result<(), Failure> {
        file.write_all(b"new").map_err(|error| Failure::io("write", path, &error))
    }

    #[test]
    fn a_part_is_removed_unless_it_is_complete() {
        for (way, create) in WAYS.into_iter().enumerate() {
            let name = format!("flagstone-target-{way}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            fs::create_dir_all(&dir).unwrap();
            let files = || fs::read_dir(&dir).unwrap().count();
            let target = dir.join("out");
            let failed = write_new(&target, &target, |_, _| Err::<(), _>(stop()), create);
            assert!(failed.is_err());
            assert_eq!(files(), 0);
            for _ in 0..2 {
                write_new(&target, &target, content, create).unwrap();
                assert_eq!((files(), fs::read(&target).unwrap()), (1, b"new".to_vec()));
            }
            fs::remove_dir_all(&dir).unwrap();
        }
    }

    fn stop() -> Failure {
        Failure::Interrupted("stopped".to_owned())
    }

    /// The name was looked up again in the end: the file came into another directory, in the place
    /// of one that the export had never seen.
    #[cfg(unix)]
    #[test]
    fn a_directory_that_is_moved_gets_no_file_nor_does_the_one_in_its_place() {
        for (way, create) in WAYS.into_iter().enumerate() {
            let name = format!("flagstone-moved-{way}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            for (is_replaced, had_file) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let (there, away) = (dir.join("there"), dir.join("away"));
                fs::create_dir_all(&there).unwrap();
                let target = there.join("out");
                if had_file {
                    fs::write(&target, "old").unwrap();
                }
                let work = |file: File, path: &Path| {
                    content(file, path)?;
                    fs::rename(&there, &away).unwrap();
                    if is_replaced {
                        fs::create_dir(&there).unwrap();
                        fs::write(&target, "of another").unwrap();
                    }
                    Ok(())
                };
                let failed = write_new(&target, &target, work, create).unwrap_err();
                assert!(format!("{failed:?}").contains("moved or replaced"), "{failed:?}");
                let names = |dir: &Path| fs::read_dir(dir).map_or(0, Iterator::count);
                assert_eq!((names(&there), names(&away)), (is_replaced.into(), had_file.into()));
                if had_file {
                    assert_eq!(fs::read(away.join("out")).unwrap(), b"old");
                }
                if is_replaced {
                    assert_eq!(fs::read(&target).unwrap(), b"of another");
                }
                fs::remove_dir_all(&dir).unwrap();
            }
        }
    }
}
