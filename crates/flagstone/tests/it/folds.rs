//! One key merged again and again.
//!
//! The story: 24 million increments of one counter under a budget of 64 MiB took 465 MiB, beside a
//! snapshot more than a gigabyte, a full compaction 2.3 GiB, and a get 3.4 seconds: flushes and
//! compactions held all operands of a key, and kept them, and a get walked over all of them.

use crate::support::{folding, hashed, number, small, threaded};
use flagstone::fold::Fold;
use flagstone::fold::{AddI64, Append};
use flagstone::{Builder, Database, Expect, Keyspace, Patch, Space};
use flagstone_testkit::{Session, World};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Another fold, and the most operands that it was given at once.
struct Noting {
    inner: Arc<dyn Fold>,
    combines: bool,
    most: Arc<AtomicUsize>,
}

impl Fold for Noting {
    fn name(&self) -> &str {
        "noting/1"
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.most.fetch_max(operands.len(), Ordering::Relaxed);
        self.inner.fold(key, base, operands)
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.inner.partial(key, older, newer).filter(|_| self.combines)
    }
}

/// A database whose memtables hold tens of thousands of operands, and the keyspace `kv` with a fold
/// that notes.
struct Noted {
    db: Database,
    kv: Keyspace,
    most: Arc<AtomicUsize>,
}

impl Noted {
    fn new(inner: impl Fold + 'static, combines: bool) -> Self {
        let most = Arc::new(AtomicUsize::new(0));
        let noting = Noting { inner: Arc::new(inner), combines, most: Arc::clone(&most) };
        let db = builder(&World::new(1), 64 << 20).fold(noting).open().unwrap();
        let kv = db.space("kv").options(folding(1, "noting/1")).keyspace().unwrap();
        Self { db, kv, most }
    }

    fn most(&self) -> usize {
        self.most.swap(0, Ordering::Relaxed)
    }
}

fn builder(world: &World, memory: u64) -> Builder {
    Database::builder(World::dir())
        .options(small().memory_budget(memory))
        .environment(world.environment().0)
}

fn entries(db: &Database) -> u64 {
    let stats = db.stats();
    stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.entries).sum()
}

#[test]
fn a_get_of_a_hot_counter_folds_few_operands_at_any_time_and_snapshot() {
    let Noted { db, kv, most } = &Noted::new(AddI64, true);
    let one = 1_i64.to_le_bytes();
    let mut snapshots = Vec::new();
    for n in 0..20_000 {
        if n % 1250 == 0 {
            snapshots.push((n, db.snapshot()));
        }
        kv.merge("counter", one).unwrap();
        if n % 997 == 0 {
            assert_eq!(number(kv.get("counter").unwrap()), n + 1);
            for (at, snapshot) in &snapshots {
                assert_eq!(number(snapshot.get(kv, "counter").unwrap()), *at);
                let scanned = snapshot.scan(kv, ..).next();
                assert_eq!(number(scanned.map(|entry| entry.unwrap().1)), *at);
            }
        }
    }
    // Seven of each of five levels at most.
    let most = most.load(Ordering::Relaxed);
    assert!(most > 0 && most <= 35, "{most} operands");
}

#[test]
fn a_hot_counter_takes_one_entry_in_a_table_and_one_more_for_each_snapshot() {
    let world = World::new(1);
    let db = builder(&world, 64 << 20).open().unwrap();
    let kv = db.space("kv").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let one = 1_i64.to_le_bytes();
    let mut snapshots = Vec::new();
    for n in 0..20_000 {
        kv.merge("counter", one).unwrap();
        if n % 5000 == 2500 {
            snapshots.push((n + 1, db.snapshot()));
        }
    }
    db.flush().unwrap();
    assert_eq!(entries(&db), 5);
    db.compact().unwrap();
    assert_eq!(entries(&db), 5);
    for (at, snapshot) in &snapshots {
        assert_eq!(number(snapshot.get(&kv, "counter").unwrap()), *at);
    }
    snapshots.clear();
    db.compact().unwrap();
    assert_eq!(entries(&db), 1);
    assert_eq!(number(kv.get("counter").unwrap()), 20_000);
}

#[test]
fn operands_that_cannot_be_combined_are_folded_for_the_gets_to_come() {
    let noted = Noted::new(AddI64, false);
    let one = 1_i64.to_le_bytes();
    for _ in 0..5000 {
        noted.kv.merge("counter", one).unwrap();
    }
    assert!(noted.most() <= 33);
    assert_eq!(number(noted.kv.get("counter").unwrap()), 5000);
    assert!(noted.most() <= 33, "whoever gets");
    let mut batch = noted.db.batch();
    (0..3000).for_each(|_| batch.merge(&noted.kv, "counter", one).unwrap());
    noted.db.commit(batch).unwrap();
    assert!(noted.most() >= 3000, "those of one batch are folded after it");
    for n in 0..100 {
        let mut batch = noted.db.batch();
        batch.merge(&noted.kv, "counter", one).unwrap();
        batch.put(&noted.kv, "other", [n]).unwrap();
        noted.db.commit(batch).unwrap();
        assert_eq!(number(noted.kv.get("counter").unwrap()), 8001 + i64::from(n));
    }
    assert!(noted.most() <= 33, "whoever commits");
}

