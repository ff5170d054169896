//! Is everything outside of the damage there after a repair, and does the report tell of the rest?

use crate::support::{folding, hashed, open_at, small, small_with};
use flagstone::admin::Repair;
use flagstone::internal::env::{Disk, Op};
use flagstone::report::{Loss, RepairReport};
use flagstone::{Database, Durability, ErrorKind, Json, Result, Space};
use flagstone_testkit::{World, dump};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const REPAIRED: &str = "/repaired";
const NAMES: [&str; 3] = ["kv", "sums", "documents"];

/// What a keyspace held: of each key the value, and the SeqNo of its newest write.
type Content = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// A database with tables in several levels, deleted keys and ranges, and writes that stand in its
/// log alone; killed.
fn prepared() -> (World, [Content; 3]) {
    let world = World::new(1);
    let session = world.open(&small_with(Durability::Group)).unwrap();
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let sums = session.db.space("sums").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let documents = session.db.space("documents").options(hashed(1)).collection().unwrap();
    for round in 0..4_u8 {
        let from = u32::from(round) * 60;
        for n in from..from + 120 {
            kv.put(n.to_be_bytes(), [n.to_le_bytes().as_slice(), &[round; 200]].concat()).unwrap();
            sums.merge((n % 50).to_be_bytes(), 1_i64.to_le_bytes()).unwrap();
        }
        for n in (from..from + 60).step_by(7) {
            kv.delete(n.to_be_bytes()).unwrap();
        }
        kv.delete_range((from + 20).to_be_bytes()..(from + 25).to_be_bytes()).unwrap();
        let json = format!(r#"{{"round":{round},"n{round}":[1.10,"x"]}}"#);
        documents.put(u32::from(round), Json(json)).unwrap();
        match round {
            0 | 2 => session.db.flush().unwrap(),
            1 => session.db.compact().unwrap(),
            _ => {}
        }
    }
    session.settle();
    let contents = NAMES.map(|name| content(&session.db, name).unwrap());
    assert!(contents.iter().all(|content| content.len() >= 4));
    (world.after_kill(1), contents)
}

/// What a keyspace holds; documents as JSON, without SeqNos.
fn content(db: &Database, name: &str) -> Result<Content> {
    if let Ok(Some(collection)) = db.space(name).existing().collection() {
        let all = collection.scan(..);
        return all
            .map(|found| {
                found.map(|(key, document)| {
                    (format!("{key:?}").into_bytes(), (document.to_string().into_bytes(), u64::MAX))
                })
            })
            .collect();
    }
    let kv = db.keyspace(name)?;
    let mut content = Content::new();
    for (key, value) in dump(&kv)? {
        let newest = kv.get_versioned(&key)?.map_or(0, |(token, _)| token.seqno().get());
        content.insert(key, (value, newest));
    }
    Ok(content)
}

fn repair(world: &World) -> Repair {
    Repair::of("/db").on_disk(Arc::new(world.mem.clone())).fold(2, "add-i64/1")
}

/// Whether the report tells that this entry may be lost.
fn is_told(losses: &[Loss], name: &str, key: &[u8], seqno: u64) -> bool {
    losses.iter().any(|loss| {
        let keyspace = loss.keyspace.as_deref();
        let is_in_table = |(from, to): &(Vec<u8>, Option<Vec<u8>>)| {
            from[..] <= *key && to.as_ref().is_none_or(|to| to[..] >= *key)
        };
        let of_table = keyspace == Some(name)
            && (name == "documents" || loss.keys.as_ref().is_some_and(is_in_table));
        let of_log = loss.seqnos.is_some_and(|(from, to)| {
            let is_before = to.is_none_or(|to| seqno < to.get());
            // Of a sum the newest write alone is known, of a document none.
            from.get() <= seqno && (is_before || name != "kv")
        });
        of_table || of_log
    })
}

/// Compares; the number of entries that are not as they were.
fn check(world: &World, dir: &str, report: &RepairReport, contents: &[Content; 3]) -> usize {
    let db = open_at(world, dir).unwrap();
    db.verify().unwrap();
    let mut wrong = 0;
    for (at, (name, expected)) in NAMES.into_iter().zip(contents).enumerate() {
        let renamed = format!("keyspace-{}", at + 1);
        let there = db.keyspaces().into_iter().map(|info| info.name);
        let found = there.into_iter().find(|there| *there == name || *there == renamed);
        let found = found.map(|found| content(&db, &found).unwrap()).unwrap_or_default();
        for (key, (value, seqno)) in expected {
            if found.get(key).map(|(value, _)| value) != Some(value) {
                let told = is_told(&report.losses, name, key, *seqno);
                assert!(told, "{name} {}: {report}", key.escape_ascii());
                wrong += 1;
            }
        }
        for key in found.keys().filter(|key| !expected.contains_key(*key)) {
            let told = is_told(&report.losses, name, key, u64::MAX);
            assert!(told, "{name} {} was deleted: {report}", key.escape_ascii());
            wrong += 1;
        }
    }
    // It is a database like any other.
    let kv = db.keyspace("new").unwrap();
    kv.put("a", "1").unwrap();
    db.compact().unwrap();
    drop(kv);
    db.close().unwrap();
    let db = open_at(world, dir).unwrap();
    assert_eq!(db.keyspace("new").unwrap().get("a").unwrap().unwrap(), b"1");
    wrong
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Removed,
    Cut,
    Flipped,
    FrontZeroed,
}

fn damage(world: &World, name: &str, damage: Damage) {
    let path = World::path(name);
    let mut bytes = world.mem.content(&path).unwrap();
    match damage {
        Damage::Removed => return world.mem.remove(&path).unwrap(),
        Damage::Cut => bytes.truncate(bytes.len() / 2),
        Damage::Flipped => {
            let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) / 2;
            bytes[middle] ^= 0x10;
        }
        Damage::FrontZeroed => bytes.iter_mut().take(512).for_each(|byte| *byte = 0),
    }
    world.mem.put_content(&path, &bytes);
}

