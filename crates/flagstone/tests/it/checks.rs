//! A bit flips in memory between the write call and the table: is it told, is nothing of it stored,
//! and is the rest right? With checks off the same flips go through, so the tests can fail.

use crate::support::{folding, hashed, number, owned, small_with};
use flagstone::{Durability, ErrorKind, Options, Result, Space};
use flagstone_base::flip::{EntryPart, Site, flip_next, flipped};
use flagstone_testkit::{Session, World};

const BOTH: [EntryPart; 2] = [EntryPart::Key, EntryPart::Value];

fn options(entry_checks: bool) -> Options {
    small_with(Durability::Buffered).entry_checks(entry_checks)
}

/// A database with the key `k` as `old` in a table, and neighbours.
fn opened(world: &World, options: &Options) -> (Session, flagstone::Keyspace) {
    let session = world.open(options).unwrap();
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    for n in 0..100 {
        kv.put(format!("n{n:02}"), [b'v'; 100]).unwrap();
    }
    kv.put("k", "old").unwrap();
    session.db.flush().unwrap();
    (session, kv)
}

/// After the process has died, with checks.
fn after_a_kill(world: &World) -> (Session, flagstone::Keyspace) {
    let session = world.after_kill(7).open(&options(true)).unwrap();
    let kv = session.db.keyspace("kv").unwrap();
    session.db.verify().unwrap();
    assert_eq!(kv.get("n42").unwrap().as_deref(), Some(&[b'v'; 100][..]));
    (session, kv)
}

#[track_caller]
fn refused<T>(done: Result<T>, parts: &[&str]) {
    let Err(error) = done else { panic!("expected to be refused") };
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}: expected {parts:?}");
}

#[test]
fn a_bit_that_flips_in_a_memtable_is_told_by_the_flush_and_the_log_has_the_right_one() {
    for part in BOTH {
        let world = World::new(1);
        let (session, kv) = opened(&world, &options(true));
        flip_next(Site::Memtable, part, b"k");
        kv.put("k", "new").unwrap();
        assert!(flipped());
        let parts = ["keyspace \"kv\", partition 0", "the log still has", "memory has changed"];
        refused(session.db.flush(), &parts);
        refused(session.db.close(), &parts);
        let (session, kv) = after_a_kill(&world);
        assert_eq!(kv.count().unwrap(), 101);
        assert_eq!(owned(kv.get("k").unwrap()).unwrap(), b"new");
        session.db.flush().unwrap();
        assert_eq!(owned(kv.get("k").unwrap()).unwrap(), b"new");
    }
}

#[test]
fn a_bit_that_flips_in_a_batch_refuses_the_commit_and_writes_nothing() {
    for part in BOTH {
        let world = World::new(2);
        let (session, kv) = opened(&world, &options(true));
        let mut batch = session.db.batch();
        batch.put(&kv, "other", "new").unwrap();
        flip_next(Site::Batch, part, b"k");
        batch.put(&kv, "k", "new").unwrap();
        assert!(flipped());
        refused(session.db.commit(batch), &["keyspace \"kv\"", "memory has changed"]);
        flip_next(Site::Batch, part, b"k");
        refused(kv.put("k", "new"), &["keyspace \"kv\""]);
        assert!(flipped());
        // Large enough for the log to share its bytes.
        flip_next(Site::Batch, part, b"k");
        refused(kv.put("k", vec![7; 100 << 10]), &["keyspace \"kv\"", "memory has changed"]);
        assert!(flipped());
        kv.put("next", "new").unwrap();
        session.db.flush().unwrap();
        let (_session, kv) = after_a_kill(&world);
        assert_eq!(kv.count().unwrap(), 102);
        assert_eq!(owned(kv.get("k").unwrap()).unwrap(), b"old");
    }
}

