//! Promises: what the log's end is anchored by, numbers, refused records, the close of a poisoned
//! database.

use crate::support::{hashed, open, small, small_with};
use flagstone::admin::{Event, Listener};
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Executor, Failure, Fault, Op};
use flagstone::{Durability, ErrorKind, Expect, Isolation, Space, TransactionOptions};
use flagstone_testkit::World;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nothing acknowledged is lost: a commit without operations was acknowledged at once, whatever its
/// durability, and a power cut took what had been acknowledged before it.
#[test]
fn a_synced_commit_without_operations_makes_what_is_before_it_durable() {
    for durability in [Durability::Group, Durability::Each] {
        for with_condition in [false, true] {
            let world = World::new(1);
            let session = open(&world, &small());
            let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
            kv.put("buffered", "1").unwrap();
            let mut batch = session.db.batch();
            if with_condition {
                let (version, _) = kv.get_versioned("buffered").unwrap().unwrap();
                batch.expect(&kv, "buffered", Expect::Version(version)).unwrap();
            }
            session.db.commit(batch.durability(durability)).unwrap();
            let after = World::on(world.mem.crash_losing_unsynced(), 1);
            let kv = open(&after, &small()).db.keyspace("kv").unwrap();
            assert!(kv.get("buffered").unwrap().is_some(), "{durability:?}, {with_condition}");
        }
    }
}

/// Nothing acknowledged is lost: a transaction that has written nothing was committed at once, and
/// a power cut took what it had read.
#[test]
fn a_synced_transaction_without_writes_makes_what_it_has_read_durable() {
    for durability in [Durability::Group, Durability::Each] {
        for isolation in [Isolation::Snapshot, Isolation::Serializable] {
            let world = World::new(1);
            let session = open(&world, &small());
            let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
            kv.put("buffered", "1").unwrap();
            let options = TransactionOptions::new().durability(durability).isolation(isolation);
            let tx = options.begin(&session.db).unwrap();
            assert!(tx.get(&kv, "buffered").unwrap().is_some());
            tx.commit().unwrap();
            let after = World::on(world.mem.crash_losing_unsynced(), 1);
            let kv = open(&after, &small()).db.keyspace("kv").unwrap();
            assert!(kv.get("buffered").unwrap().is_some(), "{durability:?}, {isolation:?}");
        }
    }
}

/// What a poisoned database has read is durable, or the commit says that it need not be.
#[test]
fn a_transaction_without_writes_in_a_poisoned_database_promises_what_is_synced() {
    let (world, options) = (World::new(1), small());
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("synced", "1").unwrap();
    session.db.sync().unwrap();
    let commit = |durability| {
        let options = TransactionOptions::new().durability(durability);
        options.begin(&session.db).unwrap().commit()
    };
    kv.put("buffered", "1").unwrap();
    let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]);
    world.disk.inject(fault.of(FileKind::Wal));
    assert_eq!(session.db.sync().unwrap_err().kind(), ErrorKind::Poisoned);
    commit(Durability::Buffered).unwrap();
    for durability in [Durability::Group, Durability::Each] {
        assert_eq!(commit(durability).unwrap_err().kind(), ErrorKind::Poisoned);
    }
}

/// Nothing acknowledged is lost: the refusal of another commit is no failure of one without
/// operations.
#[test]
fn a_synced_commit_without_operations_succeeds_after_a_refused_one() {
    for durability in [Durability::Group, Durability::Each] {
        let world = World::new(1);
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        kv.put("buffered", "1").unwrap();
        world.disk.set_room(Some(0));
        assert_eq!(kv.put("refused", "1").unwrap_err().kind(), ErrorKind::OutOfSpace);
        session.db.commit(session.db.batch().durability(durability)).unwrap();
        let after = World::on(world.mem.crash_losing_unsynced(), 1);
        let kv = open(&after, &small()).db.keyspace("kv").unwrap();
        assert!(kv.get("buffered").unwrap().is_some(), "{durability:?}");
        assert!(kv.get("refused").unwrap().is_none(), "{durability:?}");
    }
}

/// Hears why the database was closed.
#[derive(Clone, Default)]
struct Closings(Arc<Mutex<Vec<Option<ErrorKind>>>>);