#[test]
fn whichever_file_is_removed_cut_or_damaged_the_rest_is_there_and_the_loss_is_told() {
    let (original, contents) = prepared();
    let all: usize = contents.iter().map(BTreeMap::len).sum();
    let files = original.files();
    assert!(files.iter().filter(|name| name.ends_with(".sst")).count() >= 6, "{files:?}");
    for name in files.iter().filter(|name| *name != "LOCK") {
        for how in [Damage::Removed, Damage::Cut, Damage::Flipped, Damage::FrontZeroed] {
            let world = original.after_kill(2);
            let is_empty = world.mem.content(&World::path(name)).unwrap().is_empty();
            if is_empty && how != Damage::Removed {
                continue;
            }
            damage(&world, name, how);
            let before = world.contents();
            let report = repair(&world).into_dir(REPAIRED).unwrap();
            assert_eq!(world.contents(), before, "the original is not touched");
            let wrong = check(&world, REPAIRED, &report, &contents);
            let is_noted = report.notes.iter().any(|note| note.contains(name.as_str()));
            let is_named = is_noted || report.losses.iter().any(|loss| loss.file == *name);
            let is_table = name.ends_with(".sst");
            // A manifest whose end is gone is told so; of a log without a file its first segment
            // is. A file of the log that nothing was written to, or one copy of a header, is no
            // loss.
            let is_no_loss = name.ends_with(".wal") && wrong == 0;
            let is_told = is_named || is_no_loss || how == Damage::Cut && !is_table;
            assert!(is_told, "{name} {how:?}: {report}");
            if name == "CURRENT" || name.ends_with(".manifest") {
                assert_eq!(wrong, 0, "{name} {how:?}: everything is in tables and log\n{report}");
            }
            if is_table && how == Damage::Flipped {
                assert!(wrong < all / 3, "{name}: {wrong} of {all}: {report}");
            }
        }
    }
}

