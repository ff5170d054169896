//! Serializable transactions: nothing that was read may have been written meanwhile.

use crate::support::{hashed, open, small};
use flagstone::{
    Database, ErrorKind, Isolation, Keyspace, Prefix, Result, Space, Transaction,
    TransactionOptions,
};
use flagstone_testkit::{Session, World, dump};

fn begin(db: &Database) -> Transaction {
    let options = TransactionOptions::new().isolation(Isolation::Serializable);
    options.begin(db).unwrap()
}

fn keyspace(world: &World) -> (Session, Keyspace) {
    let session = open(world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    for key in ["b", "d", "f"] {
        kv.put(key, "1").unwrap();
    }
    (session, kv)
}

/// Commits a transaction that has read something, after `meanwhile`. Returns whether it is refused.
fn is_refused(
    read: impl Fn(&mut Transaction, &Keyspace) -> Result<()>,
    meanwhile: impl Fn(&Database, &Keyspace) -> Result<()>,
) -> bool {
    let (session, kv) = keyspace(&World::new(1));
    let mut tx = begin(&session.db);
    read(&mut tx, &kv).unwrap();
    tx.put(&kv, "result", "1").unwrap();
    meanwhile(&session.db, &kv).unwrap();
    match tx.commit() {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(
                error.to_string().contains("a serializable transaction had read it"),
                "{error}"
            );
            assert_eq!(kv.get("result").unwrap(), None);
            true
        }
    }
}

fn scan_all(tx: &mut Transaction, kv: &Keyspace) -> Result<()> {
    tx.scan(kv, ..).try_for_each(|entry| entry.map(|_| ()))
}

#[test]
fn a_read_of_what_is_written_meanwhile_is_refused() {
    let read = |tx: &mut Transaction, kv: &Keyspace| tx.get(kv, "b").map(|_| ());
    assert!(is_refused(read, |_, kv| kv.put("b", "2")));
    assert!(is_refused(read, |_, kv| kv.delete("b")));
    assert!(is_refused(read, |_, kv| kv.delete_range("a".."c")));
    assert!(is_refused(read, |_, kv| kv.clear()));
    assert!(is_refused(read, |db, kv| db.transaction(|tx| tx.put(kv, "b", "2"))));
    assert!(!is_refused(read, |_, kv| kv.put("d", "2")));
    assert!(!is_refused(read, |_, kv| kv.delete_range("c".."e")));
    assert!(!is_refused(read, |db, _| db.keyspace("other")?.put("b", "2")));
    let many = |tx: &mut Transaction, kv: &Keyspace| {
        ["b", "x"].into_iter().try_for_each(|key| tx.get(kv, key).map(|_| ()))
    };
    assert!(is_refused(many, |_, kv| kv.put("x", "2")), "an absent key was read, too");
}

#[test]
fn a_phantom_is_refused() {
    assert!(is_refused(scan_all, |_, kv| kv.put("c", "new")));
    assert!(is_refused(scan_all, |_, kv| kv.put("zz", "new")));
    let part = |tx: &mut Transaction, kv: &Keyspace| {
        tx.scan(kv, "b".."d").try_for_each(|entry| entry.map(|_| ()))
    };
    assert!(is_refused(part, |_, kv| kv.put("c", "new")));
    assert!(!is_refused(part, |_, kv| kv.put("d", "new")));
    let prefix = |tx: &mut Transaction, kv: &Keyspace| {
        tx.scan(kv, Prefix("d")).try_for_each(|entry| entry.map(|_| ()))
    };
    assert!(is_refused(prefix, |_, kv| kv.put("d2", "new")));
    assert!(!is_refused(prefix, |_, kv| kv.put("e", "new")));
    let deleted = |tx: &mut Transaction, kv: &Keyspace| tx.delete_range(kv, "c".."g");
    assert!(is_refused(deleted, |_, kv| kv.put("e", "new")), "it is not deleted");
}

