//! Dumps any file of a database as text, even a damaged one.

use crate::manifest::{dump, dump_current};
use flagstone_base::{Error, Result};
use flagstone_env::names::{self, FileKind, Name};
use flagstone_env::{Disk, OsDisk};
use std::fmt::Write;
use std::path::Path;

/// Writes the content of the file at `path` to `out`, as text.
///
/// # Errors
/// InvalidInput if the name is not that of a database file; Io; errors of the file's reader.
pub fn file(path: &Path, out: &mut dyn Write) -> Result<()> {
    file_on(&OsDisk, path, out)
}

/// Like [`file()`], for a file on `disk`.
///
/// # Errors
/// Same as [`file()`].
pub fn file_on(disk: &dyn Disk, path: &Path, out: &mut dyn Write) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match names::parse(&name) {
        Name::Numbered(FileKind::Table, _) => {
            let options = flagstone_sst::InspectOptions::default();
            flagstone_sst::inspect(disk, path, options, out)
        }
        Name::Numbered(FileKind::Wal, _) | Name::Kept(_) => segment(disk, path, out),
        Name::Numbered(FileKind::Manifest, _) => dump(disk, path, out),
        Name::Current => dump_current(disk, path.parent().unwrap_or(Path::new(".")), out),
        Name::Lock | Name::Ballast | Name::Spill(_) | Name::Temporary | Name::Foreign => {
            Err(Error::invalid(format!(
                "{}: expected a file of a database: NUMBER.sst, NUMBER.wal, NUMBER.manifest, \
                 CURRENT or NUMBER-END-TIME.feed",
                path.display()
            )))
        }
    }
}

fn segment(disk: &dyn Disk, path: &Path, out: &mut dyn Write) -> Result<()> {
    for finding in flagstone_wal::inspect::Inspector::open(disk, path)? {
        writeln!(out, "{}", finding?)
            .map_err(|_full| Error::invalid("the output cannot be written"))?;
    }
    Ok(())
}
