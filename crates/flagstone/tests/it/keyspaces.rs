//! Many keyspaces: made together, there together after a crash, or not at all.

use crate::support::{hashed, open, small};
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{Compression, Database, ErrorKind, Json, Keyspace, KeyspaceOptions, Space};
use flagstone_testkit::World;

fn names() -> impl Iterator<Item = String> {
    (0..300).map(|n| format!("keyspace {n}"))
}

#[test]
fn keyspaces_made_by_one_call_cost_one_write_of_the_disk_and_survive_a_power_cut_together() {
    let world = World::new(1);
    let session = open(&world, &small());
    let operations = |names: Vec<String>| {
        let before = world.disk.operations();
        (session.db.keyspaces_with(names, &hashed(2)).unwrap(), world.disk.operations() - before)
    };
    let (_, of_one) = operations(vec!["one".to_owned()]);
    let (made, of_all) = operations(names().collect());
    assert_eq!(of_all, of_one, "one append and one sync");
    assert!(made.iter().map(Keyspace::name).eq(names()));
    made[299].put("a", "1").unwrap();
    // Those that are there are opened, a name given twice is one keyspace.
    let again = session.db.keyspaces_with(["new", "keyspace 299", "new"], &hashed(2)).unwrap();
    assert_eq!(again[1].get("a").unwrap().unwrap(), b"1");
    again[0].put("b", "2").unwrap();
    assert_eq!(again[2].get("b").unwrap().unwrap(), b"2");
    let after = world.after_power_cut(0);
    let session = open(&after, &small());
    assert_eq!(session.db.keyspaces().len(), 302);
}

#[test]
fn an_option_that_is_set_to_another_value_is_refused_and_both_values_are_named() {
    let world = World::new(3);
    let session = open(&world, &small());
    let chosen = || hashed(2).block_bytes(2048).compression(Compression::None);
    session.db.space("kv").options(chosen()).keyspace().unwrap();
    session.db.space("docs").options(chosen()).collection().unwrap();
    session.db.close().unwrap();
    let db = open(&world, &small()).db;
    for (other, has, asked) in [
        (chosen().block_bytes(4096), "block_bytes 2048", "block_bytes 4096"),
        (chosen().compression(Compression::Lz4), "compression none", "compression lz4"),
        (chosen().bottom_compression(Compression::None), "compression zstd 1", "compression none"),
        (chosen().filter_bits(3), "filter_bits 10", "filter_bits 3"),
    ] {
        for error in [
            db.space("kv").options(other.clone()).keyspace().unwrap_err(),
            db.space("docs").options(other).collection().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains(has) && text.contains(asked), "{text}");
        }
    }
    for same in [chosen(), KeyspaceOptions::new(), KeyspaceOptions::new().block_bytes(2048)] {
        db.space("kv").options(same.clone()).keyspace().unwrap();
        db.space("docs").options(same).collection().unwrap();
    }
}

fn names_in(db: &Database) -> Vec<String> {
    db.keyspaces().into_iter().map(|info| info.name).collect()
}

