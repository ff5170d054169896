//! A value that one owner uses all the time, and that others may reach while the owner is not at it.
//!
//! A lock would cost the owner two locked instructions each time, for guests that come once in a long while. Here the owner
//! notes that it is inside and looks whether a guest is:
//!
//! ```text
//! owner:  inside = true;  light barrier;  a guest? then wait for it     .. work ..   inside = false
//! guest:  lock;  guest = true;  heavy barrier;  the owner? then leave   .. work ..   guest = false;  unlock
//! ```
//! Of two that come at once at least one sees the other: see [`light_barrier`](crate::sync::light_barrier).
#![expect(unsafe_code, reason = "the protocol is what makes the access exclusive")]

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{heavy_barrier, light_barrier};
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// The owner's handle. One thread at a time uses it.
pub struct Owned<T> {
    room: Arc<Room<T>>,
    _one_thread: PhantomData<Cell<()>>,
}

/// Where the value is, and what guests know of it.
pub struct Room<T> {
    /// The owner is inside; no guest is, then.
    inside: AtomicBool,
    guest: AtomicBool,
    /// A hint: whether a visit is worth its while.
    is_open: AtomicBool,
    door: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, the owner's or that of a guest, and each sees what the other
// did: `inside` and `guest` are stored with Release when one leaves and loaded with Acquire when the other comes. That
// not both are inside at once stands at `Room::enter`.
unsafe impl<T: Send> Sync for Room<T> {}

impl<T> Owned<T> {
    /// A value, closed to guests.
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

    /// Where guests find it.
    pub fn room(&self) -> Weak<Room<T>> {
        Arc::downgrade(&self.room)
    }

    /// Says that guests may come, until one of them [closes](Visited::close) it.
    pub fn open(&self) {
        self.room.is_open.store(true, Ordering::Relaxed);
    }

    /// Uses the value.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&T) -> R) -> R {
        // Nobody else stores to `inside`: if it is true, the owner calls this out of another `with`.
        let _inside = (!self.room.inside.load(Ordering::Relaxed)).then(|| self.room.enter());
        // SAFETY: no guest is inside, and the owner holds no `&mut`: that takes `&mut self`.
        work(unsafe { &*self.room.value.get() })
    }

    /// Changes the value.
    #[inline]
    pub fn with_mut<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // As the owner is borrowed alone it is not inside, and `work` cannot enter again.
        let _inside = self.room.enter();
        // SAFETY: no guest is inside, and the owner, which is borrowed alone, holds no other reference.
        work(unsafe { &mut *self.room.value.get() })
    }
}

/// The owner is inside.
struct Inside<'a>(&'a AtomicBool);

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Room<T> {
    /// Only the owner's thread calls it, from outside. Between the store to `inside` and the load of `guest` stands a light barrier;
    /// a guest has a heavy one between its store to `guest` and its load of `inside`. One of the barriers comes first. If
    /// it is this one, the guest loads what was stored here, and leaves. If it is the guest's, this loads what the guest
    /// stored: true, and waits, or what it stored when it had left.
    #[inline]
    fn enter(&self) -> Inside<'_> {
        self.inside.store(true, Ordering::Relaxed);
        light_barrier();
        if self.guest.load(Ordering::Acquire) {
            self.wait_for_guest();
        }
        Inside(&self.inside)
    }

    /// The next guest takes the lock after this, so it finds the owner inside.
    #[cold]
    fn wait_for_guest(&self) {
        self.inside.store(false, Ordering::Release);
        let _no_guest = self.door.lock();
        self.inside.store(true, Ordering::Relaxed);
    }

    /// Whether a visit is worth its while.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Reaches the value; `None` when the owner is at it.
    pub fn visit<R>(&self, work: impl FnOnce(&mut Visited<'_, T>) -> R) -> Option<R> {
        /// The guest is inside.
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
        // SAFETY: other guests wait for the door; the owner was not inside behind the barrier, and from then on sees the
        // guest and waits, too.
        let value = unsafe { &mut *self.value.get() };
        Some(work(&mut Visited { value, is_open: &self.is_open }))
    }
}

/// A value that a guest has reached.
pub struct Visited<'a, T> {
    /// The value.
    pub value: &'a mut T,
    is_open: &'a AtomicBool,
}

impl<T> Visited<'_, T> {
    /// Another visit is not worth its while until the owner opens it again.
    pub fn close(&mut self) {
        self.is_open.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Both parts change together, so whoever sees them apart came in while somebody was at them.
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
