//! A cut of history: the manifest's state at a moment when the tables hold everything up to one
//! SeqNo and nothing behind it.
//!
//! ```text
//! groups of sealed memtables, first in, first out:   [#1..#7]  [#8..#9]  [all trees, at #12 + cut]
//! installed:                                         tables <= #7 .. <= #9 .. <= #12: state cloned
//! ```
//!
//! Between two groups some trees may be ahead of others, and a batch over several of them half there;
//! a cut never is. It is taken under the manifest's lock, by the install of its own group.

use crate::manifest::{Manifest, State};
use flagstone_base::SeqNo;
use flagstone_env::sync::Mutex;
use flagstone_tree::{Tree, Version};
use std::sync::{Arc, Weak};

/// The database as of one SeqNo.
pub(crate) struct Cut {
    /// The last SeqNo in it.
    pub(crate) seqno: SeqNo,
    /// What a manifest would say then.
    pub(crate) state: State,
    /// They keep the files of the tables that the state names.
    _versions: Vec<Arc<Version>>,
}

/// Where a cut is put for the one who waits for it; gone when nobody does.
pub(crate) struct CutWanted(Weak<Mutex<Option<Cut>>>);

impl CutWanted {
    /// A cut to be put into `place`.
    pub(crate) fn new(place: &Arc<Mutex<Option<Cut>>>) -> Self {
        Self(Arc::downgrade(place))
    }

    /// Whether somebody still waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Hands out the cut at `seqno`, which `manifest` and `trees` have just installed; its lock is
    /// still held.
    pub(crate) fn give(&self, seqno: SeqNo, manifest: &Manifest, trees: &[Arc<Tree>]) {
        let Some(place) = self.0.upgrade() else { return };
        let versions = trees.iter().map(|tree| Arc::clone(tree.view().version())).collect();
        let cut = Cut { seqno, state: manifest.state().clone(), _versions: versions };
        *place.lock() = Some(cut);
    }
}