/// A file that no segment names was passed over: the report did not say that it might have held the
/// newest writes.
#[test]
fn each_listed_file_of_the_log_that_is_missing_is_told() {
    let (original, contents) = prepared();
    let logs = original.files().into_iter().filter(|name| name.ends_with(".wal"));
    let logs: Vec<String> = logs.collect();
    assert!(logs.len() > 2, "{logs:?}");
    let told = |report: &RepairReport, name: &String| {
        let of_it: Vec<&Loss> = report.losses.iter().filter(|loss| loss.file == *name).collect();
        assert_eq!(of_it.len(), 1, "{name}: {report}");
        of_it[0].clone()
    };
    for name in &logs {
        let world = original.after_kill(2);
        world.mem.remove(&World::path(name)).unwrap();
        let report = repair(&world).into_dir(REPAIRED).unwrap();
        let loss = told(&report, name);
        assert!(loss.what.contains("missing") && loss.bytes.is_empty(), "{report}");
        assert!(!report.is_lossless(), "{report}");
        check(&world, REPAIRED, &report, &contents);
    }
    let world = original.after_kill(2);
    logs.iter().for_each(|name| world.mem.remove(&World::path(name)).unwrap());
    let report = repair(&world).into_dir(REPAIRED).unwrap();
    logs.iter().for_each(|name| drop(told(&report, name)));
    check(&world, REPAIRED, &report, &contents);
}

#[test]
fn a_listed_file_that_holds_another_segment_is_told() {
    let (world, contents) = prepared();
    let logs = world.files().into_iter().filter(|name| name.ends_with(".wal"));
    let logs: Vec<String> = logs.collect();
    let content = |name: &String| world.mem.content(&World::path(name)).unwrap();
    let used = logs.iter().find(|name| !content(name).is_empty()).unwrap();
    let last = logs.last().unwrap();
    world.mem.put_content(&World::path(last), &content(used));
    let report = repair(&world).into_dir(REPAIRED).unwrap();
    let loss = report.losses.iter().find(|loss| loss.file == *last).unwrap();
    assert!(loss.what.contains("holds segment") && !loss.may_be_torn, "{report}");
    assert_eq!(check(&world, REPAIRED, &report, &contents), 0);
}

#[test]
fn a_whole_database_is_repaired_without_a_loss_and_without_a_copy_of_its_tables() {
    let (world, contents) = prepared();
    let tables = world.files().iter().filter(|name| name.ends_with(".sst")).count() as u64;
    let report = repair(&world).into_dir(REPAIRED).unwrap();
    assert!(report.is_lossless() && report.losses.is_empty(), "{report}");
    assert_eq!((report.tables_kept, report.rebuilt.len()), (tables, 0));
    assert!(report.log_records > 0 && report.tables_written > 0, "{report}");
    assert_eq!(check(&world, REPAIRED, &report, &contents), 0);
    let error = repair(&world).into_dir(REPAIRED).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

fn tables(world: &World) -> Vec<(String, Vec<u8>)> {
    world.contents().into_iter().filter(|(name, _)| name.ends_with(".sst")).collect()
}

/// A kill under load leaves tables that no manifest names: inputs of compactions that a reader
/// pinned, outputs of flushes and compactions that were not installed. One of an unfinished flush
/// once made a repair take all of them.
#[test]
fn tables_that_work_under_way_has_left_bring_nothing_back() {
    let world = World::new(3);
    let session = world.open(&small_with(Durability::Group)).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let sums = session.db.space("sums").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let add = || sums.merge("sum", 1_i64.to_le_bytes()).unwrap();
    kv.put("deleted", "1").unwrap();
    add();
    session.db.flush().unwrap();
    let old = tables(&world);
    kv.delete("deleted").unwrap();
    kv.put("kept", "1").unwrap();
    session.db.compact().unwrap();
    session.settle();
    (0..3).for_each(|_| add());
    kv.put("kept", "2").unwrap();
    let killed = world.after_kill(1);
    session.db.flush().unwrap();
    let unfinished = tables(&world);
    for (name, content) in old.iter().chain(&unfinished) {
        killed.mem.put_content(&World::path(name), content);
    }
    let report = repair(&killed).into_dir(REPAIRED).unwrap();
    assert!(report.is_lossless() && report.rebuilt.is_empty(), "{report}");
    let db = open_at(&killed, REPAIRED).unwrap();
    let found = content(&db, "kv").unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), [b"kept"]);
    assert_eq!(found[&b"kept"[..]].0, b"2");
    assert_eq!(db.keyspace("sums").unwrap().get("sum").unwrap().unwrap(), 4_i64.to_le_bytes());
}

