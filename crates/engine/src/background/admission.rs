//! Large writes take turns: memtables and the large writes in flight stay within the memtables' share.
//!
//! ```text
//! admitted -> encoded -> log -> memtable -> released
//!          |------- counted in flight ----|
//! ```
//! Without turns, many threads that find room at the same moment could fill the memory several times over. Small writes
//! are not counted and never wait here.

use crate::commit::{LARGE_WRITE, Stall};
use crate::event::StallCause;
use crate::inside::is_inside_any;
use crate::shared::Shared;
use flagstone_base::Result;
use flagstone_env::sync::atomic::Ordering;

/// After this many flushes a large write that is alone may exceed the share: small writes may have taken all the room
/// that the flushes made. A flush frees at least about one part in this many of the share.
const PATIENCE: u64 = 64;

/// The admission of a large write. Its bytes are counted until this is dropped.
pub struct Admitted<'a> {
    stall: &'a Stall,
    bytes: u64,
}

impl Admitted<'_> {
    /// Raises the count to `bytes` if the write is longer than estimated. Later writes wait for the difference, this one
    /// does not.
    pub(crate) fn grow_to(&mut self, bytes: usize) {
        let more = (bytes as u64).saturating_sub(self.bytes);
        self.stall.admitted.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        // The memtables count the entry by now. SeqCst: either the waiting writer sees the new sum, or its flag is seen
        // here and it is woken.
        self.stall.admitted.fetch_sub(self.bytes, Ordering::SeqCst);
        if self.stall.is_awaited.load(Ordering::SeqCst) {
            self.stall.ring();
        }
    }
}

impl Shared {
    /// Admits large writes in their order of arrival, each as soon as it fits. Returns `None` for more bytes than a batch
    /// may have: the commit path refuses them.
    #[cold]
    pub(super) fn admit(&self, bytes: u64, wait: bool) -> Result<Option<Admitted<'_>>> {
        if bytes > self.batch_bytes_max() {
            return Ok(None);
        }
        if is_inside_any() {
            // This thread holds the key of an update of another database. A writer that is admitted here may wait for
            // that key, so waiting for its bytes could deadlock.
            return Ok(self.count_write(bytes as usize));
        }
        if !wait {
            let is_next = !self.stall.is_awaited.load(Ordering::SeqCst);
            let admitted = is_next.then(|| self.try_admit(bytes, false)).flatten();
            return admitted.map(Some).ok_or_else(super::back_pressure::busy);
        }
        let _door = self.stall.door.lock();
        if let Some(admitted) = self.try_admit(bytes, false) {
            return Ok(Some(admitted));
        }
        let installed = self.background.lock().installed;
        let look = || {
            let admitted = self.try_admit(bytes, self.has_no_hope_of_room(installed));
            Ok(admitted.ok_or(StallCause::Memory))
        };
        self.stall.is_awaited.store(true, Ordering::SeqCst);
        let admitted = self.stop(true, StallCause::Memory, look);
        self.stall.is_awaited.store(false, Ordering::SeqCst);
        admitted.map(Some)
    }

    /// Whether a writer that waits since flush number `installed` cannot hope for room: flushes fail, or other writers
    /// have taken all the room that many flushes made.
    fn has_no_hope_of_room(&self, installed: u64) -> bool {
        let queue = self.background.lock();
        let is_failing = self.background.stuck.load(Ordering::Relaxed) > 0;
        is_failing || queue.rest_of_flushes.is_some() || queue.installed >= installed + PATIENCE
    }

    fn try_admit(&self, bytes: u64, is_hopeless: bool) -> Option<Admitted<'_>> {
        let (stall, share) = (&self.stall, self.options.memtable_share());
        let more = |others: u64| {
            // Read after `others`: a write that is no longer in that sum is in the memtables by now.
            let held = self.memtable_bytes();
            let sum = others.saturating_add(bytes);
            may_pass(others, sum, held, share, is_hopeless).then_some(sum)
        };
        let order = Ordering::SeqCst;
        stall.admitted.fetch_update(order, order, more).ok().map(|_| Admitted { stall, bytes })
    }

    /// Counts a large write that must not wait, such as an update that holds its key. Later writes wait for it.
    #[inline]
    pub(crate) fn count_write(&self, bytes: usize) -> Option<Admitted<'_>> {
        (bytes >= LARGE_WRITE).then(|| {
            let mut admitted = Admitted { stall: &self.stall, bytes: 0 };
            admitted.grow_to(bytes);
            admitted
        })
    }
}

