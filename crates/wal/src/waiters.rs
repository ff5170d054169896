//! Threads that wait for another's work, without a system call when nobody waits.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// How often a waiting thread looks again before it sleeps: a write takes about a microsecond.
const SPINS: usize = 60;
const YIELDS: usize = 4;

#[derive(Default)]
pub(crate) struct Waiters {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Waiters {
    /// Returns once `is_over` answers true. Whoever makes it true calls [`Waiters::wake`] next.
    pub(crate) fn wait_until(&self, is_over: impl Fn() -> bool) {
        for spin in 0..SPINS + YIELDS {
            if is_over() {
                return;
            }
            if spin < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let mut guard = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // Either the waker sees the raised number, or this look sees what the waker did.
        fence(Ordering::SeqCst);
        while !is_over() {
            self.bell.wait(&mut guard);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Lets all waiting threads look again.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.bell.notify_all();
        }
    }
}

/// The groups of threads that wait for a sync.
#[derive(Default)]
pub(crate) struct SyncState {
    pub(crate) turn: Mutex<Turn>,
    bells: [Condvar; 2],
}

/// Whose turn it is to sync.
#[derive(Default)]
pub(crate) struct Turn {
    /// Groups are numbered from 1: this many were closed, one more is open.
    pub(crate) closed: u64,
    /// This many were synced.
    pub(crate) done: u64,
    /// A thread is syncing the last closed group.
    pub(crate) is_led: bool,
}

impl SyncState {
    /// The bell on which the members of `group` wait.
    pub(crate) fn bell(&self, group: u64) -> &Condvar {
        &self.bells[(group % 2) as usize]
    }
}
