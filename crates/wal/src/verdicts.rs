//! Syncs that run side by side: each knows what it says only when those beside it have said it, too.

use flagstone_env::sync::{Condvar, Mutex};
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
    /// A sync begins. It ends when what this answers is dropped: what it found must be known to all by then, and
    /// dropping returns when every sync that began before has ended, too.
    pub(crate) fn begin(&self) -> RunningSync<'_> {
        let mut running = self.running.lock();
        let place = running.next;
        running.next += 1;
        running.places.insert(place);
        RunningSync { verdicts: self, place }
    }
}

/// A sync that runs.
pub(crate) struct RunningSync<'a> {
    verdicts: &'a Verdicts,
    place: u64,
}

impl Drop for RunningSync<'_> {
    fn drop(&mut self) {
        let mut running = self.verdicts.running.lock();
        if running.places.first() == Some(&self.place) {
            self.verdicts.bell.notify_all();
        }
        running.places.remove(&self.place);
        let now = running.next;
        while running.places.first().is_some_and(|first| *first < now) {
            self.verdicts.bell.wait(&mut running);
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
        let place = first.place;
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                drop(first);
                assert!(is_over.load(Ordering::SeqCst));
            });
            while verdicts.running.lock().places.contains(&place) {
                std::thread::yield_now();
            }
            let third = verdicts.begin();
            is_over.store(true, Ordering::SeqCst);
            scope.spawn(|| drop(second));
            waits.join().unwrap();
            drop(third);
        });
        assert!(verdicts.running.lock().places.is_empty());
    }
}
