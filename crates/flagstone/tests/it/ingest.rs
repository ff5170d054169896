//! Ingests: what is visible, in which order, and what others see meanwhile.

use crate::support::{folding, hashed, number, open, owned, small, small_with, threaded};
use flagstone::admin::{Event, Repair};
use flagstone::changes::SeqNo;
use flagstone::internal::env::Disk;
use flagstone::{
    Database, Durability, ErrorKind, Expect, Expires, Ingest, Isolation, Keyspace, KeyspaceOptions,
    Options, Routing, Space, TransactionOptions,
};
use flagstone_testkit::{Rng, World, dump, seed};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn ranged() -> KeyspaceOptions {
    hashed(1).routing(Routing::Range(vec![key(20).to_vec(), key(40).to_vec()]))
}

pub(crate) fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// The entries of the keys from `from` up to `to`, all with one value.
pub(crate) fn entries(from: u32, to: u32, value: &str) -> impl Iterator<Item = ([u8; 4], String)> {
    (from..to).map(move |n| (key(n), value.to_owned()))
}

fn get(kv: &Keyspace, n: u32) -> Option<String> {
    owned(kv.get(key(n)).unwrap()).map(|value| String::from_utf8(value).unwrap())
}

/// Levels that have tables, and their numbers of tables.
fn levels(db: &Database, name: &str) -> Vec<(u8, u64)> {
    let stats = db.stats().keyspaces;
    let of = stats.iter().find(|keyspace| keyspace.info.name == name).unwrap();
    of.levels.iter().map(|level| (level.level, level.tables)).collect()
}

#[test]
fn entries_are_there_at_once_above_what_was_there_in_every_routing() {
    for options in [hashed(1), hashed(4), ranged()] {
        let world = World::new(1);
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(options.clone()).keyspace().unwrap();
        for n in 0..60 {
            kv.put(key(n), "old").unwrap();
        }
        let mut ingest = Ingest::new(&kv).unwrap();
        for (key, value) in entries(30, 90, "new") {
            ingest.put(key, value).unwrap();
        }
        assert_eq!((ingest.entries(), ingest.bytes()), (60, 60 * 7));
        // Older than the ingest, although it comes after its entries.
        kv.put(key(50), "meanwhile").unwrap();
        assert_eq!(get(&kv, 30).as_deref(), Some("old"));
        let report = ingest.finish().unwrap();
        assert_eq!(report.entries, 60);
        let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for (n, value) in (0..30).map(|n| (n, "old")).chain((30..90).map(|n| (n, "new"))) {
            expected.insert(key(n).to_vec(), value.into());
        }
        assert_eq!(dump(&kv).unwrap(), expected);
        kv.put(key(60), "later").unwrap();
        kv.delete(key(61)).unwrap();
        expected.insert(key(60).to_vec(), "later".into());
        expected.remove(&key(61)[..]);
        for round in 0..3 {
            assert_eq!(dump(&kv).unwrap(), expected, "round {round}");
            assert_eq!(get(&kv, 50).as_deref(), Some("new"));
            assert_eq!(get(&kv, 60).as_deref(), Some("later"));
            session.db.verify().unwrap();
            if round == 0 { session.db.flush().unwrap() } else { session.db.compact().unwrap() }
        }
        session.db.clone().close().unwrap();
        drop((kv, session));
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(options).keyspace().unwrap();
        assert_eq!(dump(&kv).unwrap(), expected);
        session.db.verify().unwrap();
    }
}

#[test]
fn keys_that_do_not_ascend_are_refused_by_name_and_the_ingest_goes_on() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let mut ingest = Ingest::new(&kv).unwrap();
    ingest.put("b", "1").unwrap();
    for wrong in ["a", "b"] {
        let error = ingest.put(wrong, "2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("key {wrong} after b")), "{error}");
    }
    assert_eq!(ingest.put("", "2").unwrap_err().kind(), ErrorKind::InvalidInput);
    ingest.put("c", "3").unwrap();
    assert_eq!(ingest.finish().unwrap().entries, 2);
    assert_eq!(kv.get("b").unwrap().unwrap(), b"1");
    let refused = session.db.ingest(&kv, [("y", "1"), ("x", "1")]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(kv.count().unwrap(), 2, "all or nothing");
}

#[test]
fn an_ingest_of_nothing_changes_nothing() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let report = session.db.ingest::<&str, &str>(&kv, []).unwrap();
    assert_eq!((report.entries, report.tables), (0, 0));
    kv.put("a", "1").unwrap();
    assert!(kv.get_versioned("a").unwrap().unwrap().0.seqno() > report.seqno);
    assert_eq!(session.db.stats().tables(), 0);
}

