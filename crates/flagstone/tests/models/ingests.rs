//! Ingests beside conditions, writers and readers.

use crate::commits::{hashed, options};
use crate::explore::{explore, open};
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::{Database, Durability, ErrorKind, Expect, Keyspace, Space};
use flagstone_testkit::World;

const KEYS: [&str; 3] = ["a", "b", "c"];

fn opened(world: &World) -> (Database, Keyspace) {
    let db = open(world, options(Durability::Buffered));
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    (db, kv)
}

fn ingest(db: &Database, kv: &Keyspace) -> thread::JoinHandle<()> {
    let (db, kv) = (db.clone(), kv.clone());
    thread::spawn(move || {
        db.ingest(&kv, KEYS.map(|key| (key, "ingested"))).unwrap();
    })
}

/// A batch that expects a key to be absent comes before the ingest, which replaces its value, or is
/// a conflict.
#[test]
fn no_condition_misses_an_ingest() {
    explore("no_condition_misses_an_ingest", || {
        let (db, kv) = opened(&World::new(1));
        let ingest = ingest(&db, &kv);
        let claims = {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || {
                let mut batch = db.batch();
                batch.expect(&kv, "a", Expect::Absent).unwrap();
                batch.put(&kv, "a", "claimed").unwrap();
                if let Err(error) = db.commit(batch) {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                }
            })
        };
        [ingest, claims].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(kv.get("a").unwrap().unwrap(), b"ingested");
    });
}

/// Snapshots see an ingest over two partitions whole, above the puts before it and below those
/// after.
#[test]
fn readers_see_an_ingest_whole_and_in_its_place() {
    explore("readers_see_an_ingest_whole_and_in_its_place", || {
        let (db, kv) = opened(&World::new(1));
        let ingest = ingest(&db, &kv);
        let writer = {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || {
                for value in ["1", "2"] {
                    let mut batch = db.batch();
                    KEYS.iter().for_each(|key| batch.put(&kv, key, value).unwrap());
                    db.commit(batch).unwrap();
                }
            })
        };
        let read = |db: &Database, kv: &Keyspace| {
            let snapshot = db.snapshot();
            let found = KEYS.map(|key| snapshot.get(kv, key).unwrap().map(|v| v.to_vec()));
            assert!(found.iter().all(|value| *value == found[0]), "torn: {found:?}");
            let scanned = snapshot.scan(kv, ..).map(|entry| entry.unwrap());
            let scanned: Vec<_> = scanned.map(|(_, value)| Some(value.to_vec())).collect();
            assert!(scanned == found || (scanned.is_empty() && found[0].is_none()), "{scanned:?}");
        };
        (0..3).for_each(|_| read(&db, &kv));
        [ingest, writer].into_iter().for_each(|thread| thread.join().unwrap());
        read(&db, &kv);
        let last = kv.get("a").unwrap().unwrap();
        assert!(last[..] == b"2"[..] || last[..] == b"ingested"[..], "{last:?}");
        db.verify().unwrap();
    });
}
