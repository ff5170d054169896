//! Commits that never sleep, and say when to come back.

use crate::support::{folding, hashed, open, small};
use flagstone::admin::TryCommit;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Executor, Failure, Fault, Lane, Op};
use flagstone::{Batch, ErrorKind, Expires, Keyspace, Moment, Space};
use flagstone_testkit::{Rng, Session, World};
use std::time::Duration;

fn batch_of(kv: &Keyspace, n: u32, bytes: usize) -> Batch {
    let mut batch = Batch::default();
    batch.put(kv, n.to_be_bytes(), vec![n as u8; bytes]).unwrap();
    batch
}

/// Commits until it is told to come back. Returns how many it committed, the longest pause, and
/// when to come back.
fn fill(session: &Session, kv: &Keyspace, bytes: usize) -> (u32, Duration, Duration) {
    let mut longest = Duration::ZERO;
    for n in 0..10_000 {
        match session.db.try_commit(&batch_of(kv, n, bytes)).unwrap() {
            TryCommit::Started { ticket, pause } => {
                assert!(ticket.is_done());
                assert!(pause >= longest || pause.is_zero(), "{pause:?} after {longest:?}");
                longest = longest.max(pause);
            }
            TryCommit::RetryAfter(time) => return (n, longest, time),
        }
    }
    panic!("no commit was told to come back");
}

#[test]
fn a_commit_that_never_sleeps_tells_to_pause_and_then_to_come_back() {
    // A value of 64 KiB and more is admitted before it is written.
    for bytes in [1000, 100 << 10] {
        let world = World::new(1);
        let session = open(&world, &small().memory_budget(2 << 20));
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        let (committed, pause, after) = fill(&session, &kv, bytes);
        let stats = session.db.stats();
        assert_eq!((stats.stalls, stats.stalled_for), (0, Duration::ZERO), "no commit slept");
        assert_eq!(stats.flushes, 0, "nor did it work for others");
        assert!(bytes > 1000 || pause > Duration::ZERO, "it was told to slow down first");
        assert!(pause <= Duration::from_millis(1), "{pause:?}");
        assert!((1..=50).contains(&after.as_millis()), "{after:?}");
        assert_eq!(kv.count().unwrap(), u64::from(committed), "nothing of the last one happened");
        session.settle();
        let again = session.db.try_commit(&batch_of(&kv, committed, bytes)).unwrap();
        assert!(matches!(again, TryCommit::Started { pause: Duration::ZERO, .. }));
    }
}

#[test]
fn who_would_wait_for_a_flush_that_fails_is_told_why() {
    let world = World::new(2);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create, Op::Append]);
    world.disk.inject(full.of(FileKind::Table).forever());
    fill(&session, &kv, 1000);
    let mut told = None;
    for _ in 0..100 {
        // While the flush is tried again its result is not known.
        session.executor.assist();
        match session.db.try_commit(&batch_of(&kv, 0, 1000)) {
            Ok(TryCommit::RetryAfter(_)) => {}
            Ok(TryCommit::Started { .. }) => panic!("there is no room"),
            Err(error) => {
                told = Some(error);
                break;
            }
        }
    }
    assert_eq!(told.unwrap().kind(), ErrorKind::OutOfSpace);
    let again = session.db.try_commit(&batch_of(&kv, 0, 1000)).err();
    assert_eq!(again.map(|error| error.kind()), Some(ErrorKind::OutOfSpace));
    world.disk.heal();
    session.settle();
    let again = session.db.try_commit(&batch_of(&kv, 0, 1000)).unwrap();
    assert!(matches!(again, TryCommit::Started { .. }));
}

/// It was the second failure since the open, with a flush that succeeded between the two.
#[test]
fn the_first_failure_of_a_flush_is_no_reason_to_give_up_whatever_failed_long_ago() {
    let world = World::new(2);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let fail_once = || {
        let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Create]);
        world.disk.inject(fault.of(FileKind::Table));
    };
    kv.put("a", "1").unwrap();
    fail_once();
    session.db.flush().unwrap_err();
    session.db.flush().unwrap();
    let (committed, ..) = fill(&session, &kv, 1000);
    let is_refused = || {
        let tried = session.db.try_commit(&batch_of(&kv, committed, 1000)).unwrap();
        matches!(tried, TryCommit::RetryAfter(_))
    };
    fail_once();
    let flushes = session.db.stats().flushes;
    while session.executor.step(Lane::Flush) {}
    assert_eq!(session.db.stats().flushes, flushes, "it failed");
    assert!(is_refused());
    session.settle();
    let again = session.db.try_commit(&batch_of(&kv, committed, 1000)).unwrap();
    assert!(matches!(again, TryCommit::Started { .. }));
}

/// It looked for compactions itself when it sealed a memtable, and whenever it said when to come
/// back.
#[test]
fn a_commit_that_never_sleeps_reads_no_table() {
    let world = World::new(4);
    let options = small().memory_budget(8 << 20);
    let mut rng = Rng::new(4);
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    for _ in 0..2 {
        (0..900_u32).for_each(|n| kv.put(n.to_be_bytes(), rng.bytes(1000)).unwrap());
        session.db.flush().unwrap();
    }
    drop(kv);
    session.db.close().unwrap();
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let reads = || world.mem.counts().of(Op::Read);
    let before = reads();
    fill(&session, &kv, 1000);
    assert_eq!(reads(), before);
    while session.executor.step(Lane::Compaction) {}
    assert!(reads() > before, "a worker does it");
}

/// Where entries expire, a commit writes the value that a merge results in.
#[test]
fn a_merge_whose_value_finds_no_room_is_told_to_come_back() {
    let world = World::new(3);
    let session = open(&world, &small().memory_budget(8 << 20));
    let kv = session.db.space("kv").options(folding(1, "append/1")).keyspace().unwrap();
    let expiring = Moment::MAX;
    kv.put("key", vec![7; 900 << 10].expires(expiring)).unwrap();
    session.db.flush().unwrap();
    let mut batch = Batch::default();
    batch.merge(&kv, "key", "x").unwrap();
    let try_merge = || session.db.try_commit(&batch).unwrap();
    let started = (0..10).take_while(|_| matches!(try_merge(), TryCommit::Started { .. })).count();
    let TryCommit::RetryAfter(after) = try_merge() else { panic!("there is no room") };
    assert!((1..=50).contains(&after.as_millis()), "{after:?}");
    let stats = session.db.stats();
    assert!(stats.memtable_bytes <= 4 << 20, "{} after {started}", stats.memtable_bytes);
    assert_eq!((stats.stalls, stats.stalled_for), (0, Duration::ZERO), "nobody slept");
    assert_eq!(stats.flushes, 1, "nor did it work for others");
    assert_eq!(kv.get("key").unwrap().unwrap().len(), (900 << 10) + started);
    session.settle();
    assert!(matches!(try_merge(), TryCommit::Started { .. }));
}
