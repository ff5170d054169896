//! Commits: order, failed writes, conditions, durability, flushes and batches, merge operands.

use crate::support::{folding, hashed, number, open, small, small_with};
use flagstone::changes::SeqNo;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Executor, Failure, Fault, Op};
use flagstone::{Durability, ErrorKind, Expect, Keyspace, Plain, Space, VersionToken};
use flagstone_testkit::{Rng, Session, World};

/// Nothing acknowledged is lost: a commit is acknowledged only when everything before it in the log
/// is as durable as itself.
#[test]
fn a_synced_commit_makes_the_buffered_ones_before_it_durable() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    kv.put("buffered", "1").unwrap();
    for durability in [Durability::Group, Durability::Each] {
        let mut batch = session.db.batch();
        batch.put(&kv, format!("{durability:?}"), "1").unwrap();
        session.db.commit(batch.durability(durability)).unwrap();
    }
    kv.put("later", "1").unwrap();
    let after = World::on(world.mem.crash_losing_unsynced(), 1);
    let again = open(&after, &small());
    let kv = again.db.space("kv").options(hashed(4)).keyspace().unwrap();
    assert!(["buffered", "Group", "Each"].iter().all(|key| kv.get(key).unwrap().is_some()));
    assert_eq!(kv.get("later").unwrap(), None);
}

/// Nothing acknowledged is lost: what was copied out of a keyspace is there after a power cut when
/// its drop is.
#[test]
fn a_drop_is_no_more_durable_than_the_writes_before_it() {
    for durability in [Durability::None, Durability::Buffered] {
        let world = World::new(1);
        let session = open(&world, &small_with(durability));
        let old = session.db.space("old").options(hashed(1)).keyspace().unwrap();
        let new = session.db.space("new").options(hashed(1)).keyspace().unwrap();
        old.put("a", "1").unwrap();
        session.db.flush().unwrap();
        new.put("a", old.get("a").unwrap().unwrap()).unwrap();
        assert!(session.db.drop_keyspace("old").unwrap());
        let after = World::on(world.mem.crash_losing_unsynced(), 1);
        let again = open(&after, &small());
        assert_eq!(again.db.keyspaces().len(), 1);
        let new = again.db.space("new").options(hashed(1)).keyspace().unwrap();
        assert!(new.get("a").unwrap().is_some(), "{durability:?}");
    }
}

/// Nothing acknowledged is lost: reads may see a commit before it is durable, and its ticket tells
/// when it is.
#[test]
fn a_started_commit_is_visible_before_it_is_durable() {
    let world = World::new(2);
    let session = open(&world, &small_with(Durability::Group));
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    let mut batch = session.db.batch();
    batch.put(&kv, "a", "1").unwrap();
    batch.put(&kv, "b", "2").unwrap();
    let ticket = session.db.commit_start(batch).unwrap();
    assert_eq!(kv.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
    assert_eq!(kv.get_versioned("b").unwrap().unwrap().0.seqno(), ticket.seqno());
    assert!(!ticket.is_done());
    ticket.wait().unwrap();
    let after = World::on(world.mem.crash_losing_unsynced(), 1);
    let kv = open(&after, &small()).db.keyspace("kv").unwrap();
    assert_eq!(kv.count().unwrap(), 2);
}

/// Entries are ordered: the last write of a key in a batch wins, and a range deleted in it hides
/// earlier writes.
#[test]
fn the_operations_of_a_batch_happen_in_their_order() {
    let world = World::new(3);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(4, "append/1")).keyspace().unwrap();
    let mut batch = session.db.batch();
    batch.put(&kv, "a", "first").unwrap();
    batch.put(&kv, "a", "second").unwrap();
    batch.put(&kv, "b", "gone").unwrap();
    batch.put(&kv, "c", "gone").unwrap();
    batch.delete_range(&kv, "b".."d").unwrap();
    batch.put(&kv, "c", "back").unwrap();
    batch.put(&kv, "e", "x").unwrap();
    batch.delete(&kv, "e").unwrap();
    batch.merge(&kv, "e", "yz").unwrap();
    session.db.commit(batch).unwrap();
    let check = |kv: &Keyspace| {
        let found: Vec<_> = kv.scan(..).map(|e| e.unwrap()).collect();
        let found: Vec<_> = found.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        assert_eq!(found, [(&b"a"[..], &b"second"[..]), (b"c", b"back"), (b"e", b"yz")]);
    };
    check(&kv);
    let replayed = world.after_kill(1);
    let again = open(&replayed, &small());
    check(&again.db.keyspace("kv").unwrap());
    session.db.compact().unwrap();
    check(&kv);
}

