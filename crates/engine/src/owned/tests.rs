//! Owned keyspaces: names, notes, changes of the set, crashes, failing disks, repairs.

use super::*;
use crate::content::KeyspaceContent;
use crate::stories::world::World;
use crate::testing::{Contents, Table};
use crate::{Batch, Engine, ErrorKind, Keyspace, KeyspaceOptions, Repair, Result, Routing};
use flagstone_base::KeyspaceId;
use flagstone_env::{Disk, Effect, Failure, Fault, MemDisk, Random, SeededRandom};
use std::path::Path;
use std::sync::Arc;

fn create(db: &Engine, owner: &Keyspace, name: &str, note: &str) -> Result<Keyspace> {
    let options = KeyspaceOptions::new().routing(Routing::Range(Vec::new()));
    let (content, note) = (KeyspaceContent::of("bytes"), note.as_bytes());
    let wanted = WantedOwned { name, content, options: &options, note };
    Ok(db.create_owned(owner, &wanted)?.keyspace)
}

/// The names and notes of what `owner` owns.
fn owned(db: &Engine, owner: &str) -> Vec<(String, String)> {
    let owner = db.keyspace(owner).unwrap();
    let note = |owned: &Keyspace| String::from_utf8(owned.note()).unwrap();
    db.owned(&owner).iter().map(|owned| (owned.name(), note(owned))).collect()
}

/// Opens the database again, with an executor that no close has ended.
fn reopened(world: &World) -> Engine {
    World::on(world.disk.clone()).open()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, note)| ((*name).to_owned(), (*note).to_owned())).collect()
}

#[test]
fn an_owned_keyspace_belongs_to_its_owner_and_keeps_its_note() {
    let world = World::new();
    let db = world.open();
    let (posts, users) = (db.keyspace("posts").unwrap(), db.keyspace("users").unwrap());
    let by_name = create(&db, &posts, "by name", "one").unwrap();
    create(&db, &users, "by name", "two").unwrap();
    create(&db, &posts, "by age", "").unwrap();
    by_name.put("a", "1").unwrap();
    db.set_note(&by_name, b"ready").unwrap();
    let check = |db: &Engine| {
        assert_eq!(owned(db, "posts"), pairs(&[("by name", "ready"), ("by age", "")]));
        assert_eq!(owned(db, "users"), pairs(&[("by name", "two")]));
        let names: Vec<_> = db.keyspaces().into_iter().map(|info| info.name).collect();
        assert_eq!(names, ["posts", "users"]);
        let stats = db.stats().keyspaces.into_iter().map(|stats| stats.info);
        let all: Vec<_> = stats.map(|info| (info.owner.unwrap_or_default(), info.name)).collect();
        let expected = [("", "posts"), ("posts", "by name"), ("posts", "by age"), ("", "users")];
        assert_eq!(all[..4], expected.map(|(owner, name)| (owner.to_owned(), name.to_owned())));
        assert_eq!(db.owned_keyspaces().len(), 3);
        let by_name = &db.owned(&db.keyspace("posts").unwrap())[0];
        assert_eq!(by_name.get("a").unwrap().unwrap(), b"1");
        assert_eq!(db.verify().unwrap().keyspaces, 5);
    };
    check(&db);
    db.flush().unwrap();
    drop((posts, users, by_name));
    db.close().unwrap();
    let db = reopened(&world);
    check(&db);
    // A name of the top finds nothing of an owner.
    assert_eq!(db.keyspace("by age").unwrap().count().unwrap(), 0);
    let opened = db.owned(&db.keyspace("posts").unwrap());
    let table: Arc<Table> = Arc::clone(opened[0].attachment()).downcast().unwrap();
    assert_eq!(table.owned, Some((1, b"ready".to_vec(), false)));
}

#[test]
fn what_cannot_be_owned_or_noted_is_refused() {
    let world = World::new();
    let db = world.open();
    let posts = db.keyspace("posts").unwrap();
    let by_name = create(&db, &posts, "by name", "").unwrap();
    let refused = |result: Result<()>, text: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(text), "{error}");
    };
    refused(create(&db, &posts, "by name", "").map(drop), "already");
    refused(create(&db, &by_name, "x", "").map(drop), "is owned");
    refused(create(&db, &posts, "", "").map(drop), "0 bytes");
    let long = "x".repeat((64 << 10) + 1);
    refused(create(&db, &posts, "x", &long).map(drop), "expected at most 65536");
    refused(db.set_note(&by_name, long.as_bytes()), "expected at most 65536");
    refused(db.set_note(&posts, b""), "has no owner");
    db.set_note(&by_name, &long.as_bytes()[1..]).unwrap();
    assert!(!db.drop_owned(&posts, |one| one.name() == "x").unwrap());
    assert!(db.drop_owned(&posts, |one| one.name() == "by name").unwrap());
    refused(db.set_note(&by_name, b""), "was dropped");
    refused(by_name.put("a", "1"), "was dropped");
    assert!(db.drop_keyspace("posts").unwrap());
    refused(create(&db, &posts, "x", "").map(drop), "was dropped");
}

