//! The admission of the values that merges become.
//!
//! The length of such values is known only when they are computed, while their keys are locked. So
//! they are admitted step by step:
//!
//! ```text
//! locks -> values, in steps of 64 KiB -> numbered, logged, inserted
//!    ^        | a step does not fit
//!    |        v
//!    +-- values dropped, locks and admission released -> waits for all that it will need
//! ```
//! A write that waits here holds neither a lock nor an admission, so no other write waits for it.
//! What is computed is always within what is admitted, but for one value of each thread.

use super::{Admission, Admitted};
use crate::commit::large::LARGE_WRITE;
use crate::commit::throttle::refusal;
use crate::event::StallCause;
use crate::stall::Wait;
use crate::user_code::runs_user_code;
use flagstone_base::Result;

/// How a write is admitted that may have merges.
pub(crate) struct WriteAdmission<'w, 'a> {
    /// The admission of the write itself, if it is large. It is given back where the write must
    /// wait for its values.
    pub(crate) admitted: Option<&'w mut Admitted<'a>>,
    /// Whether it may wait for its values.
    pub(crate) wait: Wait,
}

/// The admission of the values of one write.
pub(in crate::commit) struct ValueAdmission<'w, 'a> {
    admission: &'a Admission,
    /// Counts the values, and `operands`.
    admitted: &'w mut Admitted<'a>,
    wait: Wait,
    /// The bytes of the write itself if they are counted.
    operands: u64,
    /// When something did not fit: the bytes known to be needed, and those that all values will
    /// probably need.
    needed: u64,
    wanted: u64,
}

impl<'w, 'a> ValueAdmission<'w, 'a> {
    /// The admission of values beside `operands` bytes of the write itself, all of which `admitted`
    /// counts.
    pub(in crate::commit) const fn new(
        admission: &'a Admission,
        operands: usize,
        admitted: &'w mut Admitted<'a>,
        wait: Wait,
    ) -> Self {
        Self { admission, admitted, wait, operands: operands as u64, needed: 0, wanted: 0 }
    }

    /// Admits values of `bytes`, those of `done` operations of `all`, if they fit. Returns whether
    /// they do.
    #[inline]
    pub(in crate::commit) fn try_admit(&mut self, bytes: usize, done: usize, all: usize) -> bool {
        let is_counted = self.operands + bytes as u64 <= self.admitted.bytes;
        bytes < LARGE_WRITE || is_counted || self.try_grow(bytes as u64, done, all)
    }

    #[cold]
    fn try_grow(&mut self, bytes: u64, done: usize, all: usize) -> bool {
        // As much as a batch may have always fits in the end. More is refused elsewhere.
        let most = self.admission.core.setup().batch_bytes_max();
        let needed = (self.operands + bytes).min(most);
        if needed <= self.admitted.bytes {
            return true;
        }
        if runs_user_code() {
            // To wait could deadlock: see `Admission::admit_large`.
            self.admitted.grow_to(needed as usize);
            return true;
        }
        let step = needed.next_multiple_of(LARGE_WRITE as u64).min(most);
        if [step, needed].iter().any(|&bytes| self.admitted.try_grow_to(bytes)) {
            return true;
        }
        // At least twice as much as the last time, so that few attempts lead to `most`.
        let all_values = bytes.saturating_mul(all as u64) / done.max(1) as u64;
        let wanted = (self.operands + all_values).max(2 * self.admitted.bytes);
        (self.needed, self.wanted) = (needed, wanted.min(most));
        false
    }

    /// Gives the admission back, and waits until as much as is wanted fits. The write holds no
    /// lock.
    ///
    /// # Errors
    /// Busy if the write may not wait; the error of a flush if it would wait in vain.
    #[cold]
    pub(in crate::commit) fn wait(&mut self) -> Result<()> {
        if self.wait == Wait::Yes {
            return self.admitted.admit_again(self.wanted);
        }
        self.admitted.shrink_to(0);
        Err(refusal(&self.admission.core, StallCause::Memory, self.needed))
    }

    /// Gives back what values of `bytes` do not need.
    pub(in crate::commit) fn shrink_to(&mut self, bytes: usize) {
        self.admitted.shrink_to(self.operands + bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use crate::keyspace_core::Trees;
    use crate::stall::Wait;
    use crate::testing::Builder;
    use crate::{
        Batch, Durability, Engine, Environment, ErrorKind, Keyspace, KeyspaceOptions, TryCommit,
    };
    use flagstone_base::Moment;
    use flagstone_env::sync::atomic::Ordering;
    use flagstone_env::{ManualClock, MemDisk, SeededRandom, StepExecutor};
    use std::sync::Arc;

    const MIB: usize = 1 << 20;
    /// What memtables may hold.
    const SHARE: u64 = 8 << 20;
    const VALUE: usize = MIB / 2;
    /// What memtables take besides large values, each of which has memory of its own.
    const BESIDES: u64 = 256 << 10;

    /// Tables hold a value of half a MiB for each of `keys` keys. The values may expire.
    fn open(keys: u8) -> (Engine, Keyspace) {
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::new(StepExecutor::default())),
        };
        let builder = Builder::at("db").environment(environment).memory_budget(2 * SHARE);
        let db = builder.open().unwrap();
        let kv = db.keyspace_with("kv", KeyspaceOptions::new().fold("append/1")).unwrap();
        for key in 0..keys {
            kv.put_encoded(&[key], &mut vec![key; VALUE], Some(Moment::MAX), None).unwrap();
        }
        db.flush().unwrap();
        (db, kv)
    }

