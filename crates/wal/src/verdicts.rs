//! Syncs that run side by side: each knows what it says only when those beside it have said it, too.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;

/// The syncs that run.
#[derive(Default)]
pub(crate) struct Verdicts {
    running: Mutex<Running>,
    bell: Condvar,
}

#[derive(Default)]
struct Running {
    next: u64,
    places: BTreeSet<u64>,
}

impl Verdicts {
    /// A sync begins; its place among all.
    pub(crate) fn begin(&self) -> u64 {
        let mut running = self.running.lock();
        let place = running.next;
        running.next += 1;
        running.places.insert(place);
        place
    }

    /// The sync at `place` has ended, and what it found is known to all. Returns when every sync that began before now
    /// has ended, too.
    pub(crate) fn end(&self, place: u64) {
        let mut running = self.running.lock();
        if running.places.first() == Some(&place) {
            self.bell.notify_all();
        }
        running.places.remove(&place);
        let now = running.next;
        while running.places.first().is_some_and(|first| *first < now) {
            self.bell.wait(&mut running);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdicts;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_sync_waits_for_those_that_began_before_its_end_and_no_others() {
        let (verdicts, is_over) = (Verdicts::default(), AtomicBool::new(false));
        let (first, second) = (verdicts.begin(), verdicts.begin());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                verdicts.end(first);
                assert!(is_over.load(Ordering::SeqCst));
            });
            while verdicts.running.lock().places.contains(&first) {
                std::thread::yield_now();
            }
            let third = verdicts.begin();
            is_over.store(true, Ordering::SeqCst);
            scope.spawn(|| verdicts.end(second));
            waits.join().unwrap();
            verdicts.end(third);
        });
        assert!(verdicts.running.lock().places.is_empty());
    }
}
