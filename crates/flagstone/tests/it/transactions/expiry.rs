//! Entries that expire: all of a transaction happens at the moment of its snapshot.

use crate::support::{folding, number, open, owned, small};
use flagstone::{Expires, Keyspace, Moment, Space};
use flagstone_testkit::{Session, World, dump};
use std::time::Duration;

fn later(session: &Session, seconds: u64) -> Moment {
    session.db.now().after(Duration::from_secs(seconds))
}

fn counters(world: &World) -> (Session, Keyspace) {
    let session = open(world, &small());
    let kv = session.db.space("kv").options(folding(2, "add-i64/1")).keyspace().unwrap();
    (session, kv)
}

const fn bytes(n: i64) -> [u8; 8] {
    n.to_le_bytes()
}

#[test]
fn what_had_not_expired_at_the_begin_is_there_for_the_whole_transaction() {
    let world = World::new(1);
    let (session, kv) = counters(&world);
    let at = later(&session, 60);
    for key in ["read", "merged", "kept"] {
        kv.put(key, bytes(5).expires(at)).unwrap();
    }
    let mut tx = session.db.begin().unwrap();
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(kv.get("read").unwrap(), None);
    assert_eq!(number(tx.get(&kv, "read").unwrap()), 5);
    assert_eq!(tx.scan(&kv, ..).count(), 3);
    // The merge adds to what the transaction sees. The result keeps the expiry, which has passed.
    tx.merge(&kv, "merged", bytes(1)).unwrap();
    tx.merge(&kv, "new", bytes(1)).unwrap();
    assert_eq!(number(tx.get(&kv, "merged").unwrap()), 6);
    tx.put(&kv, "kept", bytes(7)).unwrap();
    tx.commit().unwrap();
    let found: Vec<Vec<u8>> = dump(&kv).unwrap().into_keys().collect();
    assert_eq!(found, [b"kept".to_vec(), b"new".to_vec()], "a put has the expiry that it says");
    assert_eq!(number(kv.get("new").unwrap()), 1);
}

#[test]
fn merges_keep_the_expiry_of_what_they_change() {
    let world = World::new(1);
    let (session, kv) = counters(&world);
    let (at, earlier) = (later(&session, 60), later(&session, 30));
    kv.put("base", bytes(5).expires(at)).unwrap();
    let mut tx = session.db.begin().unwrap();
    tx.merge(&kv, "base", bytes(1)).unwrap();
    tx.put(&kv, "own", bytes(1).expires(earlier)).unwrap();
    tx.merge(&kv, "own", bytes(1)).unwrap();
    tx.merge(&kv, "own", bytes(1)).unwrap();
    tx.commit().unwrap();
    assert_eq!((kv.expiry("base").unwrap(), kv.expiry("own").unwrap()), (Some(at), Some(earlier)));
    assert_eq!(number(kv.get("base").unwrap()), 6);
    assert_eq!(number(kv.get("own").unwrap()), 3);
}

#[test]
fn an_own_put_that_has_expired_is_absent_for_its_transaction() {
    let world = World::new(1);
    let (session, kv) = counters(&world);
    world.clock.advance(Duration::from_secs(100));
    let past = Moment::from_millis(1);
    // The first expiry of the keyspace comes with this commit.
    let mut tx = session.db.begin().unwrap();
    tx.put(&kv, "a", bytes(5).expires(past)).unwrap();
    tx.put(&kv, "b", bytes(5).expires(past)).unwrap();
    tx.put(&kv, "c", bytes(5).expires(later(&session, 60))).unwrap();
    tx.merge(&kv, "b", bytes(1)).unwrap();
    assert_eq!(tx.get(&kv, "a").unwrap(), None);
    assert_eq!(number(tx.get(&kv, "b").unwrap()), 1);
    let keys: Vec<_> = tx.scan(&kv, ..).map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, [b"b", b"c"]);
    tx.commit().unwrap();
    assert_eq!(kv.get("a").unwrap(), None);
    assert_eq!((number(kv.get("b").unwrap()), kv.expiry("b").unwrap()), (1, None));
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(owned(kv.get("c").unwrap()), None);
}

/// The merge is an operand when the keyspace gets its first expiry; the commit resolves it.
#[test]
fn a_first_expiry_during_the_transaction_changes_nothing_for_it() {
    let world = World::new(1);
    let (session, kv) = counters(&world);
    kv.put("n", bytes(5)).unwrap();
    let mut tx = session.db.begin().unwrap();
    tx.merge(&kv, "n", bytes(1)).unwrap();
    tx.merge(&kv, "n", bytes(1)).unwrap();
    kv.put("other", bytes(1).expires(later(&session, 60))).unwrap();
    tx.merge(&kv, "n", bytes(1)).unwrap();
    assert_eq!(number(tx.get(&kv, "n").unwrap()), 8);
    tx.commit().unwrap();
    assert_eq!((number(kv.get("n").unwrap()), kv.expiry("n").unwrap()), (8, None));
}