#[test]
fn a_file_of_the_log_that_the_manifest_lists_and_that_is_missing_is_told() {
    let (original, _) = prepared();
    let logs = original.files().into_iter().filter(|name| name.ends_with(".wal"));
    let logs: Vec<String> = logs.collect();
    assert!(logs.len() > 3, "{logs:?}");
    for name in logs {
        let world = original.after_kill(2);
        world.mem.remove(&World::path(&name)).unwrap();
        let report = repair(&world).into_dir(REPAIRED).unwrap();
        assert!(!report.is_lossless(), "{name}: {report}");
        assert_eq!(report.losses.iter().filter(|loss| loss.file == name).count(), 1, "{report}");
    }
}

#[test]
fn without_any_manifest_and_log_the_tables_alone_make_a_database() {
    let (world, contents) = prepared();
    for name in world.files() {
        if !name.ends_with(".sst") {
            world.mem.remove(&World::path(&name)).unwrap();
        }
    }
    let report = repair(&world).into_dir(REPAIRED).unwrap();
    assert_eq!(report.rebuilt, ["keyspace-1", "keyspace-2", "keyspace-3"]);
    let db = open_at(&world, REPAIRED).unwrap();
    let documents = content(&db, "keyspace-3").unwrap();
    // All but the last, which stood in the log.
    assert_eq!(documents.len(), 3);
    let same = documents.iter().all(|(key, (document, _))| contents[2][key].0 == *document);
    assert!(same, "the names of fields come out of the tables: {documents:?}");
    assert_eq!(content(&db, "keyspace-2").unwrap().len(), contents[1].len());
}

