//! A lock that is biased to one owner, who uses the value all the time. Contenders may take it
//! while the owner does not hold it.
//!
//! Another lock would cost the owner two locked instructions for each use, although contenders are
//! rare. Here the owner notes that it holds the lock, and checks whether a contender does:
//!
//! ```text
//! owner:     owned = true; light barrier; wait while contended      .. work ..  owned = false
//! contender: lock; contended = true; heavy barrier; end if owned    .. work ..  contended = false
//! ```
//! If owner and contender lock at the same time, at least one sees the other: see
//! [`light_barrier`](crate::sync::light_barrier).
#![expect(unsafe_code, reason = "the protocol is what makes the access exclusive")]

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{heavy_barrier, light_barrier};
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// The handle of the owner. Only one thread at a time can use it.
pub struct BiasedOwner<T> {
    lock: Arc<BiasedLock<T>>,
    _one_thread: PhantomData<Cell<()>>,
}

/// The shared part: the value, and who holds the lock.
pub struct BiasedLock<T> {
    /// The owner holds the lock, so no contender does.
    owned: AtomicBool,
    contended: AtomicBool,
    /// A hint: whether it is worthwhile for a contender to lock.
    is_open: AtomicBool,
    contenders: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time accesses the value, the owner's or a contender's, and each sees the
// changes of the other: `owned` and `contended` are stored with Release when one unlocks and loaded
// with Acquire when the other locks. `BiasedLock::lock` explains why owner and contender never hold
// the lock at the same time.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

impl<T> BiasedOwner<T> {
    /// A value that is not open to contenders yet.
    pub fn new(value: T) -> Self {
        let lock = BiasedLock {
            owned: AtomicBool::new(false),
            contended: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            contenders: Mutex::new(()),
            value: UnsafeCell::new(value),
        };
        Self { lock: Arc::new(lock), _one_thread: PhantomData }
    }

    /// The handle for contenders.
    pub fn contender(&self) -> Weak<BiasedLock<T>> {
        Arc::downgrade(&self.lock)
    }

    /// Lets contenders know that it is worthwhile to lock, until one of them
    /// [closes](ContenderAccess::close) the value.
    pub fn open(&self) {
        self.lock.is_open.store(true, Ordering::Relaxed);
    }

    /// Calls `work` with the value. Waits while a contender holds the lock.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&T) -> R) -> R {
        // Only the owner stores to `owned`: if it is true, this call is nested in another `with`.
        let _guard = (!self.lock.owned.load(Ordering::Relaxed)).then(|| self.lock.lock());
        // SAFETY: no contender holds the lock, and the owner has no `&mut`: that takes `&mut self`.
        work(unsafe { &*self.lock.value.get() })
    }

    /// Calls `work` with the value, mutably. Waits while a contender holds the lock.
    #[inline]
    pub fn with_mut<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // The owner is borrowed mutably, so it does not hold the lock, and `work` cannot lock
        // again.
        let _guard = self.lock.lock();
        // SAFETY: no contender holds the lock, and the owner is borrowed mutably, so it has no
        // other reference.
        work(unsafe { &mut *self.lock.value.get() })
    }
}

/// The owner holds the lock until this is dropped.
struct OwnerGuard<'a>(&'a AtomicBool);

impl Drop for OwnerGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> BiasedLock<T> {
    /// Locks as the owner. Only the owner's thread calls this, while it does not hold the lock.
    /// There is a light barrier between the store to `owned` and the load of `contended`; a
    /// contender has a heavy barrier between its store to `contended` and its load of `owned`. One
    /// of the barriers comes first. If it is the owner's, the contender sees that the lock is
    /// owned, and ends. If it is the contender's, the owner sees the contender's store: true, and
    /// waits, or false, when the contender has unlocked.
    #[inline]
    fn lock(&self) -> OwnerGuard<'_> {
        self.owned.store(true, Ordering::Relaxed);
        light_barrier();
        if self.contended.load(Ordering::Acquire) {
            self.wait_for_contender();
        }
        OwnerGuard(&self.owned)
    }

    /// Waits until the contender has unlocked. The next contender comes after this call, so it
    /// finds the lock owned.
    #[cold]
    fn wait_for_contender(&self) {
        self.owned.store(false, Ordering::Release);
        let _no_contender = self.contenders.lock();
        self.owned.store(true, Ordering::Relaxed);
    }

    /// Returns whether it is worthwhile for a contender to lock: a hint.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Calls `work` with the value as a contender. Returns `None` when the owner holds the lock, or
    /// when the system refuses the heavy barrier.
    pub fn try_with<R>(&self, work: impl FnOnce(&mut ContenderAccess<'_, T>) -> R) -> Option<R> {
        /// The contender holds the lock until this is dropped.
        struct ContenderGuard<'a>(&'a AtomicBool);
        impl Drop for ContenderGuard<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        let _contenders = self.contenders.lock();
        self.contended.store(true, Ordering::Relaxed);
        let _guard = ContenderGuard(&self.contended);
        if !heavy_barrier() || self.owned.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: other contenders wait. The owner did not hold the lock after the barrier; from
        // then on it sees the contender, and waits as well.
        let value = unsafe { &mut *self.value.get() };
        Some(work(&mut ContenderAccess { value, is_open: &self.is_open }))
    }
}

/// The value as a contender sees it.
pub struct ContenderAccess<'a, T> {
    /// The value.
    pub value: &'a mut T,
    is_open: &'a AtomicBool,
}

impl<T> ContenderAccess<'_, T> {
    /// Notes that it is not worthwhile to lock again until the owner opens the value.
    pub fn close(&mut self) {
        self.is_open.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Both parts change together, so a thread that sees them differ held the lock together with
    /// another one.
    #[test]
    fn owner_and_contenders_never_hold_it_at_once() {
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let mut owned = BiasedOwner::new((0_u64, 0_u64));
        let lock = owned.contender().upgrade().unwrap();
        let is_done = AtomicBool::new(false);
        let step = |pair: &mut (u64, u64)| {
            assert_eq!(pair.0, pair.1);
            pair.0 += 1;
            std::hint::black_box(&mut *pair);
            pair.1 += 1;
        };
        std::thread::scope(|scope| {
            let contender = || {
                let mut locked = 0;
                while !is_done.load(Ordering::Relaxed) {
                    locked += u64::from(lock.try_with(|access| step(access.value)).is_some());
                    std::thread::yield_now();
                }
                locked
            };
            let contenders = [scope.spawn(contender), scope.spawn(contender)];
            for _ in 0..rounds {
                owned.with_mut(step);
                owned.with(|pair| owned.with(|same| assert_eq!(pair, same)));
            }
            is_done.store(true, Ordering::Relaxed);
            let locked: u64 =
                contenders.into_iter().map(|contender| contender.join().unwrap()).sum();
            owned.with(|pair| assert_eq!(*pair, (rounds + locked, rounds + locked)));
        });
    }

    #[test]
    fn a_contender_does_not_wait_for_the_owner() {
        let mut owned = BiasedOwner::new(1);
        let lock = owned.contender();
        owned.open();
        let contend = || lock.upgrade().unwrap().try_with(|access| *access.value += 1);
        owned.with_mut(|value| {
            *value += 10;
            assert_eq!(contend(), None);
        });
        assert_eq!(contend(), Some(()));
        assert_eq!(owned.with(|value| *value), 12);
        assert!(lock.upgrade().unwrap().is_open());
        lock.upgrade().unwrap().try_with(|access| access.close());
        assert!(!lock.upgrade().unwrap().is_open());
        drop(owned);
        assert!(lock.upgrade().is_none());
    }
}