/// Nothing acknowledged is lost: nothing is appended after the hole of a failed write; writing
/// continues elsewhere.
#[test]
fn after_a_failed_log_write_the_batch_is_absent_and_writing_goes_on() {
    let effects = [
        Effect::Fail(Failure::Io),
        Effect::Fail(Failure::NoSpace),
        Effect::Short(1, Failure::Io),
        Effect::Short(60, Failure::NoSpace),
        Effect::FailAfter(Failure::Io),
    ];
    for (at, effect) in effects.into_iter().enumerate() {
        let world = World::new(at as u64);
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
        let other = session.db.space("other").options(hashed(2)).keyspace().unwrap();
        kv.put("before", "1").unwrap();
        world.disk.inject(Fault::new(effect).on(&[Op::Append]).of(FileKind::Wal));
        let mut batch = session.db.batch();
        batch.put(&kv, "failed", vec![1; 100]).unwrap();
        batch.put(&other, "failed", vec![1; 100]).unwrap();
        assert!(session.db.commit(batch).is_err());
        world.disk.heal();
        kv.put("behind", "1").unwrap();
        let check = |session: &Session| {
            let kv = session.db.keyspace("kv").unwrap();
            let other = session.db.keyspace("other").unwrap();
            assert_eq!((kv.count().unwrap(), other.count().unwrap()), (2, 0), "{effect:?}");
            assert!(kv.get("before").unwrap().is_some() && kv.get("behind").unwrap().is_some());
        };
        check(&session);
        check(&open(&world.after_kill(1), &small()));
        session.db.sync().unwrap();
        check(&open(&World::on(world.mem.crash_losing_unsynced(), 3), &small()));
    }
}

/// A failed sync poisons, for what is on disk is unknown: reads go on, writes are refused, opening
/// again works.
#[test]
fn a_failed_sync_of_the_log_poisons_and_reads_go_on() {
    let world = World::new(4);
    let session = open(&world, &small_with(Durability::Group));
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]).of(FileKind::Wal);
    world.disk.inject(fault);
    assert_eq!(kv.put("b", "1").unwrap_err().kind(), ErrorKind::Poisoned);
    world.disk.heal();
    assert_eq!(kv.put("c", "1").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(session.db.flush().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(session.db.sync().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(kv.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
    drop((kv, session));
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    assert!(kv.get("a").unwrap().is_some() && kv.get("c").unwrap().is_none());
    kv.put("c", "1").unwrap();
}

/// A failed sync poisons: the cache then shows bytes that the device does not have, and calls them
/// written. A log that continued after them would have a hole after the next power cut.
#[test]
fn a_log_opened_after_a_failed_sync_continues_after_what_the_device_has() {
    for seed in 0..20 {
        let world = World::new(seed);
        let session = open(&world, &small_with(Durability::Group));
        let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
        kv.put("before", "1").unwrap();
        let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]).of(FileKind::Wal);
        world.disk.inject(fault);
        // More than a page, so that whole pages of the log are lost.
        assert_eq!(kv.put("lost", vec![1; 20_000]).unwrap_err().kind(), ErrorKind::Poisoned);
        drop((kv, session));
        world.disk.heal();
        for name in world.files().iter().filter(|name| name.ends_with(".wal")) {
            world.mem.lose_dirty(&World::path(name)).unwrap();
        }
        let session = open(&world, &small_with(Durability::Group));
        let kv = session.db.keyspace("kv").unwrap();
        kv.put("behind", "1").unwrap();
        let after = World::on(world.mem.crash_losing_unsynced(), seed);
        let again = open(&after, &small());
        let kv = again.db.keyspace("kv").unwrap();
        assert!(["before", "behind"].iter().all(|key| kv.get(key).unwrap().is_some()));
    }
}

/// A failed sync poisons, but not that of a new table: the flush is done again.
#[test]
fn a_table_that_cannot_be_written_is_written_again() {
    for op in [Op::Create, Op::Append, Op::Sync] {
        let world = World::new(5);
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
        (0..100_u32).for_each(|n| kv.put(n.to_be_bytes(), [1; 200]).unwrap());
        let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[op]).of(FileKind::Table);
        world.disk.inject(fault);
        assert_eq!(session.db.flush().unwrap_err().kind(), ErrorKind::Io, "{op:?}");
        assert_eq!(kv.count().unwrap(), 100);
        kv.put("more", "1").unwrap();
        session.settle();
        session.db.flush().unwrap();
        session.db.verify().unwrap();
        let files = world.files().iter().filter(|name| name.ends_with(".sst")).count();
        assert_eq!(files as u64, session.db.stats().tables(), "the half-written file stayed");
        let after = World::on(world.mem.crash_losing_unsynced(), 3);
        let again = open(&after, &small());
        assert_eq!(again.db.keyspace("kv").unwrap().count().unwrap(), 101);
    }
}

