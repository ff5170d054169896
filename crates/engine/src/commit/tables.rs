//! The number of an ingest: a commit whose entries are in tables.

use super::in_flight::InFlight;
use super::pipeline::Commits;
use super::recent::RecentWrite;
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::{Result, SeqNo};

/// Gives the next SeqNo to tables of `keyspace`, or to nothing: all later commits wait until it is
/// published. The tables have keys from the first of `span` up to the second, which is excluded.
/// Returns `None` if the manifest must grant more SeqNos first.
///
/// # Errors
/// InvalidInput if the keyspace was dropped; Poisoned, Closed.
pub(crate) fn number_tables<'a>(
    commits: &'a Commits,
    keyspace: &KeyspaceCore,
    span: Option<(&[u8], &[u8])>,
) -> Result<Option<(SeqNo, InFlight<'a>)>> {
    let Commits { health, history, recent, .. } = commits;
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
    numbering.next = seqno.plus(1);
    if let Some((key, end)) = span
        && recent.is_watched()
    {
        // For serializable transactions everything between the keys was written, too.
        let all = RecentWrite { keyspace: keyspace.id, key, end: Some(end) };
        _removed = recent.note(seqno, std::iter::once(all));
    }
    let place = history.publisher.join(seqno);
    Ok(Some((seqno, InFlight::new(health, history, place))))
}
