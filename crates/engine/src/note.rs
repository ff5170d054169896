//! The note of an owned keyspace: bytes that the layer above keeps in the catalog.

use crate::catalog::{KeyspaceRecord, NOTE_BYTES_MAX, OwnedRecord};
use crate::keyspace_core::KeyspaceCore;
use crate::manifest::Edit;
use crate::parts::Parts;
use flagstone_base::{Error, Result};

pub(crate) fn check_note(note: &[u8]) -> Result<()> {
    if note.len() <= NOTE_BYTES_MAX {
        return Ok(());
    }
    let bytes = note.len();
    Err(Error::invalid(format!("a note of {bytes} bytes: expected at most {NOTE_BYTES_MAX}")))
}

/// Sets the note of the keyspace `core`, which has an owner, and ends its doubt. Takes no lock but
/// that of the manifest, so stripes may be held.
pub(crate) fn set_note(parts: &Parts, core: &KeyspaceCore, note: &[u8]) -> Result<()> {
    parts.core.health.check_open_for_writing()?;
    check_note(note)?;
    let mut guard = parts.core.edits.manifest.lock();
    let manifest = guard.as_mut().ok_or_else(|| parts.core.setup().closed())?;
    core.check_not_dropped()?;
    let before = core.record();
    let Some(owner) = before.owner() else {
        return Err(Error::invalid(format!("keyspace {:?} has no owner", before.name)));
    };
    let owned = Some(OwnedRecord { owner, note: note.to_vec(), is_doubtful: false });
    let after = KeyspaceRecord { owned, ..(*before).clone() };
    if after == *before {
        return Ok(());
    }
    parts
        .core
        .edits
        .append(manifest, Edit { keyspaces_altered: vec![after], ..Edit::default() })?;
    if let Some(record) = manifest.state().catalog.by_id(core.id) {
        parts.core.keyspaces.replace_record(core, record);
    }
    Ok(())
}
