//! Transactions at the same time: snapshots, conflicts, and the check of what was read.

use crate::commits::{hashed, options};
use crate::explore::{self, explore};
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::{Database, Durability, ErrorKind, Isolation, Keyspace, Space, TransactionOptions};
use flagstone_testkit::World;

fn open(world: &World) -> (Database, Keyspace) {
    let db = explore::open(world, options(Durability::Buffered));
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    (db, kv)
}

/// Each writes one key unless it sees the other one. A plain write goes on beside them.
#[test]
fn of_two_serializable_transactions_that_exclude_each_other_one_writes() {
    explore("of_two_serializable_transactions_that_exclude_each_other_one_writes", || {
        let world = World::new(1);
        let (db, kv) = open(&world);
        let exclude = |read: &'static str, write: &'static str| {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || {
                let options = TransactionOptions::new().isolation(Isolation::Serializable);
                let mut tx = options.begin(&db).unwrap();
                if tx.get(&kv, read).unwrap().is_none() {
                    tx.put(&kv, write, "1").unwrap();
                }
                if let Err(error) = tx.commit() {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                }
            })
        };
        let (one, two) = (exclude("x", "y"), exclude("y", "x"));
        kv.put("z", "1").unwrap();
        one.join().unwrap();
        two.join().unwrap();
        assert_eq!(kv.count().unwrap(), 2, "z, and either x or y");
    });
}

/// The second write of a pair is seen with the first, and no increment is lost.
#[test]
fn increments_in_transactions_are_all_counted() {
    explore("increments_in_transactions_are_all_counted", || {
        let world = World::new(1);
        let (db, kv) = open(&world);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (db, kv) = (db.clone(), kv.clone());
                thread::spawn(move || {
                    db.transaction(|tx| {
                        let read = |key: &str| -> flagstone::Result<u8> {
                            Ok(tx.get(&kv, key)?.map_or(0, |value| value[0]))
                        };
                        let (a, b) = (read("a")?, read("b")?);
                        assert_eq!(a, b);
                        tx.put(&kv, "a", [a + 1])?;
                        tx.put(&kv, "b", [b + 1])
                    })
                    .unwrap();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(kv.get("b").unwrap().unwrap(), [2_u8]);
    });
}

/// A put takes about this many steps of the scheduler.
const STEPS: usize = 120;

/// A write that was under way when the transaction began must be seen by it, or refuse it: whoever
/// has written it has not seen the transaction, so the transaction comes after it.
#[test]
fn what_a_serializable_transaction_has_not_seen_comes_after_it() {
    explore("what_a_serializable_transaction_has_not_seen_comes_after_it", || {
        let world = World::new(1);
        let (db, kv) = open(&world);
        let writer = thread::spawn({
            let kv = kv.clone();
            move || {
                kv.put("x", "1").unwrap();
                kv.get("y").unwrap().is_some()
            }
        });
        // About as many steps as the writer takes, so that the begin meets each of them.
        (0..STEPS).for_each(|_| thread::yield_now());
        let options = TransactionOptions::new().isolation(Isolation::Serializable);
        let mut tx = options.begin(&db).unwrap();
        let has_seen = tx.get(&kv, "x").unwrap().is_some();
        tx.put(&kv, "y", "1").unwrap();
        (0..STEPS).for_each(|_| thread::yield_now());
        let is_committed = tx.commit().is_ok();
        let was_seen = writer.join().unwrap();
        assert!(has_seen || was_seen || !is_committed, "neither has seen the other");
    });
}
