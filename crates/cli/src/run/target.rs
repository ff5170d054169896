//! A file that appears under its name when it is complete.

use crate::failure::Failure;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Lets `work` write to a file beside `path`, which takes its name in the end. What is no regular
/// file, such as a pipe, is written itself; of a link, the file that it leads to is replaced.
/// `work` gets the path of what it writes, for its errors.
pub(super) fn write<T>(
    path: &Path,
    work: impl FnOnce(File, &Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let target = std::fs::canonicalize(path);
    let is_new_or_file = match &target {
        Ok(target) => target.is_file(),
        // A link that leads to nothing yet is written through.
        Err(_) => path.symlink_metadata().is_err(),
    };
    if !is_new_or_file {
        let file = File::create(path).map_err(|error| Failure::io("write", path, &error))?;
        return work(file, path);
    }
    let target = target.unwrap_or_else(|_missing| path.to_owned());
    let mut part = target.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let file = File::create(&part).map_err(|error| Failure::io("create", &part, &error))?;
    let renamed = work(file, &part).and_then(|done| {
        std::fs::rename(&part, &target).map_err(|error| Failure::io("create", path, &error))?;
        Ok(done)
    });
    if renamed.is_err() {
        let _missing = std::fs::remove_file(&part);
    }
    renamed
}
