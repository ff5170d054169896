//! A value that one owner uses all the time, and that guests may access while the owner does not
//! use it.
//!
//! A lock would cost the owner two locked instructions for each use, although guests come rarely.
//! Here the owner notes that it is inside, and checks whether a guest is:
//!
//! ```text
//! owner: inside = true; light barrier; wait while guest        .. work ..  inside = false
//! guest: lock; guest = true; heavy barrier; leave if inside    .. work ..  guest = false; unlock
//! ```
//! If owner and guest enter at the same time, at least one sees the other: see
//! [`light_barrier`](crate::sync::light_barrier).
#![expect(unsafe_code, reason = "the protocol is what makes the access exclusive")]

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{heavy_barrier, light_barrier};
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// The handle of the owner. Only one thread at a time can use it.
pub struct Owned<T> {
    room: Arc<Room<T>>,
    _one_thread: PhantomData<Cell<()>>,
}

/// The shared part: the value, and the state of owner and guests.
pub struct Room<T> {
    /// The owner is inside, so no guest is.
    inside: AtomicBool,
    guest: AtomicBool,
    /// A hint: whether a visit is worthwhile.
    is_open: AtomicBool,
    door: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time accesses the value, the owner's or a guest's, and each sees the
// changes of the other: `inside` and `guest` are stored with Release when one leaves and loaded
// with Acquire when the other enters. `Room::enter` explains why owner and guest are never inside
// at the same time.
unsafe impl<T: Send> Sync for Room<T> {}

impl<T> Owned<T> {
    /// A value that is not open to guests yet.
    pub fn new(value: T) -> Self {
        let room = Room {
            inside: AtomicBool::new(false),
            guest: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            door: Mutex::new(()),
            value: UnsafeCell::new(value),
        };
        Self { room: Arc::new(room), _one_thread: PhantomData }
    }

    /// The handle for guests.
    pub fn room(&self) -> Weak<Room<T>> {
        Arc::downgrade(&self.room)
    }

    /// Lets guests know that a visit is worthwhile, until one of them [closes](Visited::close) the
    /// value.
    pub fn open(&self) {
        self.room.is_open.store(true, Ordering::Relaxed);
    }

    /// Calls `work` with the value. Waits while a guest is inside.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&T) -> R) -> R {
        // Only the owner stores to `inside`: if it is true, this call is nested in another `with`.
        let _inside = (!self.room.inside.load(Ordering::Relaxed)).then(|| self.room.enter());
        // SAFETY: no guest is inside, and the owner holds no `&mut`: that takes `&mut self`.
        work(unsafe { &*self.room.value.get() })
    }

    /// Calls `work` with the value, mutably. Waits while a guest is inside.
    #[inline]
    pub fn with_mut<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // The owner is borrowed mutably, so it is not inside, and `work` cannot enter again.
        let _inside = self.room.enter();
        // SAFETY: no guest is inside, and the owner is borrowed mutably, so it holds no other
        // reference.
        work(unsafe { &mut *self.room.value.get() })
    }
}

/// Marks the owner as inside until it is dropped.
struct Inside<'a>(&'a AtomicBool);

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Room<T> {
    /// Enters as the owner. Only the owner's thread calls this, while it is outside. There is a
    /// light barrier between the store to `inside` and the load of `guest`; a guest has a heavy
    /// barrier between its store to `guest` and its load of `inside`. One of the barriers comes
    /// first. If it is the owner's, the guest sees the owner inside, and leaves. If it is the
    /// guest's, the owner sees the guest's store: true, and waits, or false, when the guest has
    /// left.
    #[inline]
    fn enter(&self) -> Inside<'_> {
        self.inside.store(true, Ordering::Relaxed);
        light_barrier();
        if self.guest.load(Ordering::Acquire) {
            self.wait_for_guest();
        }
        Inside(&self.inside)
    }

    /// Waits until the guest has left. The next guest takes the lock after this call, so it finds
    /// the owner inside.
    #[cold]
    fn wait_for_guest(&self) {
        self.inside.store(false, Ordering::Release);
        let _no_guest = self.door.lock();
        self.inside.store(true, Ordering::Relaxed);
    }

    /// Returns whether a visit is worthwhile: a hint.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Calls `work` with the value as a guest. Returns `None` when the owner is inside, or when the
    /// system refuses the heavy barrier.
    pub fn visit<R>(&self, work: impl FnOnce(&mut Visited<'_, T>) -> R) -> Option<R> {
        /// Marks the guest as inside until it is dropped.
        struct Guest<'a>(&'a AtomicBool);
        impl Drop for Guest<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        let _door = self.door.lock();
        self.guest.store(true, Ordering::Relaxed);
        let _guest = Guest(&self.guest);
        if !heavy_barrier() || self.inside.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: other guests wait for `door`. The owner was not inside after the barrier; from
        // then on it sees the guest, and waits as well.
        let value = unsafe { &mut *self.value.get() };
        Some(work(&mut Visited { value, is_open: &self.is_open }))
    }
}

/// The value as a guest sees it during a visit.
pub struct Visited<'a, T> {
    /// The value.
    pub value: &'a mut T,
    is_open: &'a AtomicBool,
}

impl<T> Visited<'_, T> {
    /// Notes that another visit is not worthwhile until the owner opens the value again.
    pub fn close(&mut self) {
        self.is_open.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Both parts change together, so a thread that sees them differ was inside together with
    /// another one.
    #[test]
    fn owner_and_guests_are_never_inside_at_once() {
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let mut owned = Owned::new((0_u64, 0_u64));
        let room = owned.room().upgrade().unwrap();
        let is_done = AtomicBool::new(false);
        let step = |pair: &mut (u64, u64)| {
            assert_eq!(pair.0, pair.1);
            pair.0 += 1;
            std::hint::black_box(&mut *pair);
            pair.1 += 1;
        };
        std::thread::scope(|scope| {
            let guest = || {
                let mut visits = 0;
                while !is_done.load(Ordering::Relaxed) {
                    visits += u64::from(room.visit(|visited| step(visited.value)).is_some());
                    std::thread::yield_now();
                }
                visits
            };
            let guests = [scope.spawn(guest), scope.spawn(guest)];
            for _ in 0..rounds {
                owned.with_mut(step);
                owned.with(|pair| owned.with(|same| assert_eq!(pair, same)));
            }
            is_done.store(true, Ordering::Relaxed);
            let visits: u64 = guests.into_iter().map(|guest| guest.join().unwrap()).sum();
            owned.with(|pair| assert_eq!(*pair, (rounds + visits, rounds + visits)));
        });
    }

    #[test]
    fn a_guest_that_comes_while_the_owner_works_goes_away() {
        let mut owned = Owned::new(1);
        let room = owned.room();
        owned.open();
        let visit = || room.upgrade().unwrap().visit(|visited| *visited.value += 1);
        owned.with_mut(|value| {
            *value += 10;
            assert_eq!(visit(), None);
        });
        assert_eq!(visit(), Some(()));
        assert_eq!(owned.with(|value| *value), 12);
        assert!(room.upgrade().unwrap().is_open());
        room.upgrade().unwrap().visit(|visited| visited.close());
        assert!(!room.upgrade().unwrap().is_open());
        drop(owned);
        assert!(room.upgrade().is_none());
    }
}
