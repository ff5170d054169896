//! A keyspace that is emptied: at its place in history, by one edit, without reading what goes.

use crate::support::{folding, hashed, open, small, small_with};
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{Durability, ErrorKind, Expect, Index, Json, Keyspace, Space, Value, doc};
use flagstone_testkit::{Session, World, dump};

fn tables(session: &Session) -> u64 {
    session.db.stats().tables()
}

/// Entries in tables of several levels, and some in memtables.
fn fill(session: &Session, kv: &Keyspace) {
    for round in 0..3_u8 {
        (0..300_u32).for_each(|n| kv.put(n.to_be_bytes(), [round; 300]).unwrap());
        session.db.flush().unwrap();
        if round == 0 {
            session.db.compact().unwrap();
        }
    }
    (0..100_u32).for_each(|n| kv.put(n.to_be_bytes(), [9; 300]).unwrap());
}

#[test]
fn an_emptied_keyspace_gives_back_memory_and_tables_by_one_edit_and_reads_none_of_them() {
    let world = World::new(1);
    let session = open(&world, &small());
    let (kv, other) = (
        session.db.space("kv").options(hashed(4)).keyspace().unwrap(),
        session.db.space("other").options(hashed(1)).keyspace().unwrap(),
    );
    other.put("stays", "1").unwrap();
    fill(&session, &kv);
    session.settle();
    let before = tables(&session);
    assert!(before > 4, "{before} tables");
    let counts = || {
        let counts = world.mem.counts();
        (counts.of(Op::Read), counts.of(Op::Create))
    };
    let at = counts();
    kv.clear().unwrap();
    assert_eq!(counts(), at, "no table was read, none was made");
    assert_eq!(kv.count().unwrap(), 0);
    let stats = session.db.stats();
    let of_kv = stats.keyspaces.iter().find(|keyspace| keyspace.info.name == "kv").unwrap();
    assert!(of_kv.levels.is_empty(), "{of_kv:?}");
    assert!(of_kv.memtable_bytes < 64 << 10, "{} bytes", of_kv.memtable_bytes);
    let files = world.files().into_iter().filter(|name| name.ends_with(".sst")).count() as u64;
    assert_eq!(files, stats.tables(), "their files are gone");
    assert_eq!(other.get("stays").unwrap().unwrap(), b"1");
    session.db.verify().unwrap();
}

#[test]
fn what_is_written_before_is_gone_and_what_is_written_after_stays_also_after_a_crash() {
    for (seed, durability) in
        [Durability::None, Durability::Buffered, Durability::Group].into_iter().enumerate()
    {
        let world = World::new(seed as u64);
        let session = open(&world, &small_with(durability));
        let kv = session.db.space("kv").options(folding(3, "append/1")).keyspace().unwrap();
        fill(&session, &kv);
        kv.put("before", "1").unwrap();
        kv.merge("merged", "lost").unwrap();
        kv.clear().unwrap();
        kv.put("after", "2").unwrap();
        kv.merge("merged", "kept").unwrap();
        let expected = dump(&kv).unwrap();
        assert_eq!(expected.len(), 2, "{durability:?}");
        for luck in 0..4 {
            let after = open(&world.after_power_cut(luck), &small());
            let found = dump(&after.db.keyspace("kv").unwrap()).unwrap();
            assert!(found.iter().all(|(key, value)| expected.get(key) == Some(value)), "{found:?}");
            assert!(durability != Durability::Group || found == expected, "{found:?}");
        }
        if durability != Durability::None {
            let after = open(&world.after_kill(1), &small());
            assert_eq!(dump(&after.db.keyspace("kv").unwrap()).unwrap(), expected);
        }
        drop(kv);
        session.db.close().unwrap();
        let again = open(&world, &small());
        assert_eq!(dump(&again.db.keyspace("kv").unwrap()).unwrap(), expected);
        again.db.verify().unwrap();
    }
}

#[test]
fn a_power_cut_while_a_keyspace_is_emptied_leaves_all_of_it_or_nothing() {
    let mut cuts = 0;
    for nth in 1.. {
        let world = World::new(nth);
        let session = open(&world, &small_with(Durability::Group));
        let kv = session.db.space("kv").options(hashed(3)).keyspace().unwrap();
        (0..40_u8).for_each(|n| kv.put([n], [n; 50]).unwrap());
        session.db.flush().unwrap();
        (0..50_u8).for_each(|n| kv.put([n], [n; 60]).unwrap());
        world.disk.cut_power_at(nth);
        let cleared = kv.clear();
        for luck in 0..4 {
            let after = open(&world.after_power_cut(luck), &small());
            let count = after.db.keyspace("kv").unwrap().count().unwrap();
            assert!(count == 50 || count == 0, "{count} keys, cut at {nth}");
            assert!(cleared.is_err() || count == 0, "an acknowledged emptying was lost");
            after.db.verify().unwrap();
        }
        if !world.disk.is_off() {
            break;
        }
        cuts += 1;
    }
    assert!(cuts >= 4, "{cuts}: of the log's append and sync, of the manifest's append and sync");
}

