//! Partitions that split and merge by themselves: what readers, writers, copies and repairs see.

use crate::support::small_with;
use flagstone::{Durability, Keyspace, KeyspaceOptions, Options, Routing, Space};
use flagstone_testkit::{Session, World, dump};
use std::collections::BTreeMap;
use std::path::Path;

fn splitting() -> Options {
    small_with(Durability::Buffered).split_bytes(16 << 10)
}

fn ranged() -> KeyspaceOptions {
    KeyspaceOptions::new().routing(Routing::Auto)
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn value(n: u32) -> Vec<u8> {
    let words = (0..16).flat_map(|at| (n ^ (at * 77)).wrapping_mul(0x9E37_79B9).to_be_bytes());
    words.collect()
}

fn open(world: &World) -> (Session, Keyspace) {
    let session = world.open(&splitting()).unwrap();
    let kv = session.db.space("kv").options(ranged()).keyspace().unwrap();
    (session, kv)
}

fn partitions(session: &Session) -> usize {
    session.db.stats().keyspaces[0].partitions
}

/// Puts `keys`, and flushes now and then.
fn fill(session: &Session, kv: &Keyspace, keys: impl IntoIterator<Item = u32>) {
    for (at, n) in keys.into_iter().enumerate() {
        kv.put(key(n), value(n)).unwrap();
        if at % 500 == 499 {
            session.db.flush().unwrap();
            session.settle();
        }
    }
    session.db.flush().unwrap();
    session.settle();
}

fn expected(keys: impl IntoIterator<Item = u32>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    keys.into_iter().map(|n| (key(n).to_vec(), value(n))).collect()
}

/// A key for each `n` below 4000, in an order far from theirs.
fn mixed() -> impl Iterator<Item = u32> {
    (0..4000).map(|n| n * 1237 % 4000)
}

#[test]
fn a_partition_splits_when_it_has_grown_and_holds_the_same_before_and_after() {
    let world = World::new(1);
    let (session, kv) = open(&world);
    assert_eq!(partitions(&session), 1);
    fill(&session, &kv, mixed());
    let split = partitions(&session);
    assert!(split > 4, "{split} partitions");
    assert_eq!(session.db.stats().splits, split as u64 - 1);
    assert_eq!(dump(&kv).unwrap(), expected(0..4000));
    assert_eq!(kv.count().unwrap(), 4000);
    session.db.verify().unwrap();
    let routing = &session.db.keyspaces()[0].routing;
    assert_eq!(*routing, Routing::Range(Vec::new()), "as it was created");
    drop((kv, session));
    let (session, kv) = open(&world);
    assert_eq!(partitions(&session), split);
    assert_eq!(dump(&kv).unwrap(), expected(0..4000));
    session.db.verify().unwrap();
    fill(&session, &kv, 4000..8000);
    assert!(partitions(&session) > split);
    assert_eq!(dump(&kv).unwrap(), expected(0..8000));
}

#[test]
fn partitions_are_about_as_large_as_one_another() {
    let world = World::new(1);
    let (session, kv) = open(&world);
    fill(&session, &kv, mixed());
    session.db.compact().unwrap();
    session.settle();
    let bytes: u64 = session.db.stats().keyspaces[0].levels.iter().map(|l| l.bytes).sum();
    let each = bytes / partitions(&session) as u64;
    assert!((4 << 10..32 << 10).contains(&each), "{each} bytes a partition");
}

#[test]
fn neighbours_that_stay_small_merge_but_not_across_a_bound_of_the_user() {
    let world = World::new(2);
    let session = world.open(&splitting()).unwrap();
    let bounds = vec![key(1000).to_vec(), key(3000).to_vec()];
    let options = KeyspaceOptions::new().routing(Routing::Range(bounds));
    let kv = session.db.space("kv").options(options.clone()).keyspace().unwrap();
    fill(&session, &kv, mixed());
    assert!(partitions(&session) > 6);
    kv.delete_range(key(10)..key(3990)).unwrap();
    session.db.flush().unwrap();
    session.db.compact().unwrap();
    for _ in 0..4 {
        session.settle();
    }
    let stats = session.db.stats();
    assert_eq!(stats.keyspaces[0].partitions, 3, "those of the user");
    assert!(stats.merges >= 4);
    let left = || expected((0..10).chain(3990..4000));
    assert_eq!(dump(&kv).unwrap(), left());
    session.db.verify().unwrap();
    drop((kv, session));
    let session = world.open(&splitting()).unwrap();
    let kv = session.db.space("kv").options(options).keyspace().unwrap();
    assert_eq!(partitions(&session), 3);
    assert_eq!(dump(&kv).unwrap(), left());
}

fn open_hashed(world: &World) -> (Session, Keyspace) {
    let session = world.open(&splitting().split_bytes(1 << 10)).unwrap();
    let options = KeyspaceOptions::new().routing(Routing::Hash(2));
    let kv = session.db.space("kv").options(options).keyspace().unwrap();
    (session, kv)
}

#[test]
fn a_hash_partition_splits_when_it_has_grown_and_holds_the_same_before_and_after() {
    let world = World::new(8);
    let (session, kv) = open_hashed(&world);
    fill(&session, &kv, mixed());
    let split = partitions(&session);
    assert!(split > 6, "{split} partitions");
    assert_eq!(session.db.stats().splits, split as u64 - 2);
    assert_eq!(dump(&kv).unwrap(), expected(0..4000));
    assert_eq!(kv.count().unwrap(), 4000);
    assert_eq!(kv.scan(..).unordered().count(), 4000);
    for n in (0..4000).step_by(37) {
        assert_eq!(kv.get(key(n)).unwrap().unwrap(), value(n));
    }
    session.db.verify().unwrap();
    let routing = &session.db.keyspaces()[0].routing;
    assert_eq!(*routing, Routing::Hash(2), "as it was created");
    drop((kv, session));
    let (session, kv) = open_hashed(&world);
    assert_eq!(partitions(&session), split);
    assert_eq!(dump(&kv).unwrap(), expected(0..4000));
    kv.delete_range(key(10)..key(3990)).unwrap();
    session.db.flush().unwrap();
    session.db.compact().unwrap();
    (0..4).for_each(|_| session.settle());
    assert_eq!(dump(&kv).unwrap(), expected((0..10).chain(3990..4000)));
    assert_eq!((partitions(&session), session.db.stats().merges), (split, 0));
    session.db.verify().unwrap();
}

#[test]
fn snapshots_and_scans_see_the_past_through_splits_of_hash_partitions() {
    let world = World::new(9);
    let (session, kv) = open_hashed(&world);
    fill(&session, &kv, 0..300);
    let snapshot = session.db.snapshot();
    let mut forward = snapshot.scan(&kv, key(0)..);
    let mut back = snapshot.scan(&kv, key(0)..).rev();
    let before: Vec<_> = expected(0..300).into_iter().collect();
    let next = |scan: &mut flagstone::Scan<'_, flagstone::Keyspace>| {
        let (key, value) = scan.next().unwrap().unwrap();
        (key.to_vec(), value.to_vec())
    };
    for (at, pair) in before.iter().enumerate().take(10) {
        assert_eq!(next(&mut forward), *pair);
        assert_eq!(next(&mut back), before[299 - at]);
    }
    (0..300).for_each(|n| kv.put(key(n), b"new").unwrap());
    fill(&session, &kv, (300..4000).rev());
    let split = session.db.stats().splits;
    assert!(split > 4, "{split} splits");
    for pair in &before[10..200] {
        assert_eq!(next(&mut forward), *pair);
    }
    kv.delete_range(key(0)..key(4000)).unwrap();
    session.db.flush().unwrap();
    session.settle();
    assert!(before[200..].iter().all(|pair| next(&mut forward) == *pair));
    assert!(before[..290].iter().rev().all(|pair| next(&mut back) == *pair));
    assert!(forward.next().is_none() && back.next().is_none());
    assert_eq!(kv.count().unwrap(), 0);
}

