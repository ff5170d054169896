//! The keyspaces of an open database, by name and by number.
//!
//! Gets, puts and commits do not come here, since their handles know the keyspace. So one lock is
//! enough; no other lock is taken under it, and it is held for a few lines. Creating or dropping a
//! keyspace costs the same however many there are.

use crate::catalog::KeyspaceRecord;
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::{Error, KeyspaceId, TreeId};
use flagstone_env::sync::RwLock;
#[cfg(test)]
use flagstone_env::sync::atomic::AtomicU64;
use flagstone_env::sync::atomic::{AtomicU32, Ordering};
use flagstone_tree::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
struct KeyspaceMaps {
    /// Without the keyspaces that have an owner.
    by_name: BTreeMap<String, KeyspaceId>,
    by_id: BTreeMap<KeyspaceId, Arc<KeyspaceCore>>,
}

/// The keyspaces of an open database.
#[derive(Default)]
pub(crate) struct Keyspaces {
    maps: RwLock<KeyspaceMaps>,
    /// Above the number of every keyspace that existed since the open.
    next: AtomicU32,
    /// The number of calls that visited all keyspaces: background work must not.
    #[cfg(test)]
    pub(crate) walks: AtomicU64,
}

impl Keyspaces {
    /// The keyspace of this name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<KeyspaceCore>> {
        let maps = self.maps.read();
        maps.by_id.get(maps.by_name.get(name)?).cloned()
    }

    /// The keyspace of this number.
    pub(crate) fn get(&self, id: KeyspaceId) -> Option<Arc<KeyspaceCore>> {
        self.maps.read().by_id.get(&id).cloned()
    }

    /// The keyspace with the smallest number that is not below `id`.
    pub(crate) fn first_from(&self, id: KeyspaceId) -> Option<Arc<KeyspaceCore>> {
        Some(Arc::clone(self.maps.read().by_id.range(id..).next()?.1))
    }

    /// All keyspaces, by number. The cost grows with their number.
    pub(crate) fn all(&self) -> Vec<Arc<KeyspaceCore>> {
        #[cfg(test)]
        self.walks.fetch_add(1, Ordering::Relaxed);
        self.maps.read().by_id.values().cloned().collect()
    }

    /// All keyspaces without an owner, by name. The cost grows with their number.
    pub(crate) fn all_by_name(&self) -> Vec<Arc<KeyspaceCore>> {
        let maps = self.maps.read();
        maps.by_name.values().filter_map(|id| maps.by_id.get(id).cloned()).collect()
    }

    /// The name for a text: that of an owned keyspace follows the name of its owner.
    pub(crate) fn full_name(&self, keyspace: &KeyspaceCore) -> String {
        match keyspace.owner().and_then(|owner| self.get(owner)) {
            Some(owner) => format!("{}/{}", owner.name(), keyspace.name()),
            None => keyspace.name(),
        }
    }

    /// Tells every owner which keyspaces it owns, at an open.
    pub(crate) fn join_owned(&self) {
        let mut owned = BTreeMap::<KeyspaceId, Vec<Arc<KeyspaceCore>>>::new();
        for keyspace in self.all() {
            if let Some(owner) = keyspace.owner() {
                owned.entry(owner).or_default().push(keyspace);
            }
        }
        for (owner, keyspaces) in owned {
            if let Some(owner) = self.get(owner) {
                owner.set_owned(keyspaces);
            }
        }
    }

    /// All trees of all keyspaces, by number. The cost grows with their number: not for frequent
    /// calls.
    pub(crate) fn all_trees(&self) -> Vec<Arc<Tree>> {
        self.all().iter().flat_map(|keyspace| keyspace.trees().iter().cloned()).collect()
    }

    /// The name of a tree's keyspace, empty if it was dropped, and the index of its partition.
    pub(crate) fn partition_of(&self, tree: &Tree) -> (String, usize) {
        let keyspace = self.get(tree.options().keyspace);
        let Some(keyspace) = keyspace else { return (String::new(), 0) };
        let partition = keyspace.trees().iter().position(|other| other.id() == tree.id());
        (self.full_name(&keyspace), partition.unwrap_or_default())
    }

    /// Like [`Keyspaces::partition_of`], but finds the tree by its number. Visits all trees.
    pub(crate) fn find_partition(&self, tree: TreeId) -> (String, usize) {
        let place = self.all().iter().find_map(|keyspace| {
            let partition = keyspace.trees().iter().position(|other| other.id() == tree)?;
            Some((self.full_name(keyspace), partition))
        });
        place.unwrap_or_default()
    }

    /// Adds to `error` the keyspace and partition that it occurred in.
    pub(crate) fn in_tree(&self, error: &Error, tree: TreeId, what: &str) -> Error {
        let (keyspace, partition) = self.find_partition(tree);
        error.clone().context(format!("{what} of keyspace {keyspace:?}, partition {partition}"))
    }

    /// A number above that of every keyspace that existed since the open. Nothing is written to a
    /// keyspace before it is counted here.
    pub(crate) fn after_newest(&self) -> KeyspaceId {
        KeyspaceId(self.next.load(Ordering::Acquire))
    }

    pub(crate) fn insert(&self, core: &Arc<KeyspaceCore>) {
        self.next.fetch_max(core.id.0.saturating_add(1), Ordering::AcqRel);
        let mut maps = self.maps.write();
        if core.owner().is_none() {
            maps.by_name.insert(core.name(), core.id);
        }
        maps.by_id.insert(core.id, Arc::clone(core));
    }

    /// Replaces the catalog's record of `core`, perhaps its name, after an edit has changed it.
    pub(crate) fn replace_record(&self, core: &KeyspaceCore, record: &Arc<KeyspaceRecord>) {
        let mut maps = self.maps.write();
        if record.owned.is_some() {
            core.set_record(Arc::clone(record));
            return;
        }
        maps.by_name.remove(&core.name());
        core.set_record(Arc::clone(record));
        maps.by_name.insert(record.name.clone(), core.id);
    }

    pub(crate) fn remove(&self, core: &KeyspaceCore) {
        let mut maps = self.maps.write();
        if core.owner().is_none() {
            maps.by_name.remove(&core.name());
        }
        maps.by_id.remove(&core.id);
    }
}