#[test]
fn a_scan_that_stops_early_has_read_no_more_than_it_saw() {
    let first = |tx: &mut Transaction, kv: &Keyspace| {
        assert_eq!(tx.scan(kv, ..).next().unwrap()?.0, b"b");
        Ok(())
    };
    assert!(is_refused(first, |_, kv| kv.put("a", "new")));
    assert!(!is_refused(first, |_, kv| kv.put("c", "new")));
    let last = |tx: &mut Transaction, kv: &Keyspace| {
        assert_eq!(tx.scan(kv, ..).rev().next().unwrap()?.0, b"f");
        Ok(())
    };
    assert!(is_refused(last, |_, kv| kv.put("g", "new")));
    assert!(!is_refused(last, |_, kv| kv.put("e", "new")));
    let none = |tx: &mut Transaction, kv: &Keyspace| {
        drop(tx.scan(kv, ..));
        Ok(())
    };
    assert!(!is_refused(none, |_, kv| kv.put("b", "new")));
    let forgotten = |tx: &mut Transaction, kv: &Keyspace| {
        std::mem::forget(tx.scan(kv, ..));
        Ok(())
    };
    assert!(is_refused(forgotten, |_, kv| kv.put("b", "new")), "nobody knows how far it went");
}

#[test]
fn write_skew_is_refused() {
    let (session, kv) = keyspace(&World::new(1));
    let (mut a, mut b) = (begin(&session.db), begin(&session.db));
    assert!(a.get(&kv, "b").unwrap().is_some() && b.get(&kv, "d").unwrap().is_some());
    a.delete(&kv, "d").unwrap();
    b.delete(&kv, "b").unwrap();
    a.commit().unwrap();
    assert_eq!(b.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(kv.get("b").unwrap().is_some());
}

#[test]
fn writes_without_reads_do_not_conflict() {
    let (session, kv) = keyspace(&World::new(1));
    let (mut a, mut b) = (begin(&session.db), begin(&session.db));
    a.put(&kv, "b", "a").unwrap();
    b.put(&kv, "b", "b").unwrap();
    assert!(b.get(&kv, "b").unwrap().is_some(), "its own write is no read of others");
    a.commit().unwrap();
    b.commit().unwrap();
    assert_eq!(kv.get("b").unwrap().as_deref(), Some(&b"b"[..]));
}

#[test]
fn what_was_committed_before_the_begin_is_no_conflict() {
    let (session, kv) = keyspace(&World::new(1));
    let keeps_open = begin(&session.db);
    kv.put("b", "2").unwrap();
    let mut tx = begin(&session.db);
    assert_eq!(tx.get(&kv, "b").unwrap().as_deref(), Some(&b"2"[..]));
    tx.put(&kv, "d", "2").unwrap();
    tx.commit().unwrap();
    assert_eq!(keeps_open.get(&kv, "b").unwrap().as_deref(), Some(&b"1"[..]));
    keeps_open.commit().unwrap();
}

#[test]
fn a_transaction_that_was_open_for_too_many_writes_is_refused() {
    let (session, kv) = keyspace(&World::new(1));
    let (mut tx, reader) = (begin(&session.db), begin(&session.db));
    for tx in [&tx, &reader] {
        assert!(tx.get(&kv, "b").unwrap().is_some());
    }
    tx.put(&kv, "result", "1").unwrap();
    for n in 0..6000_u32 {
        kv.put([b"other ".as_slice(), &[0; 100], &n.to_be_bytes()].concat(), "1").unwrap();
    }
    let error = tx.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("open for too long"), "{error}");
    reader.commit().unwrap();
    let mut next = begin(&session.db);
    assert!(next.get(&kv, "b").unwrap().is_some());
    next.put(&kv, "result", "1").unwrap();
    next.commit().unwrap();
}

#[test]
fn one_batch_of_too_many_keys_refuses_the_open_transactions() {
    let world = World::new(1);
    let session = open(&world, &small().memory_budget(8 << 20));
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let mut tx = begin(&session.db);
    assert!(tx.get(&kv, "b").unwrap().is_none());
    tx.put(&kv, "result", "1").unwrap();
    let mut batch = session.db.batch();
    for n in 0..4000_u32 {
        batch.put(&kv, [&[7; 100][..], &n.to_be_bytes()].concat(), "1").unwrap();
    }
    session.db.commit(batch).unwrap();
    assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_closure_is_tried_again_until_nothing_comes_between() {
    let (session, kv) = keyspace(&World::new(1));
    let mut tries = 0;
    let options = TransactionOptions::new().isolation(Isolation::Serializable);
    let count = options.run(&session.db, |tx| -> Result<usize> {
        tries += 1;
        let count = tx.scan(&kv, ..).count();
        if tries < 3 {
            let key = format!("new {tries}");
            std::thread::scope(|scope| scope.spawn(|| kv.put(key, "1")).join().unwrap())?;
        }
        tx.put(&kv, "count", count.to_string())?;
        Ok(count)
    });
    assert_eq!((count.unwrap(), tries), (5, 3));
    assert_eq!(dump(&kv).unwrap()[&b"count"[..]], b"5");
}
