//! How much the writers of a tree are delayed: for runs that wait for compaction, and for garbage.

use super::upkeep::Upkeep;
use crate::commit::STOP;
use crate::queue::Queue;
use flagstone_tree::Tree;

/// Writers stop at this many runs in the first level of a tree, since reads look into each run.
const L0_RUNS_STOP: usize = 64;
/// Writers are slowed from this many runs on. It is twice what a tree has when its turn to be
/// merged comes: the trees of a keyspace fill at the same rate and wait for one another.
const L0_RUNS_FREE: usize = 24;

/// Sets how much writers of `tree` are held back: for `runs` runs in its first level, and for its
/// garbage if it has much.
pub(super) fn hold_writers_back(upkeep: &Upkeep, queue: &mut Queue, tree: &Tree, runs: usize) {
    let excess = runs.saturating_sub(L0_RUNS_FREE) as u32;
    // From 750 (no delay) at the free count to 1,000 (stop).
    let fill =
        if excess == 0 { 0 } else { 750 + 250 * excess / (L0_RUNS_STOP - L0_RUNS_FREE) as u32 };
    let fill = match queue.spaces.is_wasteful(tree.id(), &upkeep.setup.options) {
        true => fill.max(queue.spaces.brake),
        false => fill,
    };
    let before = tree.set_brake(fill);
    match fill {
        0 => queue.brakes.remove(&tree.id()),
        fill => queue.brakes.insert(tree.id(), fill),
    };
    set_brakes(upkeep, queue);
    if fill < before {
        upkeep.health.writers.ring();
    }
}

/// Tells the commit path how close to the stop the tree is whose writers are held back most. Above
/// zero, every writer checks its own tree.
pub(super) fn set_brakes(upkeep: &Upkeep, queue: &Queue) {
    let brake = queue.brakes.values().copied().max().unwrap_or(0);
    let is_stuck = upkeep.work.stuck() > 0;
    upkeep.stall.set_compaction_fill(if is_stuck { brake.max(STOP) } else { brake });
}
