//! The trees that a write goes to.
//!
//! An operation is routed when it is encoded, by the layout of that time. A split may replace the
//! layout before the write is numbered: then its operations are routed again.

use super::batch::{BatchOp, Write};
use crate::keyspace_core::{KeyspaceCore, Trees};
use crate::partition::Layout;
use flagstone_base::Kind;
use flagstone_tree::Tree;
use smallvec::SmallVec;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The trees that a write touches, and the layouts that lead to them.
pub(super) struct Targets<'a> {
    /// The layout of each keyspace of the write.
    layouts: SmallVec<[&'a Layout; 1]>,
    /// The trees as (keyspace in the batch, partition), ascending.
    places: SmallVec<[(u16, u16); 1]>,
    /// The partition of each operation, if some were routed by an older layout.
    moved: Option<Box<[u16]>>,
}

impl<'a> Targets<'a> {
    /// The targets of `write`.
    #[inline]
    pub(super) fn of(write: &Write<'a>) -> Self {
        if let ([op], [core]) = (write.ops, write.keyspaces)
            && op.kind != Kind::RangeDelete
        {
            let layout = core.layout();
            let partition = if op.layout == layout.number() {
                op.partition
            } else {
                partition_in(layout, write, op)
            };
            return Self {
                layouts: SmallVec::from_buf([layout]),
                places: SmallVec::from_buf([(op.keyspace, partition)]),
                moved: None,
            };
        }
        Self::of_many(write)
    }

    fn of_many(write: &Write<'a>) -> Self {
        let layouts: SmallVec<[&Layout; 1]> =
            write.keyspaces.iter().map(|core| core.layout()).collect();
        let is_moved = |op: &BatchOp| op.layout != layouts[usize::from(op.keyspace)].number();
        let moved = write.ops.iter().any(is_moved).then(|| {
            let again = |op: &BatchOp| partition_in(layouts[usize::from(op.keyspace)], write, op);
            write.ops.iter().map(again).collect()
        });
        let mut targets = Self { layouts, places: SmallVec::new(), moved };
        for (at, op) in write.ops.iter().enumerate() {
            let place = (op.keyspace, targets.partition(at, op));
            if op.kind == Kind::RangeDelete {
                let partitions = targets.partitions(write, op);
                targets.places.extend(partitions.map(|partition| (op.keyspace, partition as u16)));
            } else if targets.places.last() != Some(&place) {
                targets.places.push(place);
            }
        }
        targets.places.sort_unstable();
        targets.places.dedup();
        targets
    }

    /// Returns whether these are still the layouts of the keyspaces of `write`. Under the numbering
    /// lock they stay so.
    #[inline]
    pub(super) fn are_current(&self, keyspaces: &[Arc<KeyspaceCore>]) -> bool {
        keyspaces.iter().zip(&self.layouts).all(|(core, layout)| {
            // Layouts are kept, so no other one gets the address.
            std::ptr::eq(core.layout(), *layout)
        })
    }

    /// The trees, in the order of [`Targets::place_of`].
    #[inline]
    pub(super) fn trees(&self) -> impl Iterator<Item = &'a Arc<Tree>> {
        self.places.iter().map(|&(keyspace, partition)| {
            &self.layouts[usize::from(keyspace)].trees[usize::from(partition)]
        })
    }

    /// The tree of operation number `at`, which deletes no range.
    #[inline]
    pub(super) fn place_of(&self, at: usize, op: &BatchOp) -> Option<usize> {
        if self.places.len() == 1 {
            return Some(0);
        }
        self.places.binary_search(&(op.keyspace, self.partition(at, op))).ok()
    }

    /// The trees of an operation that deletes a range.
    pub(super) fn places_of_range<'s>(
        &'s self,
        write: &Write<'_>,
        op: &'s BatchOp,
    ) -> impl Iterator<Item = usize> + use<'s, 'a> {
        let partitions = self.partitions(write, op);
        let is_met = move |&(_, place): &(usize, &(u16, u16))| {
            place.0 == op.keyspace && partitions.contains(&usize::from(place.1))
        };
        self.places.iter().enumerate().filter(is_met).map(|(at, _)| at)
    }

    fn partition(&self, at: usize, op: &BatchOp) -> u16 {
        self.moved.as_ref().map_or(op.partition, |moved| moved[at])
    }

    fn partitions(&self, write: &Write<'_>, op: &BatchOp) -> RangeInclusive<usize> {
        let layout = self.layouts[usize::from(op.keyspace)];
        layout.partitions_of(write.bytes(&op.key), write.bytes(&op.value))
    }
}

#[cold]
fn partition_in(layout: &Layout, write: &Write<'_>, op: &BatchOp) -> u16 {
    layout.route.partition(write.bytes(&op.key), op.hash) as u16
}

/// The trees that `write` touches.
pub(crate) fn trees_of<'a>(write: &Write<'a>) -> Trees<'a> {
    Targets::of(write).trees().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Route;
    use crate::testing;
    use crate::{Batch, KeyspaceOptions, Routing};
    use flagstone_base::TreeId;
    use flagstone_tree::{TreeOptions, Version};

    #[test]
    fn a_batch_filled_before_a_split_goes_to_the_trees_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let options = KeyspaceOptions::new().routing(Routing::Range(vec![b"t".to_vec()]));
        let kv = db.keyspace_with("kv", options).unwrap();
        let mut batch = Batch::default();
        batch.put(&kv, "a", "1").unwrap();
        batch.delete_range(&kv, "b", "n").unwrap();
        batch.put(&kv, "z", "1").unwrap();
        let write = batch.as_write();
        let before = Targets::of(&write);
        assert_eq!(before.places[..], [(0, 0), (0, 1)]);
        assert!(before.are_current(write.keyspaces));
        let old = kv.core().trees();
        let tree = |id| {
            let context = Arc::clone(old[0].context());
            Tree::new(TreeId(id), context, TreeOptions::default(), Version::empty())
        };
        let bounds = ["m", "t", "x"].map(|bound| bound.into()).to_vec();
        let trees = vec![tree(91), tree(92), Arc::clone(&old[1]), tree(93)];
        kv.core().set_layout(Route::Range { bounds, seed: kv.core().hash_seed() }, trees);
        assert!(!before.are_current(write.keyspaces));
        let after = Targets::of(&write);
        let ids: Vec<_> = after.trees().map(|tree| tree.id().0).collect();
        assert_eq!(ids, [91, 92, 93]);
        let place = |at: usize| after.place_of(at, &write.ops[at]);
        assert_eq!((place(0), place(2)), (Some(0), Some(2)));
        assert_eq!(after.places_of_range(&write, &write.ops[1]).collect::<Vec<_>>(), [0, 1]);
        assert!(after.are_current(write.keyspaces));
        let single = Write { ops: &write.ops[2..], ..write };
        assert_eq!(Targets::of(&single).trees().next().unwrap().id().0, 93);
        // The trees of this test are in no catalog, so nothing is written to them.
    }
}
