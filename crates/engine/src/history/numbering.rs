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
//!
//! Held trees get no entries: an ingest flushes their memtables, which must be empty when it gets
//! its own number. Writers wait for it.

use flagstone_base::sorted::SortedSet;
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
    /// The newest record of the log notes that unlogged writes follow, no reader of changes was
    /// told yet, and no memtable was sealed since.
    pub(crate) is_gap_noted: bool,
    unflushed: BTreeMap<TreeId, Arc<Tree>>,
    held: SortedSet<TreeId>,
}

impl Numbering {
    /// The numbering of a database in which `visible` was the last write.
    pub(crate) const fn new(visible: SeqNo) -> Self {
        let unflushed = BTreeMap::new();
        let held = SortedSet::new();
        Self {
            next: visible.plus(1),
            ceiling: visible,
            unlogged: false,
            is_gap_noted: false,
            unflushed,
            held,
        }
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

    /// Called when all memtables with unlogged writes are sealed. Later ones are noted again: so
    /// the flush of these settles all that their note stands for.
    pub(crate) fn end_unlogged(&mut self) {
        self.is_gap_noted &= !self.unlogged;
        self.unlogged = false;
    }

    /// Returns whether no tree is held.
    #[inline]
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns whether `tree` is held.
    pub(crate) fn holds(&self, tree: &Tree) -> bool {
        self.held.contains(&tree.id())
    }

    /// Holds `trees`, which nobody else holds.
    pub(super) fn hold(&mut self, trees: &[Arc<Tree>]) {
        self.held.extend(trees.iter().map(|tree| tree.id()));
    }

    pub(super) fn release(&mut self, trees: &[Arc<Tree>]) {
        trees.iter().for_each(|tree| {
            self.held.remove(&tree.id());
        });
    }

    /// The trees with writes in memtables, by number.
    pub(crate) fn unflushed(&self) -> impl Iterator<Item = &Arc<Tree>> {
        self.unflushed.values()
    }

    /// Returns whether memtables of `tree` have writes, or will have one that has a number.
    pub(crate) fn is_unflushed(&self, tree: &Tree) -> bool {
        self.unflushed.contains_key(&tree.id())
    }

    /// Notes a tree that has taken over memtables of others.
    pub(crate) fn note_unflushed(&mut self, tree: &Arc<Tree>) {
        if tree.oldest_unflushed().is_some() {
            self.unflushed.insert(tree.id(), Arc::clone(tree));
        }
    }

    /// Called when a flush of `tree` was installed.
    pub(crate) fn note_flushed(&mut self, tree: &Tree) {
        if tree.oldest_unflushed().is_none() {
            self.unflushed.remove(&tree.id());
        }
    }

    /// Called when the keyspace of `tree` was dropped, or when others have replaced it.
    pub(crate) fn forget(&mut self, tree: &Tree) {
        self.unflushed.remove(&tree.id());
    }
}
