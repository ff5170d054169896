//! What transactions refuse: too much, the wrong place, the wrong database, one that is gone.

use crate::support::{hashed, open, small};
use flagstone::admin::{Event, Listener};
use flagstone::internal::keys_written;
use flagstone::{
    Database, ErrorKind, Expect, Isolation, KeyspaceOptions, Plain, Result, Space, Transaction,
    TransactionOptions,
};
use flagstone_testkit::{World, dump};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

fn refused<T>(done: Result<T>, kind: ErrorKind, text: &str) {
    let Err(error) = done else { panic!("it is not refused: expected {text}") };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn more_than_a_batch_may_hold_is_refused_and_the_rest_stays() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let mut tx = session.db.begin().unwrap();
    let value = vec![7_u8; 100_000];
    tx.put(&kv, "a", &value).unwrap();
    tx.put(&kv, "b", &value).unwrap();
    let most = "expected at most 262144 (a quarter of the memory budget)";
    refused(tx.put(&kv, "c", &value), ErrorKind::InvalidInput, most);
    assert_eq!((keys_written(&tx), tx.get(&kv, "c").unwrap()), (2, None));
    // What replaces something takes its place.
    tx.put(&kv, "b", "short").unwrap();
    tx.put(&kv, "c", &value).unwrap();
    tx.delete(&kv, "a").unwrap();
    assert!(tx.bytes() < 101_000, "{}", tx.bytes());
    tx.commit().unwrap();
    assert_eq!(dump(&kv).unwrap().len(), 2);

    for n in 0..6000_u32 {
        kv.put([&[0; 16][..], &n.to_be_bytes()].concat(), "1").unwrap();
    }
    let mut tx = session.db.begin().unwrap();
    refused(tx.delete_range(&kv, ..), ErrorKind::InvalidInput, most);
    assert_eq!(keys_written(&tx), 0);
    refused(tx.put(&kv, "", "1"), ErrorKind::InvalidInput, "a key has 0 bytes");
    refused(tx.merge(&kv, "a", "1"), ErrorKind::InvalidInput, "has no fold");
    assert_eq!(keys_written(&tx), 0);
}

/// What a transaction expects counted in no limit, and any number of keys could be expected.
#[test]
fn what_is_expected_counts_as_writes_do() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let most = "expected at most 262144 (a quarter of the memory budget)";
    let mut tx = session.db.begin().unwrap();
    tx.put(&kv, "a", [7; 100]).unwrap();
    let mut expected = 0_u32;
    let error = loop {
        match tx.expect(&kv, expected.to_be_bytes(), Expect::Absent) {
            Ok(()) => expected += 1,
            Err(error) => break error,
        }
        assert!(expected < 1_000_000);
    };
    refused::<()>(Err(error), ErrorKind::InvalidInput, most);
    assert!(expected > 1000 && keys_written(&tx) == 1 && tx.bytes() > 250_000, "{expected}");
    refused(tx.put(&kv, "a", [7; 300]), ErrorKind::InvalidInput, most);
    tx.put(&kv, "a", "1").unwrap();
    tx.commit().unwrap();
    // The keys that are written are looked at, too: that is a part of the write.
    let mut tx = session.db.begin().unwrap();
    for n in 0..7000_u32 {
        tx.put(&kv, n.to_be_bytes(), "").unwrap();
    }
    assert!(tx.bytes() > 250_000);
    tx.commit().unwrap();
    // A serializable one reads them, which is bounded otherwise.
    let mut tx = TransactionOptions::new().isolation(Isolation::Serializable).begin(&session.db);
    let tx = tx.as_mut().unwrap();
    for n in 10_000..50_000_u32 {
        tx.expect(&kv, n.to_be_bytes(), Expect::Absent).unwrap();
    }
    assert_eq!(tx.bytes(), 0);
}