/// A read-modify-write is one step: conditions are checked with the batch, which happens as a whole
/// or not.
#[test]
fn a_batch_whose_condition_does_not_hold_is_a_conflict_and_changes_nothing() {
    let world = World::new(6);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    let other = session.db.space("other").options(hashed(2)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    kv.put("z", "1").unwrap();
    let (version, _) = kv.get_versioned("a").unwrap().unwrap();
    let (another, _) = kv.get_versioned("z").unwrap().unwrap();
    let commit = |condition: &dyn Fn(&mut flagstone::Batch)| {
        let mut batch = session.db.batch();
        condition(&mut batch);
        batch.put(&kv, "a", "2").unwrap();
        batch.put(&other, "b", "2").unwrap();
        session.db.commit(batch).map_err(|error| error.kind())
    };
    let conflict = Err(ErrorKind::Conflict);
    assert_eq!(commit(&|b| b.expect(&kv, "a", Expect::Absent).unwrap()), conflict);
    assert_eq!(commit(&|b| b.expect(&kv, "a", Expect::Version(another)).unwrap()), conflict);
    assert_eq!(commit(&|b| b.expect(&kv, "missing", Expect::Version(version)).unwrap()), conflict);
    let one_of_two = commit(&|b| {
        b.expect(&kv, "a", Expect::Version(version)).unwrap();
        b.expect(&kv, "a", Expect::Absent).unwrap();
    });
    assert_eq!(one_of_two, conflict);
    assert_eq!(kv.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
    assert_eq!(other.count().unwrap(), 0);
    let both_hold = commit(&|b| {
        b.expect(&kv, "a", Expect::Version(version)).unwrap();
        b.expect(&other, "b", Expect::Absent).unwrap();
    });
    assert_eq!(both_hold, Ok(()));
    // The SeqNo of a key stays through flush and compaction; a deleted key is absent.
    let (version, _) = kv.get_versioned("a").unwrap().unwrap();
    session.db.compact().unwrap();
    assert_eq!(kv.get_versioned("a").unwrap().unwrap().0, version);
    kv.delete("a").unwrap();
    assert_eq!(commit(&|b| b.expect(&kv, "a", Expect::Absent).unwrap()), Ok(()));
}

/// A read-modify-write is one step: a condition that sees deletes. A delete whose tombstone is gone
/// is a conflict, never a false pass.
#[test]
fn a_key_that_was_written_or_deleted_since_a_snapshot_is_a_conflict() {
    let world = World::new(6);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(2, "append/1")).keyspace().unwrap();
    let log = session.db.keyspace("log").unwrap();
    let commit = |key: &str, version| {
        let mut batch = session.db.batch();
        batch.expect(&kv, key, Expect::UnchangedSince(version)).unwrap();
        batch.put(&log, "last", key).unwrap();
        session.db.commit(batch).map_err(|error| error.kind())
    };
    let conflict = Err(ErrorKind::Conflict);
    let changes: [&dyn Fn(&str); 4] = [
        &|key| kv.put(key, "2").unwrap(),
        &|key| kv.delete(key).unwrap(),
        &|key| kv.merge(key, "2").unwrap(),
        &|key| kv.delete_range(key..="n").unwrap(),
    ];
    for (at, change) in changes.iter().enumerate() {
        for is_there in [true, false] {
            let key = &format!("m{at}{is_there}");
            if is_there {
                kv.put(key, "1").unwrap();
            }
            let before = session.db.snapshot().version();
            assert_eq!(commit(key, before), Ok(()), "{key}");
            change(key);
            assert_eq!(commit(key, before), conflict, "{key}");
            session.db.compact().unwrap();
            assert_eq!(commit(key, before), conflict, "{key}, compacted");
            assert_eq!(commit(key, session.db.snapshot().version()), Ok(()), "{key}, read again");
        }
    }
    // Nobody wrote this one, but a tombstone of it could be gone.
    let mut old = session.db.snapshot().version().to_bytes();
    old[8..].fill(0);
    let old = VersionToken::from_bytes(old).unwrap();
    assert_eq!(commit("never", old), conflict);
}

/// A database with two keyspaces, the first of which is flushed by itself again and again: batches
/// put much into it and little into the other. Calls `check` after each flush.
fn flushed_one_sided(durability: Durability, check: impl Fn(&World, u64)) {
    let world = World::new(7);
    let session = open(&world, &small_with(durability));
    let much = session.db.space("much").options(folding(1, "append/1")).keyspace().unwrap();
    let little = session.db.space("little").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let (mut flushes, mut checks) = (0, 0);
    for n in 0..2500_u64 {
        let mut batch = session.db.batch();
        batch.merge(&much, (n % 50).to_be_bytes(), Rng::new(n).bytes(900)).unwrap();
        batch.merge(&little, "count", 1_i64.to_le_bytes()).unwrap();
        batch.put(&little, n.to_be_bytes(), "").unwrap();
        session.db.commit(batch).unwrap();
        session.executor.assist();
        let now = session.db.stats().flushes;
        if now > flushes {
            flushes = now;
            checks += 1;
            check(&world, n + 1);
        }
    }
    assert!(checks >= 3, "only {checks} flushes");
}

fn check_one_sided(after: &World, at_least: u64) {
    let again = open(after, &small());
    let much = again.db.keyspace("much").unwrap();
    let little = again.db.keyspace("little").unwrap();
    let there = little.count().unwrap().saturating_sub(1);
    assert!(there >= at_least, "{there} of {at_least}");
    assert_eq!(number(little.get("count").unwrap()), there as i64);
    let operands = |n: u64| (n..there).step_by(50).flat_map(|n| Rng::new(n).bytes(900));
    for n in 0..50.min(there) {
        let expected: Vec<u8> = operands(n).collect();
        let found = much.get(n.to_be_bytes()).unwrap().unwrap();
        assert!(found == expected, "key {n}: {} bytes, not {}", found.len(), expected.len());
    }
}

/// A batch is whole or absent: before a flush is installed the log is synced through what it holds,
/// or a power cut would keep the flushed half of a batch.
#[test]
fn a_flush_of_one_tree_never_breaks_a_batch() {
    flushed_one_sided(Durability::Buffered, |world, _| {
        check_one_sided(&World::on(world.mem.crash_losing_unsynced(), 9), 1);
    });
}

/// Replay happens exactly once: it skips, tree by tree, what is in tables, or merge operands would
/// count twice.
#[test]
fn merge_operands_of_a_tree_flushed_by_itself_are_replayed_exactly_once() {
    flushed_one_sided(Durability::Buffered, |world, n| check_one_sided(&world.after_kill(n), n));
}

/// Numbers are never reused: numbering goes on above everything that was ever numbered.
#[test]
fn numbers_are_never_given_twice() {
    let mut world = World::new(8);
    let mut last = SeqNo::ZERO;
    for round in 0..8_u64 {
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
        kv.put("key", round.to_be_bytes()).unwrap();
        let seqno = kv.get_versioned("key").unwrap().unwrap().0.seqno();
        assert!(seqno > last, "{seqno} after {last}");
        last = seqno;
        match round % 4 {
            0 => session.db.flush().unwrap(),
            1 => kv.delete("other").unwrap(),
            2 => session.db.compact().unwrap(),
            _ => {}
        }
        drop(kv);
        world = if round % 2 == 0 {
            world.after_kill(round)
        } else {
            session.db.close().unwrap();
            world
        };
    }
}

/// A read-modify-write is one step: a delete of a range comes before or after it, never between its
/// read and its write.
#[test]
fn a_range_delete_does_not_come_between_the_read_and_the_write_of_an_update() {
    let world = World::new(1);
    let session = open(&world, &small());
    let typed = session.db.space("t").options(hashed(2)).typed_codec::<u64, u64, Plain>().unwrap();
    typed.put(&1, &1).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let typed = &typed;
        scope.spawn(move || {
            receiver.recv().unwrap();
            typed.keyspace().delete_range(..).unwrap();
        });
        let change = |old: Option<u64>| {
            sender.send(()).unwrap();
            // Long enough for the delete to come to where it must wait.
            std::thread::sleep(std::time::Duration::from_millis(50));
            old.map(|n| n + 1)
        };
        typed.update(&1, change).unwrap();
    });
    assert_eq!(
        typed.get(&1).unwrap(),
        None,
        "the update brought back what the range delete removed"
    );
}

/// A read-modify-write is one step: it once took the locks of all keys of all keyspaces.
#[test]
fn a_range_delete_waits_for_no_write_of_another_keyspace() {
    let world = World::new(1);
    let session = open(&world, &small());
    let busy =
        session.db.space("busy").options(hashed(1)).typed_codec::<u64, u64, Plain>().unwrap();
    let other = session.db.space("other").options(hashed(4)).keyspace().unwrap();
    other.put("a", "1").unwrap();
    busy.update(&1, |_| {
        std::thread::scope(|scope| {
            let delete = scope.spawn(|| other.delete_range(..));
            delete.join().unwrap().unwrap();
        });
        Some(1)
    })
    .unwrap();
    assert_eq!(other.count().unwrap(), 0);
}