#[cfg(test)]
mod tests {
    use crate::content::DefinitionKind;
    use crate::parts::Parts;
    use crate::testing::Builder;
    use crate::{Batch, Engine, Environment, Expect, Keyspace, KeyspaceOptions, Options, Routing};
    use flagstone_env::sync::atomic::Ordering;
    use flagstone_env::{Lane, ManualClock, MemDisk, SeededRandom, StepExecutor};
    use std::sync::Arc;
    use std::time::Duration;

    /// A database with some keyspaces, whose background work runs one step at a time.
    struct Opened {
        db: Engine,
        all: Vec<Keyspace>,
        steps: Arc<StepExecutor>,
        clock: Arc<ManualClock>,
    }

    impl Opened {
        fn new(keyspaces: usize) -> Self {
            Self::with(keyspaces, 1 << 20)
        }

        fn with(keyspaces: usize, memory_budget: u64) -> Self {
            let (steps, clock) = (Arc::new(StepExecutor::default()), Arc::default());
            let environment = Environment {
                disk: Arc::new(MemDisk::default()),
                clock: Arc::<ManualClock>::clone(&clock),
                random: Arc::new(SeededRandom::new(1)),
                executor: Some(Arc::<StepExecutor>::clone(&steps)),
            };
            let options = Options { memory_budget, compaction_workers: 1, ..Options::default() };
            let builder = Builder::at("db").options(options);
            let db = builder.environment(environment).open().unwrap();
            let options = KeyspaceOptions::new().routing(Routing::Hash(1));
            let names = (0..keyspaces).map(|n| format!("k{n}"));
            let all = db.keyspaces_with(names, &options).unwrap();
            Self { db, all, steps, clock }
        }

        fn parts(&self) -> &Parts {
            self.all[0].handle().parts()
        }

        fn rest(&self) {
            for _ in 0..4 {
                self.steps.run_all();
                self.clock.advance(Duration::from_secs(2));
            }
        }

        fn manifest_bytes(&self) -> u64 {
            self.parts().core.edits.manifest.lock().as_ref().unwrap().bytes()
        }

        /// The number of trees with writes to flush, and that of trees to compact, which background
        /// work visits.
        fn visited(&self) -> (usize, usize) {
            let unflushed = self.parts().core.history.numbering.lock().unflushed().count();
            let queue = self.parts().upkeep.core.work.lock();
            let watched = queue.watched.len() + queue.until_idle.len() + queue.held_back.len();
            (unflushed, watched)
        }
    }