#[test]
fn a_write_past_the_transaction_is_refused_in_its_closure() {
    let world = World::new(1);
    let session = open(&world, &small());
    let db = &session.db;
    let kv = db.keyspace("kv").unwrap();
    let typed = db.space("typed").typed_codec::<u64, u64, Plain>().unwrap();
    kv.put("a", "1").unwrap();
    let past = |done: Result<()>| {
        refused(done, ErrorKind::InvalidInput, "inside the closure of a transaction");
    };
    let run = |isolation| {
        TransactionOptions::new().isolation(isolation).run(db, |tx| {
            past(kv.put("a", "2"));
            past(kv.delete_range("a".."b"));
            past(kv.clear());
            past(db.drop_keyspace("kv").map(drop));
            past(db.rename_keyspace("kv", "other").map(drop));
            past(db.alter_keyspace("kv", KeyspaceOptions::new()).map(drop));
            past(typed.update(&1, |_| Some(1)).map(drop));
            let mut batch = db.batch();
            batch.put(&kv, "a", "2")?;
            past(db.commit(batch));
            past(db.transaction(|tx| tx.put(&kv, "a", "2")));
            let mut other = db.begin()?;
            other.put(&kv, "a", "2")?;
            past(other.commit());
            assert!(kv.get("a")?.is_some() && db.snapshot().get(&kv, "a")?.is_some());
            tx.put(&kv, "b", "1")
        })
    };
    run(Isolation::Snapshot).unwrap();
    run(Isolation::Serializable).unwrap();
    kv.put("c", "1").unwrap();
    assert_eq!(dump(&kv).unwrap().len(), 3);
}

#[test]
fn the_closure_may_write_to_another_database() {
    let worlds = [World::new(1), World::new(2)];
    let [one, two] = worlds.each_ref().map(|world| open(world, &small()));
    let (kv, other) = (one.db.keyspace("kv").unwrap(), two.db.keyspace("kv").unwrap());
    one.db
        .transaction(|tx| {
            other.put("a", "1")?;
            two.db.transaction(|inner| inner.put(&other, "b", "1"))?;
            tx.put(&kv, "a", "1")
        })
        .unwrap();
    assert_eq!((dump(&kv).unwrap().len(), dump(&other).unwrap().len()), (1, 2));
}

#[test]
fn a_panic_in_the_closure_writes_nothing_and_leaves_no_trace() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let options = TransactionOptions::new().isolation(isolation);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            options.run(&session.db, |tx| -> Result<()> {
                tx.put(&kv, "a", "1")?;
                panic!("in the closure");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(kv.get("a").unwrap(), None);
    }
    kv.put("b", "1").unwrap();
    session.db.transaction(|tx| tx.put(&kv, "c", "1")).unwrap();
}

#[test]
fn a_transaction_in_the_closure_of_an_update_is_refused() {
    let world = World::new(1);
    let session = open(&world, &small());
    let typed = session.db.space("typed").typed_codec::<u64, u64, Plain>().unwrap();
    let change = |_old: Option<u64>| {
        let text = "inside the closure of an update";
        refused(session.db.transaction(|_| Ok(())), ErrorKind::InvalidInput, text);
        let mut tx = session.db.begin().unwrap();
        tx.put(&typed, &2, &1).unwrap();
        refused(tx.commit(), ErrorKind::InvalidInput, text);
        Some(1)
    };
    typed.update(&1, change).unwrap();
    assert_eq!((typed.get(&1).unwrap(), typed.get(&2).unwrap()), (Some(1), None));
}

/// Begins transactions when it hears of a flush.
struct Beginner(Arc<Mutex<Option<Database>>>);

impl Listener for Beginner {
    fn event(&self, event: &Event) {
        if !matches!(event, Event::FlushFinished { .. }) {
            return;
        }
        let Some(db) = self.0.lock().unwrap().take() else { return };
        let text = "of the same database would wait for itself";
        refused(db.transaction(|_| Ok(())), ErrorKind::InvalidInput, text);
        let options = TransactionOptions::new().isolation(Isolation::Serializable);
        refused(options.begin(&db), ErrorKind::InvalidInput, text);
        db.begin().unwrap().commit().unwrap();
    }
}

