//! Is every generation of backups one moment of the database, whole or absent, and do backups share
//! what did not change?

use crate::support::{folding, hashed, open_at, small, small_with, threaded};
use flagstone::admin::Backups;
use flagstone::internal::env::names::{BackupName, LOCK, parse_backup};
use flagstone::internal::env::{Disk, Effect, Failure, Fault, Op};
use flagstone::{Database, Durability, ErrorKind, Json, Keyspace, Options, Result, Space};
use flagstone_testkit::{Session, World, dump};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BACKUPS: &str = "/backups/db";

/// The backups as the world's disk shows them, faults and all.
fn backups(world: &World) -> Backups {
    Backups::on_disk(BACKUPS, Arc::new(world.disk.clone()))
}

/// The names among the backups of one kind.
fn names(world: &World, wanted: fn(BackupName) -> bool) -> Vec<String> {
    let found = world.mem.list(Path::new(BACKUPS)).unwrap_or_default();
    found.into_iter().filter(|name| wanted(parse_backup(name))).collect()
}

fn tables(world: &World) -> Vec<String> {
    names(world, |name| matches!(name, BackupName::Table(..)))
}

fn fill(kv: &Keyspace, from: u32, count: u32, fill: u8) {
    for n in from..from + count {
        kv.put(n.to_be_bytes(), [fill; 300]).unwrap();
    }
}

/// Restores a generation and opens it.
fn restored(world: &World, generation: u64, to: &str) -> Database {
    let report = backups(world).restore(Some(generation), to).unwrap();
    assert_eq!(report.generation, generation);
    let db = open_at(world, to).unwrap();
    db.verify().unwrap();
    db
}