    /// Each seal, flush and install once visited all trees: with ten thousand idle keyspaces,
    /// writes to another one took twice as long.
    #[test]
    fn work_for_one_keyspace_visits_no_idle_keyspaces() {
        let opened = Opened::new(1001);
        let parts = opened.parts();
        let walks = parts.core.keyspaces.walks.load(Ordering::Relaxed);
        for n in 0..4000_u64 {
            let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 700;
            opened.all[7].put(key.to_be_bytes(), [n as u8; 1000]).unwrap();
            if n % 64 == 0 {
                opened.steps.run_all();
            }
            let (unflushed, watched) = opened.visited();
            assert!(unflushed <= 1 && watched <= 1, "{unflushed} unflushed, {watched} watched");
        }
        opened.db.flush().unwrap();
        opened.rest();
        let stats = opened.db.stats();
        assert!(stats.flushes > 4 && stats.compactions > 0, "{stats:?}");
        assert_eq!(opened.visited(), (0, 0));
        assert_eq!(parts.core.keyspaces.walks.load(Ordering::Relaxed), walks);
    }

    /// One tree at a time, each flush wrote a table and synced an edit for 24 KiB of memory.
    #[test]
    fn many_trees_that_hold_little_are_flushed_together() {
        let opened = Opened::with(800, 64 << 20);
        opened.all.iter().for_each(|kv| kv.put("a", "1").unwrap());
        opened.steps.run_all();
        let stats = opened.db.stats();
        let groups = opened.parts().upkeep.core.work.lock().flushes.sealed;
        assert!(groups >= 1 && stats.flushes >= 15 * groups, "{groups} groups, {stats:?}");
        assert!(opened.parts().core.memory.memtable_bytes() > 10 << 20, "but not all of them");
    }

    #[test]
    fn the_edit_of_a_flush_does_not_grow_with_idle_keyspaces() {
        let grown = [1, 1000].map(|keyspaces| {
            let opened = Opened::new(keyspaces);
            opened.all[0].put("a", "1").unwrap();
            let before = opened.manifest_bytes();
            opened.db.flush().unwrap();
            opened.manifest_bytes() - before
        });
        assert_eq!(grown[0], grown[1]);
    }

    /// The tree is not examined while the snapshot is held, and its space is freed when the
    /// snapshot is gone. Once that happened only at the next flush, which may never come.
    #[test]
    fn a_tree_held_back_by_a_snapshot_is_searched_when_that_is_gone() {
        let opened = Opened::new(1);
        let kv = &opened.all[0];
        for n in 0..100_u8 {
            kv.put([n], [n; 100]).unwrap();
        }
        opened.db.flush().unwrap();
        opened.rest();
        let snapshot = opened.db.snapshot();
        kv.delete_range([0]..[100]).unwrap();
        opened.db.flush().unwrap();
        opened.rest();
        assert_eq!(snapshot.get(kv, [1]).unwrap().unwrap(), [1; 100]);
        {
            let queue = opened.parts().upkeep.core.work.lock();
            assert_eq!((queue.watched.len(), queue.held_back.len()), (0, 1));
        }
        // A snapshot that is newer than all tables holds nothing back.
        drop(opened.db.snapshot());
        assert!(!opened.steps.step(Lane::Compaction), "no search for compactions");
        drop(snapshot);
        opened.steps.run_all();
        assert_eq!(opened.visited(), (0, 0));
        assert_eq!(opened.db.stats().tables(), 0);
    }

    /// A record of the log may hold names of a keyspace into which it writes nothing. The flush
    /// that releases the record must keep them, or the values that use them cannot be read after a
    /// crash.
    #[test]
    fn names_that_only_a_released_part_of_the_log_defines_are_kept() {
        let opened = Opened::new(1);
        let (named, table) = opened.db.named("named").unwrap();
        table.define("a name");
        table.define("another");
        // The condition makes this batch log the names.
        let mut first = Batch::default();
        first.expect(&named, "no such key", Expect::Absent).unwrap();
        first.put(&opened.all[0], "a", "1").unwrap();
        opened.db.commit(first).unwrap();
        assert_eq!(opened.parts().core.edits.keyspaces_defining(), 1);
        opened.db.flush().unwrap();
        assert_eq!(opened.parts().core.edits.keyspaces_defining(), 0);
        let state = opened.parts().core.edits.manifest.lock().as_ref().unwrap().state().clone();
        let names = state.definitions_of(named.core().id, DefinitionKind::NAMES);
        assert_eq!(names, [&b"a name"[..], b"another"]);
    }
}
