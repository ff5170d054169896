//! Fills: entries that an index should have had from the beginning are ingested below newer ones.
//!
//! ```text
//! writers keep the index:        d  d  d | d  d  d  d  d
//! floor: a SeqNo, all d before         --+
//! snapshot of the documents            --+  no d between them
//! ingest of its entries, with the SeqNo of the floor: each newer d wins
//! ```
//! A document that is written after the snapshot has its entries twice, and the newer ones win. The
//! tombstones of those that it gives up are kept. So what is visible at the snapshot or later is
//! right for the documents that were ingested, whatever writers do, where an entry is of one
//! document for ever. Where one may pass to another document, as a unique value, the layer above
//! looks after the ingest what writers did with it meanwhile: everything newer than the floor is
//! newer than the snapshot, so the snapshot shows the entries that were ingested, all of them.
//!
//! A fill is in memory only. After a crash the next one takes a new floor and a new snapshot; what
//! was ingested before stays right, because writers keep it.

use crate::handle::Handle;
use crate::ingest::{Floor, Ingest};
use crate::keyspace_core::KeyspaceCore;
use crate::read::Snapshot;
use flagstone_base::{Error, Result, SeqNo};
use std::sync::Arc;

/// A fill of an owned keyspace. Writers go on meanwhile. Compactions keep what a later ingest may
/// need until this and its ingests are dropped, so long fills cost space and reads.
pub struct Fill {
    floor: Arc<Floor>,
    snapshot: Snapshot,
}

impl Fill {
    pub(crate) fn begin(handle: &Arc<Handle>, core: &Arc<KeyspaceCore>) -> Result<Self> {
        if core.owner().is_none() {
            let text = format!("keyspace {:?} has no owner: it is not filled", core.name());
            return Err(Error::invalid(text));
        }
        let (floor, snapshot) = Floor::set(handle, core)?;
        Ok(Self { floor: Arc::new(floor), snapshot })
    }

    /// The snapshot whose entries are to be ingested.
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// From this SeqNo on readers find what was ingested.
    pub fn seqno(&self) -> SeqNo {
        self.snapshot.seqno()
    }

    /// Starts an ingest below everything that was written since the fill began. Its entries must be
    /// those that the snapshot implies: all of some documents, and no key twice.
    ///
    /// # Errors
    /// InvalidInput inside a callback, or if the keyspace was dropped; OutOfSpace, Io, Poisoned,
    /// Closed.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::below(&self.floor)
    }
}

#[cfg(test)]
mod tests;
