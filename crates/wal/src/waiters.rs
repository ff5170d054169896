//! Threads that wait for another's work, without a system call when nobody waits.

use flagstone_env::sync::atomic::{AtomicUsize, Ordering, fence};
use flagstone_env::sync::{Condvar, Mutex, blocking, spin_loop, spins, yield_now};
use std::sync::PoisonError;

/// How often a waiting thread looks again before it sleeps: about four microseconds, twice what a
/// write takes. Fewer (60) cost 32 durable writers a change of thread a commit.
const SPINS: usize = spins(250);
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
                spin_loop();
            } else {
                yield_now();
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

/// The groups of threads that wait for a sync. The standard library's bells wake a whole group by
/// one system call, where parking_lot's hand the lock from one member to the next.
#[derive(Default)]
pub(crate) struct SyncState {
    turn: blocking::Mutex<Turn>,
    bells: [blocking::Condvar; 2],
}

/// Whose turn it is to sync.
#[derive(Default)]
pub(crate) struct Turn {
    /// Groups are numbered from 1: this many were closed, one more is open.
    pub(crate) closed: u64,
    /// This many were synced.
    pub(crate) done: u64,
    /// A thread leads: it gathers the open group or syncs the last closed one.
    pub(crate) is_led: bool,
    /// How many have joined the open group, and how many had joined the last closed one.
    pub(crate) joined: usize,
    pub(crate) size: usize,
    /// So many groups are led without giving way, since others took the processor; and how many
    /// the next time that happens.
    pub(crate) keeps_way: u32,
    pub(crate) keeps_way_next: u32,
}

impl SyncState {
    /// Nothing panics while it is held, so it is never poisoned.
    pub(crate) fn lock(&self) -> blocking::MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bell on which the members of `group` wait.
    pub(crate) fn bell(&self, group: u64) -> &blocking::Condvar {
        &self.bells[(group % 2) as usize]
    }

    /// Waits for the bell of `group`.
    pub(crate) fn wait<'a>(
        &self,
        group: u64,
        turn: blocking::MutexGuard<'a, Turn>,
    ) -> blocking::MutexGuard<'a, Turn> {
        self.bell(group).wait(turn).unwrap_or_else(PoisonError::into_inner)
    }
}
