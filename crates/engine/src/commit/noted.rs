//! Notes for readers of changes: what happened that the log does not hold.

use super::record::{self, LogNote};
use crate::history::{History, Numbering};
use flagstone_base::{ErrorKind, Result, SeqNo};
use flagstone_wal::{Log, Lsn, payload_checksum};

/// The result of noting something for readers of changes.
pub(super) struct NoteResult {
    /// The note is made, or no changes are kept. If not, the manifest must list more files first.
    pub(super) is_made: bool,
    pub(super) lsn: Option<Lsn>,
}

/// Logs `note` for readers of changes at the next `count` SeqNos, if changes are kept.
pub(super) fn note_for_readers(
    history: &History,
    numbering: &mut Numbering,
    note: &LogNote<'_>,
    count: u32,
) -> Result<NoteResult> {
    let Some(log) = history.log.as_ref().filter(|log| log.keeps_changes()) else {
        return Ok(NoteResult { is_made: true, lsn: None });
    };
    let (kind, payload) = (note.kind(), note.encode());
    match log.enqueue(kind, numbering.next, count, &payload, payload_checksum(&payload)) {
        Err(error) if error.kind() == ErrorKind::Busy => {
            Ok(NoteResult { is_made: false, lsn: None })
        }
        enqueued => {
            numbering.is_gap_noted = kind == record::GAP;
            Ok(NoteResult { is_made: true, lsn: Some(enqueued?) })
        }
    }
}

/// Notes for readers of changes that `count` writes follow that are not logged. A second such write
/// in a row needs no note.
#[inline]
pub(super) fn note_gap(
    history: &History,
    numbering: &mut Numbering,
    count: u64,
) -> Result<NoteResult> {
    if numbering.is_gap_noted || !history.log.as_ref().is_some_and(Log::keeps_changes) {
        return Ok(NoteResult { is_made: true, lsn: None });
    }
    note_for_readers(history, numbering, &LogNote::Gap, count as u32)
}

/// Notes for readers of changes, durably, that unlogged writes before this session may be lost: at
/// `seqno`, which the session skips. Nothing was logged in this session. Returns false if the
/// manifest must list more files first.
///
/// # Errors
/// Poisoned; errors of the disk. After OutOfSpace the log holds another gap, which is written as
/// soon as there is room.
pub(crate) fn note_lost(history: &History, seqno: SeqNo) -> Result<bool> {
    let Some(log) = history.log.as_ref() else { return Ok(true) };
    let (kind, payload) = (LogNote::Lost.kind(), LogNote::Lost.encode());
    match log.enqueue(kind, seqno, 1, &payload, payload_checksum(&payload)) {
        Err(error) if error.kind() == ErrorKind::Busy => return Ok(false),
        enqueued => enqueued?,
    };
    match log.sync_all() {
        Err(error) if error.kind() != ErrorKind::OutOfSpace => Err(error),
        _ => Ok(true),
    }
}
