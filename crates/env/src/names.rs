//! File numbers to file names and back: the only place that knows a file name.
//!
//! ```text
//! LOCK               locked by the one process that may write
//! CURRENT            names the current manifest; replaced by an atomic rename
//! 000007.manifest    edits of the whole database
//! 000012.wal         a segment of the write-ahead log
//! 000031.sst         an immutable sorted table
//! BALLAST            noise that takes room; removed when the disk is full
//! CURRENT.tmp        being made; removed at open
//! ```
//!
//! In a directory of backups:
//!
//! ```text
//! LOCK                            locked by the one who changes the backups
//! 000003.backup                   a generation: one state of the database, and which tables it needs
//! 000031-00c0ffee00c0ffee.sst     a table; the second part tells apart tables of one number
//! 000031-00c0ffee00c0ffee.sst.tmp being copied
//! ```

use flagstone_base::FileNumber;
use std::path::{Path, PathBuf};

/// The name of the lock file.
pub const LOCK: &str = "LOCK";
/// The name of the file that names the current manifest.
pub const CURRENT: &str = "CURRENT";

/// The name of the file that keeps room for a full disk.
pub const BALLAST: &str = "BALLAST";

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
    /// The file that keeps room for a full disk.
    Ballast,
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

/// The largest number that a name is taken for ours with. No database comes near it, so numbers above it can be counted on.
const NUMBER_MAX: u64 = 1 << 56;

/// What `name` stands for.
pub fn parse(name: &str) -> Name {
    match name {
        LOCK => return Name::Lock,
        CURRENT => return Name::Current,
        BALLAST => return Name::Ballast,
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
        Ok(number) if canonical && number <= NUMBER_MAX => Name::Numbered(kind, FileNumber(number)),
        _ => Name::Foreign,
    }
}

/// What a name in a directory of backups stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupName {
    /// The lock file.
    Lock,
    /// A generation.
    Generation(u64),
    /// A table: its number, and what tells it from others of that number.
    Table(FileNumber, u64),
    /// A file that was being made.
    Temporary,
    /// Not ours.
    Foreign,
}

/// What the name of a file that is being made ends with.
pub const TEMPORARY: &str = ".tmp";

/// The name of a generation of backups.
pub fn backup_generation(generation: u64) -> String {
    format!("{generation:06}.backup")
}

/// The name of a table among backups.
pub fn backup_table(number: FileNumber, digest: u64) -> String {
    format!("{number}-{digest:016x}.{}", FileKind::Table.extension())
}

/// What `name` stands for in a directory of backups.
pub fn parse_backup(name: &str) -> BackupName {
    if name == LOCK {
        return BackupName::Lock;
    }
    let (name, is_temporary) = match name.strip_suffix(TEMPORARY) {
        Some(name) => (name, true),
        None => (name, false),
    };
    let generation = || {
        let number = name.strip_suffix(".backup")?.parse().ok()?;
        (backup_generation(number) == name).then_some(BackupName::Generation(number))
    };
    let table = || {
        let (number, digest) = name.strip_suffix(".sst")?.split_once('-')?;
        let number = FileNumber(number.parse().ok()?);
        let digest = u64::from_str_radix(digest, 16).ok()?;
        (backup_table(number, digest) == name).then_some(BackupName::Table(number, digest))
    };
    match generation().or_else(table) {
        Some(_) if is_temporary => BackupName::Temporary,
        Some(found) => found,
        None => BackupName::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_foreign_ones_are_known() {
        for number in [0, 7, 999_999, 1_000_000, NUMBER_MAX] {
            for kind in [FileKind::Manifest, FileKind::Wal, FileKind::Table] {
                let parsed = parse(&name(kind, FileNumber(number)));
                assert_eq!(parsed, Name::Numbered(kind, FileNumber(number)));
            }
        }
        assert_eq!(parse("CURRENT.tmp"), Name::Temporary);
        for foreign in [
            "18446744073709551615.sst",
            "7.sst",
            "+00007.sst",
            "000007.log",
            "sst",
            "",
            "99999999999999999999.wal",
            "x.tmp",
        ] {
            assert_eq!(parse(foreign), Name::Foreign, "{foreign}");
        }
    }

    #[test]
    fn names_of_backups_come_back_and_foreign_ones_are_known() {
        for number in [0, 7, 1_000_000, u64::MAX] {
            let generation = backup_generation(number);
            assert_eq!(parse_backup(&generation), BackupName::Generation(number));
            let table = backup_table(FileNumber(number), number);
            assert_eq!(parse_backup(&table), BackupName::Table(FileNumber(number), number));
            for name in [generation, table] {
                assert_eq!(parse_backup(&(name + TEMPORARY)), BackupName::Temporary);
            }
        }
        assert_eq!(parse_backup(LOCK), BackupName::Lock);
        for foreign in [
            "7.backup",
            "000007.sst",
            "x.tmp",
            "000007-c0ffee.sst",
            "CURRENT",
            "000007.backup.tmp.tmp",
        ] {
            assert_eq!(parse_backup(foreign), BackupName::Foreign, "{foreign}");
        }
    }
}
