//! Finds trees that need a compaction because entries in their tables have expired.

use super::upkeep::Upkeep;
use super::watch::watch;
use flagstone_tree::{Policy, next_expiry, pick_expired};
use std::sync::Arc;

/// Watches the trees in which enough entries have expired, and notes when the next entries expire.
/// Returns whether there is such a tree.
pub(super) fn watch_expired(upkeep: &Arc<Upkeep>) -> bool {
    let moment = upkeep.expire_through();
    let mut is_any = false;
    for keyspace in upkeep.core.keyspaces.all().iter().filter(|keyspace| keyspace.expires()) {
        for tree in keyspace.trees() {
            let view = tree.view();
            // A tree whose compaction waits until writers rest is watched too: it is found then.
            let policy = Policy::Leveling;
            if pick_expired(view.version(), tree.options(), policy, moment).is_some() {
                watch(upkeep, tree);
                is_any = true;
            }
            if let Some(at) = next_expiry(view.version(), moment) {
                upkeep.expiry_timer.note(at);
            }
        }
    }
    is_any
}