#[test]
fn tables_go_to_the_deepest_level_or_above_what_they_overlap() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    session.db.ingest(&kv, entries(10, 20, "1")).unwrap();
    assert_eq!(levels(&session.db, "kv"), [(6, 1)]);
    session.db.ingest(&kv, entries(30, 40, "1")).unwrap();
    assert_eq!(levels(&session.db, "kv"), [(6, 2)]);
    session.db.ingest(&kv, entries(15, 35, "2")).unwrap();
    assert_eq!(levels(&session.db, "kv"), [(0, 1), (6, 2)]);
    assert_eq!(get(&kv, 16).as_deref(), Some("2"));
}

#[test]
fn snapshots_taken_before_do_not_see_it_and_conditions_do() {
    let world = World::new(1);
    let session = open(&world, &small());
    let (db, kv) = (&session.db, session.db.space("kv").options(hashed(2)).keyspace().unwrap());
    kv.put(key(1), "old").unwrap();
    let snapshot = db.snapshot();
    let before = snapshot.version();
    let (token, _) = kv.get_versioned(key(1)).unwrap().unwrap();
    let report = db.ingest(&kv, entries(1, 3, "new")).unwrap();
    for _ in 0..2 {
        assert_eq!(owned(snapshot.get(&kv, key(1)).unwrap()).unwrap(), b"old");
        assert_eq!(snapshot.get(&kv, key(2)).unwrap(), None);
        assert_eq!(snapshot.scan(&kv, ..).count(), 1);
        db.compact().unwrap();
    }
    let (now, value) = kv.get_versioned(key(2)).unwrap().unwrap();
    assert_eq!((now.seqno(), &value[..]), (report.seqno, &b"new"[..]));
    let refused = |fill: &dyn Fn(&mut flagstone::Batch)| {
        let mut batch = db.batch();
        fill(&mut batch);
        batch.put(&kv, "other", "1").unwrap();
        assert_eq!(db.commit(batch).unwrap_err().kind(), ErrorKind::Conflict);
    };
    refused(&|batch| batch.expect(&kv, key(1), Expect::Version(token)).unwrap());
    refused(&|batch| batch.expect(&kv, key(2), Expect::Absent).unwrap());
    refused(&|batch| batch.expect(&kv, key(2), Expect::UnchangedSince(before)).unwrap());
    let mut batch = db.batch();
    batch.expect(&kv, key(2), Expect::Version(now)).unwrap();
    batch.put(&kv, key(2), "newer").unwrap();
    db.commit(batch).unwrap();
    assert_eq!(get(&kv, 2).as_deref(), Some("newer"));
}

#[test]
fn transactions_that_have_read_or_write_its_keys_are_refused() {
    let world = World::new(1);
    let session = open(&world, &small());
    let (db, kv) = (&session.db, session.db.space("kv").options(hashed(2)).keyspace().unwrap());
    kv.put(key(1), "old").unwrap();
    let begin = || TransactionOptions::new().isolation(Isolation::Serializable).begin(db).unwrap();
    let (mut reader, mut elsewhere, mut writer) = (begin(), begin(), db.begin().unwrap());
    reader.get(&kv, key(1)).unwrap();
    reader.put(&kv, "x", "1").unwrap();
    elsewhere.get(&kv, key(3)).unwrap();
    elsewhere.put(&kv, "y", "1").unwrap();
    writer.put(&kv, key(2), "lost").unwrap();
    db.ingest(&kv, entries(0, 3, "new")).unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
    elsewhere.commit().unwrap();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(get(&kv, 2).as_deref(), Some("new"));
}

