//! Which trees may have to be split, and which neighbours may be merged.

use flagstone_base::{KeyspaceId, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_tree::Tree;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A table that reaches across the bounds of its tree is trimmed within this time, even if other
/// compactions wait.
const TRIM_WITHIN: Duration = Duration::from_secs(60);

/// The splits and merges of an open database: done, due, and kept waiting.
#[derive(Default)]
pub(crate) struct Splits {
    due: Mutex<SplitsDue>,
    /// A job that splits and merges is queued.
    is_queued: AtomicBool,
    /// Cuts that are being taken. Trees stay as they are meanwhile.
    cuts: AtomicU64,
    pub(crate) splits: AtomicU64,
    pub(crate) merges: AtomicU64,
}

#[derive(Default)]
struct SplitsDue {
    /// Trees that have grown beyond the limit.
    large: BTreeMap<TreeId, Arc<Tree>>,
    /// What keeps some of them from being split may have ended.
    may_split: bool,
    /// Keyspaces with partitions that a split has made.
    divided: BTreeSet<KeyspaceId>,
    /// Writers are idle, so small neighbours among these may be merged.
    may_merge: bool,
    /// Trees with tables that reach across their bounds, and since when.
    sharing: HashMap<TreeId, Duration>,
}

/// A cut that is being taken, until it is dropped.
pub(super) struct CutGuard<'a>(&'a Splits);

impl Drop for CutGuard<'_> {
    fn drop(&mut self) {
        self.0.cuts.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Splits {
    /// Keeps splits and merges from starting until the result is dropped.
    pub(super) fn wait_for_cut(&self) -> CutGuard<'_> {
        self.cuts.fetch_add(1, Ordering::SeqCst);
        CutGuard(self)
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cuts.load(Ordering::SeqCst) > 0
    }

    /// Notes a tree that has grown beyond the limit.
    pub(super) fn note_large(&self, tree: &Arc<Tree>) {
        let mut due = self.due.lock();
        due.large.insert(tree.id(), Arc::clone(tree));
        due.may_split = true;
    }

    /// Notes that something has ended that keeps trees from being split: a flush, a compaction, a
    /// cut, an ingest.
    pub(crate) fn try_again(&self) {
        self.due.lock().may_split = true;
    }

    /// Forgets a tree that need not or cannot be split. It is noted again when its tables change.
    pub(super) fn forget(&self, tree: TreeId) {
        let mut due = self.due.lock();
        due.large.remove(&tree);
        due.sharing.remove(&tree);
    }

    /// The trees that have grown beyond the limit.
    pub(super) fn large(&self) -> Vec<Arc<Tree>> {
        self.due.lock().large.values().cloned().collect()
    }

    /// Notes a keyspace with partitions that a split has made.
    pub(crate) fn note_divided(&self, keyspace: KeyspaceId) {
        self.due.lock().divided.insert(keyspace);
    }

    /// Notes that a keyspace has no such partitions any more.
    pub(super) fn note_whole(&self, keyspace: KeyspaceId) {
        self.due.lock().divided.remove(&keyspace);
    }

    /// Notes that writers are idle.
    pub(super) fn note_idle(&self) {
        let mut due = self.due.lock();
        due.may_merge = !due.divided.is_empty();
    }

    /// Returns the keyspaces in which small neighbours may be merged. The next call returns none
    /// until writers are idle again.
    pub(super) fn take_divided(&self) -> Vec<KeyspaceId> {
        let mut due = self.due.lock();
        match std::mem::take(&mut due.may_merge) {
            true => due.divided.iter().copied().collect(),
            false => Vec::new(),
        }
    }

    /// Returns whether a job should be queued that splits and merges.
    pub(super) fn arm(&self) -> bool {
        let is_due = {
            let mut due = self.due.lock();
            (std::mem::take(&mut due.may_split) && !due.large.is_empty()) || due.may_merge
        };
        is_due && !self.is_queued.swap(true, Ordering::AcqRel)
    }

    pub(super) fn disarm(&self) {
        self.is_queued.store(false, Ordering::Release);
    }

    /// Notes whether `tree` has tables that reach across its bounds.
    pub(super) fn note_sharing(&self, tree: &Tree, now: Duration) {
        if tree.options().bounds.is_none() {
            return;
        }
        let is_sharing = tree.shares_tables();
        let mut due = self.due.lock();
        match is_sharing {
            true => drop(due.sharing.entry(tree.id()).or_insert(now)),
            false => drop(due.sharing.remove(&tree.id())),
        }
    }

    /// Returns whether the tables of `tree` that reach across its bounds must be trimmed before
    /// other compactions.
    pub(super) fn is_trim_late(&self, tree: &Tree, now: Duration) -> bool {
        let due = self.due.lock();
        due.sharing.get(&tree.id()).is_some_and(|since| now.saturating_sub(*since) >= TRIM_WITHIN)
    }
}
