//! Names of files: the only module that knows how files are named. Converts file numbers to names
//! and back.
//!
//! ```text
//! LOCK               locked by the one process that may write
//! CURRENT            names the current manifest; replaced by an atomic rename
//! 000007.manifest    edits of the whole database
//! 000012.wal         a segment of the write-ahead log
//! 000009-0012d687-018bcfe56800.feed   a segment kept for readers of changes, its end, a time
//! 000031.sst         an immutable sorted table
//! BALLAST            noise that takes space; removed when the disk is full
//! CURRENT.tmp        being written; removed at open
//! 00c0ffee00c0ffee.spill   what a sort or a group has no memory for; also in a scratch directory
//! ```
//!
//! In a directory of backups:
//!
//! ```text
//! LOCK                            locked by the process that changes the backups
//! 000003.backup                   a generation: one state of the database, and the tables it needs
//! 000031-00c0ffee00c0ffee.sst     a table; the second part distinguishes tables of one number
//! 000031-00c0ffee00c0ffee.sst.tmp being copied
//! ```

use flagstone_base::FileNumber;
use std::path::{Path, PathBuf};

/// The name of the lock file.
pub const LOCK: &str = "LOCK";
/// The name of the file that names the current manifest.
pub const CURRENT: &str = "CURRENT";

/// The name of the ballast file, which is removed to free space on a full disk.
pub const BALLAST: &str = "BALLAST";

/// The kind of a numbered file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A manifest: a log of edits.
    Manifest,
    /// A segment of the write-ahead log.
    Wal,
    /// An SSTable.
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

/// The meaning of a name in the directory of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The lock file.
    Lock,
    /// The file that names the current manifest.
    Current,
    /// A numbered file: its kind and its number.
    Numbered(FileKind, FileNumber),
    /// A segment of the log that recovery does not need, kept for readers of changes.
    Kept(KeptSegment),
    /// The ballast file.
    Ballast,
    /// A temporary file of a query or of an index build, with its number.
    Spill(u64),
    /// A file that was being written when the process ended, or is being written now.
    Temporary,
    /// A name that flagstone does not use.
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

/// The name of a temporary file of a query or of an index build. Its number is random.
pub fn spill(number: u64) -> String {
    format!("{number:016x}.spill")
}

/// What the name of a segment says that is kept for readers of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSegment {
    /// The number of the segment.
    pub number: FileNumber,
    /// The offset at which its valid records end.
    pub end: u64,
    /// When recovery needed it no more, in milliseconds since 1970.
    pub released: u64,
}

/// The name of a segment that is kept for readers of changes.
pub fn kept_segment(segment: &KeptSegment) -> String {
    let KeptSegment { number, end, released } = segment;
    format!("{number}-{end:08x}-{released:012x}.feed")
}

fn parse_kept(name: &str, stem: &str) -> Option<KeptSegment> {
    let mut parts = stem.splitn(3, '-');
    let number = parts.next()?.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
    let end = u64::from_str_radix(parts.next()?, 16).ok()?;
    let released = u64::from_str_radix(parts.next()?, 16).ok()?;
    let segment = KeptSegment { number: FileNumber(number), end, released };
    (kept_segment(&segment) == name).then_some(segment)
}

/// The largest number in a name; a name with a larger one is foreign. No database comes near it, so
/// adding to a number cannot overflow.
const NUMBER_MAX: u64 = 1 << 56;

/// Parses a name in the directory of a database.
pub fn parse(name: &str) -> Name {
    match name {
        LOCK => return Name::Lock,
        CURRENT => return Name::Current,
        BALLAST => return Name::Ballast,
        "CURRENT.tmp" => return Name::Temporary,
        _ => {}
    }
    let Some((stem, extension)) = name.rsplit_once('.') else { return Name::Foreign };
    if extension == "spill" {
        let number = u64::from_str_radix(stem, 16).ok().filter(|number| spill(*number) == name);
        return number.map_or(Name::Foreign, Name::Spill);
    }
    if extension == "feed" {
        return parse_kept(name, stem).map_or(Name::Foreign, Name::Kept);
    }
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

/// The meaning of a name in a directory of backups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupName {
    /// The lock file.
    Lock,
    /// A generation, with its number.
    Generation(u64),
    /// A table: its number, and the digest that distinguishes it from other tables of that number.
    Table(FileNumber, u64),
    /// A file that was being written when the process ended, or is being written now.
    Temporary,
    /// A name that flagstone does not use.
    Foreign,
}

/// The suffix of the name of a file that is being written.
pub const TEMPORARY: &str = ".tmp";

/// The name of a generation of backups.
pub fn backup_generation(generation: u64) -> String {
    format!("{generation:06}.backup")
}

/// The name of a table in a directory of backups.
pub fn backup_table(number: FileNumber, digest: u64) -> String {
    format!("{number}-{digest:016x}.{}", FileKind::Table.extension())
}

/// Parses a name in a directory of backups.
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
    fn names_survive_a_round_trip_and_foreign_ones_are_recognised() {
        for number in [0, 7, 999_999, 1_000_000, NUMBER_MAX] {
            for kind in [FileKind::Manifest, FileKind::Wal, FileKind::Table] {
                let parsed = parse(&name(kind, FileNumber(number)));
                assert_eq!(parsed, Name::Numbered(kind, FileNumber(number)));
            }
        }
        assert_eq!(parse("CURRENT.tmp"), Name::Temporary);
        for number in [0, 7, u64::MAX] {
            assert_eq!(parse(&spill(number)), Name::Spill(number));
        }
        for end in [0, 0x12_D687, u64::MAX] {
            let kept = KeptSegment { number: FileNumber(7), end, released: end };
            assert_eq!(parse(&kept_segment(&kept)), Name::Kept(kept));
        }
        for foreign in [
            "000007.feed",
            "7-00000000-000000000000.feed",
            "000007-+0000000-000000000000.feed",
            "000007-00000000-000000000000-0.feed",
            "7.spill",
            "00000000000000FF.spill",
            "+000000000000007.spill",
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
    fn names_of_backups_survive_a_round_trip_and_foreign_ones_are_recognised() {
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
