//! Reads what is left of a manifest: all of it, or the edits before the first bad frame.

use super::frame::{
    FRAME_HEADER_BYTES, FrameKind, HEADER_BYTES, Header, Ident, decode_payload, frame_at,
};
use super::load::read_manifest;
use super::state::ManifestState;
use flagstone_base::{DatabaseId, ErrorKind, FileNumber, Result};

/// The readable part of a manifest.
#[derive(Debug)]
pub(crate) struct Salvaged {
    pub(crate) state: ManifestState,
    pub(crate) id: DatabaseId,
    /// The offset at which the last edit that was read ends.
    pub(crate) end: u64,
    /// Whether no damage was found; bytes after `end` may be a torn edit.
    pub(crate) is_whole: bool,
}

/// Reads manifest `number`. Returns `None` when not even its snapshot can be read. If the header
/// cannot be read, `id` is taken as the database's id.
///
/// # Errors
/// Unsupported when a newer flagstone wrote it.
pub(crate) fn salvage(
    bytes: &[u8],
    number: FileNumber,
    id: Option<DatabaseId>,
) -> Result<Option<Salvaged>> {
    let header = Header::decode(bytes).ok().filter(|header| header.ident().number == number);
    let Some(id) = header.map(|header| header.ident().id).or(id) else { return Ok(None) };
    let ident = Ident { id, number };
    match read_manifest(bytes, "the manifest", ident) {
        Ok(loaded) => {
            let end = bytes.len() as u64 - loaded.torn_bytes;
            return Ok(Some(Salvaged { state: loaded.state, id, end, is_whole: true }));
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
        Err(_damaged) => {}
    }
    let (mut state, mut at) = (ManifestState::default(), HEADER_BYTES);
    while let Some(payload) = bytes.get(at..).and_then(|rest| frame_at(rest, ident, at as u64).0) {
        let Ok((kind, edit)) = decode_payload(payload) else { break };
        let fits = (kind == FrameKind::Snapshot) == (at == HEADER_BYTES);
        if !fits || state.apply(&edit).is_err() {
            break;
        }
        at += FRAME_HEADER_BYTES + payload.len();
    }
    if at == HEADER_BYTES {
        return Ok(None);
    }
    // Damage to the header alone loses nothing.
    let is_whole = at == bytes.len();
    Ok(Some(Salvaged { state, id, end: at as u64, is_whole }))
}
