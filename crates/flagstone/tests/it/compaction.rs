//! Full compactions that a caller asks for, with the threads of production.

use crate::support::{hashed, open, small};
use flagstone::admin::Event;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{Database, ErrorKind, Keyspace, Space};
use flagstone_testkit::World;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const KEYS: u32 = 400;

/// Two overlapping runs in each of four trees.
fn filled(db: &Database) -> Keyspace {
    let kv = db.space("a").options(hashed(4)).keyspace().unwrap();
    for round in 0..2_u32 {
        for key in 0..KEYS {
            kv.put(key.to_be_bytes(), [round.to_be_bytes(), key.to_be_bytes()].concat()).unwrap();
        }
        db.flush().unwrap();
    }
    kv
}

fn check(kv: &Keyspace) {
    for key in 0..KEYS {
        let value = [1_u32.to_be_bytes(), key.to_be_bytes()].concat();
        assert_eq!(kv.get(key.to_be_bytes()).unwrap().as_deref(), Some(&value[..]));
    }
    assert_eq!(kv.count().unwrap(), u64::from(KEYS));
}

/// The first compaction does not go on before a second has begun, or much time has passed.
#[test]
fn a_full_compaction_works_on_several_trees_at_the_same_time() {
    let met = Arc::new((Mutex::new(0), Condvar::new(), AtomicBool::new(false)));
    let listener = {
        let met = Arc::clone(&met);
        move |event: &Event| {
            let (begun, changed, armed) = &*met;
            if matches!(event, Event::CompactionStarted { .. }) && armed.load(Ordering::SeqCst) {
                let mut begun = begun.lock().unwrap();
                *begun += 1;
                changed.notify_all();
                let long = Duration::from_secs(20);
                let (_begun, late) =
                    changed.wait_timeout_while(begun, long, |begun| *begun < 2).unwrap();
                assert!(!late.timed_out(), "no other thread began with a tree");
            }
        }
    };
    let world = World::new(1);
    let environment = world.environment_with_threads();
    let builder = Database::builder(World::dir()).options(small()).environment(environment);
    let db = builder.listener(listener).open().unwrap();
    let kv = filled(&db);
    met.2.store(true, Ordering::SeqCst);
    db.compact().unwrap();
    check(&kv);
    let levels = &db.stats().keyspaces[0].levels;
    assert_eq!(levels.len(), 1, "{levels:?}");
}

#[test]
fn a_full_compaction_that_fails_in_any_tree_says_so_and_can_be_asked_for_again() {
    for nth in 1..6 {
        let world = World::new(nth);
        let environment = world.environment_with_threads();
        let builder = Database::builder(World::dir()).options(small()).environment(environment);
        let db = builder.open().unwrap();
        let kv = filled(&db);
        let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create]).nth(nth);
        world.disk.inject(full);
        let failed = db.compact().err().map(|error| error.kind());
        // Four trees make a file each.
        assert_eq!(failed, (nth <= 4).then_some(ErrorKind::OutOfSpace), "{nth}");
        world.disk.heal();
        check(&kv);
        db.compact().unwrap();
        check(&kv);
        db.close().unwrap();
    }
}

/// A table with deleted ranges on both sides of one that stays reached over it, and no open to come
/// took the edit.
#[test]
fn deleted_ranges_around_a_table_that_stays_are_written_apart() {
    let (world, options) = (World::new(3), small());
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    for key in ["m", "n", "o", "p"] {
        kv.put(key, key).unwrap();
    }
    session.db.compact().unwrap();
    let snapshot = session.db.snapshot();
    kv.delete_range(b"a".to_vec()..b"d".to_vec()).unwrap();
    session.db.flush().unwrap();
    kv.delete_range(b"r".to_vec()..b"w".to_vec()).unwrap();
    session.db.compact().unwrap();
    session.db.verify().unwrap();
    drop(snapshot);
    let again = open(&world.after_kill(1), &options);
    let kv = again.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let found: Vec<_> = kv.scan(..).map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(found, [b"m", b"n", b"o", b"p"]);
    again.db.compact().unwrap();
    assert_eq!(kv.count().unwrap(), 4);
}

#[test]
fn a_deleted_range_gives_its_room_back_without_another_write() {
    let session = open(&World::new(4), &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    for n in 0..2000_u32 {
        kv.put(n.to_be_bytes(), [n as u8; 500]).unwrap();
    }
    session.db.compact().unwrap();
    let bytes = || {
        let levels = &session.db.stats().keyspaces[0].levels;
        levels.iter().map(|level| level.bytes).sum::<u64>()
    };
    assert!(bytes() > 10_000);
    kv.delete_range(vec![0]..vec![255]).unwrap();
    session.db.flush().unwrap();
    session.settle();
    assert_eq!(bytes(), 0);
}
