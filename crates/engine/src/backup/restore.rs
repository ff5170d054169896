//! Restoring: creates a new database from the tables of one generation.

use super::folder::open_to_read;
use super::generation::Generation;
use crate::copying::{copy_table, create_database, unpaced};
use crate::manifest::{Location, Manifest};
use flagstone_base::{Error, Result, SeqNo};
use flagstone_env::names::{self, FileKind};
use flagstone_env::{Disk, HeldDir};
use std::fmt;
use std::path::Path;

/// What [`Backups::restore`](super::Backups::restore) has restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// The number of the generation.
    pub generation: u64,
    /// The SeqNo of the last write in the generation.
    pub seqno: SeqNo,
    /// The number of tables copied.
    pub tables: u64,
    /// The size of these tables, in bytes.
    pub bytes: u64,
}

pub(super) const WHAT: &str = "a restored database";

/// Creates a database in `to` from a generation in `dir`: see
/// [`Backups::restore`](super::Backups::restore).
pub(super) fn restore(
    disk: &dyn Disk,
    dir: &Path,
    generation: Option<u64>,
    to: &Path,
) -> Result<RestoreReport> {
    let (_lock, folder) = open_to_read(disk, dir)?;
    let number = generation.or(folder.generations.last().copied());
    let number = number.filter(|number| folder.generations.contains(number));
    let Some(number) = number else {
        let dir = dir.display();
        return Err(Error::invalid(match generation {
            None => format!("{dir} holds no backups"),
            Some(number) => {
                format!("{dir} holds no generation {number}, but {:?}", folder.generations)
            }
        }));
    };
    let generation = Generation::read(disk, dir, number)?;
    create_database(disk, to, dir, WHAT, |held| fill(held, dir, &generation))
}

/// Fills the held directory from the backups in `dir`, which its disk holds, too.
fn fill(held: &HeldDir, dir: &Path, generation: &Generation) -> Result<RestoreReport> {
    let to = &*held.path;
    let mut report = RestoreReport {
        generation: generation.number,
        seqno: generation.seqno,
        ..RestoreReport::default()
    };
    for meta in generation.tables() {
        let from = dir.join(generation.name_of(meta));
        let table = names::path(to, FileKind::Table, meta.number);
        copy_table(&*held.disk, &from, &table, meta, &mut unpaced).map_err(|error| {
            if error.is_missing_file() {
                let text = "the generation needs this table, and it is missing";
                return Error::corruption(from.display(), 0, text);
            }
            error
        })?;
        report.tables += 1;
        report.bytes += meta.bytes;
    }
    let state = generation.state.clone();
    let location = Location::of_copy(&held.disk, to, &state);
    Manifest::create(location, generation.database, state)?;
    Ok(report)
}

impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, seqno, tables, bytes } = self;
        write!(f, "generation {generation}: {tables} tables of {bytes} bytes at {seqno}")
    }
}
