//! Gets that read memory alone.

use crate::support::{folding, hashed, open, small};
use flagstone::internal::env::Op;
use flagstone::{Expires, Json, Keyspace, Slice, Space, TryGet};
use flagstone_testkit::World;
use std::time::Duration;

/// Asserts that `try_get` says what `get` says without a read of the disk, or that it would read.
/// Returns which.
fn agrees(world: &World, kv: &Keyspace, key: &[u8]) -> bool {
    let (opened, read) = (world.mem.counts().of(Op::Open), world.mem.counts().of(Op::Read));
    let tried = kv.try_get(key).unwrap();
    assert_eq!(world.mem.counts().of(Op::Open), opened, "it opened a file");
    assert_eq!(world.mem.counts().of(Op::Read), read, "it read a file");
    let expected = kv.get(key).unwrap().map_or(TryGet::Absent, TryGet::Found);
    let is_known = tried != TryGet::WouldRead;
    assert!(!is_known || tried == expected, "{tried:?}, expected {expected:?}");
    // A look sees what a get returns. Memory may tell more now: the get has read what it needed.
    let looked = kv.try_look(key, Slice::copy_of).unwrap();
    assert!(looked == expected || looked == TryGet::WouldRead, "{looked:?}, {expected:?}");
    assert!(!is_known || looked == tried, "{looked:?}, {tried:?}");
    let looked = kv.look(key, Slice::copy_of).unwrap();
    assert_eq!(looked.map_or(TryGet::Absent, TryGet::Found), expected);
    is_known
}

#[test]
fn what_is_in_memtables_or_in_the_cache_is_found_and_what_is_not_would_be_read() {
    let world = World::new(1);
    let session = open(&world, &small().memory_budget(16 << 20));
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let keys: Vec<_> = (0..600_u32).map(u32::to_be_bytes).collect();
    keys.iter().for_each(|key| kv.put(key, [key[3]; 500]).unwrap());
    kv.delete(keys[5]).unwrap();
    assert!(keys.iter().all(|key| agrees(&world, &kv, key)), "memtables");
    drop(kv);
    session.db.close().unwrap();
    let session = open(&world, &small().memory_budget(16 << 20));
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert_eq!(kv.try_get(keys[7]).unwrap(), TryGet::WouldRead, "no read has opened the table");
    assert!(!agrees(&world, &kv, &keys[7]));
    assert!(agrees(&world, &kv, &keys[7]), "the get has cached the block");
    assert_eq!(kv.try_get(keys[599]).unwrap(), TryGet::WouldRead, "another block");
    // The filter of an open table is in memory.
    assert!((1000..1100_u32).filter(|n| agrees(&world, &kv, &n.to_be_bytes())).count() > 90);
    kv.put(keys[599], "new").unwrap();
    assert!(agrees(&world, &kv, &keys[599]), "what is newer hides the table");
}

#[test]
fn a_deleted_range_that_is_on_disk_alone_would_be_read() {
    let world = World::new(2);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    (0..50_u8).for_each(|n| kv.put([n], [n; 50]).unwrap());
    session.db.flush().unwrap();
    let snapshot = session.db.snapshot();
    kv.delete_range([10]..[20]).unwrap();
    session.db.flush().unwrap();
    drop((kv, snapshot));
    session.db.close().unwrap();
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert!(!agrees(&world, &kv, &[9]) && agrees(&world, &kv, &[9]), "the get has read the block");
    assert!(!agrees(&world, &kv, &[15]), "no read has asked for the ranges that may delete it");
    assert!(agrees(&world, &kv, &[15]), "the get has");
    assert_eq!(kv.try_get([15]).unwrap(), TryGet::Absent);
}

#[test]
fn merge_operands_are_folded_when_all_of_them_and_their_base_are_in_memory() {
    let world = World::new(3);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(1, "append/1")).keyspace().unwrap();
    kv.put("key", "a").unwrap();
    kv.put("key of the same block", "x").unwrap();
    drop(kv);
    session.db.close().unwrap();
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(1, "append/1")).keyspace().unwrap();
    kv.merge("key", "b").unwrap();
    assert_eq!(kv.try_get("key").unwrap(), TryGet::WouldRead, "the base is on disk alone");
    kv.get("key of the same block").unwrap();
    let folded = TryGet::Found(Slice::from(b"ab".to_vec()));
    assert_eq!(kv.try_get("key").unwrap(), folded, "the base is in a cached block");
    assert!(agrees(&world, &kv, b"key"));
}

#[test]
fn an_expired_value_is_not_looked_at() {
    let world = World::new(5);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let soon = session.db.now().after(Duration::from_secs(60));
    kv.put("key", "value".expires(soon)).unwrap();
    let look = || kv.look("key", <[u8]>::len).unwrap();
    assert_eq!(look(), Some(5));
    world.clock.advance(Duration::from_secs(61));
    assert_eq!((look(), kv.try_look("key", <[u8]>::len).unwrap()), (None, TryGet::Absent));
    session.db.flush().unwrap();
    assert!(look().is_none() && agrees(&world, &kv, b"key"));
}

#[test]
fn a_look_may_write_and_a_panic_in_it_changes_nothing() {
    let world = World::new(6);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("key", "old").unwrap();
    let seen = kv.look("key", |value| {
        kv.put("key", "new").unwrap();
        session.db.flush().unwrap();
        let inner = kv.look("key", <[u8]>::to_vec).unwrap().unwrap();
        (value.to_vec(), inner)
    });
    assert_eq!(seen.unwrap(), Some((b"old".to_vec(), b"new".to_vec())));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        kv.look("key", |_value| -> () { panic!("of the reader") })
    }));
    assert!(panicked.is_err());
    assert!(agrees(&world, &kv, b"key"));
    kv.clear().unwrap();
    assert_eq!(kv.look("key", <[u8]>::len).unwrap(), None);
}

#[test]
fn a_document_is_found_and_a_keyspace_that_was_dropped_is_told() {
    let world = World::new(4);
    let session = open(&world, &small());
    let docs = session.db.collection("docs").unwrap();
    docs.put("a", Json(r#"{"n":1}"#)).unwrap();
    let TryGet::Found(found) = docs.try_get("a").unwrap() else { panic!("it is in a memtable") };
    assert_eq!(found.int("n").unwrap(), 1);
    assert_eq!(docs.try_get("b").unwrap().and_then(|_| Ok::<_, ()>(())), Ok(TryGet::Absent));
    session.db.drop_keyspace("docs").unwrap();
    docs.try_get("a").unwrap_err();
}
