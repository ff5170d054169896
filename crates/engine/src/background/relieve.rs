//! Trees are relieved of garbage: looks how much there is, the compaction that frees the most of it, and writers who
//! give way meanwhile.

use super::compact::CompactionJob;
use super::space::{Room, UnderWay};
use crate::shared::Shared;
use flagstone_tree::{Compaction, Tree};
use std::sync::Arc;

/// Between two steps of a job writers are held back more or less only if it is by so much, in thousandths of a stop: each
/// tree with garbage is told.
const BRAKE_STEP: u32 = 20;
/// When more trees than this have garbage they are told when a job has ended.
const WEIGHED_TREES_MAX: usize = 256;

impl Shared {
    /// Looks how much of `trees` is alive, outside of the lock: samples may have to be read.
    pub(super) fn note_spaces(&self, trees: &[Arc<Tree>]) {
        let (snapshots, visible) = self.snapshots.live(&self.publisher);
        for tree in trees {
            // A close waits for the step that looks.
            if self.check_open_for_writing().is_err() {
                return;
            }
            let version = Arc::clone(tree.view().version());
            let space = tree.space(&snapshots, visible);
            let mut queue = self.background.lock();
            // Else whoever changed it looks again.
            if Arc::ptr_eq(tree.view().version(), &version) {
                queue.spaces.note(tree, space);
            }
        }
    }

    /// How much room there is for garbage, and how far it is filled.
    pub(super) fn room(&self) -> Room {
        let rest = self.writers_rest();
        let unfinished = self.trees.unfinished.bytes();
        let queue = self.background.lock();
        let freeing = queue.freeing.values().sum();
        queue.spaces.room(&self.options, rest, UnderWay { freeing, unfinished })
    }

    /// The compaction that frees the most for what it costs, in the first tree that has one.
    pub(super) fn start_for_space(&self) -> Option<CompactionJob> {
        let candidates = {
            let queue = self.background.lock();
            queue.spaces.candidates(&queue)
        };
        let (snapshots, visible) = self.snapshots.live(&self.publisher);
        for tree in candidates {
            {
                let mut queue = self.background.lock();
                self.may_compact(&queue).then_some(())?;
                if !queue.compacting.insert(tree.id()) {
                    continue;
                }
            }
            let version = Arc::clone(tree.view().version());
            let picked = tree.pick_space(&snapshots, visible);
            let freed = picked.as_ref().map(|(_, space)| space.garbage());
            let compaction =
                picked.and_then(|(job, _)| Compaction::start(&tree, job, &snapshots, visible));
            let mut queue = self.background.lock();
            if let (Some(compaction), Some(shared), Some(freed)) = (compaction, self.arc(), freed) {
                queue.freeing.insert(tree.id(), freed);
                drop(queue);
                return Some(CompactionJob::new(shared, tree, compaction));
            }
            queue.compacting.remove(&tree.id());
            queue.spaces.note_hopeless(tree.id(), &version);
        }
        None
    }

    /// Lets writers feel at once what the tables that are being written take, not when they are installed.
    pub(super) fn weigh_outputs(&self) {
        let room = self.room();
        let (brake, trees) = {
            let queue = self.background.lock();
            (queue.spaces.brake, queue.spaces.trees_with_garbage())
        };
        if trees <= WEIGHED_TREES_MAX && room.brake().abs_diff(brake) >= BRAKE_STEP {
            self.slow_down_for_space(room);
        }
    }

    /// Holds back writers of trees with much garbage when there is too much of it.
    pub(super) fn slow_down_for_space(&self, room: Room) {
        // A step at a time: every tree with garbage is looked at.
        let brake = if self.writers_rest() { 0 } else { room.brake() / 10 * 10 };
        if std::mem::replace(&mut self.background.lock().spaces.brake, brake) == brake {
            return;
        }
        let concerned = {
            let queue = self.background.lock();
            queue.spaces.with_garbage(queue.brakes.keys().copied())
        };
        for tree in concerned {
            let version = Arc::clone(tree.view().version());
            let runs = tree.l0_runs();
            let mut queue = self.background.lock();
            // Else `watch` sets it, of what the tree is now.
            if Arc::ptr_eq(tree.view().version(), &version) {
                self.hold_writers_back(&mut queue, &tree, runs);
            }
        }
    }
}