impl Listener for Closings {
    fn event(&self, event: &Event) {
        if let Event::Closed { error } = event {
            self.0.lock().unwrap().push(error.as_ref().map(flagstone::Error::kind));
        }
    }
}

/// Nothing acknowledged is lost: a background sync of the manifest failed, all unlogged writes were
/// lost, and close said Ok.
#[test]
fn closing_a_poisoned_database_says_so_when_unlogged_writes_are_lost() {
    let (world, options) = (World::new(8), small_with(Durability::None));
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]);
    world.disk.inject(fault.of(FileKind::Manifest));
    for n in 0..4000_u64 {
        if kv.put(n.to_be_bytes(), [7; 1000]).is_err() {
            break;
        }
        session.executor.assist();
    }
    assert_eq!(world.disk.hits(), 1);
    drop(kv);
    assert_eq!(session.db.flush().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(session.db.sync().unwrap_err().kind(), ErrorKind::Poisoned);
    let error = session.db.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned);
    assert!(error.to_string().contains(".manifest"), "it names the cause: {error}");
    world.disk.heal();
    open(&world, &options).db.close().expect("the lock was let go, and nothing is wrong any more");
}

/// Nothing acknowledged is lost: a timed sync failed, all writes were lost with the power, and
/// close had said Ok.
#[test]
fn closing_a_poisoned_database_says_so_when_logged_writes_may_be_lost() {
    let options = small_with(Durability::Interval(Duration::from_millis(10)));
    let world = World::new(8);
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]);
    world.disk.inject(fault.of(FileKind::Wal));
    for _ in 0..20 {
        session.executor.assist();
    }
    assert_eq!(world.disk.hits(), 1);
    drop(kv);
    assert_eq!(session.db.close().unwrap_err().kind(), ErrorKind::Poisoned);
}

/// Nothing acknowledged is lost: whoever drops the last handle is told by the event.
#[test]
fn dropping_a_poisoned_database_tells_listeners_why() {
    let (world, closings) = (World::new(8), Closings::default());
    for is_poisoned in [true, false] {
        let (environment, _executor) = world.environment();
        let builder = flagstone::Database::builder(World::dir()).environment(environment);
        let db = builder.options(small()).listener(closings.clone()).open().unwrap();
        if is_poisoned {
            world.disk.inject(Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]));
            let kv = db.space("kv").options(hashed(1)).keyspace();
            assert_eq!(kv.unwrap_err().kind(), ErrorKind::Poisoned);
            world.disk.heal();
        }
        drop(db);
    }
    assert_eq!(*closings.0.lock().unwrap(), [Some(ErrorKind::Poisoned), None]);
}

/// A refusal changes nothing: the write arrived whole, the disk said that it was full, and after a
/// kill the refused write was there.
#[test]
fn a_commit_refused_for_want_of_room_does_not_come_back() {
    let (world, options) = (World::new(8), small_with(Durability::Group));
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let full = Fault::new(Effect::FailAfter(Failure::NoSpace)).on(&[Op::Append]);
    world.disk.inject(full.of(FileKind::Wal).forever());
    assert_eq!(kv.put("b", "2").unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert_eq!(kv.get("b").unwrap(), None);
    for after in [world.after_kill(1), world.after_power_cut(0), world.after_power_cut(1)] {
        let kv = open(&after, &options).db.keyspace("kv").unwrap();
        assert!(kv.get("a").unwrap().is_some());
        assert_eq!(kv.get("b").unwrap(), None);
    }
}

/// A refusal changes nothing, with threads whose commits share an append of which only a part fits.
#[test]
fn a_group_of_commits_refused_for_want_of_room_does_not_come_back() {
    for round in 0..30 {
        let (world, options) = (World::new(8), small_with(Durability::Buffered));
        let session = open(&world, &options);
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        kv.put("a", "1").unwrap();
        world.disk.set_room(Some(150 + round * 7 % 100));
        let refused = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for n in 0..8_u8 {
                let (kv, refused) = (&kv, &refused);
                scope.spawn(move || {
                    if kv.put([b'k', n], [n; 60]).is_err() {
                        refused.lock().unwrap().push(n);
                    }
                });
            }
        });
        let after = world.after_kill(1);
        let kv = open(&after, &options).db.keyspace("kv").unwrap();
        for n in refused.into_inner().unwrap() {
            assert_eq!(kv.get([b'k', n]).unwrap(), None, "round {round}: {n} came back");
        }
    }
}

