//! One file of the manifest: created with a snapshot, then made current.

use super::current::Current;
use super::frame::{FrameKind, HEADER_BYTES, Header, Ident, put_frame};
use super::load::read_manifest;
use super::state::ManifestState;
use flagstone_base::{DatabaseId, Error, FileNumber, Result};
use flagstone_env::names::{self, FileKind};
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_env::{Disk, WriteFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory in which manifests are created, and the source of their numbers.
#[derive(Clone)]
pub(crate) struct Location {
    /// The disk of the database.
    pub(crate) disk: Arc<dyn Disk>,
    /// The directory of the database.
    pub(crate) dir: PathBuf,
    /// Returns the number of the next file of the database; none is returned twice.
    pub(crate) next_file: Arc<dyn Fn() -> FileNumber + Send + Sync>,
}

impl Location {
    /// Returns the location of a new database in `dir` that has the tables of `state`.
    pub(crate) fn of_copy(disk: &Arc<dyn Disk>, dir: &Path, state: &ManifestState) -> Self {
        let next_file = AtomicU64::new(state.next_file.0);
        Self {
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            next_file: Arc::new(move || FileNumber(next_file.fetch_add(1, Ordering::Relaxed))),
        }
    }

    pub(super) fn path(&self, number: FileNumber) -> PathBuf {
        names::path(&self.dir, FileKind::Manifest, number)
    }
}

/// One file, created with a snapshot and open for edits.
pub(super) struct ManifestFile {
    pub(super) file: Box<dyn WriteFile>,
    pub(super) ident: Ident,
    /// The length of the file, all of it synced.
    pub(super) end: u64,
}

impl ManifestFile {
    /// Creates the file of `ident` with a snapshot of `state`, durable but not yet current. On an
    /// error the file is removed.
    fn create(
        location: &Location,
        ident: Ident,
        made_from: FileNumber,
        state: &ManifestState,
    ) -> Result<Self> {
        let bytes = whole_file(ident, made_from, state)?;
        let path = location.path(ident.number);
        if location.disk.exists(&path)? {
            // Numbers are never assigned twice, so a crash left this file before CURRENT named it.
            location.disk.remove(&path)?;
        }
        let mut file = location.disk.create(&path)?;
        let end = bytes.len() as u64;
        let written = file
            .append(&bytes)
            .and_then(|()| file.sync())
            .and_then(|()| location.disk.sync_dir(&location.dir));
        match written {
            Ok(()) => Ok(Self { file, ident, end }),
            Err(error) => {
                drop(file);
                remove_if_possible(location, ident.number);
                Err(error)
            }
        }
    }

    /// Returns the length at which the next file is started, for a file that holds only its
    /// snapshot now. Beyond the first MiB the edits are twice as long as the snapshot.
    pub(super) const fn roll_at(&self, bytes_min: u64) -> u64 {
        let twice = self.end.saturating_mul(2);
        self.end.saturating_add(if twice < bytes_min { bytes_min } else { twice })
    }
}

/// Returns the bytes of a manifest that holds a snapshot of `state` and no edit.
fn whole_file(ident: Ident, made_from: FileNumber, state: &ManifestState) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Header::new(ident, made_from).encode(&mut bytes);
    let offset = HEADER_BYTES as u64;
    put_frame(&mut bytes, ident, offset, FrameKind::Snapshot, &state.snapshot())?;
    Ok(bytes)
}

/// Returns the bytes of a manifest `number` with `state`, to be stored in another file.
///
/// # Errors
/// InvalidInput when the state is too large for a manifest.
pub(crate) fn encode_state(id: DatabaseId, number: u64, state: &ManifestState) -> Result<Vec<u8>> {
    whole_file(Ident { id, number: FileNumber(number) }, FileNumber(0), state)
}

/// Decodes all of `bytes`, as [`encode_state`] wrote them.
///
/// # Errors
/// Corruption when they are not what was written; Unsupported for a newer version.
pub(crate) fn decode_state(
    bytes: &[u8],
    file: &str,
    id: DatabaseId,
    number: u64,
) -> Result<ManifestState> {
    let loaded = read_manifest(bytes, file, Ident { id, number: FileNumber(number) })?;
    match loaded.torn_bytes {
        0 => Ok(loaded.state),
        torn => Err(Error::corruption(
            file,
            bytes.len() as u64 - torn,
            "expected the end of a manifest of one snapshot",
        )),
    }
}

/// Removes a manifest that nothing needs. If that fails, the next open removes it.
pub(super) fn remove_if_possible(location: &Location, number: FileNumber) {
    let _removed = location.disk.remove(&location.path(number));
}

/// The outcome of an attempt to start a new file.
pub(super) enum Switch {
    /// The new file is current.
    Done(ManifestFile),
    /// The new file is not and never will be current: the old one stays in use.
    Failed(Error),
    /// After a crash either file may be current.
    Unknown(Error),
}

/// Creates a new file for `state` and switches `CURRENT` to it.
pub(super) fn switch(
    location: &Location,
    id: DatabaseId,
    made_from: FileNumber,
    state: &mut ManifestState,
) -> Switch {
    let number = (location.next_file)();
    if number <= made_from {
        let text = format!("manifest {number} cannot follow {made_from}: file numbers rise");
        return Switch::Failed(Error::invalid(text));
    }
    state.next_file = state.next_file.max(FileNumber(number.0.saturating_add(1)));
    let file = match ManifestFile::create(location, Ident { id, number }, made_from, state) {
        Ok(file) => file,
        Err(error) => return Switch::Failed(error),
    };
    let Err(error) = (Current { id, number }).replace(&*location.disk, &location.dir) else {
        return Switch::Done(file);
    };
    // Only a failure before the rename leaves the old name in CURRENT; after it, a crash may leave
    // either of the two.
    let is_old = match Current::read(&*location.disk, &location.dir) {
        Ok(current) => current.number == made_from,
        Err(error) => error.is_missing_file() && made_from == FileNumber(0),
    };
    if !is_old {
        return Switch::Unknown(error);
    }
    drop(file);
    remove_if_possible(location, number);
    Switch::Failed(error)
}
