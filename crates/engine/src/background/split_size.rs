//! When a partition is large enough for a split.

use super::upkeep::Upkeep;
use crate::partition::Route;
use flagstone_tree::Tree;
use std::sync::Arc;

/// A hash partition is split at this many times the size of a range: every scan merges all of them.
const HASH_TIMES: u64 = 8;
/// The limit of a tree is `TURN_LEAST + TURN_STEP * turn` parts of the average limit, out of
/// `TURN_PARTS`. The limit of the last turn is about twice that of the first: a split halves the
/// bytes of a tree.
const TURN_PARTS: u64 = 32;
const TURN_LEAST: u64 = 20;
const TURN_STEP: u64 = 3;

/// Notes `tree`, whose tables take `bytes` now, if it is large enough for a split.
pub(crate) fn note_size(upkeep: &Upkeep, tree: &Arc<Tree>, bytes: u64) {
    let average = upkeep.core.setup().options.split_bytes;
    // No limit is lower than half of the average.
    if average == 0 || bytes < average / 2 || tree.successors().is_some() {
        return;
    }
    let core = upkeep.core.keyspaces.get(tree.options().keyspace);
    if core.is_some_and(|core| bytes >= limit_of(upkeep, &core.layout().route, tree)) {
        upkeep.splits.note_large(tree);
    }
}

/// The bytes at which `tree`, a partition of `route`, is split: 5/8 to 41/32 of the option, by the
/// turn of the tree. With one limit, partitions that grow alike would all be split, and then
/// trimmed, at the same time.
pub(super) fn limit_of(upkeep: &Upkeep, route: &Route, tree: &Tree) -> u64 {
    let times = if route.is_range() { 1 } else { HASH_TIMES };
    let average = upkeep.core.setup().options.split_bytes.saturating_mul(times);
    average / TURN_PARTS * (TURN_LEAST + TURN_STEP * u64::from(tree.options().turn))
}