#[test]
fn a_renamed_keyspace_keeps_its_content_and_its_handles() {
    let world = World::new(4);
    let session = open(&world, &small());
    let (kv, docs) = (session.db.keyspace("kv").unwrap(), session.db.collection("docs").unwrap());
    kv.put("a", "1").unwrap();
    docs.put("a", Json(r#"{"n":1}"#)).unwrap();
    let snapshot = session.db.snapshot();
    let mut scan = kv.scan(..);
    session.db.rename_keyspace("kv", "bytes").unwrap();
    session.db.rename_keyspace("docs", "documents").unwrap();
    assert_eq!((kv.name(), docs.name()), ("bytes".to_owned(), "documents".to_owned()));
    assert_eq!(scan.next().unwrap().unwrap().0, b"a");
    assert_eq!(snapshot.get(&kv, "a").unwrap().unwrap(), b"1");
    kv.put("b", "2").unwrap();
    docs.put("b", Json(r#"{"other":2}"#)).unwrap();
    // The old name is free for another keyspace.
    assert_eq!(session.db.keyspace("kv").unwrap().count().unwrap(), 0);
    drop((kv, docs, snapshot, scan));
    session.db.close().unwrap();
    let db = open(&world, &small()).db;
    assert_eq!(names_in(&db), ["bytes", "documents", "kv"]);
    assert_eq!(db.keyspace("bytes").unwrap().get("b").unwrap().unwrap(), b"2");
    assert_eq!(db.collection("documents").unwrap().count().unwrap(), 2);
    db.verify().unwrap();
}

#[test]
fn a_name_that_is_taken_or_missing_or_bad_is_refused() {
    let world = World::new(5);
    let db = open(&world, &small()).db;
    db.keyspace("a").unwrap();
    db.collection("b").unwrap();
    for (old, new, text) in [
        ("a", "b", "there is a keyspace \"b\" already"),
        ("a", "a", "there is a keyspace \"a\" already"),
        ("c", "d", "there is no keyspace \"c\""),
        ("a", "", "expected 1 to 255"),
    ] {
        let error = db.rename_keyspace(old, new).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(names_in(&db), ["a", "b"]);
}

#[test]
fn a_power_cut_in_a_renaming_leaves_one_of_the_two_names_and_all_content() {
    let mut cuts = 0;
    for nth in 1.. {
        let world = World::new(nth);
        let session = open(&world, &small());
        let kv = session.db.space("old").options(hashed(2)).keyspace().unwrap();
        kv.put("a", "1").unwrap();
        world.disk.cut_power_at(nth);
        let renamed = session.db.rename_keyspace("old", "new");
        cuts += u64::from(renamed.is_err());
        for luck in 0..4 {
            let after = world.after_power_cut(luck);
            let db = open(&after, &small()).db;
            let names = names_in(&db);
            assert!(names == ["old"] || names == ["new"], "cut at {nth}: {names:?}");
            if names == ["new"] {
                let kv = db.keyspace("new").unwrap();
                assert_eq!(kv.get("a").unwrap().unwrap(), b"1", "cut at {nth}");
            }
            assert!(renamed.is_err() || names == ["new"], "an acknowledged name was lost");
        }
        if renamed.is_ok() {
            break;
        }
    }
    assert!(cuts >= 3, "{cuts} cuts: of the log, and of the manifest's append and sync");
}

#[test]
fn a_renaming_that_the_disk_refuses_changes_nothing() {
    let world = World::new(6);
    let session = open(&world, &small());
    let kv = session.db.space("old").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).of(FileKind::Manifest);
    world.disk.inject(full.on(&[Op::Append]).forever());
    let refused = session.db.rename_keyspace("old", "new").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
    assert_eq!((kv.name(), names_in(&session.db)), ("old".to_owned(), vec!["old".to_owned()]));
    world.disk.heal();
    session.db.rename_keyspace("old", "new").unwrap();
    kv.put("b", "2").unwrap();
    let db = open(&world.after_kill(1), &small()).db;
    assert_eq!(names_in(&db), ["new"]);
    assert_eq!(db.keyspace("new").unwrap().count().unwrap(), 2);
}

fn compressible(kv: &Keyspace, from: u32) {
    (from..from + 500).for_each(|n| kv.put(n.to_be_bytes(), [b'x'; 200]).unwrap());
}

#[test]
fn an_altered_keyspace_writes_its_next_tables_by_the_new_options() {
    let world = World::new(7);
    let session = open(&world, &small());
    let plain = Compression::None;
    let options = hashed(1).compression(plain).bottom_compression(plain);
    let kv = session.db.space("kv").options(options).keyspace().unwrap();
    let bytes = || session.db.stats().table_bytes();
    compressible(&kv, 0);
    session.db.flush().unwrap();
    let of_plain = bytes();
    assert!(of_plain > 100_000);
    session.db.alter_keyspace("kv", KeyspaceOptions::new().compression(Compression::Lz4)).unwrap();
    assert_eq!(bytes(), of_plain, "the tables that are there stay as they are");
    compressible(&kv, 500);
    session.db.flush().unwrap();
    assert!(bytes() < of_plain + of_plain / 4, "the next one is compressed");
    let smaller = KeyspaceOptions::new().bottom_compression(Compression::Zstd(3)).filter_bits(0);
    session.db.alter_keyspace("kv", smaller).unwrap();
    session.db.compact().unwrap();
    assert!(bytes() < of_plain / 4, "a compaction rewrites what has another compression");
    for after in [world.after_power_cut(0), world.after_kill(1)] {
        let db = open(&after, &small()).db;
        let options = db.keyspaces()[0].options.clone();
        assert_eq!(options.compression, Some(Compression::Lz4));
        assert_eq!(options.bottom_compression, Some(Compression::Zstd(3)));
        assert_eq!(options.filter_bits, Some(0));
        assert_eq!(options.block_bytes, Some(16 << 10), "what was not set stays");
        let kv = db.space("kv").options(options).keyspace().unwrap();
        compressible(&kv, 1000);
        db.flush().unwrap();
        assert!(db.stats().table_bytes() < of_plain / 4, "so does the next table after an open");
        db.verify().unwrap();
    }
}

#[test]
fn new_collections_have_dictionaries_unless_told_otherwise() {
    let world = World::new(11);
    let db = open(&world, &small()).db;
    db.collection("documents").unwrap();
    db.space("plain").options(hashed(1).bottom_dictionary(false)).collection().unwrap();
    db.keyspace("bytes").unwrap();
    db.space("asked").options(hashed(1).bottom_dictionary(true)).keyspace().unwrap();
    let has = |db: &flagstone::Database| -> Vec<(String, Option<bool>)> {
        let all = db.keyspaces();
        all.into_iter().map(|info| (info.name, info.options.bottom_dictionary)).collect()
    };
    let expected = [("asked", true), ("bytes", false), ("documents", true), ("plain", false)];
    let expected: Vec<_> =
        expected.into_iter().map(|(name, has)| (name.to_owned(), Some(has))).collect();
    let sorted = |mut all: Vec<_>| {
        all.sort();
        all
    };
    assert_eq!(sorted(has(&db)), expected);
    drop(db);
    let db = open(&world.after_power_cut(0), &small()).db;
    assert_eq!(sorted(has(&db)), expected);
    let documents = db.space("documents").options(KeyspaceOptions::new()).collection().unwrap();
    documents.put("a", Json(r#"{"n":1}"#)).unwrap();
    db.compact().unwrap();
    assert!(documents.get("a").unwrap().is_some());
}

#[test]
fn what_is_fixed_at_creation_cannot_be_altered_and_is_named() {
    let world = World::new(8);
    let db = open(&world, &small()).db;
    db.space("kv").options(hashed(2)).keyspace().unwrap();
    for (options, text) in [
        (hashed(4), "has 2 hash partitions, which is fixed at creation"),
        (KeyspaceOptions::new().fold("append/1"), "has no fold, which is fixed at creation"),
        (hashed(2).filter_bits(21), "21"),
        (hashed(2).block_bytes(4096).fold("append/1"), "cannot get fold \"append/1\""),
    ] {
        let error = db.alter_keyspace("kv", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(text), "{error}");
    }
    let missing = db.alter_keyspace("none", KeyspaceOptions::new()).unwrap_err();
    assert!(missing.to_string().contains("there is no keyspace \"none\""), "{missing}");
    assert_eq!(db.keyspaces()[0].options.block_bytes, Some(16 << 10), "nothing was changed");
    // What is the same already is no change.
    let before = world.disk.operations();
    db.alter_keyspace("kv", hashed(2).block_bytes(16 << 10)).unwrap();
    assert_eq!(world.disk.operations(), before);
}

#[test]
fn keyspaces_of_a_call_that_fails_are_not_there() {
    let world = World::new(2);
    let session = open(&world, &small());
    session.db.space("keyspace 7").options(hashed(1)).keyspace().unwrap();
    let mismatch = session.db.keyspaces_with(names(), &hashed(2)).unwrap_err();
    assert_eq!(mismatch.kind(), ErrorKind::InvalidInput, "{mismatch}");
    let fault = Fault::new(Effect::Fail(Failure::NoSpace)).of(FileKind::Manifest);
    world.disk.inject(fault.on(&[Op::Append]).forever());
    let refused = session.db.keyspaces_with(names(), &hashed(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
    assert_eq!(session.db.keyspaces().len(), 1);
    world.disk.heal();
    assert_eq!(session.db.keyspaces_with(names(), &hashed(1)).unwrap().len(), 300);
    session.db.close().unwrap();
    assert_eq!(open(&world, &small()).db.keyspaces().len(), 300);
}

#[test]
fn an_existing_keyspace_is_found_and_a_missing_one_is_not_created() {
    let session = open(&World::new(3), &small());
    assert!(session.db.space("kv").existing().keyspace().unwrap().is_none());
    session.db.space("kv").options(hashed(1)).keyspace().unwrap().put("a", "1").unwrap();
    let found = session.db.space("kv").existing().keyspace().unwrap().unwrap();
    assert_eq!(found.get("a").unwrap().unwrap(), b"1");
    session.db.space("documents").options(hashed(1)).collection().unwrap();
    let refused = session.db.space("documents").existing().keyspace().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    assert_eq!(session.db.keyspaces().len(), 2);
}
