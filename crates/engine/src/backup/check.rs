//! Verifying backups: every generation is read, and every table that one needs.

use super::folder::to_read;
use super::generation::Generation;
use crate::copying::{check_table, unpaced};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::{Disk, names};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// What [`Backups::verify`](super::Backups::verify) has read.
#[derive(Clone, Debug, Default)]
pub struct BackupVerifyReport {
    /// Generations.
    pub generations: u64,
    /// Tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is damaged or missing, by the name of the file.
    pub damage: Vec<BackupDamage>,
}

/// A file of the backups that is not what was written.
#[derive(Clone, Debug)]
pub struct BackupDamage {
    /// Its name.
    pub file: String,
    /// The generations that need it: they cannot be restored.
    pub generations: Vec<u64>,
    /// What is wrong.
    pub error: Error,
}

/// Reads the backups in `dir`: see [`Backups::verify`](super::Backups::verify).
pub(super) fn verify(disk: &dyn Disk, dir: &Path) -> Result<BackupVerifyReport> {
    let (_lock, folder) = to_read(disk, dir)?;
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
        if let Err(error) = check_table(disk, &dir.join(&file), &meta, &mut unpaced) {
            report.damage.push(BackupDamage { file, generations, error });
        }
    }
    Ok(report)
}

impl BackupVerifyReport {
    /// Refuses if anything was found.
    ///
    /// # Errors
    /// Corruption that tells the first damage, and how much more there is.
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
