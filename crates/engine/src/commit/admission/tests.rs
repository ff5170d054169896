//! Tests of admission.

use super::*;
use crate::keyspace_core::Trees;
use crate::parts::Parts;
use crate::testing::Builder;
use crate::{Engine, Environment, ErrorKind, Keyspace, KeyspaceOptions};
use flagstone_base::{Kind, Moment};
use flagstone_env::{Clock, ManualClock, MemDisk, SeededRandom, StepExecutor};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// The memtables' share is 8 MiB.
fn builder() -> Builder {
    builder_with(Arc::new(ManualClock::default()))
}

fn builder_with(clock: Arc<dyn Clock>) -> Builder {
    let environment = Environment {
        disk: Arc::new(MemDisk::default()),
        clock,
        random: Arc::new(SeededRandom::new(1)),
        executor: Some(Arc::new(StepExecutor::default())),
    };
    Builder::at("db").environment(environment).memory_budget(16 << 20)
}

fn open(builder: Builder) -> (Engine, Keyspace) {
    let db = builder.open().unwrap();
    let kv = db.keyspace("k").unwrap();
    (db, kv)
}

#[test]
fn large_writes_pass_together_while_they_fit() {
    let (_db, kv) = open(builder());
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    let large = |mib: usize| admission.admit(mib * MIB, Wait::No, Trees::new);
    let pair = (large(3).unwrap(), large(4).unwrap());
    assert!(pair.0.is_some() && pair.1.is_some());
    assert_eq!(large(2).err().map(|error| error.kind()), Some(ErrorKind::Busy));
    assert!(admission.admit(100, Wait::No, Trees::new).unwrap().is_none(), "not counted");
    assert!(large(5).unwrap().is_none(), "longer than a batch may be");
    let counted = admission.count_large(4 * MIB);
    drop(pair.0);
    assert!(large(1).is_err(), "what was counted takes the room of others");
    drop(counted);
    assert!(large(2).unwrap().is_some());
}

#[test]
fn a_write_that_is_alone_waits_for_flushes_as_long_as_they_make_room() {
    let alone = |bytes, held, room| may_pass(0, bytes, held, 100, room);
    assert!(alone(30, 70, Room::Expected) && !alone(31, 70, Room::Expected));
    assert!(alone(31, 70, Room::Hopeless), "flushes fail, or small writes take what they free");
    assert!(
        !alone(10, 100, Room::Hopeless),
        "many that come one after another go over the share once"
    );
    assert!(alone(50, 50, Room::Expected), "the largest, when flushes have nothing more to do");
    assert!(!may_pass(1, 31, 70, 100, Room::Hopeless), "others will be done, whatever flushes do");
}

/// A large write that was alone passed whatever the memtables held. Two threads that wrote
/// documents of a quarter of the budget had three quarters of it in memtables.
#[test]
fn memtables_stay_within_their_share_under_large_writes() {
    let (db, kv) = open(builder());
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    for i in 0..40_u8 {
        kv.put([i], vec![i; 2 * MIB + 7 * usize::from(i)]).unwrap();
        assert!(
            parts.core.memory.memtable_bytes() <= 8 << 20,
            "{i}: {}",
            parts.core.memory.memtable_bytes()
        );
    }
    assert_eq!(admission.large.bytes.load(Ordering::Relaxed), 0);
    assert!(db.stats().flushes > 5);
}

/// By waiting early, the update does not make other writers of the key wait for its flush.
#[test]
fn an_update_waits_before_it_locks_its_key_when_the_last_one_was_large() {
    let (_db, kv) = open(builder());
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    let updated = |i: u8, bytes: usize| {
        kv.read_modify_write(&[i], |_| Ok(Some((Kind::Put, vec![i; bytes])))).unwrap();
    };
    for i in 0..40_u8 {
        updated(i % 4, 2 * MIB + 7 * usize::from(i));
        assert!(
            parts.core.memory.memtable_bytes() <= 8 << 20,
            "{i}: {}",
            parts.core.memory.memtable_bytes()
        );
    }
    let hint = || kv.core().updated_bytes.load(Ordering::Relaxed);
    assert!(hint() > 2 * MIB);
    updated(1, 100);
    assert_eq!(hint(), 0, "small ones wait for no room");
    assert_eq!(admission.large.bytes.load(Ordering::Relaxed), 0);
}

/// Only their operands were counted.
#[test]
fn the_values_that_merges_become_stay_within_the_share() {
    let (db, _) = open(builder());
    let kv = db.keyspace_with("folds", KeyspaceOptions::new().fold("append/1")).unwrap();
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    for i in 0..3_u8 {
        kv.put_encoded(&[i], &mut vec![i; 3 * MIB], Some(Moment::MAX), None).unwrap();
    }
    db.flush().unwrap();
    for i in 0..12_u8 {
        kv.merge([i % 3], "x").unwrap();
        let held = parts.core.memory.memtable_bytes();
        assert!(held <= 8 << 20, "{i}: {held}");
    }
    assert_eq!(admission.large.bytes.load(Ordering::Relaxed), 0);
    assert_eq!(admission.updates.bytes.load(Ordering::Relaxed), 0);
    assert_eq!(kv.get([1]).unwrap().unwrap().len(), 3 * MIB + 4);
}

