//! The floor of a keyspace that is being filled: a SeqNo at which tables may be ingested although
//! newer entries are written meanwhile.
//!
//! ```text
//! trees held:  flush .. floor .. snapshot    no write of the keyspace gets a number
//! ```
//! So the keyspace has no entry above the floor that the snapshot sees.

use super::number::{check_may_ingest, take_seqno};
use crate::background::{flush_most, flush_until_empty, schedule, watch};
use crate::handle::Handle;
use crate::history::HeldTrees;
use crate::keyspace_core::KeyspaceCore;
use crate::read::Snapshot;
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_tree::Tree;
use std::sync::Arc;

/// The trees of a keyspace have a floor until this is dropped.
pub(crate) struct Floor {
    handle: Arc<Handle>,
    core: Arc<KeyspaceCore>,
    trees: Vec<Arc<Tree>>,
    seqno: SeqNo,
}

impl Floor {
    /// Takes a SeqNo for the trees of `core`: all earlier entries are in tables, all later ones in
    /// later tables. Returns also a snapshot, which sees the earlier ones and none of the later
    /// ones. Writers wait for the flush of what came in the last moment.
    pub(crate) fn set(handle: &Arc<Handle>, core: &Arc<KeyspaceCore>) -> Result<(Self, Snapshot)> {
        let parts = handle.parts();
        handle.check_same(core)?;
        check_may_ingest(parts)?;
        let trees = {
            // A split that has begun is done then.
            let _no_split = parts.core.edits.manifest.lock();
            if !core.begin_filling() {
                let text = format!("keyspace {:?} is being filled already", core.name());
                return Err(Error::new(ErrorKind::Busy, text));
            }
            core.trees().to_vec()
        };
        // Without a number it has no effect, but its drop ends the filling.
        let (handle, core, seqno) = (Arc::clone(handle), Arc::clone(core), SeqNo::ZERO);
        let mut floor = Self { handle, core, trees, seqno };
        let snapshot = floor.take()?;
        Ok((floor, snapshot))
    }

    fn take(&mut self) -> Result<Snapshot> {
        let parts = self.handle.parts();
        flush_most(&parts.upkeep, &self.trees)?;
        let _held = HeldTrees::new(&parts.core.history, &self.trees);
        flush_until_empty(&parts.upkeep, &self.trees)?;
        self.seqno = take_seqno(parts, &self.core)?;
        // Later entries find the floor: they have no number yet.
        self.trees.iter().for_each(|tree| tree.set_floor(Some(self.seqno)));
        // Before writers go on. What one of them gave and took back between the two would hide an
        // entry of the snapshot from everybody: it is newer than the floor, and the snapshot sees
        // nothing of it.
        Ok(Snapshot::new(&self.handle))
    }

    pub(crate) const fn seqno(&self) -> SeqNo {
        self.seqno
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) const fn core(&self) -> &Arc<KeyspaceCore> {
        &self.core
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let upkeep = &self.handle.parts().upkeep;
        for tree in &self.trees {
            tree.set_floor(None);
            // Compactions that the floor has refused are due now.
            watch(upkeep, tree);
        }
        self.core.end_filling();
        // A split may have waited for this.
        upkeep.splits.try_again();
        schedule(upkeep);
    }
}
