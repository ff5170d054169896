//! The files of a damaged database: which exist, whose they are, what the manifest still says.

use super::report::Loss;
use crate::manifest::{Current, ManifestState, Salvaged, salvage};
use flagstone_base::sorted::{SortedSet, sort_by};
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result};
use flagstone_env::Disk;
use flagstone_env::disk::read_whole;
use flagstone_env::names::{self, FileKind, Name};
use std::collections::HashMap;
use std::path::Path;

/// The longest manifest, in bytes: four snapshots of 256 MiB, and headers.
const MANIFEST_BYTES_MAX: u64 = 5 << 28;

/// How far the manifest can be trusted to list the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The manifest is whole.
    Whole,
    /// The manifest is whole except for its end, which a crash or damage has cut off.
    TornEnd,
    /// Only the beginning can be read: it tells the keyspaces of an earlier time, and the tables
    /// are those found.
    Beginning,
    /// No manifest can be read.
    Nothing,
}

/// What was found in the directory of a database.
pub(super) struct FoundDatabase {
    pub(super) id: DatabaseId,
    pub(super) state: ManifestState,
    pub(super) trust: Trust,
    /// Every name in the directory.
    pub(super) files: Vec<String>,
    pub(super) tables: SortedSet<FileNumber>,
    /// A number above those of all files.
    pub(super) next_file: FileNumber,
    pub(super) losses: Vec<Loss>,
    pub(super) notes: Vec<String>,
}

impl FoundDatabase {
    /// Reads the directory and its manifests; writes nothing.
    ///
    /// # Errors
    /// InvalidInput when the directory holds no file of a database; Unsupported when a newer
    /// flagstone wrote its manifest; Io.
    pub(super) fn read(disk: &dyn Disk, dir: &Path) -> Result<Self> {
        let files = disk.list(dir)?;
        let (mut tables, mut manifests, mut largest) = (SortedSet::new(), Vec::new(), 0);
        for name in &files {
            let Name::Numbered(kind, number) = names::parse(name) else { continue };
            largest = largest.max(number.0);
            match kind {
                FileKind::Table => drop(tables.insert(number)),
                FileKind::Manifest => manifests.push(number),
                FileKind::Wal => {}
            }
        }
        let Some(id) = owner_of_most(disk, dir, &files) else {
            let text = format!("{}: found nothing of a database to repair", dir.display());
            return Err(Error::invalid(text));
        };
        let mut found = Self {
            id,
            state: ManifestState::default(),
            trust: Trust::Nothing,
            files,
            tables,
            next_file: FileNumber(largest.saturating_add(1)),
            losses: Vec::new(),
            notes: Vec::new(),
        };
        sort_by(&mut manifests, Ord::cmp);
        found.read_manifests(disk, dir, &manifests)?;
        found.next_file = found.next_file.max(found.state.next_file);
        Ok(found)
    }

    /// Reads the manifest that `CURRENT` names, or else the newest that is whole, or else the
    /// beginning of the newest.
    fn read_manifests(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        manifests: &[FileNumber],
    ) -> Result<()> {
        let mut candidates: Vec<FileNumber> = manifests.iter().rev().copied().collect();
        match Current::read(disk, dir) {
            Ok(current) => {
                candidates.retain(|number| *number != current.number);
                candidates.insert(0, current.number);
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
            Err(error) => {
                self.report_loss(names::CURRENT.to_owned(), 0..0, error.to_string());
                self.notes.push("CURRENT was written again, with the newest manifest".to_owned());
            }
        }
        let mut beginning: Option<Salvaged> = None;
        for number in candidates {
            let name = names::name(FileKind::Manifest, number);
            let bytes = match read_whole(disk, &dir.join(&name), MANIFEST_BYTES_MAX) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.report_loss(name, 0..0, error.to_string());
                    continue;
                }
            };
            let len = bytes.len() as u64;
            let Some(read) = salvage(&bytes, number, Some(self.id))? else {
                self.report_loss(name, 0..len, "not even its snapshot can be read".to_owned());
                continue;
            };
            if read.id != self.id {
                let what = format!("it belongs to database {}, not to {}", read.id, self.id);
                self.report_loss(name, 0..len, what);
                continue;
            }
            if read.end < len {
                let what = "expected an edit with its checksum".to_owned();
                self.report_loss(name, read.end..len, what).may_be_torn = read.is_whole;
            }
            if read.is_whole {
                self.trust = if read.end < len { Trust::TornEnd } else { Trust::Whole };
                self.state = read.state;
                return Ok(());
            }
            beginning = beginning.or(Some(read));
        }
        if let Some(read) = beginning {
            (self.trust, self.state) = (Trust::Beginning, read.state);
        }
        Ok(())
    }

    fn report_loss(
        &mut self,
        file: String,
        bytes: std::ops::Range<u64>,
        what: String,
    ) -> &mut Loss {
        let (keyspace, keys, seqnos, may_be_torn) = (None, None, None, false);
        self.losses.push_mut(Loss { file, bytes, keyspace, keys, seqnos, may_be_torn, what })
    }
}

/// The id of the database that most of the files belong to.
fn owner_of_most(disk: &dyn Disk, dir: &Path, files: &[String]) -> Option<DatabaseId> {
    let mut votes: HashMap<[u8; 16], usize> = HashMap::new();
    let current = Current::read(disk, dir).ok().map(|current| current.id);
    let of_file = |name: &String| {
        let path = dir.join(name);
        match names::parse(name) {
            Name::Numbered(FileKind::Table, _) => {
                Some(flagstone_sst::identify(&*disk.open(&path).ok()?)?.database)
            }
            Name::Numbered(FileKind::Wal, _) => flagstone_wal::database_of(disk, &path),
            Name::Numbered(FileKind::Manifest, number) => {
                let bytes = read_whole(disk, &path, MANIFEST_BYTES_MAX).ok()?;
                Some(salvage(&bytes, number, None).ok()??.id)
            }
            _ => None,
        }
    };
    for id in current.into_iter().chain(files.iter().filter_map(of_file)) {
        *votes.entry(id.0).or_default() += 1;
    }
    votes.into_iter().max_by_key(|(id, votes)| (*votes, *id)).map(|(id, _)| DatabaseId(id))
}
