//! A bell: threads that wait for a change check again when it rings.

use flagstone_env::sync::{Condvar, Mutex};
use std::time::Duration;

/// A bell that counts its rings, so that no waiter misses one.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<u64>,
    changed: Condvar,
}

impl Bell {
    /// How often the bell has rung. Must be called before checking whether to wait.
    pub(crate) fn rung(&self) -> u64 {
        *self.rung.lock()
    }

    /// Waits until the bell has rung more often than `seen`, at most for `limit`.
    pub(crate) fn wait(&self, seen: u64, limit: Duration) {
        let mut rung = self.rung.lock();
        if *rung == seen {
            self.changed.wait_for(&mut rung, limit);
        }
    }

    /// Wakes all waiters, since something has changed.
    pub(crate) fn ring(&self) {
        *self.rung.lock() += 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_after_the_check_ends_the_wait_at_once() {
        let bell = Bell::default();
        let seen = bell.rung();
        bell.ring();
        // Would outlast the test.
        bell.wait(seen, Duration::from_secs(3600));
    }
}
