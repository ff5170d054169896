//! Deleted ranges free their space even without further writes: a memtable that holds a deleted
//! range, or many tombstones, is flushed after its tree was quiet for a while.
//!
//! ```text
//! a range, or the 1,024th key, is deleted
//!   -> waiting --quiet for 2 s, over tables--> sealed, flushed, compacted as after any flush
//!        |  ^
//!   written meanwhile: the 2 s start over, for at most 10 s
//! ```
//! Compactions see deletes only after a flush. A memtable that is written to is flushed when it is
//! full. One whose last writes emptied a queue, for example, would stay in memory forever, and the
//! tables below it on disk.

use flagstone_base::sorted::SortedMap;
use flagstone_base::{SeqNo, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, Ordering};
use flagstone_tree::Tree;
use std::sync::Arc;
use std::time::Duration;

/// A tree is quiet if nothing was written to it for this long.
const QUIET: Duration = Duration::from_secs(2);
/// A tree that is written to all the time is flushed after this time, if the flush is certain to
/// free space.
const PATIENCE: Duration = Duration::from_secs(10);
/// The least bytes of whole tables that such a flush must free.
const FREED_MIN: u64 = 1 << 20;
/// The least number of tombstones that are worth a flush.
const TOMBSTONES_MANY: u64 = 1024;

/// Trees whose memtables hold deletes.
#[derive(Default)]
pub(crate) struct Deletes {
    waiting: Mutex<SortedMap<TreeId, WaitingTree>>,
    /// A job that checks the waiting trees is scheduled.
    is_armed: AtomicBool,
}

struct WaitingTree {
    tree: Arc<Tree>,
    /// The newest write to the tree at the last check.
    newest: SeqNo,
    quiet_since: Duration,
    since: Duration,
}

impl WaitingTree {
    /// Returns whether the memtable should be flushed at the time `now`, or `None` if the tree need
    /// not wait any longer.
    fn is_due(&mut self, now: Duration) -> Option<bool> {
        let held = self.tree.deletes_in_memory();
        if !held.has_ranges && held.tombstones < TOMBSTONES_MANY {
            // The memtable was flushed meanwhile.
            return None;
        }
        if std::mem::replace(&mut self.newest, held.newest) != held.newest {
            self.quiet_since = now;
        }
        if now.saturating_sub(self.quiet_since) >= QUIET {
            // Deletes that lie over no table free nothing.
            return (self.tree.deleted_bytes().touched > 0).then_some(true);
        }
        if now.saturating_sub(self.since) < PATIENCE {
            return Some(false);
        }
        self.since = now;
        Some(self.tree.deleted_bytes().whole >= FREED_MIN)
    }
}

/// Returns whether the memtable of `tree` holds deleted ranges, or many tombstones.
pub(super) fn has_deletes(tree: &Tree) -> bool {
    let held = tree.deletes_in_memory();
    held.has_ranges || held.tombstones >= TOMBSTONES_MANY
}

impl Deletes {
    /// Notes that something was deleted in `tree` by the time `now`.
    pub(super) fn note(&self, tree: &Arc<Tree>, now: Duration) {
        let newest = tree.deletes_in_memory().newest;
        let waiting = WaitingTree { tree: Arc::clone(tree), newest, quiet_since: now, since: now };
        self.waiting.lock().get_or_insert_with(tree.id(), || waiting);
    }

    /// Returns true to the one caller that must submit the job.
    pub(super) fn arm(&self) -> bool {
        !self.is_armed.swap(true, Ordering::AcqRel)
    }

    /// Called when the job starts: a delete after this call needs another job.
    pub(super) fn disarm(&self) {
        self.is_armed.store(false, Ordering::Release);
    }

    /// Returns the trees to be flushed at the time `now`, and whether other trees still wait.
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