#[test]
fn copies_and_repairs_of_split_hash_partitions_hold_the_same() {
    let world = World::new(10);
    let (session, kv) = open_hashed(&world);
    fill(&session, &kv, mixed().take(1500));
    (0..200).for_each(|n| kv.delete(key(n)).unwrap());
    let all = dump(&kv).unwrap();
    assert!(session.db.stats().splits > 0);
    session.db.checkpoint("copy").unwrap();
    session.db.clone().close().unwrap();
    drop((kv, session));
    let repair =
        flagstone::admin::Repair::of("/db").on_disk(std::sync::Arc::new(world.mem.clone()));
    repair.into_dir("/repaired").unwrap();
    for dir in ["copy", "/repaired"] {
        let builder = flagstone::Database::builder(dir).options(splitting());
        let db = builder.environment(world.environment().0).open().unwrap();
        let kv = db.space("kv").existing().keyspace().unwrap().unwrap();
        assert_eq!(dump(&kv).unwrap(), all, "{dir}");
        db.verify().unwrap();
    }
}

#[test]
fn without_the_option_nothing_splits() {
    let world = World::new(3);
    let session = world.open(&splitting().split_bytes(0)).unwrap();
    let kv = session.db.space("kv").options(ranged()).keyspace().unwrap();
    fill(&session, &kv, 0..2000);
    assert_eq!(partitions(&session), 1);
}