#[test]
fn merges_after_it_fold_onto_its_values_and_those_before_are_replaced() {
    let world = World::new(1);
    let session = open(&world, &small());
    let sums = session.db.space("sums").options(folding(2, "add-i64/1")).keyspace().unwrap();
    let ten = 10_i64.to_le_bytes();
    sums.merge("a", ten).unwrap();
    session.db.ingest(&sums, [("a", 1_i64.to_le_bytes()), ("b", 2_i64.to_le_bytes())]).unwrap();
    sums.merge("a", ten).unwrap();
    sums.merge("b", ten).unwrap();
    for _ in 0..2 {
        assert_eq!(number(sums.get("a").unwrap()), 11);
        assert_eq!(number(sums.get("b").unwrap()), 12);
        session.db.compact().unwrap();
    }
}

#[test]
fn entries_expire_and_merges_keep_their_expiry() {
    let world = World::new(1);
    let session = open(&world, &small());
    let sums = session.db.space("sums").options(folding(2, "add-i64/1")).keyspace().unwrap();
    let (one, soon) = (1_i64.to_le_bytes(), session.db.now().after(Duration::from_secs(10)));
    let mut ingest = Ingest::new(&sums).unwrap();
    ingest.put("a", one.expires(soon)).unwrap();
    ingest.put("b", one).unwrap();
    ingest.finish().unwrap();
    sums.merge("a", one).unwrap();
    assert_eq!((number(sums.get("a").unwrap()), sums.expiry("a").unwrap()), (2, Some(soon)));
    world.clock.advance(Duration::from_secs(11));
    assert_eq!((sums.get("a").unwrap(), sums.count().unwrap()), (None, 1));
    session.db.compact().unwrap();
    session.db.verify().unwrap();
    assert_eq!(sums.count().unwrap(), 1);
}

#[test]
fn unlogged_writes_before_it_survive_with_it() {
    let world = World::new(1);
    let session = open(&world, &small_with(Durability::None));
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let other = session.db.space("other").options(hashed(2)).keyspace().unwrap();
    other.put("before", "1").unwrap();
    session.db.ingest(&kv, entries(0, 10, "1")).unwrap();
    other.put("after", "1").unwrap();
    let after = World::on(world.mem.crash_losing_unsynced(), 2);
    let session = open(&after, &small());
    let count =
        |name| session.db.space(name).options(hashed(2)).keyspace().unwrap().count().unwrap();
    assert_eq!((count("kv"), count("other")), (10, 1));
}

#[test]
fn it_is_told_by_an_event() {
    let world = World::new(1);
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&heard);
    let listener = move |event: &Event| {
        if let Event::Ingested { keyspace, entries, tables, .. } = event {
            told.lock().unwrap().push(format!("{keyspace} {entries} {tables}"));
        }
    };
    let builder = Database::builder(World::dir()).options(small()).listener(listener);
    let db = builder.environment(world.environment().0).open().unwrap();
    let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
    db.ingest(&kv, entries(0, 10, "1")).unwrap();
    assert_eq!(*heard.lock().unwrap(), ["kv 10 1"]);
}

/// A checkpoint whose flush runs while a table is ingested would have the table without the writes
/// before it.
#[test]
fn a_checkpoint_that_has_it_has_what_came_before() {
    let world = World::new(7);
    let handles: Arc<Mutex<Option<(Database, Keyspace, Keyspace)>>> = Arc::default();
    let listener = {
        let handles = Arc::clone(&handles);
        move |event: &Event| {
            let known = handles.lock().unwrap().clone();
            let (Event::FlushStarted { .. }, Some((db, kv, bulk))) = (event, known) else { return };
            if bulk.approximate_count() == 0 {
                // A listener does not call the database back: another thread does, meanwhile.
                let mark_and_ingest = || {
                    kv.put("before", "1").unwrap();
                    db.ingest(&bulk, entries(0, 10, "1")).unwrap();
                };
                std::thread::scope(|scope| scope.spawn(mark_and_ingest).join().unwrap());
            }
        }
    };
    let builder = Database::builder(World::dir()).options(small()).listener(listener);
    let db = builder.environment(world.environment().0).open().unwrap();
    let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
    let bulk = db.space("bulk").options(hashed(2)).keyspace().unwrap();
    kv.put("first", "1").unwrap();
    *handles.lock().unwrap() = Some((db.clone(), kv, bulk));
    db.checkpoint("/copies/one").unwrap();
    // The database has the listener, which would keep it.
    drop(handles.lock().unwrap().take());
    let builder = Database::builder("/copies/one").options(small().create_if_missing(false));
    let copy = builder.environment(world.environment().0).open().unwrap();
    assert_eq!(copy.space("bulk").options(hashed(2)).keyspace().unwrap().count().unwrap(), 10);
    assert!(
        copy.space("kv").options(hashed(1)).keyspace().unwrap().get("before").unwrap().is_some()
    );
    copy.verify().unwrap();
}

