//! Trees that nobody compacts for a while, since an edit that is being made needs their tables as
//! they are.

use super::upkeep::Upkeep;
use flagstone_base::TreeId;
use flagstone_tree::Tree;
use std::sync::Arc;

/// Trees that are not compacted until this is dropped.
pub(crate) struct TreeClaims {
    upkeep: Arc<Upkeep>,
    trees: Vec<TreeId>,
}

impl TreeClaims {
    pub(crate) fn new(upkeep: &Arc<Upkeep>) -> Self {
        Self { upkeep: Arc::clone(upkeep), trees: Vec::new() }
    }

    /// Claims `tree`, unless it is being compacted.
    pub(crate) fn take(&mut self, tree: &Tree) -> bool {
        let mut queue = self.upkeep.core.work.lock();
        let is_free = queue.compacting.insert(tree.id());
        if is_free {
            // A claimed tree occupies no compaction worker.
            queue.compacting_for_callers += 1;
            self.trees.push(tree.id());
        }
        is_free
    }

    pub(super) fn release(&mut self) {
        let mut queue = self.upkeep.core.work.lock();
        for tree in self.trees.drain(..) {
            queue.compacting.remove(&tree);
            queue.compacting_for_callers -= 1;
        }
    }
}

impl Drop for TreeClaims {
    fn drop(&mut self) {
        self.release();
    }
}
