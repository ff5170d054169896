//! Stand-ins over shuttle, with the names and interfaces of the real types.
//!
//! | real | stand-in |
//! |---|---|
//! | `parking_lot::{Mutex, FairMutex, RwLock}` | shuttle's; a panic ends the model |
//! | `parking_lot::Condvar` | shuttle's; a timed wait yields once, or waits: [`let_waits_last`] |
//! | `arc_swap::{ArcSwap, ArcSwapOption}` | a mutex around the pointer |
//! | `std::sync::atomic` | shuttle's: sequentially consistent, whatever ordering is asked for |
//! | `std::thread_local` | one value for each thread of the model |

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

/// The scheduler, for the models that run on it.
pub use shuttle;
pub use shuttle::thread_local;

/// The atomics of shuttle.
pub mod atomic {
    pub use shuttle::sync::atomic::*;
}

/// Locks with the interface of the standard library.
pub mod blocking {
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
}

/// The number of times that a loop checks again before it yields: 1 in a model.
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

/// A point at which threads may switch. Disks have such points, since real operations take time.
pub fn model_point() {
    shuttle::thread::yield_now();
}

/// Does nothing: atomics are sequentially consistent here.
pub const fn prepare_barriers() {}

/// Does nothing: atomics are sequentially consistent here.
pub const fn light_barrier() {}

/// Does nothing and returns true: atomics are sequentially consistent here.
#[must_use]
pub const fn heavy_barrier() -> bool {
    true
}

/// A mutex with the interface of parking_lot's.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

/// A mutex whose waiters are served in order; in the model, in any order.
pub type FairMutex<T> = Mutex<T>;

/// The guard of a held mutex.
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

    /// Consumes the mutex and returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = Some(self.0.lock().unwrap_or_else(PoisonError::into_inner));
        MutexGuard { mutex: &self.0, held }
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { mutex: &self.0, held: Some(held) })
    }

    /// Returns whether the mutex is held.
    pub fn is_locked(&self) -> bool {
        self.try_lock().is_none()
    }

    /// The value, without locking: the mutable borrow is exclusive.
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

std::thread_local! {
    static LASTS_FROM: Cell<Duration> = const { Cell::new(Duration::MAX) };
}

/// From here on a wait with a time limit of `limit` or more ends by a notification alone, in all
/// models that this thread of the system runs. A lost wake-up then blocks its thread; otherwise the
/// time limit would hide it.
pub fn let_waits_last(limit: Duration) {
    LASTS_FROM.set(limit);
}

/// A condition variable with the interface of parking_lot's.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    /// Releases the mutex, waits for a notification, and takes the mutex again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.held.take() {
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Releases the mutex, yields once, and takes the mutex again, as if the time had passed;
    /// unless waits of this limit last.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) {
        if limit >= LASTS_FROM.get() {
            return self.wait(guard);
        }
        drop(guard.held.take());
        shuttle::thread::yield_now();
        guard.held = Some(guard.mutex.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock that many readers can share.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(shuttle::sync::RwLock<T>);

/// The guard of a lock that is held shared.
pub type RwLockReadGuard<'a, T> = shuttle::sync::RwLockReadGuard<'a, T>;
/// The guard of a lock that is held exclusively.
pub type RwLockWriteGuard<'a, T> = shuttle::sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    /// Waits until no thread holds the lock exclusively, and takes it shared.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock shared unless a thread holds it exclusively.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.0.try_read() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits until no thread holds the lock, and takes it exclusively.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a load of a swapped pointer.
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

impl<T> From<Arc<T>> for ArcSwap<T> {
    fn from(value: Arc<T>) -> Self {
        Self(Mutex::new(value))
    }
}

impl<T> ArcSwap<T> {
    /// A pointer that begins as `value`.
    pub fn new(value: Arc<T>) -> Self {
        Self(Mutex::new(value))
    }

    /// A pointer to `value`.
    pub fn from_pointee(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    /// The current value.
    pub fn load(&self) -> Guard<Arc<T>> {
        Guard(self.load_full())
    }

    /// The current value, to be kept.
    pub fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.0.lock())
    }

    /// Replaces the pointer. The old value is dropped outside of the lock.
    pub fn store(&self, value: Arc<T>) {
        let old = std::mem::replace(&mut *self.0.lock(), value);
        drop(old);
    }
}

/// A pointer that may be empty.
#[derive(Debug)]
pub struct ArcSwapOption<T>(Mutex<Option<Arc<T>>>);

impl<T> ArcSwapOption<T> {
    /// An empty pointer.
    pub const fn empty() -> Self {
        Self(Mutex::new(None))
    }

    /// The current value, if any.
    pub fn load(&self) -> Guard<Option<Arc<T>>> {
        Guard(self.load_full())
    }

    /// The current value, if any, to be kept.
    pub fn load_full(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }

    /// Replaces the pointer. The old value, if any, is dropped outside of the lock.
    pub fn store(&self, value: Option<Arc<T>>) {
        let old = std::mem::replace(&mut *self.0.lock(), value);
        drop(old);
    }
}
