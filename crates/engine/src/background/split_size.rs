//! When a partition is large enough for a split.

use super::upkeep::Upkeep;
use crate::partition::Route;
use flagstone_tree::Tree;
use std::sync::Arc;

/// A hash partition is split at this many times the size of a range: every scan merges all of them.
const HASH_TIMES: u64 = 8;

/// Notes `tree`, whose tables take `bytes` now, if it is large enough for a split.
pub(crate) fn note_size(upkeep: &Upkeep, tree: &Arc<Tree>, bytes: u64) {
    let limit = upkeep.setup.options.split_bytes;
    if limit == 0 || bytes < limit || tree.successors().is_some() {
        return;
    }
    let core = upkeep.keyspaces.get(tree.options().keyspace);
    if core.is_some_and(|core| bytes >= limit_of(upkeep, &core.layout().route)) {
        upkeep.splits.note_large(tree);
    }
}

/// The bytes at which a partition of `route` is split.
pub(super) fn limit_of(upkeep: &Upkeep, route: &Route) -> u64 {
    let times = if route.is_range() { 1 } else { HASH_TIMES };
    upkeep.setup.options.split_bytes.saturating_mul(times)
}