#[test]
fn snapshots_and_scans_see_the_past_through_splits_and_merges() {
    let world = World::new(4);
    let (session, kv) = open(&world);
    fill(&session, &kv, 0..1000);
    let snapshot = session.db.snapshot();
    let mut forward = snapshot.scan(&kv, key(0)..);
    let mut back = snapshot.scan(&kv, key(0)..).rev();
    let before: Vec<_> = expected(0..1000).into_iter().collect();
    let next = |scan: &mut flagstone::Scan<'_, flagstone::Keyspace>| {
        let (key, value) = scan.next().unwrap().unwrap();
        (key.to_vec(), value.to_vec())
    };
    for pair in before.iter().take(10) {
        assert_eq!(next(&mut forward), *pair);
    }
    for pair in before.iter().rev().take(10) {
        assert_eq!(next(&mut back), *pair);
    }
    (0..1000).for_each(|n| kv.put(key(n), b"new").unwrap());
    fill(&session, &kv, (1000..4000).rev());
    let split = session.db.stats().splits;
    assert!(split > 8, "{split} splits");
    for n in (0..1000).step_by(97) {
        assert_eq!(snapshot.get(&kv, key(n)).unwrap().unwrap(), value(n));
        assert_eq!(kv.get(key(n)).unwrap().unwrap(), b"new");
    }
    for pair in before.iter().skip(10).take(400) {
        assert_eq!(next(&mut forward), *pair);
    }
    kv.delete_range(key(0)..key(4000)).unwrap();
    session.db.flush().unwrap();
    session.settle();
    for pair in before.iter().skip(410) {
        assert_eq!(next(&mut forward), *pair);
    }
    assert!(forward.next().is_none());
    for pair in before.iter().rev().skip(10) {
        assert_eq!(next(&mut back), *pair);
    }
    assert!(back.next().is_none());
    assert_eq!(kv.count().unwrap(), 0);
}

#[test]
fn a_checkpoint_and_a_backup_have_a_table_of_two_partitions_once() {
    let world = World::new(5);
    let (session, kv) = open(&world);
    fill(&session, &kv, mixed().take(1500));
    // A split whose tables are not trimmed yet.
    while session.db.stats().splits < 3 {
        fill(&session, &kv, mixed().take(2500));
    }
    let all = dump(&kv).unwrap();
    session.db.checkpoint("copy").unwrap();
    session.db.backup("backups").unwrap();
    let environment = world.environment().0;
    let copy = flagstone::Database::builder("copy").options(splitting()).environment(environment);
    let copy = copy.open().unwrap();
    assert_eq!(dump(&copy.space("kv").options(ranged()).keyspace().unwrap()).unwrap(), all);
    copy.verify().unwrap();
    let disk = &world.mem;
    assert!(flagstone::internal::env::Disk::exists(disk, Path::new("backups")).unwrap());
}

#[test]
fn an_ingest_that_is_open_keeps_partitions_as_they_are() {
    let world = World::new(6);
    let (session, kv) = open(&world);
    let mut ingest = flagstone::Ingest::new(&kv).unwrap();
    for n in 2000..2400 {
        ingest.put(key(n), value(n)).unwrap();
    }
    fill(&session, &kv, 0..2000);
    assert_eq!(partitions(&session), 1);
    for n in 2400..2600 {
        ingest.put(key(n), value(n)).unwrap();
    }
    ingest.finish().unwrap();
    session.settle();
    assert!(partitions(&session) > 2);
    assert_eq!(dump(&kv).unwrap(), expected(0..2600));
    session.db.verify().unwrap();
}
