//! Notes for readers of changes: what happened that the log does not hold.

use super::record::{self, Note};
use crate::history::{History, Numbering};
use flagstone_base::{ErrorKind, Result};
use flagstone_wal::{Log, Lsn, RecordKind, payload_checksum};

/// The result of noting something for readers of changes.
pub(super) struct Noted {
    /// The note is made, or no changes are kept. If not, the manifest must list more files first.
    pub(super) is_made: bool,
    pub(super) lsn: Option<Lsn>,
}

/// Logs `note` for readers of changes at the next `count` SeqNos, if changes are kept.
pub(super) fn note_for_readers(
    history: &History,
    numbering: &mut Numbering,
    (kind, note): (RecordKind, &Note<'_>),
    count: u32,
) -> Result<Noted> {
    let Some(log) = history.log.as_ref().filter(|log| log.keeps_changes()) else {
        return Ok(Noted { is_made: true, lsn: None });
    };
    let payload = note.encode();
    match log.enqueue(kind, numbering.next, count, &payload, payload_checksum(&payload)) {
        Err(error) if error.kind() == ErrorKind::Busy => Ok(Noted { is_made: false, lsn: None }),
        enqueued => {
            numbering.is_gap_noted = kind == record::GAP;
            Ok(Noted { is_made: true, lsn: Some(enqueued?) })
        }
    }
}

/// Notes for readers of changes that `count` writes follow that are not logged. Returns false if
/// the manifest must list more files first. A second such write in a row needs no note.
#[inline]
pub(super) fn note_gap(history: &History, numbering: &mut Numbering, count: u64) -> Result<bool> {
    if numbering.is_gap_noted || !history.log.as_ref().is_some_and(Log::keeps_changes) {
        return Ok(true);
    }
    let noted = note_for_readers(history, numbering, (record::GAP, &Note::Gap), count as u32)?;
    Ok(noted.is_made)
}
