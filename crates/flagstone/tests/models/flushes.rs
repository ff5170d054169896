//! Sealing, flushes, compactions and what readers may miss: nothing.

use crate::commits::{hashed, options};
use crate::explore::{explore, open, yielding};
use flagstone::admin::Environment;
use flagstone::fold::Fold;
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::{Database, Durability, Keyspace, KeyspaceOptions, Routing, Space};
use flagstone_testkit::World;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes the same number to two keys of different partitions, again and again.
fn write_pairs(db: &Database, kv: &Keyspace, rounds: u8) {
    for n in 1..=rounds {
        let mut batch = db.batch();
        for key in KEYS {
            batch.put(kv, key, [n]).unwrap();
        }
        db.commit(batch).unwrap();
    }
}

const KEYS: [&str; 3] = ["a", "b", "c"];

/// Reads by gets of a snapshot and by a scan: all keys hold one number, which never becomes less.
fn read_pairs(db: &Database, kv: &Keyspace, rounds: usize) {
    let mut last = 0;
    for _ in 0..rounds {
        let snapshot = db.snapshot();
        let read = |key| snapshot.get(kv, key).unwrap().map_or(0, |value| value[0]);
        let found = KEYS.map(read);
        assert!(found.iter().all(|n| *n == found[0]), "a torn batch: {found:?}");
        assert!(found[0] >= last, "{} after {last}", found[0]);
        last = found[0];
        let scan = snapshot.scan(kv, "a".."d");
        let entries = scan.map(|entry| entry.unwrap()).filter(|(key, _)| key.len() == 1);
        let scanned: Vec<u8> = entries.map(|(_, value)| value[0]).collect();
        let expected: Vec<u8> = found.into_iter().filter(|n| *n > 0).collect();
        assert_eq!(scanned, expected);
        let now = kv.get("a").unwrap().map_or(0, |value| value[0]);
        assert!(now >= last, "a get at once: {now} after {last}");
    }
}

fn beside_readers(durability: Durability, upkeep: fn(&Database)) {
    let world = World::new(1);
    let db = open(&world, options(durability));
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    write_and_read(&db, &kv, upkeep);
}

fn write_and_read(db: &Database, kv: &Keyspace, upkeep: fn(&Database)) {
    let spawn = |body: fn(&Database, &Keyspace)| {
        let (db, kv) = (db.clone(), kv.clone());
        thread::spawn(move || body(&db, &kv))
    };
    let writer = spawn(|db, kv| write_pairs(db, kv, 4));
    let reader = spawn(|db, kv| read_pairs(db, kv, 3));
    let background = {
        let db = db.clone();
        thread::spawn(move || upkeep(&db))
    };
    [writer, reader, background].into_iter().for_each(|thread| thread.join().unwrap());
    read_pairs(db, kv, 1);
    assert_eq!(kv.get("a").unwrap().unwrap()[0], 4);
}

#[test]
fn readers_see_whole_batches_while_memtables_are_flushed() {
    explore("readers_see_whole_batches_while_memtables_are_flushed", || {
        beside_readers(Durability::Buffered, |db| {
            db.flush().unwrap();
            db.flush().unwrap();
        });
    });
}

#[test]
fn readers_see_whole_batches_while_tables_are_compacted() {
    explore("readers_see_whole_batches_while_tables_are_compacted", || {
        beside_readers(Durability::None, |db| {
            db.flush().unwrap();
            db.compact().unwrap();
        });
    });
}

/// Batches that were routed before a split go to the trees after it, and readers that have the old
/// tree find what is in the new ones.
#[test]
fn readers_see_whole_batches_while_partitions_split() {
    static SPLITS: AtomicU64 = AtomicU64::new(0);
    explore("readers_see_whole_batches_while_partitions_split", || {
        SPLITS.fetch_add(beside_splits(Routing::Auto, 500), Ordering::Relaxed);
    });
    assert!(SPLITS.load(Ordering::Relaxed) > 0, "no split");
}

/// Both parts of a hash partition have all its tables, and skip the keys of the other.
#[test]
fn readers_see_whole_batches_while_hash_partitions_split() {
    static SPLITS: AtomicU64 = AtomicU64::new(0);
    explore("readers_see_whole_batches_while_hash_partitions_split", || {
        SPLITS.fetch_add(beside_splits(Routing::Hash(1), 3000), Ordering::Relaxed);
    });
    assert!(SPLITS.load(Ordering::Relaxed) > 0, "no split");
}