    fn merges(kv: &Keyspace, keys: impl Iterator<Item = u8>) -> Batch {
        let mut batch = Batch::default();
        keys.for_each(|key| batch.merge(kv, [key], "x").unwrap());
        batch
    }

    fn len(kv: &Keyspace, key: u8) -> usize {
        kv.get([key]).unwrap().unwrap().len()
    }

    /// Each thread had all its values in memory, and held all its keys, while it waited for room.
    #[test]
    fn values_that_find_no_room_are_dropped_and_their_keys_unlocked() {
        let (db, kv) = open(8);
        let commits = &kv.handle().parts().commits;
        let admission = &commits.admission;
        let counted = || admission.large.bytes.load(Ordering::SeqCst) as usize;
        std::thread::scope(|scope| {
            let large = |mib| admission.admit(mib * MIB, Wait::Yes, Trees::new).unwrap();
            let others = (large(4), large(3));
            let batch = merges(&kv, 0..8);
            let refused = db.start(&batch, Durability::Buffered, Wait::No).err();
            assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::Busy));
            assert_eq!(counted(), 7 * MIB);
            let waits = scope.spawn(|| db.commit(merges(&kv, 0..8)));
            while admission.awaiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(counted(), 7 * MIB);
            assert!(!commits.stripes.is_any_held());
            let mut small = Batch::default();
            small.put(&kv, [3], "new").unwrap();
            let started = db.try_start(&small, Durability::Buffered).unwrap();
            assert!(matches!(started, TryCommit::Started { .. }));
            drop(others);
            waits.join().unwrap().unwrap();
        });
        assert_eq!(kv.get([3]).unwrap().as_deref(), Some(&b"newx"[..]), "resolved again");
        assert_eq!([0, 7].map(|key| len(&kv, key)), [VALUE + 1; 2]);
        assert_eq!(counted(), 0);
    }

    #[test]
    fn batches_of_merges_of_many_threads_stay_within_the_share_together() {
        const THREADS: u8 = 6;
        const ROUNDS: usize = 3;
        let (db, kv) = open(8);
        let parts = kv.handle().parts();
        let admission = &parts.commits.admission;
        let counted = || admission.large.bytes.load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, kv) = (&db, &kv);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        db.commit(merges(kv, (0..6).map(|n| (thread + n) % 8))).unwrap();
                        let held = (parts.core.memory.memtable_bytes(), counted());
                        assert!(held.0 <= SHARE + BESIDES && held.1 <= SHARE, "{held:?}");
                    }
                });
            }
        });
        let all: usize = (0..8).map(|key| len(&kv, key)).sum();
        assert_eq!(all, 8 * VALUE + usize::from(THREADS) * ROUNDS * 6, "each counts once");
        assert_eq!(counted(), 0);
    }

    #[test]
    fn values_for_which_there_is_room_do_not_wait() {
        let (db, kv) = open(6);
        let started = db.start(&merges(&kv, 0..6), Durability::Buffered, Wait::No);
        started.unwrap().wait().unwrap();
        assert_eq!(db.stats().stalls, 0);
        assert_eq!(len(&kv, 5), VALUE + 1);
    }

    /// If each kept the room of its operand while it waited for that of its value, none would ever
    /// find any.
    #[test]
    fn a_large_operand_gives_its_room_back_where_its_value_must_wait() {
        const OPERAND: usize = MIB * 5 / 2;
        let (_db, kv) = open(1);
        let commits = &kv.handle().parts().commits;
        let admission = &commits.admission;
        let counted = || admission.large.bytes.load(Ordering::SeqCst) as usize;
        std::thread::scope(|scope| {
            let held = commits.stripes.hold_all();
            for key in 1..4 {
                let kv = &kv;
                scope.spawn(move || kv.merge([key], vec![key; OPERAND]).unwrap());
            }
            // All of them were admitted.
            while counted() < 3 * OPERAND {
                std::thread::yield_now();
            }
            drop(held);
        });
        assert_eq!([1, 2, 3].map(|key| len(&kv, key)), [OPERAND; 3]);
        assert_eq!(counted(), 0);
    }
}
