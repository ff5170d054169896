//! The commit path of a whole database: publication in order, updates and range deletes, close.

use crate::explore::{self, explore};
use flagstone::changes::{ChangeRetention, ChangesFrom, Happened};
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::{
    Database, Durability, ErrorKind, Expect, Keyspace, KeyspaceOptions, Options, Plain, Routing,
    Space, Typed,
};
use flagstone_testkit::World;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) fn options(durability: Durability) -> Options {
    Options::new().memory_budget(1 << 20).compaction_workers(1).durability(durability)
}

pub(crate) fn hashed(partitions: u16) -> KeyspaceOptions {
    KeyspaceOptions::new().routing(Routing::Hash(partitions))
}

fn open(world: &World, durability: Durability) -> (Database, Keyspace) {
    let db = explore::open(world, options(durability));
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    (db, kv)
}

/// A snapshot holds of each writer the first n puts, and no older snapshot holds more.
#[test]
fn commits_become_visible_in_the_order_of_their_numbers() {
    explore("commits_become_visible_in_the_order_of_their_numbers", || {
        let (db, kv) = open(&World::new(1), Durability::Buffered);
        let writers: Vec<_> = (0..2_u8)
            .map(|writer| {
                let kv = kv.clone();
                thread::spawn(move || {
                    for n in 0..3_u8 {
                        kv.put([writer, n], "x").unwrap();
                        assert!(kv.get([writer, n]).unwrap().is_some(), "own writes are seen");
                    }
                })
            })
            .collect();
        let reader = {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || {
                let mut seen = [0, 0];
                for _ in 0..3 {
                    let snapshot = db.snapshot();
                    for writer in 0..2_u8 {
                        let there = |n: u8| snapshot.get(&kv, [writer, n]).unwrap().is_some();
                        let count = (0..3).filter(|n| there(*n)).count();
                        assert!((0..count as u8).all(there), "a hole in the writes of {writer}");
                        assert!(count >= seen[usize::from(writer)], "a write went away");
                        seen[usize::from(writer)] = count;
                    }
                }
            })
        };
        writers.into_iter().chain([reader]).for_each(|thread| thread.join().unwrap());
        assert_eq!(kv.count().unwrap(), 6);
    });
}

/// Each update writes one more than it read, so what they wrote counts up from 1, and from 1 again
/// after the delete of the range. The last value holds no update that was done before the delete
/// began.
#[test]
fn no_update_is_lost_beside_a_delete_of_its_range() {
    explore("no_update_is_lost_beside_a_delete_of_its_range", || {
        let world = World::new(1);
        let db = explore::open(&world, options(Durability::Buffered));
        let typed = db.space("t").options(hashed(2)).typed_codec::<u64, u64, Plain>().unwrap();
        let done = Arc::new(AtomicU64::new(0));
        let counters: Vec<_> = (0..2)
            .map(|_| {
                let (typed, done) = (typed.clone(), Arc::clone(&done));
                thread::spawn(move || count_up(&typed, 3, &done))
            })
            .collect();
        let deletes = thread::spawn({
            let (typed, done) = (typed.clone(), Arc::clone(&done));
            move || {
                while done.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
                let before = done.load(Ordering::Relaxed);
                typed.keyspace().delete_range(..).unwrap();
                before
            }
        });
        let wrote = counters.into_iter().flat_map(|counter| counter.join().unwrap());
        let mut wrote: Vec<u64> = wrote.collect();
        let before = deletes.join().unwrap();
        let (last, all) = (typed.get(&1).unwrap().unwrap_or(0), wrote.len() as u64);
        assert!(last <= all - before, "{last} of {all}, and {before} were deleted");
        let mut expected: Vec<u64> = (1..=last).chain(1..=all - last).collect();
        wrote.sort_unstable();
        expected.sort_unstable();
        assert_eq!(wrote, expected, "the last value is {last}");
    });
}

fn count_up(typed: &Typed<u64, u64, Plain>, rounds: usize, done: &AtomicU64) -> Vec<u64> {
    let mut wrote = Vec::new();
    for _ in 0..rounds {
        let change = |old: Option<u64>| {
            wrote.push(old.unwrap_or(0) + 1);
            wrote.last().copied()
        };
        typed.update(&1, change).unwrap();
        done.fetch_add(1, Ordering::Relaxed);
    }
    wrote
}

