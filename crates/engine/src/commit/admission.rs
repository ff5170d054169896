//! Large writes take turns: memtables and the large writes in flight stay within the memtables'
//! share.
//!
//! ```text
//! admitted -> encoded -> log -> memtable -> released
//!          |------- counted in flight ----|
//! ```
//! Without turns, many threads that find room at the same moment could fill the memory several
//! times over. Small writes are not counted and never wait here.
//!
//! An update learns the length of its value while it holds its key, and calls the user's function
//! once. A large write that was admitted may wait for that key. So an update waits only for flushes
//! and for other updates, which hold all they need. Later writes wait for both:
//!
//! ```text
//! memtables + updates <= share             what an update waits for
//! memtables + all large writes <= share    what any other large write waits for
//! ```
//! So both kinds together take at most twice the share. Merges that become values are no updates:
//! they wait before they hold their keys. See [`super::room`].

use super::admitted::{Admitted, count_write};
use super::stall::Turns;
use super::throttle::Throttle;
use crate::event::StallCause;
use crate::inside::is_inside_any;
use flagstone_base::Result;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};

/// After this many flushes a large write that is alone may exceed the share: small writes may have
/// taken all the room that the flushes made. A flush frees at least about one part in this many of
/// the share.
const PATIENCE: u64 = 64;

/// Admits large writes in their order of arrival, each as soon as it fits. Returns `None` for more
/// bytes than a batch may have: the commit path refuses them.
#[cold]
pub(super) fn admit(throttle: &Throttle, bytes: u64, wait: bool) -> Result<Option<Admitted<'_>>> {
    if bytes > throttle.setup.batch_bytes_max() {
        return Ok(None);
    }
    if is_inside_any() {
        // This thread holds the key of an update of another database. A writer that is admitted
        // here may wait for that key, so waiting for its bytes could deadlock.
        return Ok(count_write(throttle, bytes as usize));
    }
    let mut admitted = Admitted::of(throttle, 0);
    if wait {
        admit_again(throttle, &mut admitted, bytes)?;
    } else if !try_grow(throttle, &mut admitted, bytes) {
        return Err(throttle.no_room(StallCause::Memory, bytes));
    }
    Ok(Some(admitted))
}

/// Gives back what `admitted` counts, then waits until `bytes` fit. What waits holds nothing that
/// others wait for.
pub(super) fn admit_again(
    throttle: &Throttle,
    admitted: &mut Admitted<'_>,
    bytes: u64,
) -> Result<()> {
    admitted.shrink_to(0);
    take_turn(throttle, &throttle.stall.large, bytes)?;
    admitted.bytes = bytes;
    Ok(())
}

/// Raises what `admitted` counts to `bytes` if they fit now and no other write waits. Returns
/// whether it did.
pub(super) fn try_grow(throttle: &Throttle, admitted: &mut Admitted<'_>, bytes: u64) -> bool {
    let stall = &throttle.stall;
    let more = bytes.saturating_sub(admitted.bytes);
    let is_next = stall.awaiting.load(Ordering::SeqCst) == 0;
    let has_grown = is_next && try_count(throttle, &stall.large.bytes, more, false);
    if has_grown {
        admitted.bytes += more;
    }
    has_grown
}

/// Admits an update, which holds its key. Returns `None` for a small one. An update of more bytes
/// than a batch may have does not wait: the commit path refuses it.
#[inline]
pub(crate) fn admit_update(throttle: &Throttle, bytes: usize) -> Result<Option<Admitted<'_>>> {
    // Counted from here on: later writes wait for it.
    let Some(mut admitted) = count_write(throttle, bytes) else { return Ok(None) };
    if admitted.bytes <= throttle.setup.batch_bytes_max() {
        take_turn(throttle, &throttle.stall.updates, admitted.bytes)?;
        admitted.updating = admitted.bytes;
    }
    Ok(Some(admitted))
}

/// Like [`admit_update`], but returns Busy where that would wait.
pub(super) fn try_admit_update(throttle: &Throttle, bytes: usize) -> Result<Option<Admitted<'_>>> {
    let Some(mut admitted) = count_write(throttle, bytes) else { return Ok(None) };
    let bytes = admitted.bytes;
    if bytes <= throttle.setup.batch_bytes_max() {
        if !try_count(throttle, &throttle.stall.updates.bytes, bytes, false) {
            return Err(throttle.no_room(StallCause::Memory, bytes));
        }
        admitted.updating = bytes;
    }
    Ok(Some(admitted))
}