/// Tables alone are left, and each has lost its names of fields.
fn without_names() -> World {
    let (world, _) = prepared();
    for name in world.files().iter().filter(|name| !name.ends_with(".sst")) {
        world.mem.remove(&World::path(name)).unwrap();
    }
    let mut damaged = 0;
    for (name, mut bytes) in tables(&world) {
        if let Some(at) = bytes.windows(5).position(|part| part == b"round") {
            bytes[at] ^= 1;
            world.mem.put_content(&World::path(&name), &bytes);
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    world
}

fn are_names_told(report: &RepairReport) -> bool {
    report.losses.iter().any(|loss| loss.what.contains("names of fields"))
}

/// The next document defined the lost ids again: fields of old documents showed under its names.
#[test]
fn documents_whose_names_are_lost_in_every_table_keep_their_values_and_get_no_wrong_names() {
    let world = without_names();
    let report = repair(&world).fold(3, "patch/1").into_dir(REPAIRED).unwrap();
    assert!(are_names_told(&report) && !report.is_lossless(), "{report}");
    let db = open_at(&world, REPAIRED).unwrap();
    let documents = db.space("keyspace-3").existing().collection().unwrap().unwrap();
    let shown = || (0..3_u32).map(|key| documents.get(key).unwrap().unwrap().to_string());
    let before: Vec<String> = shown().collect();
    for (round, document) in before.iter().enumerate() {
        assert!(document.contains(&format!(r#""lost name 0":{round}"#)), "{document}");
        assert!(document.contains(r#":[1.10,"x"]"#), "{document}");
    }
    documents.put(9_u32, Json(r#"{"new":1,"newer":2}"#)).unwrap();
    assert_eq!(documents.get(9_u32).unwrap().unwrap().to_string(), r#"{"new":1,"newer":2}"#);
    assert!(shown().eq(before), "{report}");
    db.verify().unwrap();
}

#[test]
fn a_keyspace_without_names_is_one_of_bytes_until_somebody_names_its_fold() {
    let world = without_names();
    let report = repair(&world).into_dir(REPAIRED).unwrap();
    assert!(are_names_told(&report), "{report}");
    let is_advised = |note: &String| note.starts_with("keyspace 3") && note.contains("its fold");
    assert!(report.notes.iter().any(is_advised), "{report}");
    let db = open_at(&world, REPAIRED).unwrap();
    assert_eq!(db.keyspace("keyspace-3").unwrap().count().unwrap(), 3);
}

#[test]
fn merge_operands_of_an_unknown_fold_are_kept_and_told() {
    let (world, _) = prepared();
    world.mem.remove(&World::path("CURRENT")).unwrap();
    for name in world.files().iter().filter(|name| name.ends_with(".manifest")) {
        world.mem.remove(&World::path(name)).unwrap();
    }
    let repair = Repair::of("/db").on_disk(Arc::new(world.mem.clone()));
    let report = repair.into_dir(REPAIRED).unwrap();
    let note = report.notes.iter().find(|note| note.contains("name the fold of keyspace 2"));
    assert!(note.is_some(), "{report}");
}

#[test]
fn in_place_nothing_is_removed_and_damaged_files_are_set_aside() {
    let (world, contents) = prepared();
    let table = world.files().into_iter().find(|name| name.ends_with(".sst")).unwrap();
    damage(&world, &table, Damage::Flipped);
    let before = world.contents();
    let report = repair(&world).in_place().unwrap();
    assert!(report.set_aside.contains(&format!("{table}.aside")), "{report}");
    let after: BTreeMap<String, Vec<u8>> = world.contents().into_iter().collect();
    for (name, bytes) in before.into_iter().filter(|(name, _)| name != "LOCK") {
        let aside = after.get(&format!("{name}.aside"));
        assert_eq!(aside.or(after.get(&name)), Some(&bytes), "{name}");
    }
    check(&world, "/db", &report, &contents);
    // Once more: what was set aside stays, under its own name.
    damage(
        &world,
        &world.files().into_iter().rfind(|name| name.ends_with(".sst")).unwrap(),
        Damage::Cut,
    );
    let again = repair(&world).in_place().unwrap();
    assert!(again.set_aside.iter().any(|name| name.ends_with(".aside-2")), "{again}");
    for name in &report.set_aside {
        assert_eq!(after.get(name), world.mem.content(&World::path(name)).ok().as_ref(), "{name}");
    }
}

#[test]
fn a_power_cut_at_any_change_of_a_repair_in_place_loses_nothing() {
    let (original, contents) = prepared();
    original.mem.remove(&World::path("CURRENT")).unwrap();
    for name in original.files().iter().filter(|name| name.ends_with(".manifest")) {
        original.mem.remove(&World::path(name)).unwrap();
    }
    original.mem.sync_dir(World::dir()).unwrap();
    let in_place = |world: &World| {
        let repair = Repair::of("/db").on_disk(Arc::new(world.disk.clone()));
        repair.fold(2, "add-i64/1").in_place()
    };
    let world = original.after_kill(3);
    in_place(&world).unwrap();
    let counts = world.mem.counts();
    let total: u64 = Op::CHANGES.iter().map(|op| counts.of(*op)).sum();
    assert!(total > 20, "{total}");
    for at in 1..=total {
        let world = original.after_kill(3);
        world.disk.cut_power_at(at);
        assert!(in_place(&world).is_err(), "at {at}");
        let after = world.after_power_cut(at);
        let report = if after.mem.exists(&World::path("CURRENT")).unwrap() {
            // The repair was done but for renaming.
            RepairReport::default()
        } else {
            in_place(&after).unwrap_or_else(|error| panic!("at {at}: {error}"))
        };
        assert_eq!(check(&after, "/db", &report, &contents), 0, "at {at}");
    }
}

#[test]
fn a_directory_without_a_database_and_an_open_one_are_refused() {
    let world = World::new(9);
    world.mem.create_dir(Path::new("/db")).unwrap();
    let error = repair(&world).into_dir(REPAIRED).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(!world.mem.exists(Path::new(REPAIRED)).unwrap());
    let _session = world.open(&small()).unwrap();
    assert_eq!(repair(&world).into_dir(REPAIRED).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(repair(&world).in_place().unwrap_err().kind(), ErrorKind::Busy);
}
