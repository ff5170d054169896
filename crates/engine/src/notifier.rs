//! Notifies threads that wait for a change, so that they check again.

use flagstone_env::sync::{Condvar, Mutex};
use std::time::Duration;

/// A condition variable that counts its notifications, so that no waiter misses one.
#[derive(Default)]
pub(crate) struct Notifier {
    generation: Mutex<u64>,
    changed: Condvar,
}

impl Notifier {
    /// The number of notifications. Must be called before checking whether to wait.
    pub(crate) fn generation(&self) -> u64 {
        *self.generation.lock()
    }

    /// Waits until there were more notifications than `seen`, at most for `limit`.
    pub(crate) fn wait(&self, seen: u64, limit: Duration) {
        let mut generation = self.generation.lock();
        if *generation == seen {
            self.changed.wait_for(&mut generation, limit);
        }
    }

    /// Wakes all waiters, since something has changed.
    pub(crate) fn notify_all(&self) {
        *self.generation.lock() += 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_after_the_check_ends_the_wait_at_once() {
        let notifier = Notifier::default();
        let seen = notifier.generation();
        notifier.notify_all();
        // Would outlast the test.
        notifier.wait(seen, Duration::from_secs(3600));
    }
}
