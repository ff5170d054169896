//! How much garbage the trees hold, and delays for writers while there is too much.

use super::upkeep::Upkeep;
use crate::queue::{RunningJobs, SpaceBudget};
use flagstone_tree::Tree;
use std::sync::Arc;

/// The least change of a fill between two steps of a job: each change visits every tree with
/// garbage.
const FILL_STEP: u32 = 20;
/// With more trees that hold garbage than this, delays change only after a job has ended.
const SLOWED_TREES_MAX: usize = 256;

/// Estimates how many bytes of `trees` are live. Runs without the lock, since it may have to read
/// samples.
pub(super) fn note_spaces(upkeep: &Upkeep, trees: &[Arc<Tree>]) {
    let (snapshots, visible) = upkeep.core.history.live();
    for tree in trees {
        // A close waits for this step.
        if upkeep.core.health.check_open_for_writing().is_err() {
            return;
        }
        let version = Arc::clone(tree.view().version());
        let space = tree.space(&snapshots, visible);
        let mut queue = upkeep.core.work.lock();
        // If the tree has changed since, the change causes another estimate.
        if Arc::ptr_eq(tree.view().version(), &version) {
            queue.spaces.note(tree, space);
        }
    }
}

/// Returns how much garbage the database may hold, and how much it holds.
pub(super) fn budget(upkeep: &Upkeep) -> SpaceBudget {
    let is_idle = upkeep.writers_are_idle();
    let unfinished = upkeep.core.trees.unfinished.bytes();
    let queue = upkeep.core.work.lock();
    let freeing = queue.freeing.values().sum();
    queue.spaces.budget(&upkeep.core.setup().options, is_idle, RunningJobs { freeing, unfinished })
}

/// Delays writers for tables that are still being written, instead of when they are installed.
pub(super) fn slow_down_for_outputs(upkeep: &Upkeep) {
    let budget = budget(upkeep);
    let (fill, trees) = {
        let queue = upkeep.core.work.lock();
        (queue.spaces.fill, queue.spaces.trees_with_garbage())
    };
    if trees <= SLOWED_TREES_MAX && budget.fill_of_trees().abs_diff(fill) >= FILL_STEP {
        slow_down_for_space(upkeep, budget);
    }
}

/// Delays writers of trees with much garbage when there is too much of it.
pub(super) fn slow_down_for_space(upkeep: &Upkeep, budget: SpaceBudget) {
    // In steps of ten, since each change visits every tree with garbage.
    let fill = if upkeep.writers_are_idle() { 0 } else { budget.fill_of_trees() / 10 * 10 };
    if std::mem::replace(&mut upkeep.core.work.lock().spaces.fill, fill) == fill {
        return;
    }
    let concerned = {
        let queue = upkeep.core.work.lock();
        queue.spaces.with_garbage(queue.fills.keys().copied())
    };
    for tree in concerned {
        let version = Arc::clone(tree.view().version());
        let mut queue = upkeep.core.work.lock();
        // Otherwise `watch` sets the delay for the tree's new version.
        if Arc::ptr_eq(tree.view().version(), &version) {
            upkeep.set_fill(&mut queue, &tree);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, testing};
    use flagstone_tree::Space;

    /// A tree whose garbage was gone kept delaying its writers forever, since only trees that still
    /// had garbage were visited.
    #[test]
    fn the_delay_of_a_tree_ends_with_its_garbage() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        let (upkeep, tree) = (&kv.handle().parts().upkeep, &kv.core().trees()[0]);
        let budget = {
            let mut queue = upkeep.core.work.lock();
            queue.spaces.note(tree, Space { bytes: 1000, live: 100 });
            queue.spaces.fill = 900;
            upkeep.set_fill(&mut queue, tree);
            assert_eq!(tree.stall_fill(), 900);
            queue.spaces.note(tree, Space { bytes: 100, live: 100 });
            queue.spaces.budget(&Options::default(), false, RunningJobs::default())
        };
        slow_down_for_space(upkeep, budget);
        assert_eq!(tree.stall_fill(), 0);
        assert!(upkeep.core.work.lock().fills.is_empty());
    }
}