#[test]
fn owned_keyspaces_are_renamed_and_dropped_with_their_owner() {
    let world = World::new();
    let db = world.open();
    let posts = db.keyspace("posts").unwrap();
    let by_name = create(&db, &posts, "by name", "one").unwrap();
    create(&db, &posts, "by age", "").unwrap();
    by_name.put("a", "1").unwrap();
    db.flush().unwrap();
    db.rename_keyspace("posts", "old posts").unwrap();
    assert_eq!(owned(&db, "old posts"), pairs(&[("by name", "one"), ("by age", "")]));
    assert_eq!(db.owned_keyspaces()[0].owner.as_deref(), Some("old posts"));
    assert!(db.drop_keyspace("old posts").unwrap());
    assert!(by_name.put("b", "1").unwrap_err().to_string().contains("was dropped"));
    assert!(by_name.get("b").is_err());
    assert_eq!((db.owned_keyspaces().len(), db.stats().tables()), (0, 0));
    drop((posts, by_name));
    db.close().unwrap();
    let db = reopened(&world);
    assert_eq!(db.verify().unwrap().keyspaces, 0);
    assert!(!world.files().iter().any(|name| name.ends_with(".sst")));
}

#[test]
fn a_keyspace_that_owns_others_refuses_writes_that_are_not_prepared() {
    let world = World::new();
    let db = world.open();
    let posts = db.keyspace("posts").unwrap();
    posts.put("a", "1").unwrap();
    assert!(!posts.has_owned());
    create(&db, &posts, "by name", "").unwrap();
    assert!(posts.has_owned());
    let conflict = |result: Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("prepare the write again"), "{error}");
    };
    conflict(posts.put("a", "2"));
    conflict(posts.put("a", vec![0; 1 << 17]));
    conflict(posts.delete_range([0_u8]..[9]));
    let mut batch = Batch::default();
    batch.put(&posts, "a", "2").unwrap();
    conflict(db.commit(batch));
    let changed = posts.read_modify_write(b"a", |_| panic!("called without its locks"));
    conflict(changed.map(drop));
    let mut transaction = db.begin(crate::Isolation::Snapshot).unwrap();
    transaction.write(&posts, flagstone_base::Kind::Delete, b"a", b"").unwrap();
    conflict(db.start_transaction(transaction, db.options().durability).map(drop));
    conflict(posts.ingest().map(drop));
    assert_eq!(posts.count().unwrap(), 1);
    assert_eq!(posts.get("a").unwrap().unwrap(), b"1");
    // So it is after a reopen, and no longer when nothing is owned.
    drop(posts);
    db.close().unwrap();
    let db = reopened(&world);
    let posts = db.keyspace("posts").unwrap();
    conflict(posts.put("a", "2"));
    assert!(db.drop_owned(&posts, |one| one.name() == "by name").unwrap());
    posts.put("a", "2").unwrap();
}

/// The notes that the history below leads to, one after each change.
const STATES: [&[(&str, &str)]; 6] = [
    &[],
    &[("x", "new")],
    &[("x", "ready")],
    &[("x", "ready"), ("y", "new")],
    &[("y", "new")],
    &[],
];

/// Creates, notes and drops owned keyspaces. Returns how many changes succeeded, until one fails.
fn history(db: &Engine) -> usize {
    let Ok(posts) = db.keyspace("posts") else { return 0 };
    let find = |name: &str| db.owned(&posts).into_iter().find(|owned| owned.name() == name);
    let change = |step: usize| match step {
        0 => create(db, &posts, "x", "new").map(drop),
        1 => db.set_note(&find("x").unwrap(), b"ready"),
        2 => create(db, &posts, "y", "new").map(drop),
        3 => db.drop_owned(&posts, |one| one.name() == "x").map(drop),
        _ => db.drop_keyspace("posts").map(drop),
    };
    (0..5).find(|&step| change(step).is_err()).unwrap_or(5)
}

#[test]
fn a_crash_at_any_change_of_the_disk_keeps_a_change_whole_or_undoes_it() {
    for at in 1.. {
        let world = World::new();
        let db = world.open();
        world.faults.cut_power_at(at);
        let done = history(&db);
        let is_off = world.faults.is_off();
        drop(db);
        for disk in [world.disk.kill(), world.disk.crash(at), world.disk.crash_losing_unsynced()] {
            let db = World::on(disk).open();
            let found = owned(&db, "posts");
            let may_be = [done, (done + 1).min(5)].map(|at| pairs(STATES[at]));
            assert!(may_be.contains(&found), "at {at}, after {done} changes: {found:?}");
            assert_eq!(db.keyspace("posts").unwrap().has_owned(), !found.is_empty());
            db.verify().unwrap();
        }
        if !is_off {
            assert!(done == 5 && at > 10, "{at}");
            return;
        }
    }
}