/// Numbers are never reused: a crash lost a write, its SeqNo was given again, and a token of the
/// lost write fitted the new one: an update that the holder of the token had not read was
/// overwritten.
#[test]
fn a_version_read_before_a_crash_fits_no_write_after_it() {
    for (durability, power_cut) in [(Durability::Buffered, true), (Durability::None, false)] {
        let (world, options) = (World::new(8), small_with(durability));
        let session = open(&world, &options);
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        kv.put("balance", "100").unwrap();
        let (lost, _) = kv.get_versioned("balance").unwrap().unwrap();
        let world = if power_cut { world.after_power_cut(0) } else { world.after_kill(1) };
        let session = open(&world, &options);
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        assert!(kv.get("balance").unwrap().is_none());
        kv.put("balance", "7").unwrap();
        let mut batch = session.db.batch();
        batch.expect(&kv, "balance", Expect::Version(lost)).unwrap();
        batch.put(&kv, "balance", "99").unwrap();
        assert_eq!(session.db.commit(batch).unwrap_err().kind(), ErrorKind::Conflict);
        let (version, _) = kv.get_versioned("balance").unwrap().unwrap();
        assert!(version.seqno() > lost.seqno());
    }
}

/// Numbers are never reused: a database and its copies give the same SeqNos to different writes.
#[test]
fn a_version_read_in_one_history_is_refused_in_another() {
    let (world, options) = (World::new(8), small());
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let (ours, _) = kv.get_versioned("a").unwrap().unwrap();
    session.db.checkpoint("/copy").unwrap();
    let (environment, _executor) = world.environment();
    let copy = flagstone::Database::builder("/copy").environment(environment);
    let copy = copy.options(options.clone()).open().unwrap();
    let copied = copy.keyspace("kv").unwrap();
    let (theirs, _) = copied.get_versioned("a").unwrap().unwrap();
    assert_eq!(ours.seqno(), theirs.seqno(), "it is the same write");
    for (db, kv, fits, refused) in
        [(&session.db, &kv, ours, theirs), (&copy, &copied, theirs, ours)]
    {
        for (version, holds) in [(refused, false), (fits, true)] {
            let mut batch = db.batch();
            batch.expect(kv, "a", Expect::Version(version)).unwrap();
            let refusal = db.commit(batch).err();
            assert_eq!(refusal.is_none(), holds, "{version}: {refusal:?}");
            if let Some(error) = refusal {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert!(error.to_string().contains("history"), "{error}");
            }
        }
    }
    // A history is kept for ever.
    drop((kv, copied));
    copy.close().unwrap();
    session.db.close().unwrap();
    let session = open(&world, &options);
    let kv = session.db.keyspace("kv").unwrap();
    assert_eq!(kv.get_versioned("a").unwrap().unwrap().0, ours);
}

/// A drop flushes and syncs first. When both failed, the error of the flush was returned, and that
/// the log was poisoned went unnoticed: unlogged commits continued.
#[test]
fn a_log_that_cannot_be_synced_poisons_although_a_flush_fails_as_well() {
    let (world, options) = (World::new(8), small_with(Durability::Buffered));
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    session.db.space("other").options(hashed(1)).keyspace().unwrap();
    let unlogged = |key: &str| {
        let mut batch = session.db.batch();
        batch.put(&kv, key, "1").unwrap();
        session.db.commit(batch.durability(Durability::None))
    };
    kv.put("a", "1").unwrap();
    unlogged("b").unwrap();
    let failing = |op, kind| Fault::new(Effect::Fail(Failure::Io)).on(&[op]).of(kind);
    world.disk.inject(failing(Op::Create, FileKind::Table).forever());
    world.disk.inject(failing(Op::Sync, FileKind::Wal));
    assert_eq!(session.db.drop_keyspace("other").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(world.disk.hits(), 2, "both have failed");
    assert_eq!(unlogged("c").unwrap_err().kind(), ErrorKind::Poisoned);
}