#[test]
fn a_snapshot_and_an_open_scan_keep_their_view_and_the_room_comes_back_after_them() {
    let world = World::new(4);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    fill(&session, &kv);
    let expected = dump(&kv).unwrap();
    let (snapshot, mut scan) = (session.db.snapshot(), kv.scan(..));
    let first = scan.next().unwrap().unwrap().0.to_vec();
    kv.clear().unwrap();
    session.settle();
    assert_eq!(kv.count().unwrap(), 0);
    assert!(kv.get(&first).unwrap().is_none());
    let rest = scan.map(|entry| entry.map(|_| ())).collect::<Result<Vec<()>, _>>().unwrap();
    assert_eq!(rest.len() + 1, expected.len());
    for (key, value) in &expected {
        assert_eq!(snapshot.get(&kv, key).unwrap().unwrap(), value.as_slice());
    }
    assert!(tables(&session) > 0);
    drop(snapshot);
    session.settle();
    assert_eq!((tables(&session), kv.count().unwrap()), (0, 0));
}

#[test]
fn a_condition_on_a_key_of_an_emptied_keyspace_never_holds_falsely() {
    let world = World::new(5);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("there", "1").unwrap();
    session.db.flush().unwrap();
    let snapshot = session.db.snapshot();
    let version = snapshot.version();
    drop(snapshot);
    kv.clear().unwrap();
    for key in ["there", "absent"] {
        let mut batch = session.db.batch();
        batch.expect(&kv, key, Expect::UnchangedSince(version)).unwrap();
        batch.put(&kv, key, "2").unwrap();
        let refused = session.db.commit(batch).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{key}: {refused}");
    }
    let mut batch = session.db.batch();
    batch.expect(&kv, "there", Expect::Absent).unwrap();
    batch.put(&kv, "there", "3").unwrap();
    session.db.commit(batch).unwrap();
}

#[test]
fn documents_are_removed_together_and_their_names_stay_defined() {
    let world = World::new(6);
    let session = open(&world, &small());
    let docs = session.db.space("docs").options(hashed(2)).collection().unwrap();
    (0..50).for_each(|n| docs.put(n, Json(r#"{"name":"x","n":1}"#)).unwrap());
    docs.clear().unwrap();
    assert_eq!(docs.count().unwrap(), 0);
    docs.put(1, Json(r#"{"name":"y"}"#)).unwrap();
    let session = open(&world.after_kill(1), &small());
    let docs = session.db.collection("docs").unwrap();
    assert_eq!(docs.count().unwrap(), 1);
    assert_eq!(docs.get(1).unwrap().unwrap().str("name").unwrap(), "y");
}

#[test]
fn a_keyspace_with_a_damaged_table_can_be_emptied() {
    let world = World::new(7);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    (0..200_u32).for_each(|n| kv.put(n.to_be_bytes(), [1; 100]).unwrap());
    session.db.flush().unwrap();
    let flip = Fault::new(Effect::FlipBit(1000)).on(&[Op::Read]).of(FileKind::Table).forever();
    world.disk.inject(flip);
    kv.clear().unwrap();
    assert_eq!((tables(&session), kv.count().unwrap()), (0, 0));
}

#[test]
fn a_flush_that_fails_delays_the_room_and_not_the_emptying() {
    let world = World::new(8);
    let session = open(&world, &small_with(Durability::Group));
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    (0..200_u32).for_each(|n| kv.put(n.to_be_bytes(), [1; 100]).unwrap());
    session.db.flush().unwrap();
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append, Op::Create]);
    world.disk.inject(full.of(FileKind::Manifest).forever());
    kv.clear().unwrap();
    assert_eq!(kv.count().unwrap(), 0);
    let after = open(&world.after_power_cut(0), &small());
    assert_eq!(after.db.keyspace("kv").unwrap().count().unwrap(), 0, "the log has it");
    world.disk.heal();
    session.db.flush().unwrap();
    session.settle();
    assert_eq!(tables(&session), 0);
}

/// The removal had a key of 64 KiB twice for each index, so a small database refused it.
#[test]
fn a_collection_with_many_indexes_is_emptied_in_a_small_database() {
    let world = World::new(9);
    let session = open(&world, &small());
    let docs = session.db.space("docs").options(hashed(2)).collection().unwrap();
    for n in 0..12 {
        let fields = if n % 2 == 0 { ["v", "n"] } else { ["-v", "-n"] };
        let index = Index::on(fields[0]).then(fields[1]);
        docs.create_index(&format!("index {n}"), index).unwrap();
    }
    let values = || {
        let long = Value::from("\u{10FFFF}".repeat(600));
        let map = Value::from(vec![Value::from(f64::MAX)]);
        [
            Value::Null,
            Value::from(true),
            Value::from(u64::MAX),
            long,
            map,
            Value::from(vec![0xFF_u8; 9]),
        ]
    };
    for (n, value) in values().into_iter().enumerate() {
        docs.put(value.clone(), doc!({"v": value, "n": n})).unwrap();
    }
    session.db.flush().unwrap();
    docs.put(7, doc!({"v": "in memory"})).unwrap();
    docs.clear().unwrap();
    assert_eq!(docs.count().unwrap(), 0);
    session.db.verify().unwrap();
    session.settle();
    assert_eq!(tables(&session), 0, "nothing is left in any index");
    docs.put(8, doc!({"v": 1})).unwrap();
    assert_eq!(docs.find(r#"{"v":1}"#).count().unwrap(), 1);
    let after = open(&world.after_kill(1), &small());
    assert_eq!(after.db.collection("docs").unwrap().count().unwrap(), 1);
    after.db.verify().unwrap();
}