/// Conditions of two batches on each other's keys: one of them is refused, or one saw the other.
#[test]
fn conditions_hold_when_their_batch_is_numbered() {
    explore("conditions_hold_when_their_batch_is_numbered", || {
        let (db, kv) = open(&World::new(1), Durability::Buffered);
        let commit = |db: Database, kv: Keyspace, absent: &'static str, put: &'static str| {
            thread::spawn(move || {
                let mut batch = db.batch();
                batch.expect(&kv, absent, Expect::Absent).unwrap();
                batch.put(&kv, put, "1").unwrap();
                match db.commit(batch) {
                    Ok(()) => true,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Conflict);
                        false
                    }
                }
            })
        };
        let one = commit(db.clone(), kv.clone(), "a", "b");
        let two = commit(db.clone(), kv.clone(), "b", "a");
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        assert!(one != two, "{one} {two}: exactly one of them came first");
        assert_eq!(kv.count().unwrap(), 1);
    });
}

/// What was acknowledged before a close that says Ok is there; after it every write is refused.
#[test]
fn a_close_keeps_what_was_acknowledged_and_refuses_the_rest() {
    explore("a_close_keeps_what_was_acknowledged_and_refuses_the_rest", || {
        let world = Arc::new(World::new(1));
        let (db, kv) = open(&world, Durability::None);
        let writers: Vec<_> = (0..2_u8)
            .map(|writer| {
                let kv = kv.clone();
                thread::spawn(move || {
                    for n in 0..3_u8 {
                        if let Err(error) = kv.put([writer, n], "x") {
                            assert_eq!(error.kind(), ErrorKind::Closed);
                            return n;
                        }
                    }
                    3
                })
            })
            .collect();
        db.clone().close().unwrap();
        let counts: Vec<u8> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        drop((db, kv));
        let after = world.after_power_cut(0);
        let (_db, kv) = open(&after, Durability::None);
        let wanted: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        assert_eq!(kv.count().unwrap(), wanted, "{counts:?} were acknowledged");
    });
}

/// A synced commit is there after a power cut, whatever runs beside it.
#[test]
fn a_group_commit_that_returns_survives_a_power_cut() {
    explore("a_group_commit_that_returns_survives_a_power_cut", || {
        let world = Arc::new(World::new(1));
        let (_db, kv) = open(&world, Durability::Group);
        let writers: Vec<_> = (0..3_u8)
            .map(|writer| {
                let (kv, world) = (kv.clone(), Arc::clone(&world));
                thread::spawn(move || {
                    kv.put([writer], "x").unwrap();
                    world.mem.crash_losing_unsynced()
                })
            })
            .collect();
        for (writer, thread) in writers.into_iter().enumerate() {
            let image = World::on(thread.join().unwrap(), 2);
            let (_db, kv) = open(&image, Durability::Group);
            assert!(kv.get([writer as u8]).unwrap().is_some(), "writer {writer}");
        }
    });
}

/// A drop told readers of changes of what had the name before it took its lock. Beside a renaming
/// that was another keyspace, which is still there, so they heard nothing of the one that is gone.
#[test]
fn a_drop_beside_a_renaming_tells_readers_of_what_it_drops() {
    explore("a_drop_beside_a_renaming_tells_readers_of_what_it_drops", || {
        let world = World::new(1);
        let keeps = ChangeRetention::bytes(1 << 20);
        let db = explore::open(&world, options(Durability::Buffered).change_retention(keeps));
        for name in ["first", "second"] {
            db.space(name).options(hashed(1)).keyspace().unwrap().put("k", name).unwrap();
        }
        let renamer = thread::spawn({
            let db = db.clone();
            move || {
                let is_first = db.rename_keyspace("first", "third").is_ok();
                if is_first {
                    db.rename_keyspace("second", "first").unwrap();
                }
            }
        });
        let is_dropped = db.drop_keyspace("first").unwrap();
        renamer.join().unwrap();
        db.sync().unwrap();
        // A keyspace that was renamed and then dropped may be told of under both names.
        let mut names = BTreeSet::from(["first".to_owned(), "second".to_owned()]);
        let mut is_told = false;
        for delivery in db.changes(ChangesFrom::Start).unwrap().map(Result::unwrap) {
            match delivery.happened {
                Happened::Renamed { from, to } => {
                    names.remove(&from);
                    names.insert(to);
                }
                Happened::Dropped { keyspace } => {
                    is_told = true;
                    names.remove(&keyspace);
                }
                _ => {}
            }
        }
        let there: BTreeSet<String> = db.keyspaces().into_iter().map(|info| info.name).collect();
        assert_eq!((names, is_told), (there, is_dropped));
    });
}
