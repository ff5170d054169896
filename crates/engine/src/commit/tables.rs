//! The number of an ingest, a commit whose entries are in tables, and that of a note about a
//! keyspace.

use super::in_flight::InFlight;
use super::noted::note_for_readers;
use super::pipeline::Commits;
use super::recent::RecentWrite;
use super::record::LogNote;
use crate::core::Core;
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::{Result, SeqNo};

/// Gives the next SeqNo to tables of `keyspace`, or to nothing: all later commits wait until it is
/// published. The tables have keys from the first of `span` up to the second, which is excluded.
/// Returns `None` if the manifest must grant more SeqNos or files first.
///
/// # Errors
/// InvalidInput if the keyspace was dropped; Poisoned, Closed.
pub(crate) fn number_tables<'a>(
    commits: &'a Commits,
    keyspace: &KeyspaceCore,
    span: Option<(&[u8], &[u8])>,
) -> Result<Option<(SeqNo, InFlight<'a>)>> {
    let Core { health, history, .. } = &*commits.core;
    // Declared first, so dropped after the lock is released.
    let _removed;
    let mut numbering = history.numbering.lock();
    if numbering.next >= numbering.ceiling {
        return Ok(None);
    }
    // Closing and dropping take this lock: nothing gets a number after them.
    health.check_open_for_writing()?;
    keyspace.check_accepts(&[])?;
    let seqno = numbering.next;
    if let (Some((start, end)), true) = (span, keyspace.record().owner().is_none()) {
        let note = LogNote::Ingest { keyspace: keyspace.id, start, end };
        if !note_for_readers(history, &mut numbering, &note, 1)?.is_made {
            return Ok(None);
        }
    } else if history.log.as_ref().is_some_and(|log| !log.void_through(seqno)) {
        // Readers of changes miss nothing, and see that in the log.
        return Ok(None);
    }
    numbering.next = seqno.plus(1);
    if let Some((key, end)) = span
        && commits.recent.is_watched()
    {
        // For serializable transactions everything between the keys was written, too.
        let all = RecentWrite { keyspace: keyspace.id, key, end: Some(end) };
        _removed = commits.recent.note(seqno, std::iter::once(all));
    }
    let place = history.publisher.join(seqno);
    Ok(Some((seqno, InFlight::new(health, history, place))))
}

/// Notes for readers of changes, durably, what is about to happen to a keyspace. They see the note
/// when its place is published: the caller does so when it is known whether it has happened. All
/// later commits wait for that. Returns `None` if the manifest must grant SeqNos or files first.
///
/// # Errors
/// Poisoned, Closed; errors of the log.
pub(crate) fn note_ahead<'a>(
    commits: &'a Commits,
    note: &LogNote<'_>,
) -> Result<Option<(SeqNo, InFlight<'a>)>> {
    let Core { health, history, .. } = &*commits.core;
    let Some(log) = &history.log else { return Err(commits.core.setup().closed()) };
    let mut numbering = history.numbering.lock();
    if numbering.next >= numbering.ceiling {
        return Ok(None);
    }
    health.check_open_for_writing()?;
    let Some(lsn) = note_for_readers(history, &mut numbering, note, 1)?.lsn else {
        return Ok(None);
    };
    let seqno = numbering.next;
    numbering.next = seqno.plus(1);
    let place = InFlight::new(health, history, history.publisher.join(seqno));
    drop(numbering);
    match log.sync_through(lsn) {
        Ok(()) => Ok(Some((seqno, place))),
        Err(error) => {
            place.publish();
            Err(error)
        }
    }
}