/// Each of them found room before the first was in a memtable.
#[test]
fn updates_of_many_threads_stay_within_the_share_together() {
    const THREADS: usize = 6;
    let (_db, kv) = open(builder());
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    let met = AtomicUsize::new(0);
    let change = |key: u8| {
        met.fetch_add(1, Ordering::Relaxed);
        // Two keys may share a lock; then not all threads meet.
        let is_alone = || met.load(Ordering::Relaxed) < THREADS;
        (0..100_000).take_while(|_| is_alone()).for_each(|_| std::thread::yield_now());
        Ok(Some((Kind::Put, vec![key; 3 * MIB])))
    };
    std::thread::scope(|scope| {
        for key in 0..THREADS as u8 {
            let (kv, change) = (&kv, &change);
            scope.spawn(move || {
                kv.read_modify_write(&[key], |_| change(key)).unwrap();
                let held = parts.core.memory.memtable_bytes();
                assert!(held <= 8 << 20, "{held}");
            });
        }
    });
    assert_eq!(met.load(Ordering::Relaxed), THREADS);
    assert_eq!(admission.large.bytes.load(Ordering::Relaxed), 0);
    assert_eq!(admission.updates.bytes.load(Ordering::Relaxed), 0);
    assert_eq!(kv.count().unwrap(), THREADS as u64);
}

/// The put is admitted and waits for the key. The update holds the key and waits for room.
#[test]
fn an_update_does_not_wait_for_a_large_write_of_its_key() {
    let (_db, kv) = open(builder());
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    let value = |byte: u8| vec![byte; 3 * MIB];
    kv.put("other", value(0)).unwrap();
    std::thread::scope(|scope| {
        let change = || {
            scope.spawn(|| kv.put("key", value(1)).unwrap());
            while admission.large.bytes.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            Ok(Some((Kind::Put, value(2))))
        };
        kv.read_modify_write(b"key", |_| change()).unwrap();
    });
    assert_eq!(kv.get("key").unwrap().unwrap(), value(1));
}

/// A clock that advances by a second at each reading.
#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn wall(&self) -> Duration {
        self.monotonic()
    }
}

#[test]
fn the_time_that_a_large_write_waits_for_its_turn_is_counted() {
    let clock = Arc::new(Ticking::default());
    let (db, kv) = open(builder_with(Arc::<Ticking>::clone(&clock)));
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    let readings = || clock.0.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let first = admission.large.first.lock();
        let before = readings();
        scope.spawn(|| kv.put("a", vec![0; MIB]).unwrap());
        let waits = (0..1_000_000).any(|_| {
            std::thread::yield_now();
            readings() > before
        });
        drop(first);
        assert!(waits);
    });
    assert!(db.stats().stalled_for >= Duration::from_secs(1), "{:?}", db.stats());
}

#[test]
fn threads_have_at_most_the_share_in_flight() {
    let (_db, kv) = open(builder());
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    std::thread::scope(|scope| {
        for thread in 0..6 {
            scope.spawn(move || {
                for i in 0..50 {
                    let bytes = (1 + (thread + i) % 4) * MIB;
                    let admitted = admission.admit(bytes, Wait::Yes, Trees::new).unwrap();
                    assert!(admission.large.bytes.load(Ordering::Relaxed) <= 8 << 20);
                    std::thread::yield_now();
                    drop(admitted);
                }
            });
        }
    });
    assert_eq!(admission.large.bytes.load(Ordering::Relaxed), 0);
}

/// Has two writers wait, one of them behind the other, while `end` runs.
fn waiters_end_with(kind: ErrorKind, end: impl FnOnce(&Engine, &Parts)) {
    let (db, kv) = open(builder());
    let parts = kv.handle().parts();
    let admission = &parts.commits.admission;
    let half = || admission.admit(4 * MIB, Wait::Yes, Trees::new).unwrap();
    let all = (half(), half());
    std::thread::scope(|scope| {
        let put = |key: &'static str| kv.put(key, vec![0; MIB]);
        let waiters = [scope.spawn(move || put("a")), scope.spawn(move || put("b"))];
        while admission.awaiting.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        end(&db, parts);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap().unwrap_err().kind(), kind);
        }
    });
    drop(all);
}

#[test]
fn a_writer_that_waits_for_its_turn_wakes_when_the_database_is_closed_or_poisoned() {
    waiters_end_with(ErrorKind::Closed, |db, _| db.clone().close().unwrap());
    waiters_end_with(ErrorKind::Poisoned, |_, parts| {
        parts.core.health.poison(&flagstone_base::Error::new(ErrorKind::Poisoned, "for a test"));
    });
}
