//! Lets threads wait for the work of another thread. Waking costs no system call when no thread
//! waits.

use flagstone_env::sync::atomic::{AtomicUsize, Ordering, fence};
use flagstone_env::sync::{Condvar, Mutex, blocking, spin_loop, spins, yield_now};
use std::sync::PoisonError;

/// The number of times that a waiting thread checks again before it sleeps: about four
/// microseconds, twice as long as a write. With fewer (60), 32 durable writers had one more context
/// switch for each commit.
const SPINS: usize = spins(250);
const YIELDS: usize = 4;

#[derive(Default)]
pub(crate) struct Waiters {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Waiters {
    /// Returns once `is_over` returns true. The thread that makes it true must call
    /// [`Waiters::wake`] next.
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
        // Either the waker sees the raised number, or the next check sees what the waker did.
        fence(Ordering::SeqCst);
        while !is_over() {
            self.woken.wait(&mut guard);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes all waiting threads check again.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.woken.notify_all();
        }
    }
}

/// The groups of threads that wait for a sync. The condition variables of the standard library wake
/// a whole group with one system call; those of parking_lot pass the lock from one member to the
/// next.
#[derive(Default)]
pub(crate) struct SyncState {
    turn: blocking::Mutex<Turn>,
    condvars: [blocking::Condvar; 2],
}

/// The state of the groups, under the lock of [`SyncState`].
#[derive(Default)]
pub(crate) struct Turn {
    /// The number of the last closed group. Groups are numbered from 1; the next one is open.
    pub(crate) closed: u64,
    /// The number of the last synced group.
    pub(crate) done: u64,
    /// A thread is leading: it waits for members of the open group, or syncs the last closed one.
    pub(crate) is_led: bool,
    /// The number of threads in the open group, and in the last closed one.
    pub(crate) joined: usize,
    pub(crate) size: usize,
    /// The number of groups still to be led without yielding, because other programs took the
    /// processor, and that number for the next time it happens.
    pub(crate) keeps_way: u32,
    pub(crate) keeps_way_next: u32,
}

impl SyncState {
    /// Locks the turn. No code panics while it holds this lock, so the lock is never poisoned.
    pub(crate) fn lock(&self) -> blocking::MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The condition variable on which the members of `group` wait.
    pub(crate) fn condvar(&self, group: u64) -> &blocking::Condvar {
        &self.condvars[(group % 2) as usize]
    }

    /// Waits on the condition variable of `group`.
    pub(crate) fn wait<'a>(
        &self,
        group: u64,
        turn: blocking::MutexGuard<'a, Turn>,
    ) -> blocking::MutexGuard<'a, Turn> {
        self.condvar(group).wait(turn).unwrap_or_else(PoisonError::into_inner)
    }
}
