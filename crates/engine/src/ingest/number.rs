//! A number for an ingest that begins.

use crate::commit::number_tables;
use crate::keyspace_core::KeyspaceCore;
use crate::parts::Parts;
use crate::supply::supply;
use flagstone_base::{Result, SeqNo};

/// Refuses ingests where no write may be made.
pub(super) fn check_may_ingest(parts: &Parts) -> Result<()> {
    parts.core.health.check_may_write()?;
    parts.core.health.check_may_wait("an ingest")?;
    parts.core.health.check_open_for_writing()
}

/// Takes a SeqNo that no entry has, and publishes it as empty.
pub(super) fn take_seqno(parts: &Parts, core: &KeyspaceCore) -> Result<SeqNo> {
    loop {
        if let Some((seqno, place)) = number_tables(&parts.commits, core, None)? {
            place.publish();
            return Ok(seqno);
        }
        supply(&parts.core.edits, 1)?;
    }
}