#[test]
fn a_generation_holds_what_was_acknowledged_before_it_whatever_its_durability() {
    for durability in [Durability::None, Durability::Buffered, Durability::Group] {
        let world = World::new(1);
        let session = world.open(&small_with(durability)).unwrap();
        let kv = session.db.space("kv").options(hashed(3)).keyspace().unwrap();
        let sums = session.db.space("sums").options(folding(2, "add-i64/1")).keyspace().unwrap();
        let documents = session.db.collection("documents").unwrap();
        let mut expected = Vec::new();
        for round in 0..3_u8 {
            fill(&kv, u32::from(round) * 50, 100, round);
            kv.delete_range(10_u32.to_be_bytes()..20_u32.to_be_bytes()).unwrap();
            for n in 0..30_u32 {
                sums.merge((n % 7).to_be_bytes(), 1_i64.to_le_bytes()).unwrap();
                documents.put(n, Json(format!(r#"{{"n{n}":{round}}}"#))).unwrap();
            }
            expected.push((dump(&kv).unwrap(), dump(&sums).unwrap()));
            let report = session.db.backup(BACKUPS).unwrap();
            assert_eq!(report.generation, u64::from(round) + 1);
            assert!(report.tables_copied > 0 && report.bytes_copied > 0, "{report}");
        }
        let listed = backups(&world).list().unwrap();
        assert_eq!(listed.iter().map(|info| info.generation).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(listed.is_sorted_by_key(|info| info.seqno) && listed[2].bytes > 0);
        let checked = backups(&world).verify().unwrap();
        assert_eq!((checked.generations, checked.damage.len()), (3, 0));
        // No trace of the original is needed.
        drop((kv, sums, documents, session));
        for name in world.files() {
            world.mem.remove(&World::path(&name)).unwrap();
        }
        for (round, (kv, sums)) in expected.into_iter().enumerate() {
            let db = restored(&world, round as u64 + 1, &format!("/restored/{round}"));
            assert_eq!(dump(&db.space("kv").options(hashed(3)).keyspace().unwrap()).unwrap(), kv);
            let restored = db.space("sums").options(folding(2, "add-i64/1")).keyspace().unwrap();
            assert_eq!(dump(&restored).unwrap(), sums);
            let document = db.collection("documents").unwrap().get(7_u32).unwrap().unwrap();
            assert_eq!(document.int("n7").unwrap(), round as i64);
        }
    }
}

#[test]
fn tables_that_did_not_change_are_not_copied_again_and_go_with_the_last_generation_that_needs_them()
{
    let world = World::new(2);
    let session = world.open(&small()).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    fill(&kv, 0, 1000, 1);
    let first = session.db.backup(BACKUPS).unwrap();
    let second = session.db.backup(BACKUPS).unwrap();
    assert_eq!((second.tables, second.tables_copied, second.bytes_copied), (first.tables, 0, 0));
    fill(&kv, 2000, 10, 2);
    let third = session.db.backup(BACKUPS).unwrap();
    assert_eq!((third.tables, third.tables_copied), (first.tables + 1, 1));
    fill(&kv, 0, 1000, 3);
    session.db.compact().unwrap();
    let fourth = session.db.backup(BACKUPS).unwrap();
    assert_eq!(fourth.tables_copied, fourth.tables);
    let before = tables(&world).len() as u64;
    assert_eq!(before, first.tables + 1 + fourth.tables);
    assert_eq!(backups(&world).keep(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    let dropped = backups(&world).keep(2).unwrap();
    assert_eq!((dropped.generations, dropped.tables), (2, 0), "the third needs all of them");
    let dropped = backups(&world).keep(1).unwrap();
    assert_eq!((dropped.generations, dropped.tables), (1, third.tables));
    assert!(dropped.bytes > 0 && tables(&world).len() as u64 == fourth.tables);
    let db = restored(&world, 4, "/restored");
    assert_eq!(
        dump(&db.space("kv").options(hashed(1)).keyspace().unwrap()).unwrap(),
        dump(&kv).unwrap()
    );
    let error = backups(&world).restore(Some(3), "/other").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// A restored database goes on with the same numbers: its tables must not be taken for those of the
/// original.
#[test]
fn a_restored_database_goes_on_in_the_same_backups() {
    let world = World::new(3);
    let session = world.open(&small()).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    fill(&kv, 0, 50, 1);
    session.db.backup(BACKUPS).unwrap();
    fill(&kv, 0, 50, 2);
    session.db.backup(BACKUPS).unwrap();
    let other = restored(&world, 1, "/restored");
    let others = other.space("kv").options(hashed(1)).keyspace().unwrap();
    fill(&others, 0, 50, 3);
    other.backup(BACKUPS).unwrap();
    for (generation, fill) in [(1, 1), (2, 2), (3, 3)] {
        let db = restored(&world, generation, &format!("/again/{generation}"));
        let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
        assert_eq!(kv.get(7_u32.to_be_bytes()).unwrap().unwrap(), [fill; 300], "{generation}");
    }
}

#[test]
fn directories_that_are_no_backups_of_this_database_are_refused_and_left_alone() {
    let world = World::new(4);
    let session = world.open(&small()).unwrap();
    session.db.keyspace("kv").unwrap().put("a", "1").unwrap();
    let error = session.db.backup("/db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    session.db.backup(BACKUPS).unwrap();
    let builder = Database::builder("/other").options(small());
    let other = builder.environment(world.environment().0).open().unwrap();
    let error = other.backup(BACKUPS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("holds backups of database"), "{error}");
    let error = backups(&world).restore(None, "/db").unwrap_err();
    assert!(error.to_string().contains("new or empty directory"), "{error}");
    let lock =
        world.mem.lock(&Path::new(BACKUPS).join(LOCK), flagstone::internal::env::LockMode::Shared);
    let error = session.db.backup(BACKUPS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(lock);
    assert_eq!(backups(&world).list().unwrap().len(), 1);
}

#[test]
fn a_closed_database_is_backed_up_without_being_written() {
    let world = World::new(5);
    let session = world.open(&small_with(Durability::Group)).unwrap();
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    fill(&kv, 0, 10, 1);
    let killed = world.after_kill(1);
    drop(kv);
    session.db.close().unwrap();
    let before = world.contents();
    let builder = Database::builder(World::dir()).environment(world.environment().0);
    let reader = builder.options(small()).open_read_only().unwrap();
    reader.backup(BACKUPS).unwrap();
    drop(reader);
    assert_eq!(world.contents(), before);
    let db = restored(&world, 1, "/restored");
    assert_eq!(db.space("kv").options(hashed(2)).keyspace().unwrap().count().unwrap(), 10);

    let builder = Database::builder(World::dir()).environment(killed.environment().0);
    let reader = builder.options(small()).open_read_only().unwrap();
    let error = reader.backup(BACKUPS).unwrap_err();
    assert!(error.to_string().contains("open it for writing"), "{error}");
}

#[test]
fn damage_of_the_database_is_not_backed_up_and_damage_of_backups_is_found() {
    let world = World::new(6);
    let session = world.open(&small()).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    fill(&kv, 0, 100, 1);
    session.db.backup(BACKUPS).unwrap();
    fill(&kv, 200, 100, 1);
    session.db.flush().unwrap();
    let flip = |path: &Path| {
        let mut bytes = world.mem.content(path).unwrap();
        bytes[100] ^= 1;
        world.mem.put_content(path, &bytes);
    };
    let newest = world.files().into_iter().rfind(|name| name.ends_with(".sst")).unwrap();
    flip(&World::path(&newest));
    let error = session.db.backup(BACKUPS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains(&newest), "{error}");
    flip(&World::path(&newest));
    session.db.backup(BACKUPS).unwrap();

    let table = tables(&world).remove(0);
    flip(&Path::new(BACKUPS).join(&table));
    let report = backups(&world).verify().unwrap();
    assert_eq!(report.damage.len(), 1, "{report}");
    assert_eq!((&report.damage[0].file, &report.damage[0].generations), (&table, &vec![1, 2]));
    assert!(report.check().unwrap_err().to_string().contains(&table));
    let error = backups(&world).restore(None, "/restored").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(open_at(&world, "/restored").is_err());
    // Removed, it is copied again.
    world.mem.remove(&Path::new(BACKUPS).join(&table)).unwrap();
    session.db.backup(BACKUPS).unwrap();
    backups(&world).verify().unwrap().check().unwrap();
    restored(&world, 1, "/restored");

    flip(&Path::new(BACKUPS).join("000002.backup"));
    let listed = backups(&world).list().unwrap();
    assert!(listed[1].damage.is_some() && listed[2].damage.is_none());
    let report = backups(&world).verify().unwrap();
    assert_eq!(report.damage[0].file, "000002.backup");
    // What the damaged one needs is not known, so nothing is removed until it is gone.
    let before = tables(&world);
    assert_eq!(backups(&world).keep(2).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(tables(&world), before);
    backups(&world).keep(1).unwrap();
    restored(&world, 3, "/restored/3");
}

/// A database with one generation, and writes that it does not hold.
fn prepared(seed: u64) -> (World, Session) {
    let world = World::new(seed);
    let session = world.open(&small_with(Durability::Group)).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    fill(&kv, 0, 30, 1);
    session.db.backup(BACKUPS).unwrap();
    fill(&kv, 20, 30, 2);
    (world, session)
}

fn check_generation(world: &World, generation: u64, to: &str) {
    let db = restored(world, generation, to);
    let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
    let (count, from) = if generation == 1 { (30_u32, 30) } else { (50, 20) };
    for n in 0..count {
        let fill = if n < from { 1 } else { 2 };
        assert_eq!(kv.get(n.to_be_bytes()).unwrap().unwrap(), [fill; 300], "key {n}");
    }
    assert_eq!(kv.count().unwrap(), u64::from(count));
}

/// Makes the second generation, or drops the first.
type Work = fn(&World, &Session) -> Result<()>;
const BACKUP: Work = |_, session| session.db.backup(BACKUPS).map(drop);
const KEEP: Work = |world, _| backups(world).keep(1).map(drop);

fn changes_of(work: Work, before: &[Work]) -> u64 {
    let (world, session) = prepared(7);
    before.iter().for_each(|work| work(&world, &session).unwrap());
    let changes = || {
        let counts = world.mem.counts();
        Op::CHANGES.iter().map(|op| counts.of(*op)).sum::<u64>()
    };
    let start = changes();
    work(&world, &session).unwrap();
    changes() - start
}

#[test]
fn a_power_cut_at_any_change_leaves_the_generations_before_and_the_next_backup_goes_on() {
    for (work, before) in [(BACKUP, &[][..]), (KEEP, &[BACKUP][..])] {
        let total = changes_of(work, before);
        for at in 1..=total + 1 {
            for luck in 0..3 {
                let (world, session) = prepared(7);
                before.iter().for_each(|work| work(&world, &session).unwrap());
                world.disk.cut_power_at(at);
                let done = work(&world, &session);
                assert_eq!(done.is_ok(), at > total, "at {at}: {done:?}");
                let after = world.after_power_cut(at * 3 + luck);
                drop(session);
                let report = backups(&after).verify().unwrap();
                report.check().unwrap_or_else(|error| panic!("at {at}, luck {luck}: {error}"));
                for info in backups(&after).list().unwrap() {
                    check_generation(&after, info.generation, &format!("/r/{}", info.generation));
                }
                let db = open_at(&after, "/db").unwrap();
                let next = db.backup(BACKUPS).unwrap().generation;
                check_generation(&after, next.max(2), "/r/next");
                backups(&after).keep(1).unwrap();
                let left = names(&after, |name| name == BackupName::Temporary);
                assert!(left.is_empty() && backups(&after).list().unwrap().len() == 1, "{left:?}");
            }
        }
    }
}

#[test]
fn a_failure_of_any_operation_leaves_the_generations_before_and_it_can_be_tried_again() {
    let (world, session) = prepared(8);
    let before = world.disk.operations();
    BACKUP(&world, &session).unwrap();
    let total = world.disk.operations() - before;
    let effects = [
        Effect::Fail(Failure::Io),
        Effect::Fail(Failure::NoSpace),
        Effect::Short(7, Failure::NoSpace),
    ];
    for at in 1..=total {
        for effect in effects {
            let (world, session) = prepared(8);
            world.disk.inject(Fault::new(effect).nth(at));
            let done = BACKUP(&world, &session);
            world.disk.heal();
            backups(&world).verify().unwrap().check().unwrap();
            check_generation(&world, 1, "/r/1");
            if done.is_err() {
                match session.db.backup(BACKUPS) {
                    Ok(_) => {}
                    // A sync of log or manifest failed.
                    Err(error) if error.kind() == ErrorKind::Poisoned => continue,
                    Err(error) => panic!("{effect:?} at {at}, the second attempt: {error}"),
                }
            }
            check_generation(&world, 2, "/r/2");
        }
    }
}

#[test]
fn a_power_cut_or_a_failure_during_a_restore_leaves_no_database_or_the_whole_one() {
    let restore: Work = |world, _| backups(world).restore(None, "/restored").map(drop);
    let total = changes_of(restore, &[BACKUP]);
    let mut whole = 0;
    for at in 1..=total + 1 {
        for luck in 0..3 {
            let (world, session) = prepared(9);
            BACKUP(&world, &session).unwrap();
            world.disk.cut_power_at(at);
            let done = restore(&world, &session);
            assert_eq!(done.is_ok(), at > total, "at {at}");
            let after = world.after_power_cut(at * 3 + luck);
            drop(session);
            match open_at(&after, "/restored") {
                Ok(db) => {
                    assert_eq!(
                        db.space("kv").options(hashed(1)).keyspace().unwrap().count().unwrap(),
                        50
                    );
                    db.verify().unwrap();
                    whole += 1;
                }
                Err(error) => assert!(done.is_err(), "at {at}: {error}"),
            }
            let (world, session) = prepared(9);
            BACKUP(&world, &session).unwrap();
            world.disk.inject(Fault::new(Effect::Fail(Failure::Io)).nth(at));
            let done = restore(&world, &session);
            world.disk.heal();
            if done.is_err() {
                restore(&world, &session).unwrap();
            }
            assert_eq!(open_at(&world, "/restored").unwrap().keyspaces().len(), 1);
        }
    }
    assert!(whole >= 3);
}

#[test]
fn writers_go_on_while_a_backup_is_made_and_it_never_holds_half_of_a_batch() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path().join("db"))
        .options(Options::new().memory_budget(4 << 20))
        .open()
        .unwrap();
    let left = db.space("left").options(hashed(2)).keyspace().unwrap();
    let right = db.space("right").options(hashed(3)).keyspace().unwrap();
    let stop = AtomicBool::new(false);
    let to = dir.path().join("backups");
    std::thread::scope(|scope| {
        let (db, left, right, stop) = (&db, &left, &right, &stop);
        scope.spawn(move || {
            for n in 1..u64::MAX {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let mut batch = db.batch();
                batch.put(left, "n", n.to_le_bytes()).unwrap();
                batch.put(right, "n", n.to_le_bytes()).unwrap();
                batch.put(left, n.to_be_bytes(), [7; 300]).unwrap();
                db.commit(batch).unwrap();
            }
        });
        for generation in 1..=4 {
            assert_eq!(db.backup(&to).unwrap().generation, generation);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut before = 0;
    for generation in 1..=4 {
        let restored = dir.path().join(format!("restored-{generation}"));
        Backups::in_dir(&to).restore(Some(generation), &restored).unwrap();
        let db = Database::open(&restored).unwrap();
        let of = |name| db.keyspace(name).unwrap().get("n").unwrap().map(|n| n.to_vec());
        let (left, right) = (of("left"), of("right"));
        assert_eq!(left, right, "one half of a batch");
        let n = left.map_or(0, |n| u64::from_le_bytes(n.try_into().unwrap()));
        assert!(n >= before, "generations rise");
        assert_eq!(db.keyspace("left").unwrap().count().unwrap(), if n == 0 { 0 } else { n + 1 });
        before = n;
    }
}

/// A byte a second: it would take minutes. A backup took all that the disk could give, and kept on
/// after a close.
#[test]
fn a_backup_keeps_to_its_rate_and_ends_with_the_database() {
    let world = World::new(77);
    let options = small().copy_bytes_per_second(1);
    let db = threaded(&world, options);
    fill(&db.space("kv").options(hashed(1)).keyspace().unwrap(), 0, 50, 1);
    let error = std::thread::scope(|scope| {
        let backup = scope.spawn(|| db.backup(BACKUPS));
        let has_begun = || world.mem.list(Path::new(BACKUPS)).is_ok_and(|names| names.len() > 1);
        while !backup.is_finished() && !has_begun() {
            std::thread::yield_now();
        }
        db.clone().close().unwrap();
        backup.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(backups(&world).list().unwrap().is_empty());
    let db = threaded(&world, small());
    assert_eq!(db.backup(BACKUPS).unwrap().tables_copied, 1);
}
