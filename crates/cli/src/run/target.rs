//! A file that appears under its name when it is complete.
//!
//! ```text
//! a file without a name, in the directory of the target (Linux) -> its content -> its name
//! a file with a name of its own, removed by a signal            -> its content -> renamed
//! ```
//! The content is synced before it has the name, and the directory after it: a power cut leaves
//! the old file or the new one. The first leaves nothing however the process ends. The second is
//! for file systems and systems without such files; after `kill -9` or a power cut it is left.

use crate::failure::Failure;
use crate::interrupt::{self, Part};
use flagstone::internal::env::{Random, SystemRandom};
use flagstone_load::{check_outside, descriptor_of, sync_folder_of};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

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
    let failed = |error: io::Error| Failure::io("create", path, &error);
    if let Some(unnamed) = unnamed::Unnamed::create(&target) {
        let file = unnamed.file().and_then(|file| as_private(file, &target)).map_err(failed)?;
        let done = work(file, path)?;
        unnamed.file().and_then(|file| file.sync_all()).map_err(failed)?;
        unnamed.name(&target).and_then(|()| sync_folder_of(&target)).map_err(failed)?;
        return Ok(done);
    }
    let named = Named::create(&target)?.map_err(failed)?;
    let file = named.file.try_clone().and_then(|file| as_private(file, &target)).map_err(failed)?;
    let done = work(file, path)?;
    named.file.sync_all().map_err(failed)?;
    named.rename(&target).and_then(|()| sync_folder_of(&target)).map_err(failed)?;
    Ok(done)
}

/// Gives a new file the mode of the one that it replaces, if there is one.
fn as_private(file: File, target: &Path) -> io::Result<File> {
    if let Ok(replaced) = fs::metadata(target) {
        file.set_permissions(replaced.permissions())?;
    }
    Ok(file)
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
        // A link that leads to nothing yet is written through.
        Err(_) if path.symlink_metadata().is_err() => path.to_owned(),
        _ => return Ok(Destination::Itself),
    };
    check_outside(&target).map_err(Failure::Usage)?;
    Ok(Destination::File(target))
}

/// Returns the directory of a file.
fn folder(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns a path beside `target` that nothing has.
fn beside(target: &Path) -> PathBuf {
    folder(target).join(format!(".flagstone-{:016x}.part", SystemRandom.next_u64()))
}

/// A file under a name of its own.
struct Named {
    path: PathBuf,
    file: File,
    _part: Part,
}

impl Named {
    fn create(target: &Path) -> Result<io::Result<Self>, Failure> {
        let path = beside(target);
        // Listed first: a signal between the two finds no file, or this one.
        let part = interrupt::remove_at_end(&path)?;
        Ok(File::create_new(&path).map(|file| Self { path, file, _part: part }))
    }

    fn rename(self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // Renamed, if it is complete.
        let _renamed = fs::remove_file(&self.path);
    }
}

#[cfg(target_os = "linux")]
mod unnamed {
    use super::{beside, folder};
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
    use std::fs::{self, File};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};

    /// A file without a name.
    pub(super) struct Unnamed(File);

    impl Unnamed {
        /// Returns a file in the directory of `target`, or `None` if there are none such here.
        pub(super) fn create(target: &Path) -> Option<Self> {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            let created = openat(CWD, folder(target), flags, Mode::from_raw_mode(0o666)).ok()?;
            let unnamed = Self(created.into());
            // Without /proc it could never get a name.
            unnamed.link().symlink_metadata().is_ok().then_some(unnamed)
        }

        pub(super) fn file(&self) -> io::Result<File> {
            self.0.try_clone()
        }

        fn link(&self) -> PathBuf {
            format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
        }

        /// Gives the file its name.
        pub(super) fn name(self, target: &Path) -> io::Result<()> {
            let give = |name: &Path| linkat(CWD, self.link(), CWD, name, AtFlags::SYMLINK_FOLLOW);
            if give(target).is_ok() {
                return Ok(());
            }
            // A name that exists is replaced by a rename.
            let part = beside(target);
            give(&part)?;
            fs::rename(&part, target).inspect_err(|_| drop(fs::remove_file(&part)))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    /// A file without a name, which this system does not have.
    pub(super) enum Unnamed {}

    impl Unnamed {
        pub(super) fn create(_: &Path) -> Option<Self> {
            None
        }

        pub(super) fn file(&self) -> io::Result<File> {
            match *self {}
        }

        pub(super) fn name(self, _: &Path) -> io::Result<()> {
            match self {}
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

    /// The way for file systems without files that have no name.
    #[test]
    fn a_named_part_is_removed_unless_it_is_complete() {
        let dir = std::env::temp_dir().join(format!("flagstone-target-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let files = || fs::read_dir(&dir).unwrap().count();
        let target = dir.join("out");
        let mut named = Named::create(&target).unwrap().unwrap();
        named.file.write_all(b"half").unwrap();
        assert_eq!(files(), 1);
        drop(named);
        assert_eq!(files(), 0);
        let mut named = Named::create(&target).unwrap().unwrap();
        named.file.write_all(b"whole").unwrap();
        named.rename(&target).unwrap();
        assert_eq!((files(), fs::read(&target).unwrap()), (1, b"whole".to_vec()));
        fs::remove_dir_all(&dir).unwrap();
    }
}
