//! Many threads at once: groups form, the order holds, and rotation does not interfere.

use crate::{Dice, SMALL, create, enqueue, is_shared, mem, open, recover, seed};
use flagstone_base::ErrorKind;
use flagstone_env::{Clock, Effect, Failure, Fault, FaultDisk, Op, SlowDisk, Speed};
use flagstone_wal::{Log, LogOptions, Lsn};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

/// Runs `each` commits in each of `threads` threads, numbered under one lock. `finish` makes each
/// commit durable.
fn commit_all(log: &Log, threads: u64, each: u64, finish: impl Fn(u64, Lsn) + Sync) {
    let numbering = Mutex::new(0);
    let commit = || {
        let mut last = numbering.lock().unwrap();
        *last += 1;
        (*last, enqueue(log, *last).unwrap())
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..each {
                    let (seqno, lsn) = commit();
                    finish(seqno, lsn);
                }
            });
        }
    });
}

#[test]
fn thirty_two_writers_share_their_syncs() {
    let mem = mem();
    let speed = Speed { sync_latency: Duration::from_micros(500), ..Speed::default() };
    let disk = SlowDisk::new(Arc::new(mem.clone()), speed);
    let recovered = recover(&mem, None).unwrap().0;
    let log = create(Arc::new(disk), LogOptions::default(), &recovered).unwrap();
    commit_all(&log, 32, 50, |_, lsn| log.sync_through(lsn).unwrap());
    let stats = log.stats();
    assert!(stats.syncs * 4 < stats.records, "{stats:?}");
    assert_eq!(recover(&mem.crash_losing_unsynced(), None).unwrap().1.len(), 1600);
}

/// A clock that advances by `step` each time it is read.
struct SteppingClock {
    step: Duration,
    looks: AtomicU32,
}

impl Clock for SteppingClock {
    fn monotonic(&self) -> Duration {
        self.step * self.looks.fetch_add(1, Ordering::Relaxed)
    }

    fn wall(&self) -> Duration {
        Duration::ZERO
    }
}

fn commit_with_clock(step: Duration) -> (u64, u64) {
    let mem = mem();
    let speed = Speed { sync_latency: Duration::from_micros(200), ..Speed::default() };
    let disk = SlowDisk::new(Arc::new(mem.clone()), speed);
    let recovered = recover(&mem, None).unwrap().0;
    let clock = Arc::new(SteppingClock { step, looks: AtomicU32::new(0) });
    let log = create(Arc::new(disk), LogOptions::default(), &recovered).unwrap();
    let log = log.with_clock(Arc::<SteppingClock>::clone(&clock));
    commit_all(&log, 8, 100, |_, lsn| log.sync_through(lsn).unwrap());
    assert_eq!(recover(&mem.crash_losing_unsynced(), None).unwrap().1.len(), 800);
    (u64::from(clock.looks.load(Ordering::Relaxed)), log.stats().syncs)
}

#[test]
fn a_leader_that_yields_loses_nothing() {
    let (looks, syncs) = commit_with_clock(Duration::ZERO);
    assert!(looks > 0, "{syncs} syncs");
}

#[test]
fn a_leader_that_yielded_too_long_does_not_yield_for_a_while() {
    let (looks, syncs) = commit_with_clock(Duration::from_secs(1));
    // The clock is read twice each time: at groups 2, 66, 194 ...
    assert!(looks <= 2 + syncs / 16, "{looks} reads of the clock for {syncs} syncs");
}

/// When several syncs run at the same time and a page cannot be written, Linux reports the error to
/// only one of them.
#[test]
fn a_sync_during_one_that_fails_does_not_succeed() {
    for _ in 0..5 {
        let (mem, both) = (mem(), Barrier::new(2));
        let faulty = FaultDisk::new(Arc::new(mem.clone()));
        let speed = Speed { sync_latency: Duration::from_millis(5), ..Speed::default() };
        let recovered = recover(&mem, None).unwrap().0;
        let disk = SlowDisk::new(Arc::new(faulty.clone()), speed);
        let log = create(Arc::new(disk), LogOptions::default(), &recovered).unwrap();
        let lsns = [enqueue(&log, 1).unwrap(), enqueue(&log, 2).unwrap()];
        log.write_through(lsns[1]).unwrap();
        faulty.inject(Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]));
        std::thread::scope(|scope| {
            for lsn in lsns {
                let (log, both) = (&log, &both);
                scope.spawn(move || {
                    both.wait();
                    assert_eq!(log.sync_alone(lsn).unwrap_err().kind(), ErrorKind::Poisoned);
                });
            }
        });
        assert_eq!(log.synced(), Lsn::default());
    }
}

#[test]
fn a_sync_alone_is_a_sync_of_its_own() {
    let disk = mem();
    let log = open(&disk, LogOptions::default());
    commit_all(&log, 4, 25, |_, lsn| log.sync_alone(lsn).unwrap());
    assert!(log.stats().syncs >= 100);
}

#[test]
fn rotation_under_threads_keeps_every_record_in_order() {
    let seed = seed(0x6071);
    let disk = mem();
    let log = open(&disk, SMALL);
    let dice = Dice::new(seed);
    let roll = Mutex::new(dice);
    commit_all(&log, 8, 300, |_, lsn| {
        let roll = roll.lock().unwrap().below(12);
        match roll {
            0 => log.sync_through(lsn).unwrap(),
            1 => log.sync_alone(lsn).unwrap(),
            2 => log.rotate(),
            3 => while log.prepare().unwrap() {},
            _ => log.write_through(lsn).unwrap(),
        }
    });
    log.sync_all().unwrap();
    let (recovered, seqnos) = recover(&disk.crash_losing_unsynced(), None).unwrap();
    assert_eq!(seqnos, (1..=2400).collect::<Vec<_>>());
    assert_eq!(recovered.segments, log.segments());
}

#[test]
fn waiting_threads_cost_no_more_appends_than_records() {
    let disk = mem();
    let log = open(&disk, LogOptions::default());
    commit_all(&log, 4, 500, |_, lsn| log.write_through(lsn).unwrap());
    let stats = log.stats();
    let shared = (1..=2000).filter(|seqno| is_shared(*seqno)).count() as u64;
    assert!(stats.appends <= stats.records + shared && stats.records == 2000, "{stats:?}");
    assert_eq!(log.written(), log.enqueued());
}
