//! Tests of the transaction's commit.

use super::{Isolation, Transaction};
use crate::commit::{Effect, RecentWrite, number_tables};
use crate::testing::{self, Builder};
use crate::{Durability, Engine, Environment, ErrorKind, Keyspace, KeyspaceOptions, Routing};
use flagstone_base::{Kind, Result};
use flagstone_env::names::FileKind;
use flagstone_env::{
    Failure, Fault, FaultDisk, ManualClock, MemDisk, Op, SeededRandom, StepExecutor,
};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// It was taken for the delete of the key at which the range begins.
#[test]
fn a_deleted_range_is_no_write_of_one_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = testing::open(dir.path()).unwrap();
    let kv = db.keyspace("kv").unwrap();
    let mut transaction = db.begin(Isolation::Snapshot).unwrap();
    let refused = transaction.write(kv.core(), Kind::RangeDelete, b"a", b"b").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(transaction.is_empty());
}

/// The only transaction that watched was forgotten, so its commit took the reads for unwatched.
#[test]
fn a_transaction_that_is_forgotten_while_it_waits_for_its_keys_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = testing::open(dir.path()).unwrap();
    let kv = db.keyspace("kv").unwrap();
    let parts = kv.handle().parts();
    let mut transaction = db.begin(Isolation::Serializable).unwrap();
    assert_eq!(transaction.get(kv.core(), b"x").unwrap(), None);
    transaction.write(kv.core(), Effect::put(None), b"y", b"1").unwrap();
    let held = parts.commits.stripes.hold_to_update(kv.core(), kv.core().hash(b"y"));
    std::thread::scope(|scope| {
        let commit =
            scope.spawn(|| db.start_transaction(transaction, Durability::Buffered).map(drop));
        // Long enough for it to check its reads and wait for the key.
        std::thread::sleep(Duration::from_millis(50));
        let key = vec![b'k'; 64 << 10];
        let write = RecentWrite { keyspace: kv.core().id, key: &key, end: None };
        let last = parts.core.history.visible();
        drop(parts.commits.recent.note(last.plus(1), std::iter::repeat_n(write, 1 << 12)));
        assert!(!parts.commits.recent.is_watched());
        drop(held);
        let refused = commit.join().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("open for too long"), "{refused}");
    });
    assert_eq!(kv.get("y").unwrap(), None);
}

fn put(transaction: &mut Transaction, kv: &Keyspace, key: &str) {
    transaction.write(kv.core(), Effect::put(None), key.as_bytes(), b"1").unwrap();
}

fn commit(db: &Engine, transaction: Transaction) -> Result<()> {
    db.start_transaction(transaction, Durability::Buffered).map(drop)
}