/// Waits until `bytes` fit beside the memtables and what `turns` counts, and counts them there.
#[cold]
fn take_turn(throttle: &Throttle, turns: &Turns, bytes: u64) -> Result<()> {
    let _door = turns.door.try_lock().unwrap_or_else(|| {
        let started = throttle.setup.now();
        let door = turns.door.lock();
        throttle.note_waited(throttle.setup.now() - started);
        door
    });
    if try_count(throttle, &turns.bytes, bytes, false) {
        return Ok(());
    }
    let installed = throttle.work.lock().flushes.installed;
    let check = || {
        let is_hopeless = has_no_hope_of_room(throttle, installed);
        let has_room = try_count(throttle, &turns.bytes, bytes, is_hopeless);
        Ok(has_room.then_some(()).ok_or(StallCause::Memory))
    };
    throttle.stall.awaiting.fetch_add(1, Ordering::SeqCst);
    let found = throttle.stop(StallCause::Memory, check);
    throttle.stall.awaiting.fetch_sub(1, Ordering::SeqCst);
    found
}

/// Returns whether a writer that waits since flush number `installed` has no hope of room: flushes
/// fail, or other writers have taken all the room that many flushes made.
fn has_no_hope_of_room(throttle: &Throttle, installed: u64) -> bool {
    let queue = throttle.work.lock();
    let is_failing = throttle.work.stuck() > 0 || queue.flushes.pause.is_some();
    is_failing || queue.flushes.installed >= installed + PATIENCE
}

/// Adds `bytes` to `counted` if they may pass.
fn try_count(throttle: &Throttle, counted: &AtomicU64, bytes: u64, is_hopeless: bool) -> bool {
    let share = throttle.setup.options.memtable_share();
    let more = |others: u64| {
        // Read after `others`: a write that is no longer in that sum is in the memtables by now.
        let held = throttle.memory.memtable_bytes();
        let sum = others.saturating_add(bytes);
        may_pass(others, sum, held, share, is_hopeless).then_some(sum)
    };
    counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
}

