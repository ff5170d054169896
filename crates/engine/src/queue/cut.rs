//! A cut of history: the manifest's state at a moment when the tables hold everything up to one
//! SeqNo and nothing after it.
//!
//! ```text
//! groups of sealed memtables, first in, first out:   [#1..#7]  [#8..#9]  [all trees, at #12 + cut]
//! installed:                                         tables <= #7 .. <= #9 .. <= #12: state cloned
//! ```
//!
//! Between two groups some trees may be ahead of others, so that tables hold only half of a batch
//! over several trees. A cut never does: it is taken under the manifest's lock by the install of
//! its own group.

use crate::manifest::{Manifest, ManifestState};
use flagstone_base::SeqNo;
use flagstone_env::sync::Mutex;
use flagstone_tree::{Tree, Version};
use std::sync::{Arc, Weak};

/// The database as of one SeqNo.
pub(crate) struct Cut {
    /// The last SeqNo in the cut.
    pub(crate) seqno: SeqNo,
    /// The state that a manifest would record at this SeqNo.
    pub(crate) state: ManifestState,
    /// The versions keep the files of the tables that `state` names.
    _versions: Vec<Arc<Version>>,
}

impl Cut {
    /// Returns whether no table has an entry after the cut. Only an ingest installs such a table:
    /// its writes do not wait for a flush.
    pub(crate) fn holds_nothing_newer(&self) -> bool {
        let mut tables = self.state.trees.values().flat_map(|tree| tree.tables.values());
        tables.all(|(_, meta)| meta.seqnos().1 <= self.seqno)
    }
}

/// A request for a cut, with the place to put it. The place is gone once no caller waits for the
/// cut.
pub(crate) struct CutRequest(Weak<Mutex<Option<Cut>>>);

impl CutRequest {
    /// Requests a cut to be put into `result`.
    pub(crate) fn new(result: &Arc<Mutex<Option<Cut>>>) -> Self {
        Self(Arc::downgrade(result))
    }

    /// Returns whether a caller still waits for the cut.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Puts the cut at `seqno` into its place. `manifest`, whose lock is held, and `trees` have
    /// just installed it.
    pub(crate) fn fulfil(&self, seqno: SeqNo, manifest: &Manifest, trees: &[Arc<Tree>]) {
        let Some(result) = self.0.upgrade() else { return };
        let versions = trees.iter().map(|tree| Arc::clone(tree.view().version())).collect();
        let cut = Cut { seqno, state: manifest.state().clone(), _versions: versions };
        *result.lock() = Some(cut);
    }
}
