//! Verifying backups: reads every generation, and every table that one needs.

use super::folder::open_to_read;
use super::generation::Generation;
use crate::copying::{check_table, unpaced};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::{Disk, names};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// What [`Backups::verify`](super::Backups::verify) has read and found.
#[derive(Clone, Debug, Default)]
pub struct BackupVerifyReport {
    /// The number of generations.
    pub generations: u64,
    /// The number of tables that they need.
    pub tables: u64,
    /// The size of these tables, in bytes.
    pub bytes: u64,
    /// The files that are damaged or missing: generations by number, then tables by name.
    pub damage: Vec<BackupDamage>,
}

/// A file of a backup that is missing, or not what was written.
#[derive(Clone, Debug)]
pub struct BackupDamage {
    /// The name of the file.
    pub file: String,
    /// The generations that need the file: they cannot be restored.
    pub generations: Vec<u64>,
    /// Why the file cannot be used.
    pub error: Error,
}

/// Verifies the backups in `dir`: see [`Backups::verify`](super::Backups::verify).
pub(super) fn verify(disk: &dyn Disk, dir: &Path) -> Result<BackupVerifyReport> {
    let (_lock, folder) = open_to_read(disk, dir)?;
    let mut report = BackupVerifyReport::default();
    let mut tables = BTreeMap::new();
    for &number in &folder.generations {
        report.generations += 1;
        match Generation::read(disk, dir, number) {
            Ok(generation) => {
                for meta in generation.tables() {
                    let needed = tables.entry(generation.name_of(meta));
                    needed.or_insert_with(|| (meta.clone(), Vec::new())).1.push(number);
                }
            }
            Err(error) => report.damage.push(BackupDamage {
                file: names::backup_generation(number),
                generations: vec![number],
                error,
            }),
        }
    }
    for (file, (meta, generations)) in tables {
        report.tables += 1;
        report.bytes += meta.bytes;
        match check_table(disk, &dir.join(&file), &meta, &mut unpaced) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => report.damage.push(BackupDamage { file, generations, error }),
        }
    }
    Ok(report)
}

impl BackupVerifyReport {
    /// Returns an error if any file is damaged or missing.
    ///
    /// # Errors
    /// Corruption that names the first damaged file, and how many more there are.
    pub fn check(&self) -> Result<()> {
        match &self.damage[..] {
            [] => Ok(()),
            [one] => Err(Error::new(ErrorKind::Corruption, one.to_string())),
            [first, others @ ..] => Err(Error::new(
                ErrorKind::Corruption,
                format!("{first}; and {} more files", others.len()),
            )),
        }
    }
}

impl fmt::Display for BackupDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generations: Vec<String> = self.generations.iter().map(u64::to_string).collect();
        let error = &self.error;
        write!(f, "{}, needed by generation {}: {error}", self.file, generations.join(", "))
    }
}

impl fmt::Display for BackupVerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generations, tables, bytes, damage } = self;
        write!(f, "{generations} generations, {tables} tables, {bytes} bytes: ")?;
        match damage.len() {
            0 => f.write_str("all are what was written"),
            damaged => write!(f, "{damaged} files are damaged or missing"),
        }
    }
}