#[test]
fn a_change_that_the_disk_refuses_has_not_happened() {
    for effect in [Effect::Fail(Failure::Io), Effect::Fail(Failure::NoSpace)] {
        for at in 1.. {
            let world = World::new();
            let db = world.open();
            world.faults.inject(Fault::new(effect).nth(at));
            let done = history(&db);
            let hits = world.faults.hits();
            world.faults.heal();
            let posts = db.keyspace("posts");
            let Ok(posts) = posts else { continue };
            let found = owned(&db, "posts");
            assert_eq!(found, pairs(STATES[done]), "{effect:?} at {at}");
            if found.is_empty()
                && let Err(error) = posts.put("a", "1")
            {
                assert_eq!(error.kind(), ErrorKind::Poisoned, "{effect:?} at {at}");
            }
            drop((posts, db));
            let db = World::on(world.disk.crash(at)).open();
            let may_be = [done, (done + 1).min(5)].map(|at| pairs(STATES[at]));
            assert!(may_be.contains(&owned(&db, "posts")), "{effect:?} at {at}");
            if hits == 0 {
                assert!(done == 5 && at > 10, "{at}");
                break;
            }
        }
    }
}

fn remove(disk: &MemDisk, end: &str) {
    for name in disk.list(Path::new("db")).unwrap() {
        if name.ends_with(end) {
            disk.remove(&Path::new("db").join(name)).unwrap();
        }
    }
}

fn repaired(disk: &MemDisk) -> (Engine, crate::RepairReport) {
    let repair = Repair::of(Path::new("db"), Arc::new(Contents)).on_disk(Arc::new(disk.clone()));
    let report = repair.in_place().unwrap();
    (World::on(disk.clone()).open(), report)
}

/// A killed database with an owned keyspace, whose entries are in tables and in the log.
fn to_be_repaired() -> MemDisk {
    let world = World::new();
    let db = world.open();
    let posts = db.keyspace("posts").unwrap();
    posts.put("a", "1").unwrap();
    let by_name = create(&db, &posts, "by name", "ready").unwrap();
    by_name.put("n", "").unwrap();
    db.flush().unwrap();
    by_name.put("o", "").unwrap();
    world.disk.kill()
}

#[test]
fn a_repair_that_may_lose_something_makes_owned_keyspaces_doubtful() {
    let disk = to_be_repaired();
    let (db, report) = repaired(&disk.kill());
    assert!(report.is_lossless(), "{report}");
    assert_eq!(owned(&db, "posts"), pairs(&[("by name", "ready")]));
    let is_lossless = report.losses.is_empty();
    assert_eq!(db.owned(&db.keyspace("posts").unwrap())[0].is_doubtful(), !is_lossless);
    drop(db);
    let damaged = disk.kill();
    remove(&damaged, ".wal");
    let (db, report) = repaired(&damaged);
    assert!(!report.losses.is_empty(), "{report}");
    let posts = db.keyspace("posts").unwrap();
    let by_name = db.owned(&posts).remove(0);
    assert!(by_name.is_doubtful());
    assert_eq!(by_name.note(), b"ready");
    by_name.clear().unwrap();
    db.set_note(&by_name, b"to be filled").unwrap();
    assert!(!by_name.is_doubtful());
    drop((posts, by_name, db));
    let db = World::on(damaged).open();
    let by_name = &db.owned(&db.keyspace("posts").unwrap())[0];
    assert!(!by_name.is_doubtful());
    assert_eq!(by_name.count().unwrap(), 0);
}

/// It would be a keyspace like any other, with a name that nobody has given it.
#[test]
fn a_repair_without_the_catalog_leaves_an_owned_keyspace_out_and_says_so() {
    let damaged = to_be_repaired();
    remove(&damaged, ".manifest");
    let (db, report) = repaired(&damaged);
    let names: Vec<_> = db.keyspaces().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["keyspace-1"]);
    assert_eq!(db.owned_keyspaces(), []);
    let said = |note: &String| note.contains("keyspace 2: it belonged to keyspace 1");
    assert!(report.notes.iter().any(said), "{report}");
    assert_eq!(db.keyspace("keyspace-1").unwrap().get("a").unwrap().unwrap(), b"1");
}

/// Writers numbered before the change are visible when it returns, and later ones are refused.
#[test]
fn a_change_of_the_set_divides_the_writes_of_the_owner_into_earlier_and_later_ones() {
    let random = SeededRandom::new(7);
    for _ in 0..20 {
        let world = World::new();
        let db = world.open();
        let posts = db.keyspace("posts").unwrap();
        let pause = random.next_u64() % 200;
        let (written, seen) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (0_u32..).find(|n| posts.put(n.to_be_bytes(), "").is_err()).unwrap_or_default()
            });
            while posts.count().unwrap() < pause {
                std::thread::yield_now();
            }
            create(&db, &posts, "by name", "").unwrap();
            let seen = posts.count().unwrap();
            (writer.join().unwrap(), seen)
        });
        assert_eq!((u64::from(written), posts.count().unwrap()), (seen, seen));
        assert_eq!(posts.owned_set().epoch, 1);
        assert_eq!(posts.owned_set().keyspaces[0].owner(), Some(KeyspaceId(1)));
    }
}
