//! Stand-ins over shuttle, with the names and the ways of the real ones.
//!
//! | real | stand-in |
//! |---|---|
//! | `parking_lot::{Mutex, FairMutex, RwLock}` | the same of shuttle; none is poisoned by a panic, which ends the model |
//! | `parking_lot::Condvar` | shuttle's; a wait with a time limit gives way once and returns: time does not pass in a model |
//! | `arc_swap::{ArcSwap, ArcSwapOption}` | a mutex around the pointer |
//! | `std::sync::atomic` | shuttle's: sequentially consistent, whatever ordering is asked for |
//! | `std::thread_local` | one value for each thread of the model |

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

/// The scheduler, for the models that run on it.
pub use shuttle;
pub use shuttle::thread_local;

/// Atomics.
pub mod atomic {
    pub use shuttle::sync::atomic::*;
}

/// Locks with the interface of the standard library.
pub mod blocking {
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
}

/// Once.
pub const fn spins(_real: usize) -> usize {
    1
}

/// Lets other threads run.
pub fn spin_loop() {
    shuttle::thread::yield_now();
}

/// Lets other threads run.
pub fn yield_now() {
    shuttle::thread::yield_now();
}

/// A moment at which threads may change: disks have them, since a real one takes its time.
pub fn model_point() {
    shuttle::thread::yield_now();
}

/// Nothing: atomics are sequentially consistent here.
pub const fn prepare_barriers() {}

/// Nothing: atomics are sequentially consistent here.
pub const fn light_barrier() {}

/// Nothing, and it never fails.
#[must_use]
pub const fn heavy_barrier() -> bool {
    true
}

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

/// A mutex whose waiters come in turn; the model's come in any order.
pub type FairMutex<T> = Mutex<T>;

/// A held mutex.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a shuttle::sync::Mutex<T>,
    /// Empty only while a condition variable waits.
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = Some(self.0.lock().unwrap_or_else(PoisonError::into_inner));
        MutexGuard { mutex: &self.0, held }
    }

    /// Takes it if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { mutex: &self.0, held: Some(held) })
    }

    /// Whether somebody holds it.
    pub fn is_locked(&self) -> bool {
        self.try_lock().is_none()
    }

    /// The value, which nobody shares.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "a wait takes the guard by its only reference")]
    fn deref(&self) -> &T {
        self.held.as_ref().expect("a held mutex")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[expect(clippy::expect_used, reason = "a wait takes the guard by its only reference")]
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("a held mutex")
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    /// Gives the mutex up, waits for a bell, takes it again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.held.take() {
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Gives the mutex up, gives way once, takes it again: the time has passed.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _limit: Duration) {
        drop(guard.held.take());
        shuttle::thread::yield_now();
        guard.held = Some(guard.mutex.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock that many may share.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(shuttle::sync::RwLock<T>);

/// Held together with others.
pub type RwLockReadGuard<'a, T> = shuttle::sync::RwLockReadGuard<'a, T>;
/// Held alone.
pub type RwLockWriteGuard<'a, T> = shuttle::sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    /// Waits until nobody holds it alone.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody holds it.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a load of a swapped pointer returns.
#[derive(Debug)]
pub struct Guard<T>(T);

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A pointer that is replaced as a whole.
#[derive(Debug)]
pub struct ArcSwap<T>(Mutex<Arc<T>>);

impl<T> ArcSwap<T> {
    /// Points to a value.
    pub fn from_pointee(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    /// What it points to.
    pub fn load(&self) -> Guard<Arc<T>> {
        Guard(self.load_full())
    }

    /// The same, to be kept.
    pub fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.0.lock())
    }

    /// Points to another value. The old one is dropped outside the lock.
    pub fn store(&self, value: Arc<T>) {
        let old = std::mem::replace(&mut *self.0.lock(), value);
        drop(old);
    }
}

/// A pointer that may be empty.
#[derive(Debug)]
pub struct ArcSwapOption<T>(Mutex<Option<Arc<T>>>);

impl<T> ArcSwapOption<T> {
    /// Points nowhere.
    pub const fn empty() -> Self {
        Self(Mutex::new(None))
    }

    /// What it points to.
    pub fn load(&self) -> Guard<Option<Arc<T>>> {
        Guard(self.load_full())
    }

    /// The same, to be kept.
    pub fn load_full(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }

    /// Points elsewhere. The old value is dropped outside the lock.
    pub fn store(&self, value: Option<Arc<T>>) {
        let old = std::mem::replace(&mut *self.0.lock(), value);
        drop(old);
    }
}
