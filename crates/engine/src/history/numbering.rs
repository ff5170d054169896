//! What the numbering lock guards: the next SeqNo, and which trees hold writes that stand in no table yet.
//!
//! ```text
//! idle --first entry reserved in an empty memtable--> unflushed --the last sealed memtable installed, none after it--> idle
//! ```
//! Seals, the bound of the log and its release look at the unflushed trees alone, so a tree that nobody writes costs them
//! nothing. A tree gets in and out under this lock, under which entries are reserved and memtables sealed as well.

use flagstone_base::{SeqNo, TreeId};
use flagstone_tree::{MemtableRef, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the numbering lock guards.
pub(crate) struct Numbering {
    /// The next SeqNo.
    pub(crate) next: SeqNo,
    /// The largest SeqNo that the synced manifest grants.
    pub(crate) ceiling: SeqNo,
    /// Unlogged writes stand in memtables: the next seal takes all trees.
    pub(crate) unlogged: bool,
    unflushed: BTreeMap<TreeId, Arc<Tree>>,
}

impl Numbering {
    /// Nothing is written since `visible`.
    pub(crate) const fn new(visible: SeqNo) -> Self {
        let unflushed = BTreeMap::new();
        Self { next: visible.plus(1), ceiling: visible, unlogged: false, unflushed }
    }

    /// A reference on the active memtable of `tree` for a batch whose first entry there is `first`.
    #[inline]
    pub(crate) fn reserve(&mut self, tree: &Arc<Tree>, first: SeqNo) -> MemtableRef {
        let reserved = tree.reserve(first);
        if reserved.is_first() {
            self.unflushed.insert(tree.id(), Arc::clone(tree));
        }
        reserved
    }

    /// The trees that hold writes in memtables, by number.
    pub(crate) fn unflushed(&self) -> impl Iterator<Item = &Arc<Tree>> {
        self.unflushed.values()
    }

    /// A flush of `tree` was installed.
    pub(crate) fn note_flushed(&mut self, tree: &Tree) {
        if tree.oldest_unflushed().is_none() {
            self.unflushed.remove(&tree.id());
        }
    }

    /// The keyspace of `tree` was dropped.
    pub(crate) fn forget(&mut self, tree: &Tree) {
        self.unflushed.remove(&tree.id());
    }
}
