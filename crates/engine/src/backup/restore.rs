//! Restoring: a new database of the tables of one generation.

use super::folder::Backups;
use super::generation::Generation;
use crate::copying::{at_once, check_empty, copy_table, make_database};
use crate::manifest::{Manifest, Place};
use flagstone_base::{Error, Result, SeqNo};
use flagstone_env::names::{self, FileKind};
use std::fmt;
use std::path::Path;

/// What was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// The generation.
    pub generation: u64,
    /// The last write in it.
    pub seqno: SeqNo,
    /// Its tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
}

const WHAT: &str = "a restored database";

impl Backups {
    /// Makes a database of a generation, the newest unless told, in `to`, which must be missing or empty. Every table is
    /// copied, checked, synced and read back, and only then named by a manifest: after an error or a crash there is no
    /// database in `to`.
    ///
    /// # Errors
    /// InvalidInput when there is no such generation, or `to` holds something; Corruption when the generation or
    /// one of its tables is damaged; Busy while a backup is made; OutOfSpace, Io.
    pub fn restore(&self, generation: Option<u64>, to: impl AsRef<Path>) -> Result<RestoreReport> {
        let (disk, to) = (&*self.disk, to.as_ref());
        check_empty(disk, to, WHAT)?;
        let (_lock, folder) = self.to_read()?;
        let number = generation.or(folder.generations.last().copied());
        let number = number.filter(|number| folder.generations.contains(number));
        let Some(number) = number else {
            let dir = self.dir.display();
            return Err(Error::invalid(match generation {
                None => format!("{dir} holds no backups"),
                Some(number) => {
                    format!("{dir} holds no generation {number}, but {:?}", folder.generations)
                }
            }));
        };
        let generation = Generation::read(disk, &self.dir, number)?;
        make_database(disk, to, WHAT, || self.fill(&generation, to))
    }

    fn fill(&self, generation: &Generation, to: &Path) -> Result<RestoreReport> {
        let mut report = RestoreReport {
            generation: generation.number,
            seqno: generation.seqno,
            ..RestoreReport::default()
        };
        for meta in generation.tables() {
            let from = self.dir.join(generation.name_of(meta));
            let table = names::path(to, FileKind::Table, meta.number);
            copy_table(&*self.disk, &from, &table, meta, &mut at_once)?;
            report.tables += 1;
            report.bytes += meta.bytes;
        }
        let state = generation.state.clone();
        let place = Place::of_copy(&self.disk, to, &state);
        Manifest::create(place, generation.database, state)?;
        Ok(report)
    }
}

impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, seqno, tables, bytes } = self;
        write!(f, "generation {generation}: {tables} tables of {bytes} bytes at {seqno}")
    }
}
