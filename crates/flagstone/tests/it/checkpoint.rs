//! Is a checkpoint an independent copy as of one moment, whatever goes on meanwhile, and nothing at
//! all when it fails?

use crate::support::{folding, hashed, number, open_at, small, small_with, threaded};
use flagstone::admin::Event;
use flagstone::internal::env::{Disk, Effect, Failure, Fault, Op};
use flagstone::{Database, Durability, ErrorKind, Json, Keyspace, Space};
use flagstone_testkit::{Rng, World, dump, rounds, seed};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const COPY: &str = "/copies/one";

fn names(world: &World, dir: &str) -> Vec<String> {
    world.mem.list(Path::new(dir)).unwrap_or_default()
}

/// Puts `count` keys of 500 bytes.
fn fill(kv: &Keyspace, from: u32, count: u32, fill: u8) {
    for n in from..from + count {
        kv.put(n.to_be_bytes(), [fill; 500]).unwrap();
    }
}

#[test]
fn it_holds_what_was_acknowledged_before_and_nothing_behind() {
    for durability in [Durability::None, Durability::Buffered, Durability::Group] {
        let world = World::new(1);
        let session = world.open(&small_with(durability)).unwrap();
        let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
        let sums = session.db.space("sums").options(folding(2, "add-i64/1")).keyspace().unwrap();
        let documents = session.db.collection("documents").unwrap();
        fill(&kv, 0, 3000, 1);
        for n in 0..300_u32 {
            sums.merge((n % 7).to_be_bytes(), 1_i64.to_le_bytes()).unwrap();
            documents.put(n, Json(format!(r#"{{"n{n}":{n}}}"#))).unwrap();
        }
        let expected = (dump(&kv).unwrap(), dump(&sums).unwrap());
        let report = session.db.checkpoint(COPY).unwrap();
        assert!(report.tables > 3 && report.bytes > 1000 && report.bytes_copied == 0, "{report}");
        fill(&kv, 0, 100, 2);
        kv.delete(200_u32.to_be_bytes()).unwrap();
        documents.put("later", Json(r#"{"another name":1}"#)).unwrap();

        let copy = open_at(&world, COPY).unwrap();
        let copied =
            |name, options| dump(&copy.space(name).options(options).keyspace().unwrap()).unwrap();
        assert_eq!(copied("kv", hashed(4)), expected.0);
        assert_eq!(copied("sums", folding(2, "add-i64/1")), expected.1);
        let documents = copy.collection("documents").unwrap();
        assert_eq!(documents.count().unwrap(), 300);
        for n in [0_u32, 150, 299] {
            assert_eq!(
                documents.get(n).unwrap().unwrap().int(&format!("n{n}")).unwrap(),
                i64::from(n)
            );
        }
        copy.verify().unwrap();
    }
}

/// A keyspace that was created while the flush of a checkpoint ran would be in it without the
/// writes before it.
#[test]
fn a_keyspace_made_meanwhile_is_in_it_with_what_came_before() {
    let world = World::new(7);
    let handles: Arc<Mutex<Option<(Database, Keyspace)>>> = Arc::default();
    let listener = {
        let handles = Arc::clone(&handles);
        move |event: &Event| {
            let known = handles.lock().unwrap().clone();
            let (Event::FlushStarted { .. }, Some((db, kv))) = (event, known) else { return };
            if db.keyspaces().len() == 1 {
                // A listener does not call the database back: another thread does, meanwhile.
                let move_and_mark = || {
                    kv.put("moved", "1").unwrap();
                    db.space("marker").options(hashed(1)).keyspace().unwrap();
                };
                std::thread::scope(|scope| scope.spawn(move_and_mark).join().unwrap());
            }
        }
    };
    let builder = Database::builder(World::dir()).options(small()).listener(listener);
    let db = builder.environment(world.environment().0).open().unwrap();
    let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
    fill(&kv, 0, 10, 1);
    *handles.lock().unwrap() = Some((db.clone(), kv));
    db.checkpoint(COPY).unwrap();
    // The database has the listener, which would keep it.
    drop(handles.lock().unwrap().take());
    let copy = open_at(&world, COPY).unwrap();
    assert_eq!(copy.keyspaces().len(), 2);
    assert_eq!(copy.keyspace("kv").unwrap().get("moved").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn both_are_written_compacted_and_reopened_and_neither_harms_the_other() {
    let world = World::new(2);
    let session = world.open(&small()).unwrap();
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    fill(&kv, 0, 2000, 1);
    session.db.checkpoint(COPY).unwrap();
    let copy = open_at(&world, COPY).unwrap();
    let other = copy.space("kv").options(hashed(2)).keyspace().unwrap();
    let mut model = [dump(&kv).unwrap(), dump(&other).unwrap()];
    assert_eq!(model[0], model[1]);
    for round in 0..6_u8 {
        for (at, (db, kv)) in [(&session.db, &kv), (&copy, &other)].into_iter().enumerate() {
            let from = u32::from(round) * 300 + at as u32 * 100;
            let value = 10 * at as u8 + round + 2;
            fill(kv, from, 250, value);
            for n in from..from + 250 {
                model[at].insert(n.to_be_bytes().to_vec(), vec![value; 500]);
            }
            if round % 2 == 1 {
                db.compact().unwrap();
            }
        }
        session.settle();
    }
    assert_eq!(dump(&kv).unwrap(), model[0]);
    assert_eq!(dump(&other).unwrap(), model[1]);
    session.db.verify().unwrap();
    copy.verify().unwrap();
    drop((kv, other));
    session.db.close().unwrap();
    copy.close().unwrap();
    for (at, dir) in ["/db", COPY].into_iter().enumerate() {
        let db = open_at(&world, dir).unwrap();
        assert_eq!(
            dump(&db.space("kv").options(hashed(2)).keyspace().unwrap()).unwrap(),
            model[at]
        );
        db.close().unwrap();
    }
}

#[test]
fn a_copy_of_a_copy_and_of_an_empty_database_are_databases() {
    let world = World::new(3);
    let session = world.open(&small()).unwrap();
    let report = session.db.checkpoint("/empty").unwrap();
    assert_eq!(report.tables, 0);
    assert_eq!(open_at(&world, "/empty").unwrap().keyspaces().len(), 0);
    session.db.keyspace("kv").unwrap().put("a", "1").unwrap();
    session.db.checkpoint("/first").unwrap();
    let first = open_at(&world, "/first").unwrap();
    first.keyspace("kv").unwrap().put("a", "2").unwrap();
    first.checkpoint("/second").unwrap();
    let second = open_at(&world, "/second").unwrap();
    assert_eq!(second.keyspace("kv").unwrap().get("a").unwrap().unwrap(), b"2");
    drop(first);
    // No trace of the original is needed.
    drop(session);
    for name in names(&world, "/db") {
        world.mem.remove(&World::path(&name)).unwrap();
    }
    second.verify().unwrap();
    assert_eq!(second.keyspace("kv").unwrap().get("a").unwrap().unwrap(), b"2");
}

#[test]
fn a_directory_that_is_not_empty_is_refused_and_left_alone() {
    let world = World::new(4);
    let session = world.open(&small()).unwrap();
    session.db.keyspace("kv").unwrap().put("a", "1").unwrap();
    let refused = |dir: &str| {
        let error = session.db.checkpoint(dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("new or empty directory"), "{error}");
    };
    refused("/db");
    session.db.checkpoint(COPY).unwrap();
    let before = names(&world, COPY);
    refused(COPY);
    assert_eq!(names(&world, COPY), before);
    session.db.close().unwrap();
    let builder = Database::builder(World::dir()).environment(world.environment().0);
    let reader = builder.open_read_only().unwrap();
    let error = reader.checkpoint("/other").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// Writers put the same number into two keyspaces by one batch, each thread under a key of its own;
/// a copy must show both or none, and all that was acknowledged before.
#[test]
fn under_writers_and_compactions_it_is_one_cut_of_history() {
    let seed = seed("under_writers_and_compactions_it_is_one_cut_of_history", 5);
    let world = World::new(seed);
    let db = threaded(&world, small_with(Durability::None));
    let left = db.space("left").options(hashed(4)).keyspace().unwrap();
    let right = db.space("right").options(hashed(3)).keyspace().unwrap();
    let (stop, writers) = (AtomicBool::new(false), 3);
    let acknowledged: Vec<AtomicU64> = (0..writers).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (t, mine) in acknowledged.iter().enumerate() {
            let (db, left, right, stop) = (&db, &left, &right, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(seed + t as u64);
                for n in 1..u64::MAX {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut batch = db.batch();
                    batch.put(left, [t as u8], n.to_le_bytes()).unwrap();
                    batch.put(right, [t as u8, 7], n.to_le_bytes()).unwrap();
                    batch.put(left, rng.number().to_be_bytes(), rng.bytes(200)).unwrap();
                    let durability = [Durability::None, Durability::Buffered][n as usize % 2];
                    db.commit(batch.durability(durability)).unwrap();
                    mine.store(n, Ordering::Release);
                }
            });
        }
        for round in 0..rounds(8, 100) {
            let before: Vec<u64> = acknowledged.iter().map(|n| n.load(Ordering::Acquire)).collect();
            let dir = format!("/copies/{round}");
            db.checkpoint(&dir).unwrap();
            let after: Vec<u64> = acknowledged.iter().map(|n| n.load(Ordering::Acquire)).collect();
            let copy = open_at(&world, &dir).unwrap();
            let left = copy.space("left").options(hashed(4)).keyspace().unwrap();
            let right = copy.space("right").options(hashed(3)).keyspace().unwrap();
            for t in 0..writers {
                let [l, r] = [left.get([t as u8]), right.get([t as u8, 7])]
                    .map(|found| number(found.unwrap()) as u64);
                assert_eq!(l, r, "one half of a batch of writer {t}");
                assert!((before[t]..=after[t] + 1).contains(&l), "{} {l} {}", before[t], after[t]);
            }
            copy.verify().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A database with tables and unflushed writes, and what it holds.
fn prepared(world: &World) -> (flagstone_testkit::Session, Vec<u8>) {
    let session = world.open(&small_with(Durability::Group)).unwrap();
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    fill(&kv, 0, 300, 1);
    session.db.flush().unwrap();
    fill(&kv, 250, 100, 2);
    (session, 350_u64.to_le_bytes().to_vec())
}

fn check_whole(db: &Database, count: &[u8]) {
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    assert_eq!(kv.count().unwrap().to_le_bytes(), count);
    for n in 0..350_u32 {
        let fill = if n < 250 { 1 } else { 2 };
        assert_eq!(kv.get(n.to_be_bytes()).unwrap().unwrap(), [fill; 500], "key {n}");
    }
    db.verify().unwrap();
}

#[test]
fn a_crash_at_any_change_leaves_no_database_or_the_whole_one() {
    let world = World::new(6);
    let (session, _) = prepared(&world);
    let changes = |world: &World| -> u64 {
        let counts = world.mem.counts();
        Op::CHANGES.iter().map(|op| counts.of(*op)).sum()
    };
    let before = changes(&world);
    session.db.checkpoint(COPY).unwrap();
    let total = changes(&world) - before;
    let mut whole = 0;
    for at in 1..=total + 1 {
        for luck in 0..4 {
            let world = World::new(6);
            let (session, count) = prepared(&world);
            world.disk.cut_power_at(at);
            let made = session.db.checkpoint(COPY);
            assert_eq!(made.is_ok(), at > total, "at {at}: {made:?}");
            let after = match luck {
                3 => world.after_kill(at),
                luck => world.after_power_cut(at * 3 + luck),
            };
            drop(session);
            match open_at(&after, COPY) {
                Ok(copy) => {
                    check_whole(&copy, &count);
                    whole += 1;
                }
                Err(error) => {
                    assert!(made.is_err(), "at {at}: {error}");
                    let kinds = [ErrorKind::Io, ErrorKind::Corruption];
                    assert!(kinds.contains(&error.kind()), "{error:?}");
                }
            }
            check_whole(&open_at(&after, "/db").unwrap(), &count);
        }
    }
    assert!(whole >= 4, "the last crash is after the checkpoint");
}

#[test]
fn a_failure_of_any_operation_leaves_nothing_and_it_can_be_tried_again() {
    let count_of = |world: &World| world.disk.operations();
    let world = World::new(7);
    let (session, _) = prepared(&world);
    let before = count_of(&world);
    session.db.checkpoint(COPY).unwrap();
    let total = count_of(&world) - before;
    let effects = [
        Effect::Fail(Failure::Io),
        Effect::Fail(Failure::NoSpace),
        Effect::FailAfter(Failure::Io),
        Effect::Short(7, Failure::NoSpace),
    ];
    for at in 1..=total {
        for effect in effects {
            let world = World::new(7);
            let (session, count) = prepared(&world);
            world.disk.inject(Fault::new(effect).nth(at));
            eprintln!("{effect:?} at operation {at} of {total}");
            let made = session.db.checkpoint(COPY);
            world.disk.heal();
            if let Err(error) = made {
                let left = names(&world, COPY);
                let is_made = |name: &String| name != flagstone::internal::env::names::LOCK;
                assert!(!left.iter().any(is_made), "{error}: {left:?}");
                match session.db.checkpoint(COPY) {
                    Ok(_) => {}
                    // A sync of log or manifest failed.
                    Err(error) if error.kind() == ErrorKind::Poisoned => continue,
                    Err(error) => panic!("the second attempt: {error}"),
                }
            }
            check_whole(&open_at(&world, COPY).unwrap(), &count);
            check_whole(&session.db, &count);
        }
    }
}

/// Links fail as they do from one file system to another.
fn links_fail() -> Fault {
    Fault::new(Effect::Fail(Failure::OtherDevice)).on(&[Op::Link]).forever()
}

#[test]
fn to_another_device_tables_are_copied() {
    let world = World::new(8);
    let session = world.open(&small()).unwrap();
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    fill(&kv, 0, 250, 1);
    fill(&kv, 250, 100, 2);
    world.disk.inject(links_fail());
    let report = session.db.checkpoint(COPY).unwrap();
    assert!(report.bytes > 0 && report.bytes_copied == report.bytes, "{report}");
    // Copied bytes are synced before the copy is a database.
    let after = World::on(world.mem.crash_losing_unsynced(), 9);
    check_whole(&open_at(&after, COPY).unwrap(), &350_u64.to_le_bytes());
}

#[test]
fn on_a_real_disk_the_files_are_the_same_and_stay_when_the_original_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (original, copy) = (dir.path().join("a"), dir.path().join("x/y/b"));
    let db = Database::open(&original).unwrap();
    let kv = db.keyspace("kv").unwrap();
    kv.put("a", "1").unwrap();
    let report = db.checkpoint(&copy).unwrap();
    assert_eq!((report.tables, report.bytes_copied), (1, 0));
    drop(kv);
    db.close().unwrap();
    std::fs::remove_dir_all(original).unwrap();
    let db = Database::open(&copy).unwrap();
    assert_eq!(db.keyspace("kv").unwrap().get("a").unwrap().unwrap(), b"1");
    db.verify().unwrap();
}

/// A byte a second: it would take minutes.
#[test]
fn copies_of_a_checkpoint_keep_to_their_rate_and_end_with_the_database() {
    let world = World::new(8);
    let db = threaded(&world, small().copy_bytes_per_second(1));
    world.disk.inject(links_fail());
    fill(&db.space("kv").options(hashed(1)).keyspace().unwrap(), 0, 250, 1);
    let error = std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| db.checkpoint(COPY));
        let is_table = |name: &String| name.ends_with(".sst");
        let has_begun =
            || world.mem.list(Path::new(COPY)).is_ok_and(|names| names.iter().any(is_table));
        while !checkpoint.is_finished() && !has_begun() {
            std::thread::yield_now();
        }
        db.clone().close().unwrap();
        checkpoint.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind(), flagstone::ErrorKind::Closed, "{error}");
}
