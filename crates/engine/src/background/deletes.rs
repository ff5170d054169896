//! Deleted ranges give their room back though nobody writes any more: a memtable that holds some, or many tombstones, is
//! flushed when its tree has been quiet for a while.
//!
//! ```text
//! a range is deleted, or the 1,024th key --> waiting --quiet for 2 s, over tables--> sealed, flushed, compacted
//!                                              |  ^                                  as after any other flush
//!                                    written meanwhile: the 2 s begin again, at most for 10 s
//! ```
//! Only a flush brings deletes to where compactions see them. A memtable that is written on is flushed when it is full; one
//! in which a queue is emptied, say, would stay for ever, and the tables under it too.

use flagstone_base::{SeqNo, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, Ordering};
use flagstone_tree::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A tree is quiet when nobody has written to it for this long.
const QUIET: Duration = Duration::from_secs(2);
/// After this time a tree is flushed that is written all the while, if that gives room back for certain.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bytes of whole tables that such a flush must free.
const FREED_MIN: u64 = 1 << 20;
/// A flush pays from this many tombstones on.
const TOMBSTONES_MANY: u64 = 1024;

/// Trees whose memtables hold deletes.
#[derive(Default)]
pub(crate) struct Deletes {
    waiting: Mutex<BTreeMap<TreeId, Waiting>>,
    /// A job waits to look at them.
    is_armed: AtomicBool,
}

struct Waiting {
    tree: Arc<Tree>,
    /// The newest write at the last look, when it was new, and when the tree began to wait, or was found too little.
    newest: SeqNo,
    quiet_since: Duration,
    since: Duration,
}

impl Waiting {
    /// Whether its memtable should be flushed at the time `now`; `None`: it need not wait any longer.
    fn is_due(&mut self, now: Duration) -> Option<bool> {
        let held = self.tree.deletes_in_memory();
        if !held.has_ranges && held.tombstones < TOMBSTONES_MANY {
            // It was flushed since.
            return None;
        }
        if std::mem::replace(&mut self.newest, held.newest) != held.newest {
            self.quiet_since = now;
        }
        if now.saturating_sub(self.quiet_since) >= QUIET {
            // What lies over no table frees nothing.
            return (self.tree.deleted_bytes().touched > 0).then_some(true);
        }
        if now.saturating_sub(self.since) < PATIENCE {
            return Some(false);
        }
        self.since = now;
        Some(self.tree.deleted_bytes().whole >= FREED_MIN)
    }
}

/// Whether the memtable of `tree` holds deleted ranges, or many tombstones.
pub(super) fn has_deletes(tree: &Tree) -> bool {
    let held = tree.deletes_in_memory();
    held.has_ranges || held.tombstones >= TOMBSTONES_MANY
}

impl Deletes {
    /// Something was deleted in `tree` by the time `now`.
    pub(super) fn note(&self, tree: &Arc<Tree>, now: Duration) {
        let newest = tree.deletes_in_memory().newest;
        let waiting = Waiting { tree: Arc::clone(tree), newest, quiet_since: now, since: now };
        self.waiting.lock().entry(tree.id()).or_insert(waiting);
    }

    /// True for the one who submits the job that looks.
    pub(super) fn arm(&self) -> bool {
        !self.is_armed.swap(true, Ordering::AcqRel)
    }

    /// The job looks now: a delete that comes after this asks for another.
    pub(super) fn disarm(&self) {
        self.is_armed.store(false, Ordering::Release);
    }

    /// The trees to be flushed at the time `now`, and whether any are left that wait.
    pub(super) fn due(&self, now: Duration) -> (Vec<TreeId>, bool) {
        let mut due = Vec::new();
        let mut waiting = self.waiting.lock();
        waiting.retain(|id, tree| {
            let is_due = tree.is_due(now);
            due.extend(is_due.filter(|is_due| *is_due).map(|_| *id));
            is_due.is_some()
        });
        (due, !waiting.is_empty())
    }
}