/// Returns whether a write is admitted. `sum` counts the bytes in flight with it, `others` those
/// without it. The memtables hold `held` bytes of their `share`. The largest write takes half of
/// the share, and flushes run until the memtables are half empty, so every write that is alone fits
/// in the end. If there is no hope of that, one write may exceed the share while the memtables are
/// within it.
const fn may_pass(others: u64, sum: u64, held: u64, share: u64, is_hopeless: bool) -> bool {
    held.saturating_add(sum) <= share || (others == 0 && is_hopeless && held < share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::before_write;
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
        let throttle = &parts.commits.throttle;
        let large = |mib: usize| before_write(throttle, mib * MIB, false, Trees::new);
        let pair = (large(3).unwrap(), large(4).unwrap());
        assert!(pair.0.is_some() && pair.1.is_some());
        assert_eq!(large(2).err().map(|error| error.kind()), Some(ErrorKind::Busy));
        assert!(before_write(throttle, 100, false, Trees::new).unwrap().is_none(), "not counted");
        assert!(large(5).unwrap().is_none(), "longer than a batch may be");
        let counted = count_write(throttle, 4 * MIB);
        drop(pair.0);
        assert!(large(1).is_err(), "what was counted takes the room of others");
        drop(counted);
        assert!(large(2).unwrap().is_some());
    }

    #[test]
    fn a_write_that_is_alone_waits_for_flushes_as_long_as_they_make_room() {
        let alone = |bytes, held, is_hopeless| may_pass(0, bytes, held, 100, is_hopeless);
        assert!(alone(30, 70, false) && !alone(31, 70, false));
        assert!(alone(31, 70, true), "flushes fail, or small writes take what they free");
        assert!(!alone(10, 100, true), "many that come one after another go over the share once");
        assert!(alone(50, 50, false), "the largest, when flushes have nothing more to do");
        assert!(!may_pass(1, 31, 70, 100, true), "others will be done, whatever flushes do");
    }

    /// A large write that was alone passed whatever the memtables held. Two threads that wrote
    /// documents of a quarter of the budget had three quarters of it in memtables.
    #[test]
    fn memtables_stay_within_their_share_under_large_writes() {
        let (db, kv) = open(builder());
        let parts = kv.handle().parts();
        let throttle = &parts.commits.throttle;
        for i in 0..40_u8 {
            kv.put([i], vec![i; 2 * MIB + 7 * usize::from(i)]).unwrap();
            assert!(
                parts.memory.memtable_bytes() <= 8 << 20,
                "{i}: {}",
                parts.memory.memtable_bytes()
            );
        }
        assert_eq!(throttle.stall.large.bytes.load(Ordering::Relaxed), 0);
        assert!(db.stats().flushes > 5);
    }

    /// By waiting early, the update does not make other writers of the key wait for its flush.
    #[test]
    fn an_update_waits_before_it_locks_its_key_when_the_last_one_was_large() {
        let (_db, kv) = open(builder());
        let parts = kv.handle().parts();
        let throttle = &parts.commits.throttle;
        let updated = |i: u8, bytes: usize| {
            kv.read_modify_write(&[i], |_| Ok(Some((Kind::Put, vec![i; bytes])))).unwrap();
        };
        for i in 0..40_u8 {
            updated(i % 4, 2 * MIB + 7 * usize::from(i));
            assert!(
                parts.memory.memtable_bytes() <= 8 << 20,
                "{i}: {}",
                parts.memory.memtable_bytes()
            );
        }
        let hint = || kv.core().updated_bytes.load(Ordering::Relaxed);
        assert!(hint() > 2 * MIB);
        updated(1, 100);
        assert_eq!(hint(), 0, "small ones wait for no room");
        assert_eq!(throttle.stall.large.bytes.load(Ordering::Relaxed), 0);
    }

    /// Only their operands were counted.
    #[test]
    fn the_values_that_merges_become_stay_within_the_share() {
        let (db, _) = open(builder());
        let kv = db.keyspace_with("folds", KeyspaceOptions::new().fold("append/1")).unwrap();
        let parts = kv.handle().parts();
        let throttle = &parts.commits.throttle;
        for i in 0..3_u8 {
            kv.put_encoded(&[i], (&mut vec![i; 3 * MIB], Some(Moment::MAX)), None).unwrap();
        }
        db.flush().unwrap();
        for i in 0..12_u8 {
            kv.merge([i % 3], "x").unwrap();
            let held = parts.memory.memtable_bytes();
            assert!(held <= 8 << 20, "{i}: {held}");
        }
        assert_eq!(throttle.stall.large.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(throttle.stall.updates.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(kv.get([1]).unwrap().unwrap().len(), 3 * MIB + 4);
    }

    /// Each of them found room before the first was in a memtable.
    #[test]
    fn updates_of_many_threads_stay_within_the_share_together() {
        const THREADS: usize = 6;
        let (_db, kv) = open(builder());
        let parts = kv.handle().parts();
        let throttle = &parts.commits.throttle;
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
                    let held = parts.memory.memtable_bytes();
                    assert!(held <= 8 << 20, "{held}");
                });
            }
        });
        assert_eq!(met.load(Ordering::Relaxed), THREADS);
        assert_eq!(throttle.stall.large.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(throttle.stall.updates.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(kv.count().unwrap(), THREADS as u64);
    }

    /// The put is admitted and waits for the key. The update holds the key and waits for room.
    #[test]
    fn an_update_does_not_wait_for_a_large_write_of_its_key() {
        let (_db, kv) = open(builder());
        let parts = kv.handle().parts();
        let throttle = &parts.commits.throttle;
        let value = |byte: u8| vec![byte; 3 * MIB];
        kv.put("other", value(0)).unwrap();
        std::thread::scope(|scope| {
            let change = || {
                scope.spawn(|| kv.put("key", value(1)).unwrap());
                while throttle.stall.large.bytes.load(Ordering::Relaxed) == 0 {
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
        let throttle = &parts.commits.throttle;
        let readings = || clock.0.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let door = throttle.stall.large.door.lock();
            let before = readings();
            scope.spawn(|| kv.put("a", vec![0; MIB]).unwrap());
            let waits = (0..1_000_000).any(|_| {
                std::thread::yield_now();
                readings() > before
            });
            drop(door);
            assert!(waits);
        });
        assert!(db.stats().stalled_for >= Duration::from_secs(1), "{:?}", db.stats());
    }

    #[test]
    fn threads_have_at_most_the_share_in_flight() {
        let (_db, kv) = open(builder());
        let parts = kv.handle().parts();
        let throttle = &parts.commits.throttle;
        std::thread::scope(|scope| {
            for thread in 0..6 {
                scope.spawn(move || {
                    for i in 0..50 {
                        let bytes = (1 + (thread + i) % 4) * MIB;
                        let admitted = before_write(throttle, bytes, true, Trees::new).unwrap();
                        assert!(throttle.stall.large.bytes.load(Ordering::Relaxed) <= 8 << 20);
                        std::thread::yield_now();
                        drop(admitted);
                    }
                });
            }
        });
        assert_eq!(throttle.stall.large.bytes.load(Ordering::Relaxed), 0);
    }

    /// Has two writers wait, one of them behind the other, while `end` runs.
    fn waiters_end_with(kind: ErrorKind, end: impl FnOnce(&Engine, &Parts)) {
        let (db, kv) = open(builder());
        let parts = kv.handle().parts();
        let throttle = &parts.commits.throttle;
        let half = || before_write(throttle, 4 * MIB, true, Trees::new).unwrap();
        let all = (half(), half());
        std::thread::scope(|scope| {
            let put = |key: &'static str| kv.put(key, vec![0; MIB]);
            let waiters = [scope.spawn(move || put("a")), scope.spawn(move || put("b"))];
            while throttle.stall.awaiting.load(Ordering::Relaxed) == 0 {
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
            parts.health.poison(&flagstone_base::Error::new(ErrorKind::Poisoned, "for a test"));
        });
    }
}
