//! Which trees may have to be split, and which neighbours may be merged.

use flagstone_base::sorted::{SortedMap, SortedSet};
use flagstone_base::{KeyspaceId, TreeId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_tree::{Tree, WriteLoad};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A table that reaches across the bounds of its tree is trimmed within this time, even if other
/// compactions wait.
const TRIM_WITHIN: Duration = Duration::from_secs(60);

/// After a split because of load, no partitions of the keyspace merge for this long.
const STAY_FOR: Duration = Duration::from_secs(600);

/// Small neighbours of a keyspace are flushed to be merged at most once in this time, unless they
/// are merged: somebody may write to them all the time.
const FLUSH_EVERY: Duration = Duration::from_secs(60);

/// The splits and merges of an open database: done, due, and kept waiting.
#[derive(Default)]
pub(crate) struct Splits {
    due: Mutex<SplitsDue>,
    /// A job that splits and merges is queued, or runs.
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
    /// Trees whose writers contended while the memtable was filled that was flushed last.
    loaded: SortedMap<TreeId, (Arc<Tree>, Arc<WriteLoad>)>,
    /// When a tree of a keyspace was last split because of load.
    loaded_since: HashMap<KeyspaceId, Duration>,
    /// What keeps some of them from being split may have ended.
    may_split: bool,
    /// Keyspaces with partitions that a split has made.
    divided: SortedSet<KeyspaceId>,
    /// Writers are idle, so small neighbours among these may be merged.
    may_merge: bool,
    /// Keyspaces whose small neighbours are being flushed, to be merged as soon as that has ended.
    flushing: SortedSet<KeyspaceId>,
    /// When that was last begun, if they were not merged since.
    flushed: HashMap<KeyspaceId, Duration>,
    /// Trees with tables that reach across their bounds, and since when.
    sharing: HashMap<TreeId, Duration>,
    /// Trees that wait only for the end of their flush or compaction to be split.
    awaited: SortedSet<TreeId>,
}

impl SplitsDue {
    fn is_due(&self, tree: TreeId) -> bool {
        self.large.contains_key(&tree) || self.loaded.contains_key(&tree)
    }
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

    /// Notes the `load` of the memtables of `tree` that are about to be flushed.
    pub(super) fn note_load(&self, tree: &Arc<Tree>, load: WriteLoad) {
        let is_contended = load.is_contended() && tree.successors().is_none();
        let mut due = self.due.lock();
        if is_contended {
            drop(due.loaded.insert(tree.id(), (Arc::clone(tree), Arc::new(load))))
        } else {
            drop(due.loaded.remove(&tree.id()))
        }
        due.may_split |= is_contended;
    }

    /// Notes that a tree of `keyspace` was split because of load at the time `now`.
    pub(super) fn note_split_by_load(&self, keyspace: KeyspaceId, now: Duration) {
        self.due.lock().loaded_since.insert(keyspace, now);
    }

    /// Returns whether partitions of `keyspace` stay at the time `now` although they are small.
    pub(super) fn must_stay(&self, keyspace: KeyspaceId, now: Duration) -> bool {
        let mut due = self.due.lock();
        let stays = |since: &Duration| now.saturating_sub(*since) < STAY_FOR;
        let must_stay = due.loaded_since.get(&keyspace).is_some_and(stays);
        if !must_stay {
            due.loaded_since.remove(&keyspace);
        }
        must_stay
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
        due.loaded.remove(&tree);
        due.awaited.remove(&tree);
    }

    /// Notes whether `tree` waits only for the end of its flush or compaction.
    pub(super) fn note_awaited(&self, tree: TreeId, is_awaited: bool) {
        let mut due = self.due.lock();
        if is_awaited {
            due.awaited.insert(tree)
        } else {
            due.awaited.remove(&tree)
        };
    }

    /// Returns whether no compaction of `tree` should start before the next try to split it. Under
    /// steady writes one always follows another.
    pub(super) fn keeps_free(&self, tree: TreeId) -> bool {
        let due = self.due.lock();
        due.awaited.contains(&tree) || (self.is_queued() && due.is_due(tree))
    }

    /// The trees that have grown beyond the limit, and those whose writers contend, with their
    /// load.
    pub(super) fn due(&self) -> Vec<(Arc<Tree>, Option<Arc<WriteLoad>>)> {
        let due = self.due.lock();
        let is_loaded = |id: &TreeId| due.loaded.contains_key(id);
        let large = due.large.iter().filter(|(id, _)| !is_loaded(id));
        let large = large.map(|(_, tree)| (Arc::clone(tree), None));
        let loaded = due.loaded.values();
        large.chain(loaded.map(|(tree, load)| (Arc::clone(tree), Some(Arc::clone(load))))).collect()
    }

    /// Notes a keyspace with partitions that a split has made.
    pub(crate) fn note_divided(&self, keyspace: KeyspaceId) {
        self.due.lock().divided.insert(keyspace);
    }

    /// Notes that a keyspace has no such partitions any more.
    pub(super) fn note_whole(&self, keyspace: KeyspaceId) {
        let mut due = self.due.lock();
        due.divided.remove(&keyspace);
        due.loaded_since.remove(&keyspace);
        due.flushed.remove(&keyspace);
    }

    /// Notes that neighbours in `keyspace` can be merged once what they have is in tables. Returns
    /// whether to flush them now; `is_flushing` if that has been begun.
    pub(super) fn delay_merge(
        &self,
        keyspace: KeyspaceId,
        is_flushing: bool,
        now: Duration,
    ) -> bool {
        let mut due = self.due.lock();
        let is_late = |last: &Duration| now.saturating_sub(*last) >= FLUSH_EVERY;
        let may_flush = !is_flushing && due.flushed.get(&keyspace).is_none_or(is_late);
        if may_flush {
            due.flushed.insert(keyspace, now);
        }
        if may_flush || is_flushing {
            due.flushing.insert(keyspace);
        }
        may_flush
    }

    /// Notes that neighbours in `keyspace` were merged.
    pub(super) fn note_merged(&self, keyspace: KeyspaceId) {
        self.due.lock().flushed.remove(&keyspace);
        self.merges.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that writers are idle.
    pub(super) fn note_idle(&self) {
        let mut due = self.due.lock();
        due.may_merge = !due.divided.is_empty();
    }

    /// Returns the keyspaces in which small neighbours may be merged. The next call returns none
    /// until writers are idle again, or until neighbours were flushed.
    pub(super) fn take_divided(&self) -> Vec<KeyspaceId> {
        let mut due = self.due.lock();
        let flushing = std::mem::take(&mut due.flushing);
        if std::mem::take(&mut due.may_merge) {
            due.divided.iter().copied().collect()
        } else {
            due.divided.iter().filter(|id| flushing.contains(id)).copied().collect()
        }
    }

    /// Returns whether a job should be queued that splits and merges.
    pub(super) fn arm(&self) -> bool {
        let mut due = self.due.lock();
        if self.is_queued() {
            // When the job ends, this is called again.
            return false;
        }
        let is_any = !(due.large.is_empty() && due.loaded.is_empty() && due.flushing.is_empty());
        let is_due = (std::mem::take(&mut due.may_split) && is_any) || due.may_merge;
        self.is_queued.store(is_due, Ordering::Release);
        is_due
    }

    /// Returns whether the job is queued, or runs. It starts what is due when it ends.
    pub(super) fn is_queued(&self) -> bool {
        self.is_queued.load(Ordering::Acquire)
    }

    pub(super) fn disarm(&self) {
        self.is_queued.store(false, Ordering::Release);
    }

    /// Notes whether `tree` has tables that reach across its bounds.
    pub(super) fn note_sharing(&self, tree: &Tree, now: Duration) {
        if !tree.options().has_bounds() {
            return;
        }
        let is_sharing = tree.shares_tables();
        let mut due = self.due.lock();
        if is_sharing {
            due.sharing.entry(tree.id()).or_insert(now);
        } else {
            due.sharing.remove(&tree.id());
        }
    }

    /// Returns whether the tables of `tree` that reach across its bounds must be trimmed before
    /// other compactions: they have waited long, or the next split of the tree waits for that.
    pub(super) fn is_trim_late(&self, tree: &Tree, now: Duration) -> bool {
        let due = self.due.lock();
        let is_late = |since: &Duration| now.saturating_sub(*since) >= TRIM_WITHIN;
        let since = due.sharing.get(&tree.id());
        since.is_some_and(|since| is_late(since) || due.is_due(tree.id()))
    }
}

#[cfg(test)]
mod tests {
    use super::Splits;
    use crate::options::partitions_by_cores;
    use crate::partition::Route;
    use crate::stories::world::World;
    use crate::testing::Builder;
    use crate::{Engine, Environment, Keyspace, KeyspaceOptions, Options, Routing};
    use flagstone_base::{FileNumber, TreeId};
    use flagstone_env::{Executor, ManualClock, MemDisk, Random, SeededRandom, StepExecutor};
    use flagstone_sst::TableMeta;
    use flagstone_tree::{KeyBounds, OpenTables, Tree, TreeEdit, TreeOptions, Version};
    use std::sync::Arc;
    use std::time::Duration;

    /// A keyspace with a thousand keys in one partition, far below the size of a split.
    struct Store {
        clock: Arc<ManualClock>,
        steps: Arc<StepExecutor>,
        db: Engine,
        kv: Keyspace,
    }

    impl Store {
        fn new(options: Options) -> Self {
            Self::with(options, Routing::Auto)
        }

        fn with(options: Options, routing: Routing) -> Self {
            let (clock, steps) = (Arc::<ManualClock>::default(), Arc::<StepExecutor>::default());
            let environment = Environment {
                disk: Arc::new(MemDisk::default()),
                clock: Arc::<ManualClock>::clone(&clock),
                random: Arc::new(SeededRandom::new(1)),
                executor: Some(Arc::<StepExecutor>::clone(&steps)),
            };
            let builder = Builder::at("db").options(options).environment(environment);
            let db = builder.open().unwrap();
            let routed = KeyspaceOptions::new().routing(routing);
            let kv = db.keyspace_with("kv", routed).unwrap();
            Self { clock, steps, db, kv }
        }

        fn fill(&self) {
            (0..1000_u32).for_each(|n| self.kv.put(n.to_be_bytes(), [7; 100]).unwrap());
        }

        /// Fills the memtables while writers of `keys` wait for others, and flushes them.
        fn load(&self, keys: impl Iterator<Item = u32>) {
            self.fill();
            for key in keys.map(u32::to_be_bytes) {
                let core = self.kv.core();
                core.layout().tree_of(&key, core.hash(&key)).note_wait(&key);
            }
            self.db.flush().unwrap();
            self.steps.run_all();
        }

        /// Lets a time pass in which nobody writes.
        fn idle(&self, time: Duration) {
            self.clock.advance(time);
            for _ in 0..100 {
                if !self.steps.assist() {
                    break;
                }
            }
        }

        fn partitions(&self) -> usize {
            self.kv.core().trees().len()
        }

        fn bounds(&self) -> Vec<u32> {
            let Route::Range { bounds, .. } = &self.kv.core().layout().route else { panic!() };
            bounds.iter().map(|bound| u32::from_be_bytes(bound[..].try_into().unwrap())).collect()
        }
    }

    /// The keys below `end`, again and again in an order far from theirs.
    fn mixed(end: u32) -> impl Iterator<Item = u32> {
        (0..8000_u32).map(move |n| (n.wrapping_mul(0x9E37_79B9) >> 16) % end)
    }

    const SOON: Duration = Duration::from_secs(2);

    #[test]
    fn a_small_partition_is_cut_where_its_writers_wait() {
        let store = Store::new(Options::default());
        store.load(mixed(200));
        let bounds = store.bounds();
        assert_eq!(bounds.len(), 3, "{bounds:?}");
        for (bound, wanted) in bounds.iter().zip([50, 100, 150]) {
            assert!(bound.abs_diff(wanted) < 25, "{bounds:?}");
        }
        assert_eq!((store.db.stats().splits, store.kv.count().unwrap()), (3, 1000));
        store.idle(SOON);
        store.db.verify().unwrap();
    }

    #[test]
    fn a_hash_partition_whose_writers_wait_is_cut_evenly() {
        let store = Store::with(Options::default(), Routing::Hash(2));
        store.load(mixed(1000));
        let core = store.kv.core();
        assert_eq!(store.partitions(), 4.max(partitions_by_cores().min(8)));
        let Route::Hash { starts, .. } = &core.layout().route else { panic!() };
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] > 1 << 60), "{starts:?}");
        assert_eq!(store.kv.count().unwrap(), 1000);
        store.idle(SOON);
        store.db.verify().unwrap();
        assert_eq!(core.record().routing(), Routing::Hash(2), "as it was created");
    }

    #[test]
    fn partitions_are_no_more_than_keep_all_cores_busy() {
        let store = Store::new(Options::default());
        for _ in 0..6 {
            store.load(mixed(1000));
            store.idle(SOON);
        }
        assert!((4..=partitions_by_cores()).contains(&store.partitions()));
    }

    #[test]
    fn what_load_has_split_merges_only_long_after() {
        let store = Store::new(Options::default());
        store.load(mixed(1000));
        let rest = || {
            store.fill();
            store.db.flush().unwrap();
            store.idle(SOON);
        };
        (0..8).for_each(|_| rest());
        assert_eq!((store.partitions(), store.db.stats().merges), (4, 0));
        store.clock.advance(super::STAY_FOR);
        (0..8).for_each(|_| rest());
        assert_eq!((store.partitions(), store.kv.count().unwrap()), (1, 1000));
    }

    #[test]
    fn a_load_that_a_cut_would_not_divide_splits_nothing() {
        let store = Store::new(Options::default());
        store.load(0..8000);
        store.load(std::iter::repeat_n(7, 8000));
        store.load(mixed(1000).take(200));
        assert_eq!(store.partitions(), 1);
        let whole = Store::new(Options::default().split_bytes(0));
        whole.load(mixed(1000));
        assert_eq!(whole.partitions(), 1, "without the option nothing splits");
    }

    /// Each flush of a tree that is large and cannot be split began its minute again.
    #[test]
    fn a_tree_that_is_not_split_is_trimmed_in_time() {
        let world = World::new();
        let db = world.open();
        let kv = db.keyspace("kv").unwrap();
        let context = kv.core().trees()[0].context();
        let meta = TableMeta {
            number: FileNumber(99),
            smallest: b"a".to_vec(),
            largest: b"z".to_vec(),
            ..TableMeta::default()
        };
        let edit = TreeEdit { added: vec![(6, meta)], ..TreeEdit::new(TreeId(99)) };
        let version = Version::open(context, &edit, &mut OpenTables::default()).unwrap();
        let bounds = Some(Arc::new(KeyBounds::new(b"m".to_vec(), None)));
        let options = TreeOptions { bounds, ..TreeOptions::default() };
        let tree = Tree::new(TreeId(99), Arc::clone(context), options, version);
        assert!(tree.shares_tables());
        let splits = Splits::default();
        let at = Duration::from_secs;
        splits.note_sharing(&tree, at(1));
        splits.forget(tree.id());
        splits.note_sharing(&tree, at(40));
        assert!(!splits.is_trim_late(&tree, at(60)) && splits.is_trim_late(&tree, at(61)));
    }

    /// Writes `mib` without a pause, so that background work runs only where the writer waits for
    /// it.
    fn write_steadily(kv: &Keyspace, mib: u64) {
        let random = SeededRandom::new(7);
        for _ in 0..mib << 10 {
            let words = (0..128).flat_map(|_| random.next_u64().to_le_bytes());
            kv.put(random.next_u64().to_be_bytes(), words.collect::<Vec<_>>()).unwrap();
        }
    }

    /// A flush or a compaction of the tree that ended was followed by the next one before the split
    /// had its turn, and tables that reach across the new bounds were trimmed last.
    #[test]
    fn a_tree_that_is_flushed_and_compacted_all_the_time_is_split() {
        let options =
            Options { memory_budget: 4 << 20, split_bytes: 2 << 20, ..Options::default() };
        let store = Store::new(options);
        write_steadily(&store.kv, 64);
        let largest = store.kv.core().trees().iter().map(|tree| tree.table_bytes()).max().unwrap();
        assert!(largest < 8 << 20, "{largest} bytes in one of {}", store.partitions());
        store.db.verify().unwrap();
    }
}