#[test]
fn a_listener_may_read_in_a_transaction_and_no_more() {
    let world = World::new(1);
    let place = Arc::new(Mutex::new(None));
    let db = Database::builder(World::dir())
        .options(small())
        .environment(world.environment().0)
        .listener(Beginner(Arc::clone(&place)))
        .open()
        .unwrap();
    db.keyspace("kv").unwrap().put("a", "1").unwrap();
    *place.lock().unwrap() = Some(db.clone());
    db.flush().unwrap();
    assert!(place.lock().unwrap().is_none(), "it was called");
    db.close().unwrap();
}

#[test]
fn a_dropped_keyspace_refuses_the_write_and_the_commit() {
    let world = World::new(1);
    let session = open(&world, &small());
    let (kept, gone) = (session.db.keyspace("kept").unwrap(), session.db.keyspace("gone").unwrap());
    gone.put("b", "1").unwrap();
    let mut tx = session.db.begin().unwrap();
    tx.put(&kept, "a", "1").unwrap();
    tx.put(&gone, "a", "1").unwrap();
    session.db.drop_keyspace("gone").unwrap();
    let text = "keyspace \"gone\" was dropped";
    refused(tx.put(&gone, "b", "1"), ErrorKind::InvalidInput, text);
    refused(tx.delete_range(&gone, ..), ErrorKind::InvalidInput, text);
    refused(tx.get(&gone, "b"), ErrorKind::InvalidInput, text);
    let entries: Result<Vec<_>> = tx.scan(&gone, ..).collect();
    refused(entries, ErrorKind::InvalidInput, text);
    refused(tx.commit(), ErrorKind::InvalidInput, text);
    assert_eq!(kept.get("a").unwrap(), None);
}

#[test]
fn a_closed_database_refuses_the_begin_the_reads_and_the_commit() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let begin = |isolation| TransactionOptions::new().isolation(isolation).begin(&session.db);
    let both = [Isolation::Snapshot, Isolation::Serializable];
    let mut open: Vec<Transaction> = both.map(|isolation| begin(isolation).unwrap()).into();
    open.iter_mut().for_each(|tx| tx.put(&kv, "a", "1").unwrap());
    open.push(begin(Isolation::Snapshot).unwrap());
    session.db.clone().close().unwrap();
    for tx in open {
        refused(tx.get(&kv, "b"), ErrorKind::Closed, "closed");
        refused(tx.commit(), ErrorKind::Closed, "closed");
    }
    for isolation in both {
        refused(begin(isolation), ErrorKind::Closed, "closed");
    }
    refused(session.db.transaction(|_| Ok(())), ErrorKind::Closed, "closed");
}

#[test]
fn a_keyspace_of_another_database_is_refused() {
    let worlds = [World::new(1), World::new(2)];
    let [one, two] = worlds.each_ref().map(|world| open(world, &small()));
    let kv = two.db.keyspace("kv").unwrap();
    kv.put("a", "1").unwrap();
    let mut tx = one.db.begin().unwrap();
    let text = "a handle of";
    refused(tx.get(&kv, "a"), ErrorKind::InvalidInput, text);
    refused(tx.scan(&kv, ..).next().unwrap(), ErrorKind::InvalidInput, text);
    refused(tx.put(&kv, "a", "1"), ErrorKind::InvalidInput, text);
    refused(tx.delete_range(&kv, ..), ErrorKind::InvalidInput, text);
    assert_eq!(keys_written(&tx), 0);
}

#[test]
fn a_database_that_is_open_for_reading_only_refuses_the_commit_of_writes() {
    let world = World::new(1);
    let session = open(&world, &small());
    session.db.keyspace("kv").unwrap().put("a", "1").unwrap();
    session.db.clone().close().unwrap();
    drop(session);
    let session = world.open_read_only(&small()).unwrap();
    let kv = session.db.keyspace("kv").unwrap();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let options = TransactionOptions::new().isolation(isolation);
        assert!(options.run(&session.db, |tx| tx.get(&kv, "a")).unwrap().is_some());
        let written = options.run(&session.db, |tx| tx.put(&kv, "a", "2"));
        refused(written, ErrorKind::InvalidInput, "open for reading only");
    }
}
