//! Which trees compactions are looked for in.
//!
//! Only trees that changed since they were last found in shape are looked at:
//!
//! ```text
//! changed --> watched --looked at in vain--> not looked at any more, when nobody reads at a SeqNo older than the tree
//!              ^   \--------------------> held back, while somebody does: until the oldest such reader is gone
//!              |    \-------------------> until rest, while writers are at work: until they rest
//!              \__________________________________________________/
//! ```

use super::brakes::hold_writers_back;
use super::upkeep::Upkeep;
use crate::due::Due;
use crate::queue::Queue;
use flagstone_base::{SeqNo, TreeId};
use flagstone_tree::{Policy, Tree, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Watches the trees again that waited for writers to rest, or for readers of the past to be gone.
pub(super) fn watch_again(upkeep: &Upkeep) {
    let rest = upkeep.writers_rest();
    let oldest = upkeep.history.live().0.into_iter().min();
    let mut queue = upkeep.work.lock();
    let Queue { watched, until_rest, held_back, .. } = &mut *queue;
    if rest {
        watched.append(until_rest);
    }
    let still_held = match oldest {
        Some(oldest) => held_back.split_off(&(oldest, TreeId(0))),
        None => BTreeMap::new(),
    };
    let free = std::mem::replace(held_back, still_held);
    watched.extend(free.into_iter().map(|((_, id), tree)| (id, tree)));
    upkeep.history.snapshots.set_awaited(held_back.keys().next_back().map(|(seqno, _)| *seqno));
}

/// Trees that may need a compaction, and are not resting after one that failed.
pub(super) fn watched_trees(upkeep: &Upkeep) -> Vec<Arc<Tree>> {
    let queue = upkeep.work.lock();
    let rests = |tree: &TreeId| queue.failing.get(tree).is_some_and(|back_off| back_off.rests);
    let watched = queue.watched.iter().filter(|(id, _)| !rests(id));
    watched.map(|(_, tree)| Arc::clone(tree)).collect()
}

/// A tree was opened or has changed: it may need a compaction, and its writers more or less room.
pub(crate) fn watch(upkeep: &Upkeep, tree: &Arc<Tree>) {
    let runs = tree.l0_runs();
    let mut queue = upkeep.work.lock();
    queue.watched.insert(tree.id(), Arc::clone(tree));
    queue.until_rest.remove(&tree.id());
    queue.blocked.remove(&tree.id());
    hold_writers_back(upkeep, &mut queue, tree, runs);
}

/// No compaction was found for `tree` in the `version` that it had: there will be none before it changes, or before
/// writers rest, if they were at work, or before the `oldest` reader of the past is gone, if that is older than a part
/// of the tree.
pub(super) fn unwatch(
    upkeep: &Upkeep,
    tree: &Arc<Tree>,
    version: &Arc<Version>,
    (policy, oldest): (Policy, Option<SeqNo>),
) {
    let mut queue = upkeep.work.lock();
    if !Arc::ptr_eq(tree.view().version(), version) {
        // Whoever changed it has called `watch`, or will when this lock is free.
        return;
    }
    if let Some(damage) = version.damage() {
        queue.blocked.insert(tree.id(), damage);
    }
    queue.watched.remove(&tree.id());
    if policy == Policy::Tiering {
        queue.until_rest.insert(tree.id(), Arc::clone(tree));
    } else if let Some(oldest) = oldest.filter(|oldest| *oldest < version.seqno_max()) {
        queue.held_back.insert((oldest, tree.id()), Arc::clone(tree));
        upkeep.history.snapshots.await_seqno(oldest);
        drop(queue);
        // It may have gone before it could know that somebody waits for it.
        if !upkeep.history.snapshots.is_held(oldest) {
            upkeep.health.act(Due::COMPACTIONS);
        }
    }
}

/// While flushes follow one another, compactions save writes, unless the tree is read even more.
pub(super) fn policy(upkeep: &Upkeep, tree: &Tree) -> Policy {
    // Another tree may be the one that is written.
    let is_written = tree.oldest_unflushed().is_some();
    match !is_written || upkeep.writers_rest() || tree.is_read_heavy() {
        true => Policy::Leveling,
        false => Policy::Tiering,
    }
}
