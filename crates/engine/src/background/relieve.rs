//! How much garbage the trees hold, and writers who give way while it is too much.

use super::brakes::hold_writers_back;
use super::upkeep::Upkeep;
use crate::queue::{Room, UnderWay};
use flagstone_tree::Tree;
use std::sync::Arc;

/// Between two steps of a job writers are held back more or less only if it is by so much, in thousandths of a stop: each
/// tree with garbage is told.
const BRAKE_STEP: u32 = 20;
/// When more trees than this have garbage they are told when a job has ended.
const WEIGHED_TREES_MAX: usize = 256;

/// Looks how much of `trees` is alive, outside of the lock: samples may have to be read.
pub(super) fn note_spaces(upkeep: &Upkeep, trees: &[Arc<Tree>]) {
    let (snapshots, visible) = upkeep.history.live();
    for tree in trees {
        // A close waits for the step that looks.
        if upkeep.health.check_open_for_writing().is_err() {
            return;
        }
        let version = Arc::clone(tree.view().version());
        let space = tree.space(&snapshots, visible);
        let mut queue = upkeep.work.lock();
        // Else whoever changed it looks again.
        if Arc::ptr_eq(tree.view().version(), &version) {
            queue.spaces.note(tree, space);
        }
    }
}

/// How much room there is for garbage, and how far it is filled.
pub(super) fn room(upkeep: &Upkeep) -> Room {
    let rest = upkeep.writers_rest();
    let unfinished = upkeep.trees.unfinished.bytes();
    let queue = upkeep.work.lock();
    let freeing = queue.freeing.values().sum();
    queue.spaces.room(&upkeep.setup.options, rest, UnderWay { freeing, unfinished })
}

/// Lets writers feel at once what the tables that are being written take, not when they are installed.
pub(super) fn weigh_outputs(upkeep: &Upkeep) {
    let room = room(upkeep);
    let (brake, trees) = {
        let queue = upkeep.work.lock();
        (queue.spaces.brake, queue.spaces.trees_with_garbage())
    };
    if trees <= WEIGHED_TREES_MAX && room.brake().abs_diff(brake) >= BRAKE_STEP {
        slow_down_for_space(upkeep, room);
    }
}

/// Holds back writers of trees with much garbage when there is too much of it.
pub(super) fn slow_down_for_space(upkeep: &Upkeep, room: Room) {
    // A step at a time: every tree with garbage is looked at.
    let brake = if upkeep.writers_rest() { 0 } else { room.brake() / 10 * 10 };
    if std::mem::replace(&mut upkeep.work.lock().spaces.brake, brake) == brake {
        return;
    }
    let concerned = {
        let queue = upkeep.work.lock();
        queue.spaces.with_garbage(queue.brakes.keys().copied())
    };
    for tree in concerned {
        let version = Arc::clone(tree.view().version());
        let runs = tree.l0_runs();
        let mut queue = upkeep.work.lock();
        // Else `watch` sets it, of what the tree is now.
        if Arc::ptr_eq(tree.view().version(), &version) {
            hold_writers_back(upkeep, &mut queue, &tree, runs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, testing};
    use flagstone_tree::Space;

    /// Only trees that still had garbage were looked at, so one whose garbage was gone held its writers back for ever.
    #[test]
    fn the_brake_of_a_tree_ends_with_its_garbage() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        let (upkeep, tree) = (&kv.handle().parts().upkeep, &kv.core().trees[0]);
        let room = {
            let mut queue = upkeep.work.lock();
            queue.spaces.note(tree, Space { bytes: 1000, live: 100 });
            queue.spaces.brake = 900;
            hold_writers_back(upkeep, &mut queue, tree, 0);
            assert_eq!(tree.brake(), 900);
            queue.spaces.note(tree, Space { bytes: 100, live: 100 });
            queue.spaces.room(&Options::default(), false, UnderWay::default())
        };
        slow_down_for_space(upkeep, room);
        assert_eq!(tree.brake(), 0);
        assert!(upkeep.work.lock().brakes.is_empty());
    }
}
