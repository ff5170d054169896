//! The state under the numbering lock: the next SeqNo, and the trees with writes that are in no
//! table.
//!
//! ```text
//! idle --first entry reserved in an empty memtable--> unflushed
//! unflushed --the last sealed memtable installed, none after it--> idle
//! ```
//! Seals, the limit of the log and its release visit only the unflushed trees, so a tree without
//! writes costs them nothing. Trees are added and removed under this lock; entries are reserved and
//! memtables sealed under it, too.

use flagstone_base::{SeqNo, TreeId};
use flagstone_tree::{MemtableRef, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state that the numbering lock guards.
pub(crate) struct Numbering {
    pub(crate) next: SeqNo,
    /// The largest SeqNo that the synced manifest grants.
    pub(crate) ceiling: SeqNo,
    /// Memtables hold unlogged writes: the next seal takes all trees.
    pub(crate) unlogged: bool,
    unflushed: BTreeMap<TreeId, Arc<Tree>>,
}

impl Numbering {
    /// The numbering of a database in which `visible` was the last write.
    pub(crate) const fn new(visible: SeqNo) -> Self {
        let unflushed = BTreeMap::new();
        Self { next: visible.plus(1), ceiling: visible, unlogged: false, unflushed }
    }

    /// Returns a reference on the active memtable of `tree` for a batch whose first entry there is
    /// `first`.
    #[inline]
    pub(crate) fn reserve(&mut self, tree: &Arc<Tree>, first: SeqNo) -> MemtableRef {
        let reserved = tree.reserve(first);
        if reserved.is_first() {
            self.unflushed.insert(tree.id(), Arc::clone(tree));
        }
        reserved
    }

    /// The trees with writes in memtables, by number.
    pub(crate) fn unflushed(&self) -> impl Iterator<Item = &Arc<Tree>> {
        self.unflushed.values()
    }

    /// Called when a flush of `tree` was installed.
    pub(crate) fn note_flushed(&mut self, tree: &Tree) {
        if tree.oldest_unflushed().is_none() {
            self.unflushed.remove(&tree.id());
        }
    }

    /// Called when the keyspace of `tree` was dropped.
    pub(crate) fn forget(&mut self, tree: &Tree) {
        self.unflushed.remove(&tree.id());
    }
}