/// Whether a write is admitted. `sum` counts the bytes in flight with it, `others` those without it; the memtables hold
/// `held` bytes of their `share`. The largest write takes half of the share, and flushes run until the memtables are half
/// empty, so every write fits in the end if it is alone. If there is no hope of that, one write may exceed the share
/// while the memtables are within it.
const fn may_pass(others: u64, sum: u64, held: u64, share: u64, is_hopeless: bool) -> bool {
    held.saturating_add(sum) <= share || (others == 0 && is_hopeless && held < share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Trees;
    use crate::testing::Builder;
    use crate::{Engine, Environment, ErrorKind, Keyspace};
    use flagstone_base::Kind;
    use flagstone_env::{ManualClock, MemDisk, SeededRandom, StepExecutor};
    use std::sync::Arc;

    const MIB: usize = 1 << 20;

    /// 8 MiB are the memtables' share.
    fn builder() -> Builder {
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock: Arc::new(ManualClock::default()),
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
        let shared = kv.handle().shared();
        let large = |mib: usize| shared.before_write(mib * MIB, false, Trees::new);
        let pair = (large(3).unwrap(), large(4).unwrap());
        assert!(pair.0.is_some() && pair.1.is_some());
        assert_eq!(large(2).err().map(|error| error.kind()), Some(ErrorKind::Busy));
        assert!(shared.before_write(100, false, Trees::new).unwrap().is_none(), "not counted");
        assert!(large(5).unwrap().is_none(), "longer than a batch may be");
        let counted = shared.count_write(4 * MIB);
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

    /// A large write that was alone passed whatever the memtables held: two threads with documents of a quarter of the
    /// budget had three quarters of it in memtables.
    #[test]
    fn memtables_stay_within_their_share_under_large_writes() {
        let (db, kv) = open(builder());
        let shared = kv.handle().shared();
        for i in 0..40_u8 {
            kv.put([i], vec![i; 2 * MIB + 7 * usize::from(i)]).unwrap();
            assert!(shared.memtable_bytes() <= 8 << 20, "{i}: {}", shared.memtable_bytes());
        }
        assert_eq!(shared.stall.admitted.load(Ordering::Relaxed), 0);
        assert!(db.stats().flushes > 5);
    }

    /// An update holds the key when it learns how long its value is, so it never waits with that in hand.
    #[test]
    fn an_update_waits_before_it_locks_its_key_when_the_last_one_was_large() {
        let (_db, kv) = open(builder());
        let shared = kv.handle().shared();
        let updated = |i: u8, bytes: usize| {
            kv.read_modify_write(&[i], |_| Ok(Some((Kind::Put, vec![i; bytes])))).unwrap();
        };
        for i in 0..40_u8 {
            updated(i % 4, 2 * MIB + 7 * usize::from(i));
            assert!(shared.memtable_bytes() <= 8 << 20, "{i}: {}", shared.memtable_bytes());
        }
        let hint = || kv.core().updated_bytes.load(Ordering::Relaxed);
        assert!(hint() > 2 * MIB);
        updated(1, 100);
        assert_eq!(hint(), 0, "small ones wait for no room");
        assert_eq!(shared.stall.admitted.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn threads_have_no_more_on_the_way_than_the_share() {
        let (_db, kv) = open(builder());
        let shared = kv.handle().shared();
        std::thread::scope(|scope| {
            for thread in 0..6 {
                scope.spawn(move || {
                    for i in 0..50 {
                        let bytes = (1 + (thread + i) % 4) * MIB;
                        let admitted = shared.before_write(bytes, true, Trees::new).unwrap();
                        assert!(shared.stall.admitted.load(Ordering::Relaxed) <= 8 << 20);
                        std::thread::yield_now();
                        drop(admitted);
                    }
                });
            }
        });
        assert_eq!(shared.stall.admitted.load(Ordering::Relaxed), 0);
    }

    /// Two writers wait, one of them at the door, while `end` happens.
    fn waiters_end_with(kind: ErrorKind, end: impl FnOnce(&Engine, &Shared)) {
        let (db, kv) = open(builder());
        let shared = kv.handle().shared();
        let half = || shared.before_write(4 * MIB, true, Trees::new).unwrap();
        let all = (half(), half());
        std::thread::scope(|scope| {
            let put = |key: &'static str| kv.put(key, vec![0; MIB]);
            let waiters = [scope.spawn(move || put("a")), scope.spawn(move || put("b"))];
            while !shared.stall.is_awaited.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            end(&db, shared);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap().unwrap_err().kind(), kind);
            }
        });
        drop(all);
    }

    #[test]
    fn a_writer_that_waits_for_its_turn_wakes_when_the_database_is_closed_or_poisoned() {
        waiters_end_with(ErrorKind::Closed, |db, _| db.clone().close().unwrap());
        waiters_end_with(ErrorKind::Poisoned, |_, shared| {
            shared.poison(&flagstone_base::Error::new(ErrorKind::Poisoned, "for a test"));
        });
    }
}