/// A transaction that inserted keys conflicted with every flush that had dropped something.
#[test]
fn an_insert_does_not_conflict_with_flushes_and_compactions() {
    let dir = tempfile::tempdir().unwrap();
    let db = testing::open(dir.path()).unwrap();
    let options = KeyspaceOptions::new().routing(Routing::Hash(1));
    let kv = db.keyspace_with("kv", options).unwrap();
    kv.put("deleted", "1").unwrap();
    db.flush().unwrap();
    kv.delete("deleted").unwrap();
    let mut transaction = db.begin(Isolation::Snapshot).unwrap();
    for value in ["1", "2"] {
        kv.put("other", value).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    let watermark = kv.core().trees().iter().map(|tree| tree.view().watermark()).max();
    assert!(watermark > Some(transaction.seqno()));
    put(&mut transaction, &kv, "new");
    put(&mut transaction, &kv, "deleted");
    commit(&db, transaction).unwrap();
    assert_eq!(kv.count().unwrap(), 3);
}

/// The key is absent as it was before, and everything that was written is compacted away. But
/// the transaction may have read what the same commits wrote elsewhere.
#[test]
fn a_key_that_came_and_went_meanwhile_is_a_conflict_after_compactions() {
    let dir = tempfile::tempdir().unwrap();
    let db = testing::open(dir.path()).unwrap();
    let kv = db.keyspace("kv").unwrap();
    let mut transaction = db.begin(Isolation::Snapshot).unwrap();
    kv.put("k", "1").unwrap();
    kv.delete("k").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert!(kv.core().trees().iter().all(|tree| !tree.has_tables()));
    put(&mut transaction, &kv, "k");
    let refused = commit(&db, transaction).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

#[test]
fn the_check_of_a_commit_reads_no_table_that_is_older_than_its_snapshot() {
    let disk = FaultDisk::new(Arc::new(MemDisk::default()));
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(ManualClock::default()),
        random: Arc::new(SeededRandom::new(1)),
        executor: Some(Arc::new(StepExecutor::default())),
    };
    let db = Builder::at("db").environment(environment).open().unwrap();
    let kv = db.keyspace("kv").unwrap();
    for n in 0..1000_u32 {
        kv.put(n.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    let mut transaction = db.begin(Isolation::Snapshot).unwrap();
    for n in [5_u32, 900, 2000] {
        let key = n.to_be_bytes();
        transaction.write(kv.core(), Effect::put(None), &key, b"1").unwrap();
    }
    let fault = Fault::new(flagstone_env::Effect::Fail(Failure::Io)).on(&[Op::Read]);
    disk.inject(fault.of(FileKind::Table).forever());
    kv.get(500_u32.to_be_bytes()).unwrap_err();
    commit(&db, transaction).unwrap();
}

/// A commit that waited long for its keys checked all that came meanwhile under the numbering
/// lock.
#[test]
fn what_was_committed_while_a_transaction_waits_for_keys_is_checked_before_the_numbering_lock() {
    let dir = tempfile::tempdir().unwrap();
    let db = testing::open(dir.path()).unwrap();
    let kv = db.keyspace("kv").unwrap();
    let parts = kv.handle().parts();
    let mut transaction = db.begin(Isolation::Serializable).unwrap();
    assert_eq!(transaction.get(kv.core(), b"x").unwrap(), None);
    put(&mut transaction, &kv, "y");
    let held = parts.commits.stripes.hold_to_update(kv.core(), kv.core().hash(b"y"));
    let (ended, end) = mpsc::channel();
    std::thread::scope(|scope| {
        let db = &db;
        scope.spawn(move || ended.send(commit(db, transaction)));
        // Long enough for it to check its reads and wait for the key.
        std::thread::sleep(Duration::from_millis(50));
        kv.put("x", "1").unwrap();
        let numbering = parts.core.history.numbering.lock();
        drop(held);
        let refused = end.recv_timeout(Duration::from_secs(20));
        drop(numbering);
        assert_eq!(refused.unwrap().unwrap_err().kind(), ErrorKind::Conflict);
    });
}

#[test]
fn a_transaction_that_begins_beside_another_waits_for_no_commit_and_misses_none() {
    let dir = tempfile::tempdir().unwrap();
    let db = testing::open(dir.path()).unwrap();
    let kv = db.keyspace("kv").unwrap();
    let commits = &kv.handle().parts().commits;
    let first = db.begin(Isolation::Serializable).unwrap();
    let span = (&b"x"[..], &b"y"[..]);
    let (_seqno, under_way) = number_tables(commits, kv.core(), Some(span)).unwrap().unwrap();
    let (begun, begin) = mpsc::channel();
    std::thread::scope(|scope| {
        let db = &db;
        scope.spawn(move || drop(begun.send(db.begin(Isolation::Serializable))));
        let second = begin.recv_timeout(Duration::from_secs(20));
        under_way.publish();
        let mut second = second.unwrap().unwrap();
        assert_eq!(second.get(kv.core(), b"x").unwrap(), None);
        put(&mut second, &kv, "z");
        drop(first);
        assert_eq!(commit(db, second).unwrap_err().kind(), ErrorKind::Conflict);
    });
}
