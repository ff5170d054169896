//! Snapshot isolation: one snapshot, own writes, the first to commit wins, retries.

use crate::support::{folding, hashed, number, open, owned, small, small_with, threaded};
use flagstone::admin::Environment;
use flagstone::internal::keys_written;
use flagstone::{
    Database, Durability, ErrorKind, Keyspace, Result, Space, Transaction, TransactionOptions,
};
use flagstone_env::{Executor, Random, SeededRandom};
use flagstone_testkit::{World, dump};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn text(found: Option<flagstone::Slice>) -> Option<String> {
    owned(found).map(|bytes| String::from_utf8(bytes).unwrap())
}

fn is_conflict(done: Result<()>) -> bool {
    match done {
        Ok(()) => false,
        Err(error) if error.kind() == ErrorKind::Conflict => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_transaction_happens_as_a_whole_or_not_at_all() {
    let world = World::new(1);
    let session = open(&world, &small());
    let (a, b) = (session.db.keyspace("a").unwrap(), session.db.keyspace("b").unwrap());
    a.put("gone", "1").unwrap();
    let write = |tx: &mut Transaction| {
        tx.put(&a, "k", "1")?;
        tx.put(&b, "k", "2")?;
        tx.delete(&a, "gone")
    };
    let failed: Result<()> = session.db.transaction(|tx| {
        write(tx)?;
        assert_eq!(keys_written(tx), 3);
        Err(flagstone::Error::invalid("not today"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "not today");
    let mut dropped = session.db.begin().unwrap();
    write(&mut dropped).unwrap();
    drop(dropped);
    assert_eq!((dump(&a).unwrap().len(), dump(&b).unwrap().len()), (1, 0));

    let before = session.db.snapshot();
    let returned = session.db.transaction(|tx| -> Result<i32> {
        write(tx)?;
        assert_eq!(a.get("k").unwrap(), None, "others see nothing of it yet");
        Ok(7)
    });
    assert_eq!(returned.unwrap(), 7);
    assert_eq!(
        (text(a.get("k").unwrap()), text(b.get("k").unwrap())),
        (Some("1".into()), Some("2".into()))
    );
    assert_eq!(a.get("gone").unwrap(), None);
    assert_eq!(before.get(&b, "k").unwrap(), None);
}

#[test]
fn reads_are_of_one_snapshot_and_see_own_writes() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(3, "append/1")).keyspace().unwrap();
    for key in ["a", "b", "c", "d"] {
        kv.put(key, "old").unwrap();
    }
    let mut tx = session.db.begin().unwrap();
    for key in ["a", "b", "e"] {
        kv.put(key, "later").unwrap();
    }
    kv.delete("c").unwrap();
    session.db.compact().unwrap();
    tx.put(&kv, "b", "own").unwrap();
    tx.delete(&kv, "d").unwrap();
    tx.merge(&kv, "b", "+1").unwrap();
    tx.merge(&kv, "c", "+2").unwrap();
    tx.merge(&kv, "c", "+3").unwrap();
    tx.merge(&kv, "d", "+4").unwrap();
    tx.merge(&kv, "f", "+5").unwrap();
    let expected = [Some("old"), Some("own+1"), Some("old+2+3"), Some("+4"), None, Some("+5")];
    let keys = ["a", "b", "c", "d", "e", "f"];
    for (key, expected) in keys.iter().zip(expected) {
        assert_eq!(text(tx.get(&kv, key).unwrap()).as_deref(), expected, "{key}");
    }
}

#[test]
fn of_two_that_write_one_key_the_first_to_commit_wins() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(2, "add-i64/1")).keyspace().unwrap();
    let one = 1_i64.to_le_bytes();
    type Write = fn(&mut Transaction, &Keyspace) -> Result<()>;
    let writes: [(&str, Write); 4] = [
        ("put", |tx, kv| tx.put(kv, "k", 1_i64.to_le_bytes())),
        ("delete", |tx, kv| tx.delete(kv, "k")),
        ("merge", |tx, kv| tx.merge(kv, "k", 1_i64.to_le_bytes())),
        ("delete_range", |tx, kv| tx.delete_range(kv, "a".."z")),
    ];
    for (first_name, first) in writes {
        for (second_name, second) in writes {
            kv.put("k", one).unwrap();
            let (mut a, mut b) = (session.db.begin().unwrap(), session.db.begin().unwrap());
            first(&mut a, &kv).unwrap();
            second(&mut b, &kv).unwrap();
            b.commit().unwrap();
            assert!(is_conflict(a.commit()), "{first_name} after {second_name}");
        }
    }
    // A key that nobody else has written is no conflict, whatever else happened.
    let mut tx = session.db.begin().unwrap();
    tx.put(&kv, "other", one).unwrap();
    kv.put("k", one).unwrap();
    tx.commit().unwrap();
    // An ordinary write counts as another commit.
    let mut tx = session.db.begin().unwrap();
    tx.merge(&kv, "k", one).unwrap();
    kv.delete_range("a".."z").unwrap();
    assert!(is_conflict(tx.commit()));
}

#[test]
fn an_update_that_would_be_lost_is_tried_again() {
    let world = World::new(1);
    let db = threaded(&world, small());
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    let add = |tx: &mut Transaction| -> Result<i64> {
        let next = number(tx.get(&kv, "n")?) + 1;
        tx.put(&kv, "n", next.to_le_bytes())?;
        Ok(next)
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let options = TransactionOptions::new().retries(100_000);
                    options.run(&db, add).unwrap();
                }
            });
        }
    });
    assert_eq!(number(kv.get("n").unwrap()), 400);
}