#[test]
fn a_bit_that_flips_in_a_compaction_fails_it_and_the_next_one_succeeds() {
    for part in BOTH {
        let world = World::new(3);
        let (session, kv) = opened(&world, &options(true));
        kv.put("n42", [b'v'; 100]).unwrap();
        session.db.flush().unwrap();
        flip_next(Site::Output, part, b"k");
        let done = session.db.compact();
        assert!(flipped());
        refused(done, &["keyspace \"kv\"", "memory has changed"]);
        assert_eq!(owned(kv.get("k").unwrap()).unwrap(), b"old");
        session.db.compact().unwrap();
        let (_session, kv) = after_a_kill(&world);
        assert_eq!(kv.count().unwrap(), 101);
        assert_eq!(owned(kv.get("k").unwrap()).unwrap(), b"old");
    }
}

/// A flip in a memtable stays; one on the way to the table does not, and the flush is tried again.
#[test]
fn a_bit_that_flips_in_a_flush_costs_one_attempt() {
    let world = World::new(4);
    let (session, kv) = opened(&world, &options(true));
    kv.put("k", "new").unwrap();
    flip_next(Site::Output, EntryPart::Value, b"k");
    let _first = session.db.flush();
    assert!(flipped());
    session.db.flush().unwrap();
    let (_session, kv) = after_a_kill(&world);
    assert_eq!(owned(kv.get("k").unwrap()).unwrap(), b"new");
}

/// What failed stays where it is: another keyspace is flushed and written.
#[test]
fn a_bit_that_flips_in_one_keyspace_does_not_stop_another() {
    let world = World::new(5);
    let (session, kv) = opened(&world, &options(true));
    let other = session.db.space("other").options(hashed(1)).keyspace().unwrap();
    flip_next(Site::Memtable, EntryPart::Value, b"k");
    kv.put("k", "new").unwrap();
    other.put("a", "1").unwrap();
    refused(session.db.flush(), &["keyspace \"kv\""]);
    let tables = |name: &str| {
        let stats = session.db.stats();
        let found = stats.keyspaces.iter().find(|keyspace| keyspace.info.name == name).unwrap();
        found.levels.iter().map(|level| level.entries).sum::<u64>()
    };
    assert_eq!((tables("other"), tables("kv")), (1, 101));
    other.put("b", "2").unwrap();
}

#[test]
fn what_is_folded_carries_a_check_of_its_own() {
    let world = World::new(6);
    let session = world.open(&options(true)).unwrap();
    let sums = session.db.space("sums").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let add = |n: u64| (0..n).for_each(|_| sums.merge("n", 1_i64.to_le_bytes()).unwrap());
    for _ in 0..4 {
        add(100);
        session.db.flush().unwrap();
    }
    session.db.compact().unwrap();
    assert_eq!(number(sums.get("n").unwrap()), 400);
    flip_next(Site::Memtable, EntryPart::Value, b"n");
    add(100);
    assert!(flipped());
    refused(session.db.flush(), &["keyspace \"sums\""]);
    let again = world.after_kill(7).open(&options(true)).unwrap();
    let sums = again.db.space("sums").options(folding(1, "add-i64/1")).keyspace().unwrap();
    assert_eq!(number(sums.get("n").unwrap()), 500);
    again.db.flush().unwrap();
}

#[test]
fn without_checks_every_flip_is_stored() {
    for site in [Site::Batch, Site::Memtable, Site::Output] {
        let world = World::new(7);
        let (session, kv) = opened(&world, &options(false));
        flip_next(site, EntryPart::Value, b"k");
        kv.put("k", "new").unwrap();
        session.db.flush().unwrap();
        assert!(flipped());
        let (_session, kv) = after_a_kill(&world);
        assert_eq!(owned(kv.get("k").unwrap()).unwrap(), b"nev", "{site:?}");
    }
}

#[test]
fn a_database_is_opened_with_and_without_checks_by_turns() {
    let world = World::new(8);
    for round in 0..4_u8 {
        let session = world.open(&options(round % 2 == 0)).unwrap();
        let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
        assert_eq!(kv.count().unwrap(), u64::from(round) * 50);
        (0..50_u8).for_each(|n| kv.put([round, n], [n; 50]).unwrap());
        if round == 1 {
            session.db.close().unwrap();
        }
    }
}