/// Returns how many splits of partitions with values of `bytes` there were.
fn beside_splits(routing: Routing, bytes: usize) -> u64 {
    let world = World::new(1);
    let db = open(&world, options(Durability::Buffered).split_bytes(1 << 10));
    let kv = db.space("kv").options(KeyspaceOptions::new().routing(routing)).keyspace().unwrap();
    // Two tables that begin apart, of bytes that cannot be compressed.
    let mut state = 1_u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for keys in [["00", "99"], ["bb", "zz"]] {
        for key in keys {
            kv.put(key, (0..bytes).map(|_| byte()).collect::<Vec<u8>>()).unwrap();
        }
        db.flush().unwrap();
    }
    write_and_read(&db, &kv, |db| {
        db.flush().unwrap();
        db.flush().unwrap();
    });
    db.stats().splits
}

/// A checkpoint beside writers holds whole batches, as of one moment after the last acknowledged
/// before it.
#[test]
fn a_checkpoint_beside_writers_is_of_one_moment() {
    explore("a_checkpoint_beside_writers_is_of_one_moment", || {
        let world = World::new(1);
        let db = open(&world, options(Durability::Buffered));
        let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
        write_pairs(&db, &kv, 1);
        let writer = {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || write_pairs(&db, &kv, 3))
        };
        db.checkpoint("/copy").unwrap();
        writer.join().unwrap();
        let copy = Database::builder("/copy").environment(world.environment().0).open().unwrap();
        let kv = copy.space("kv").options(hashed(2)).keyspace().unwrap();
        let found = KEYS.map(|key| kv.get(key).unwrap().map_or(0, |value| value[0]));
        assert!(found[0] >= 1 && found.iter().all(|n| *n == found[0]), "{found:?}");
    });
}

/// Appends operands, and cannot combine them: the value of a key with many of them is noted beside
/// them in the memtable.
struct Listing;

impl Fold for Listing {
    fn name(&self) -> &str {
        "listing/1"
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

/// With this many operands, the get that folds them notes it, and the next merge stores the result.
const OPERANDS: u8 = 32;

fn opened_with_listings(world: &World) -> (Database, Keyspace) {
    let environment = Environment { executor: Some(yielding()), ..world.environment().0 };
    let builder = Database::builder(World::dir()).options(options(Durability::Buffered));
    let db = builder.environment(environment).fold(Listing).open().unwrap();
    let kv = db.space("kv").options(hashed(4).fold("listing/1")).keyspace().unwrap();
    (db, kv)
}

/// A merge that stored a folded value took a reference of the memtable that a flush had just
/// sealed. The flush passed the memtable over and counted its group as flushed, close removed the
/// log, and what had been acknowledged was gone.
#[test]
fn operands_that_cannot_be_combined_are_all_there_after_a_flush_a_close_and_an_open() {
    const NAME: &str =
        "operands_that_cannot_be_combined_are_all_there_after_a_flush_a_close_and_an_open";
    explore(NAME, || {
        let world = World::new(1);
        let (db, kv) = opened_with_listings(&world);
        let mut batch = db.batch();
        for key in KEYS {
            (0..OPERANDS).for_each(|n| batch.merge(&kv, key, [n]).unwrap());
        }
        db.commit(batch).unwrap();
        for key in KEYS {
            assert_eq!(kv.get(key).unwrap().unwrap().len(), usize::from(OPERANDS));
        }
        let writers = KEYS.map(|key| {
            let kv = kv.clone();
            thread::spawn(move || kv.merge(key, [OPERANDS]).unwrap())
        });
        db.flush().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let expected: Vec<u8> = (0..=OPERANDS).collect();
        for key in KEYS {
            assert_eq!(kv.get(key).unwrap().as_deref(), Some(&*expected), "before the close");
        }
        drop(kv);
        db.close().unwrap();
        let (_db, kv) = opened_with_listings(&world);
        for key in KEYS {
            let found = kv.get(key).unwrap();
            assert_eq!(found.as_deref(), Some(&*expected), "{key} after the open");
        }
    });
}