#[test]
fn gets_alone_fold_the_chain_of_a_recovered_log_once() {
    let most = Arc::new(AtomicUsize::new(0));
    let (mut world, one) = (World::new(1), 1_i64.to_le_bytes());
    let noting = || {
        let inner: Arc<dyn Fold> = Arc::new(AddI64);
        Noting { inner, combines: false, most: Arc::clone(&most) }
    };
    let db = builder(&world, 64 << 20).fold(noting()).open().unwrap();
    let kv = db.space("kv").options(folding(1, "noting/1")).keyspace().unwrap();
    (0..5000).for_each(|_| kv.merge("counter", one).unwrap());
    world = world.after_kill(1);
    drop((kv, db));
    let db = builder(&world, 64 << 20).fold(noting()).open().unwrap();
    let kv = db.keyspace("kv").unwrap();
    assert_eq!(number(kv.get("counter").unwrap()), 5000);
    assert_eq!(most.swap(0, Ordering::Relaxed), 5000, "the log holds operands alone");
    assert_eq!(number(kv.get("counter").unwrap()), 5000);
    assert_eq!(most.load(Ordering::Relaxed), 0, "the value is in memory");
}

#[test]
fn a_large_value_is_not_copied_for_every_few_operands() {
    let noted = Noted::new(Append, false);
    noted.kv.put("text", vec![b'-'; 100_000]).unwrap();
    let before = noted.db.stats().memtable_bytes;
    for _ in 0..4000 {
        noted.kv.merge("text", "x").unwrap();
    }
    let most = noted.most();
    assert!((700..2100).contains(&most), "{most} operands");
    let taken = noted.db.stats().memtable_bytes - before;
    assert!(taken < 4_000_000, "{taken} bytes for 4,000 operands");
    assert_eq!(noted.kv.get("text").unwrap().unwrap().len(), 104_000);
}

#[test]
fn what_was_folded_in_memory_changes_no_token() {
    let noted = Noted::new(AddI64, false);
    let one = 1_i64.to_le_bytes();
    for _ in 0..200 {
        noted.kv.merge("counter", one).unwrap();
        let (version, _) = noted.kv.get_versioned("counter").unwrap().unwrap();
        let mut batch = noted.db.batch();
        batch.expect(&noted.kv, "counter", Expect::Version(version)).unwrap();
        batch.merge(&noted.kv, "counter", one).unwrap();
        noted.db.commit(batch).unwrap();
    }
    assert_eq!(number(noted.kv.get("counter").unwrap()), 400);
}

/// What is folded in memory is not logged: the log holds the operands.
#[test]
fn folded_chains_survive_kills_and_power_cuts() {
    for luck in 0..6 {
        let mut world = World::new(luck);
        let mut expected = String::new();
        for life in 0..4 {
            let Session { db, .. } = world.open(&small()).unwrap();
            let kv = db.space("kv").options(folding(1, "append/1")).keyspace().unwrap();
            let documents = db.space("documents").options(hashed(1)).collection().unwrap();
            let found = kv.get("text").unwrap().unwrap_or_default();
            assert_eq!(std::str::from_utf8(&found).unwrap(), expected);
            for n in 0..300_u64 {
                let letter = char::from(b'a' + (n % 26) as u8);
                expected.push(letter);
                kv.merge("text", letter.to_string()).unwrap();
                documents.patch("k", &Patch::new().upsert().inc("n", 1)).unwrap();
                if (n + luck * 31 + life * 7) % 90 == 0 {
                    db.flush().unwrap();
                }
                if n % 120 == luck * 10 {
                    db.compact().unwrap();
                }
            }
            let document = documents.get("k").unwrap().unwrap();
            assert_eq!(document.int("n").unwrap(), 300 * (life as i64 + 1));
            db.sync().unwrap();
            world =
                if luck % 2 == 0 { world.after_kill(luck) } else { world.after_power_cut(luck) };
        }
    }
}

/// As `small` memtables are flushed all the time, by threads.
#[test]
fn concurrent_increments_beside_flushes_and_snapshots_lose_nothing() {
    let world = World::new(7);
    let db = threaded(&world, small().memtable_bytes(64 << 10));
    let kv = db.space("kv").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let one = 1_i64.to_le_bytes();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..6000).for_each(|_| kv.merge("counter", one).unwrap()));
        }
        let (mut last, mut held) = (0, Vec::new());
        while last < 18_000 {
            let snapshot = db.snapshot();
            let found = number(snapshot.get(&kv, "counter").unwrap());
            assert!(found >= last, "{found} after {last}");
            last = found;
            held.push((found, snapshot));
            for (at, snapshot) in &held {
                assert_eq!(number(snapshot.get(&kv, "counter").unwrap()), *at);
            }
            if held.len() > 8 {
                held.remove(3);
            }
        }
    });
    db.compact().unwrap();
    assert_eq!(number(kv.get("counter").unwrap()), 18_000);
}
