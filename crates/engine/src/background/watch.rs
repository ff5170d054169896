//! The trees in which compactions are searched for.
//!
//! Only trees that have changed since the last search that found nothing are searched:
//!
//! ```text
//! changed --> watched --nothing found--> not searched, if no snapshot is older than the tree
//!              ^   \-------------------> held back, if one is: until the oldest such one is gone
//!              |    \------------------> until idle, while writers are active: until they are idle
//!              |                         or the tree is mostly read
//!              \___________________________________________________/
//! ```

use super::upkeep::Upkeep;
use crate::due::Due;
use crate::queue::Queue;
use flagstone_base::sorted::SortedMap;
use flagstone_base::{SeqNo, TreeId};
use flagstone_tree::{Policy, Tree, Version};
use std::sync::Arc;

/// Watches the trees again that waited for idle writers, or for old snapshots to be released.
pub(super) fn watch_again(upkeep: &Upkeep) {
    let is_idle = upkeep.writers_are_idle();
    let oldest = upkeep.core.history.live().0.into_iter().min();
    let mut queue = upkeep.core.work.lock();
    let Queue { watched, until_idle, held_back, .. } = &mut *queue;
    if is_idle {
        watched.append(until_idle);
    } else {
        // Those that are mostly read now need not wait.
        watched.extend(until_idle.extract_if(.., |_, tree| tree.is_read_heavy()));
    }
    let still_held = match oldest {
        Some(oldest) => held_back.split_off(&(oldest, TreeId(0))),
        None => SortedMap::new(),
    };
    let free = std::mem::replace(held_back, still_held);
    watched.extend(free.into_iter().map(|((_, id), tree)| (id, tree)));
    upkeep
        .core
        .history
        .snapshots
        .set_awaited(held_back.keys().next_back().map(|(seqno, _)| *seqno));
}

/// Returns the trees that may need a compaction and are not pausing after a failed one.
pub(super) fn watched_trees(upkeep: &Upkeep) -> Vec<Arc<Tree>> {
    let queue = upkeep.core.work.lock();
    let is_pausing =
        |tree: &TreeId| queue.failing.get(tree).is_some_and(|back_off| back_off.is_pausing);
    let watched = queue.watched.iter().filter(|(id, _)| !is_pausing(id));
    watched.map(|(_, tree)| Arc::clone(tree)).collect()
}

/// Watches `tree`, which was opened or has changed: it may need a compaction, and its writers a
/// different delay.
pub(crate) fn watch(upkeep: &Upkeep, tree: &Arc<Tree>) {
    upkeep.splits.note_sharing(tree, upkeep.core.setup().now());
    let mut queue = upkeep.core.work.lock();
    queue.watched.insert(tree.id(), Arc::clone(tree));
    queue.until_idle.remove(&tree.id());
    queue.blocked.remove(&tree.id());
    upkeep.set_fill(&mut queue, tree);
}

/// Stops watching `tree`, in whose `version` no compaction was found. There will be none until the
/// tree changes, or until writers are idle if they were active, or until the `oldest` snapshot is
/// gone if that is older than a part of the tree.
pub(super) fn unwatch(
    upkeep: &Upkeep,
    tree: &Arc<Tree>,
    version: &Arc<Version>,
    policy: Policy,
    oldest: Option<SeqNo>,
) {
    let mut queue = upkeep.core.work.lock();
    if !Arc::ptr_eq(tree.view().version(), version) {
        // The thread that changed the tree has called `watch`, or will once this lock is free.
        return;
    }
    if let Some(damage) = version.damage() {
        queue.blocked.insert(tree.id(), damage);
    }
    queue.watched.remove(&tree.id());
    if policy == Policy::Tiering {
        queue.until_idle.insert(tree.id(), Arc::clone(tree));
    } else if let Some(oldest) = oldest.filter(|oldest| *oldest < version.seqno_max()) {
        queue.held_back.insert((oldest, tree.id()), Arc::clone(tree));
        upkeep.core.history.snapshots.await_seqno(oldest);
        drop(queue);
        // The snapshot may have been released before this tree was noted as waiting for it.
        if !upkeep.core.history.snapshots.is_held(oldest) {
            upkeep.core.health.act(Due::COMPACTIONS);
        }
    }
}

/// The policy for `tree`. While flushes follow one another compactions save writes, unless the tree
/// is read even more.
pub(super) fn policy(upkeep: &Upkeep, tree: &Tree) -> Policy {
    // Another tree may be the one that is written to.
    let is_written = tree.oldest_unflushed().is_some();
    if !is_written || upkeep.writers_are_idle() || tree.is_read_heavy() {
        Policy::Leveling
    } else {
        Policy::Tiering
    }
}
