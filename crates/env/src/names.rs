//! File numbers to file names and back: the only place that knows a file name.
//!
//! ```text
//! LOCK               locked by the one process that may write
//! CURRENT            names the current manifest; replaced by an atomic rename
//! 000007.manifest    edits of the whole database
//! 000012.wal         a segment of the write-ahead log
//! 000031.sst         an immutable sorted table
//! CURRENT.tmp        being made; removed at open
//! ```

use flagstone_base::FileNumber;
use std::path::{Path, PathBuf};

/// The name of the lock file.
pub const LOCK: &str = "LOCK";
/// The name of the file that names the current manifest.
pub const CURRENT: &str = "CURRENT";

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A log of edits.
    Manifest,
    /// A segment of the write-ahead log.
    Wal,
    /// A sorted table.
    Table,
}

impl FileKind {
    const fn extension(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Wal => "wal",
            Self::Table => "sst",
        }
    }
}

/// What a name in a database's directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The lock file.
    Lock,
    /// The file that names the manifest.
    Current,
    /// A numbered file.
    Numbered(FileKind, FileNumber),
    /// A file that was being made.
    Temporary,
    /// Not ours.
    Foreign,
}

/// The name of a numbered file.
pub fn name(kind: FileKind, number: FileNumber) -> String {
    format!("{number}.{}", kind.extension())
}

/// The path of a numbered file in `dir`.
pub fn path(dir: &Path, kind: FileKind, number: FileNumber) -> PathBuf {
    dir.join(name(kind, number))
}

/// What `name` stands for.
pub fn parse(name: &str) -> Name {
    match name {
        LOCK => return Name::Lock,
        CURRENT => return Name::Current,
        "CURRENT.tmp" => return Name::Temporary,
        _ => {}
    }
    let Some((stem, extension)) = name.rsplit_once('.') else { return Name::Foreign };
    let kinds = [FileKind::Manifest, FileKind::Wal, FileKind::Table];
    let Some(kind) = kinds.into_iter().find(|kind| kind.extension() == extension) else {
        return Name::Foreign;
    };
    let canonical = stem.len() >= 6 && stem.bytes().all(|b| b.is_ascii_digit());
    match stem.parse() {
        Ok(number) if canonical => Name::Numbered(kind, FileNumber(number)),
        _ => Name::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_foreign_ones_are_known() {
        for number in [0, 7, 999_999, 1_000_000, u64::MAX] {
            for kind in [FileKind::Manifest, FileKind::Wal, FileKind::Table] {
                let parsed = parse(&name(kind, FileNumber(number)));
                assert_eq!(parsed, Name::Numbered(kind, FileNumber(number)));
            }
        }
        assert_eq!(parse("CURRENT.tmp"), Name::Temporary);
        for foreign in
            ["7.sst", "+00007.sst", "000007.log", "sst", "", "99999999999999999999.wal", "x.tmp"]
        {
            assert_eq!(parse(foreign), Name::Foreign, "{foreign}");
        }
    }
}
