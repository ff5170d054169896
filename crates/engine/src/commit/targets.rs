//! The trees that a write goes to.

use super::batch::{Op, Write};
use crate::keyspace_core::Trees;
use flagstone_base::Kind;
use smallvec::SmallVec;
use std::ops::RangeInclusive;

/// The trees that a write touches, as (keyspace in the batch, partition), ascending.
pub(super) type Targets = SmallVec<[(u16, u16); 1]>;

/// The targets of `write`.
#[inline]
pub(super) fn targets(write: &Write<'_>) -> Targets {
    match write.ops {
        [op] if op.kind != Kind::RangeDelete => Targets::from_buf([(op.keyspace, op.partition)]),
        _ => targets_of_many(write),
    }
}

fn targets_of_many(write: &Write<'_>) -> Targets {
    let mut targets = Targets::new();
    for op in write.ops {
        if op.kind == Kind::RangeDelete {
            let partitions = partitions_of(write, op);
            targets.extend(partitions.map(|partition| (op.keyspace, partition as u16)));
        } else if targets.last() != Some(&(op.keyspace, op.partition)) {
            targets.push((op.keyspace, op.partition));
        }
    }
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// The trees that `write` touches.
pub(crate) fn trees_of<'a>(write: &Write<'a>) -> Trees<'a> {
    let tree = |(keyspace, partition): (u16, u16)| {
        &write.keyspaces[usize::from(keyspace)].trees[usize::from(partition)]
    };
    targets(write).into_iter().map(tree).collect()
}

/// The partitions that a range delete overlaps.
pub(super) fn partitions_of(write: &Write<'_>, op: &Op) -> RangeInclusive<usize> {
    let route = &write.keyspaces[usize::from(op.keyspace)].route;
    route.partitions_of(write.bytes(&op.key), write.bytes(&op.value))
}
