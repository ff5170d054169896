//! Joins the results of syncs that run at the same time: a sync may report success only when those
//! that began before its end have reported theirs, too.

use flagstone_base::sorted::SortedSet;
use flagstone_env::sync::{Condvar, Mutex};

/// The set of running syncs.
#[derive(Default)]
pub(crate) struct RunningSyncs {
    running: Mutex<Running>,
    ended: Condvar,
}

#[derive(Default)]
struct Running {
    next: u64,
    places: SortedSet<u64>,
}

impl RunningSyncs {
    /// Begins a sync, which ends when the returned value is dropped. Its result must be known to
    /// all threads by then. The drop returns when every sync that began before it has ended, too.
    pub(crate) fn begin(&self) -> RunningSync<'_> {
        let mut running = self.running.lock();
        let place = running.next;
        running.next += 1;
        running.places.insert(place);
        RunningSync { running_syncs: self, place }
    }
}

pub(crate) struct RunningSync<'a> {
    running_syncs: &'a RunningSyncs,
    place: u64,
}

impl Drop for RunningSync<'_> {
    fn drop(&mut self) {
        let mut running = self.running_syncs.running.lock();
        if running.places.iter().next() == Some(&self.place) {
            self.running_syncs.ended.notify_all();
        }
        running.places.remove(&self.place);
        let now = running.next;
        while running.places.iter().next().is_some_and(|first| *first < now) {
            self.running_syncs.ended.wait(&mut running);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunningSyncs;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_sync_waits_for_those_that_began_before_its_end_and_no_others() {
        let (running_syncs, is_over) = (RunningSyncs::default(), AtomicBool::new(false));
        let (first, second) = (running_syncs.begin(), running_syncs.begin());
        let place = first.place;
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                drop(first);
                assert!(is_over.load(Ordering::SeqCst));
            });
            while running_syncs.running.lock().places.contains(&place) {
                std::thread::yield_now();
            }
            let third = running_syncs.begin();
            is_over.store(true, Ordering::SeqCst);
            scope.spawn(|| drop(second));
            waits.join().unwrap();
            drop(third);
        });
        assert!(running_syncs.running.lock().places.is_empty());
    }
}