/// The SeqNo in the files of an ingest, not that of the manifest, is all that a repair has then.
#[test]
fn a_repair_without_the_manifest_knows_what_it_replaced() {
    let world = World::new(3);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    entries(0, 10, "old").for_each(|(key, value)| kv.put(key, value).unwrap());
    session.db.flush().unwrap();
    session.db.ingest(&kv, entries(5, 15, "new")).unwrap();
    kv.put(key(14), "later").unwrap();
    session.db.clone().close().unwrap();
    let expected = ["old", "new", "new", "later"].map(str::to_owned);
    drop((kv, session));
    world.mem.remove(&World::path("CURRENT")).unwrap();
    for name in world.files().iter().filter(|name| name.ends_with(".manifest")) {
        world.mem.remove(&World::path(name)).unwrap();
    }
    Repair::of("/db").on_disk(Arc::new(world.mem.clone())).into_dir("/repaired").unwrap();
    let builder = Database::builder("/repaired").options(small().create_if_missing(false));
    let db = builder.environment(world.environment().0).open().unwrap();
    let kv = db.space("keyspace-1").existing().keyspace().unwrap().unwrap();
    assert_eq!([4, 5, 13, 14].map(|n| get(&kv, n).unwrap()), expected);
}

/// Each key ends with the write of the highest SeqNo, whoever made it.
#[test]
fn writers_and_ingests_of_one_keyspace_have_one_order() {
    type Newest = HashMap<u32, (SeqNo, String)>;
    let seed = seed("writers_and_ingests_of_one_keyspace_have_one_order", 5);
    let world = World::new(seed);
    let db = threaded(&world, Options::new().memory_budget(1 << 20));
    let kv = db.space("kv").options(hashed(3)).keyspace().unwrap();
    let write = |thread: u64| {
        let (mut rng, mut newest) = (Rng::new(seed ^ thread), Newest::new());
        for round in 0..600 {
            let n = rng.below(200) as u32;
            let value = format!("{thread} {round} {}", "x".repeat(rng.index(400)));
            let mut batch = db.batch();
            batch.put(&kv, key(n), &value).unwrap();
            let seqno = db.commit_start(batch).unwrap().seqno();
            newest.insert(n, (seqno, value));
        }
        newest
    };
    let ingest = |thread: u64| {
        let (mut rng, mut newest) = (Rng::new(seed ^ thread), Newest::new());
        for round in 0..12 {
            let from = rng.below(150) as u32;
            let keys: Vec<u32> = (from..from + 50).filter(|_| rng.percent(70)).collect();
            let value = format!("ingest {thread} {round}");
            let entries = keys.iter().map(|&n| (key(n), &value));
            let seqno = db.ingest(&kv, entries).unwrap().seqno;
            newest.extend(keys.iter().map(|&n| (n, (seqno, value.clone()))));
        }
        newest
    };
    let all: Vec<Newest> = std::thread::scope(|scope| {
        let writers: Vec<_> = (1..4).map(|n| scope.spawn(move || write(n))).collect();
        let ingests: Vec<_> = (4..6).map(|n| scope.spawn(move || ingest(n))).collect();
        writers.into_iter().chain(ingests).map(|thread| thread.join().unwrap()).collect()
    });
    let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for n in 0..200 {
        let newest = all.iter().filter_map(|newest| newest.get(&n)).max_by_key(|write| write.0);
        expected.extend(newest.map(|(_, value)| (key(n).to_vec(), value.clone().into_bytes())));
    }
    assert_eq!(dump(&kv).unwrap(), expected);
    db.verify().unwrap();
    db.compact().unwrap();
    assert_eq!(dump(&kv).unwrap(), expected);
}
