//! Fills: entries that an index should have had from the beginning are ingested below newer ones.
//!
//! ```text
//! writers keep the index:        d  d  d | d  d  d  d  d
//! floor: a SeqNo, all d before         --+
//! snapshot of the documents               --+
//! ingest of its entries, with the SeqNo of the floor: each newer d wins
//! ```
//! A document that is written between the floor and the snapshot has its entries twice, and the
//! newer ones win; they are the same. One that is deleted meanwhile is in no snapshot, and the
//! tombstones of its entries are kept. So what is visible at the snapshot or later is right for
//! the documents that were ingested, whatever writers do.
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
        let floor = Arc::new(Floor::set(handle, core)?);
        // After the floor: every write that is not in the snapshot is newer than both.
        Ok(Self { floor, snapshot: Snapshot::new(handle) })
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
