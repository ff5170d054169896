//! Partitions whose writers contend are cut beside writers and readers. The engine alone: its
//! keyspaces can be told that writers have waited, which takes too long to happen in a model.

use crate::explore::explore;
use crate::holds::opened_with;
use flagstone::internal::env::sync::shuttle::thread;
use flagstone_engine::{Batch, Durability, Engine, Keyspace, Routing, Wait};
use flagstone_testkit::World;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys of all parts, in whatever way they are cut.
const KEYS: [[u8; 1]; 4] = [[10], [90], [170], [250]];

/// Writes the same number to all keys, again and again.
fn write(db: &Engine, kv: &Keyspace, numbers: std::ops::RangeInclusive<u8>) {
    for n in numbers {
        let mut batch = Batch::default();
        KEYS.iter().for_each(|key| batch.put(kv, key, [n]).unwrap());
        db.start(&batch, Durability::Buffered, Wait::Yes).unwrap().wait().unwrap();
    }
}

/// Reads by gets of a snapshot and by a scan: all keys hold one number, which never becomes less.
fn read(db: &Engine, kv: &Keyspace, rounds: usize) -> u8 {
    let mut last = 0;
    for _ in 0..rounds {
        let snapshot = db.snapshot();
        let found = KEYS.map(|key| snapshot.get(kv, key).unwrap().map_or(0, |value| value[0]));
        assert!(found.iter().all(|n| *n == found[0]), "a torn batch: {found:?}");
        assert!(found[0] >= last, "{} after {last}", found[0]);
        last = found[0];
        let mut scan = snapshot.scan(kv, flagstone_base::key::KeyRange::ALL).unwrap();
        let mut scanned = Vec::new();
        while scan.advance().unwrap() {
            scanned.push((scan.key().to_vec(), scan.value_bytes()[0]));
        }
        let expected: Vec<_> = KEYS.iter().map(|key| (key.to_vec(), last)).collect();
        assert_eq!(scanned, expected);
    }
    last
}

/// Returns how many cuts there were.
fn beside_cuts_by_load(routing: Routing) -> u64 {
    let world = World::new(1);
    let (db, kv) = opened_with(&world, routing);
    write(&db, &kv, 1..=1);
    // Keys in an order far from theirs: writes in the order of keys divide nothing.
    for n in 0..1100_u32 {
        kv.note_wait(&[(n.wrapping_mul(0x9E37_79B9) >> 24) as u8]);
    }
    let spawn = |body: fn(&Engine, &Keyspace)| {
        let (db, kv) = (db.clone(), kv.clone());
        thread::spawn(move || body(&db, &kv))
    };
    let threads = [
        spawn(|db, kv| write(db, kv, 2..=4)),
        spawn(|db, kv| assert!(read(db, kv, 2) <= 4)),
        spawn(|db, _kv| {
            db.flush().unwrap();
            db.flush().unwrap();
        }),
    ];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(read(&db, &kv, 1), 4);
    db.stats().splits
}

#[test]
fn readers_see_whole_batches_while_ranges_are_cut_by_load() {
    static CUTS: AtomicU64 = AtomicU64::new(0);
    explore("readers_see_whole_batches_while_ranges_are_cut_by_load", || {
        CUTS.fetch_add(beside_cuts_by_load(Routing::Auto), Ordering::Relaxed);
    });
    assert!(CUTS.load(Ordering::Relaxed) > 0, "no cut");
}

#[test]
fn readers_see_whole_batches_while_hashes_are_cut_by_load() {
    static CUTS: AtomicU64 = AtomicU64::new(0);
    explore("readers_see_whole_batches_while_hashes_are_cut_by_load", || {
        CUTS.fetch_add(beside_cuts_by_load(Routing::Hash(1)), Ordering::Relaxed);
    });
    assert!(CUTS.load(Ordering::Relaxed) > 0, "no cut");
}
