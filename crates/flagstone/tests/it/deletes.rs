//! Deletes give room back by themselves: once they stayed in the memtable of a tree that had no
//! more writes, and the tables below them on the disk.

use crate::support::{hashed, open, small, small_with};
use flagstone::internal::env::Executor;
use flagstone::{Durability, Keyspace, Space};
use flagstone_testkit::{Session, World};
use std::time::Duration;

/// A value that no compression makes shorter.
fn noise(n: u32) -> Vec<u8> {
    let word = |at: u32| flagstone_base::hash::remix(u64::from(n) << 32 | u64::from(at));
    (0..125).flat_map(|at| word(at).to_le_bytes()).collect()
}

/// Returns a keyspace with `keys` keys in tables.
fn filled(session: &Session, keys: u32) -> Keyspace {
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    for n in 0..keys {
        kv.put(n.to_be_bytes(), noise(n)).unwrap();
        if n % 64 == 0 {
            session.settle();
        }
    }
    session.db.flush().unwrap();
    session.settle();
    assert!(session.db.stats().table_bytes() > u64::from(keys) * 1000);
    kv
}

fn work_a_little(session: &Session, steps: usize) {
    for _ in 0..steps {
        let _was_there_any = session.executor.assist();
    }
}

#[test]
fn the_room_of_a_deleted_range_comes_back_without_further_writes() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = filled(&session, 300);
    kv.delete_range(0_u32.to_be_bytes()..300_u32.to_be_bytes()).unwrap();
    session.settle();
    assert_eq!(session.db.stats().tables(), 0);
    assert_eq!(session.db.stats().memtable_bytes, 0);
}

#[test]
fn the_room_of_many_deleted_keys_comes_back_without_further_writes() {
    let world = World::new(2);
    let session = open(&world, &small());
    let kv = filled(&session, 3000);
    for n in 0..2900_u32 {
        kv.delete(n.to_be_bytes()).unwrap();
    }
    session.settle();
    let bytes = session.db.stats().table_bytes();
    assert!(bytes < 1_500_000, "{bytes} bytes for 100 kB");
    assert_eq!(kv.count().unwrap(), 100);
}

#[test]
fn a_range_that_was_deleted_before_a_crash_gives_its_room_back_after_it() {
    let world = World::new(3);
    let session = open(&world, &small_with(Durability::Group));
    let kv = filled(&session, 300);
    kv.delete_range(0_u32.to_be_bytes()..300_u32.to_be_bytes()).unwrap();
    let session = open(&world.after_power_cut(0), &small());
    assert!(session.db.stats().table_bytes() > 300_000);
    session.settle();
    assert_eq!(session.db.stats().tables(), 0);
}

/// A queue is written and emptied all the time: its memtables are flushed when they are full, as
/// any.
#[test]
fn a_tree_that_is_written_on_is_not_flushed_for_every_delete() {
    let world = World::new(4);
    let session = open(&world, &small());
    let kv = filled(&session, 300);
    let before = session.db.stats().flushes;
    for n in 300..360_u32 {
        kv.put(n.to_be_bytes(), b"small").unwrap();
        kv.delete_range((n - 300).to_be_bytes()..(n - 299).to_be_bytes()).unwrap();
        work_a_little(&session, 4);
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(session.db.stats().flushes, before, "a minute of it");
    session.settle();
    assert_eq!(session.db.stats().flushes, before + 1, "it is quiet now");
    assert_eq!(kv.count().unwrap(), 300);
}

#[test]
fn a_tree_that_is_written_on_is_flushed_when_that_frees_much() {
    let world = World::new(5);
    let session = open(&world, &small());
    let kv = filled(&session, 3000);
    kv.delete_range(0_u32.to_be_bytes()..3000_u32.to_be_bytes()).unwrap();
    for n in 3000..3030_u32 {
        kv.put(n.to_be_bytes(), b"small").unwrap();
        work_a_little(&session, 8);
        world.clock.advance(Duration::from_secs(1));
    }
    let bytes = session.db.stats().table_bytes();
    assert!(bytes < 100_000, "{bytes}");
}