#[test]
fn retries_end_at_their_limit_with_the_conflict() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let tries = AtomicU32::new(0);
    let contended = |stop_after: u32, retries: u32| {
        tries.store(0, Ordering::Relaxed);
        let options = TransactionOptions::new().retries(retries);
        options.run(&session.db, |tx| -> Result<_> {
            let this = tries.fetch_add(1, Ordering::Relaxed);
            tx.put(&kv, "k", "mine")?;
            if this < stop_after {
                // Another thread may write.
                std::thread::scope(|scope| scope.spawn(|| kv.put("k", "theirs")).join().unwrap())?;
            }
            Ok(this)
        })
    };
    assert_eq!(contended(2, 2).unwrap(), 2);
    assert_eq!(text(kv.get("k").unwrap()).as_deref(), Some("mine"));
    let error = contended(u32::MAX, 2).unwrap_err();
    assert_eq!((error.kind(), tries.load(Ordering::Relaxed)), (ErrorKind::Conflict, 3));
    assert!(error.to_string().starts_with("a transaction, try 3: key k of"), "{error}");
    assert!(contended(1, 0).is_err());
    assert_eq!(tries.load(Ordering::Relaxed), 1);
    assert_eq!(text(kv.get("k").unwrap()).as_deref(), Some("theirs"));
}

/// Random numbers, counted: each pause takes one.
struct Counted(SeededRandom, AtomicU32);

impl Random for Counted {
    fn next_u64(&self) -> u64 {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.next_u64()
    }
}

/// Each try followed at once, and took the time of the others.
#[test]
fn retries_pause_for_a_random_time_after_three_conflicts_in_a_row() {
    let world = World::new(1);
    let random = Arc::new(Counted(SeededRandom::new(1), AtomicU32::new(0)));
    let (environment, steps) = world.environment();
    let environment = Environment { random: Arc::<Counted>::clone(&random), ..environment };
    let builder = Database::builder(World::dir()).options(small()).environment(environment);
    let db = builder.open().unwrap();
    let kv = db.keyspace("kv").unwrap();
    kv.put("k", "1").unwrap();
    // The files of the log that are made ahead take random numbers, too.
    while steps.assist() {}
    for (conflicts, pauses) in [(0, 0), (3, 0), (4, 1), (7, 4)] {
        let before = random.1.load(Ordering::Relaxed);
        let mut tries = 0;
        db.transaction(|tx| -> Result<()> {
            tx.put(&kv, "k", "mine")?;
            if tries < conflicts {
                std::thread::scope(|scope| scope.spawn(|| kv.put("k", "theirs")).join().unwrap())?;
            }
            tries += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(random.1.load(Ordering::Relaxed) - before, pauses, "{conflicts} conflicts");
    }
}

#[test]
fn write_skew_is_allowed_by_snapshot_isolation() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let (mut a, mut b) = (session.db.begin().unwrap(), session.db.begin().unwrap());
    assert_eq!((a.get(&kv, "x").unwrap(), b.get(&kv, "y").unwrap()), (None, None));
    a.put(&kv, "y", "1").unwrap();
    b.put(&kv, "x", "1").unwrap();
    a.commit().unwrap();
    b.commit().unwrap();
    assert_eq!(dump(&kv).unwrap().len(), 2);
}

#[test]
fn a_transaction_is_as_durable_as_it_asks_for() {
    for (durability, survives) in [(Durability::Group, true), (Durability::Buffered, false)] {
        let world = World::new(1);
        let session = open(&world, &small_with(Durability::Buffered));
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        let options = TransactionOptions::new().durability(durability);
        options.run(&session.db, |tx| tx.put(&kv, "k", "1")).unwrap();
        let after = World::on(world.mem.crash_losing_unsynced(), 1);
        let again = open(&after, &small());
        let kv = again.db.space("kv").options(hashed(1)).keyspace().unwrap();
        assert_eq!(kv.get("k").unwrap().is_some(), survives, "{durability:?}");
    }
}

#[test]
fn a_transaction_without_writes_writes_nothing_and_cannot_conflict() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let tx = session.db.begin().unwrap();
    assert_eq!(tx.get(&kv, "k").unwrap(), None);
    kv.put("k", "1").unwrap();
    let before = session.db.snapshot().version();
    tx.commit().unwrap();
    assert_eq!(session.db.snapshot().version(), before);
}

#[test]
fn a_transaction_may_go_to_another_thread() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let mut tx = session.db.begin().unwrap();
    tx.put(&kv, "k", "1").unwrap();
    std::thread::spawn(move || tx.commit()).join().unwrap().unwrap();
    assert!(kv.get("k").unwrap().is_some());
}

/// Handles of one database are clones; a transaction of one reads keyspaces of all.
#[test]
fn a_transaction_keeps_the_database_open() {
    let world = World::new(1);
    let db: Database = threaded(&world, small());
    let kv = db.keyspace("kv").unwrap();
    let mut tx = db.begin().unwrap();
    drop(db);
    tx.put(&kv, "k", "1").unwrap();
    drop(kv);
    tx.commit().unwrap();
    let kv = threaded(&world, small()).keyspace("kv").unwrap();
    assert!(kv.get("k").unwrap().is_some());
}
