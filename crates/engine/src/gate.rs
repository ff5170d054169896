//! The gate of a keyspace keeps range deletes and ingests out of updates: see the stripes of the
//! commit path.

use flagstone_env::sync::atomic::{AtomicUsize, Ordering};
use flagstone_env::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, yield_now};

/// The gate of a keyspace. Writes that read hold it shared, range deletes and ingests exclusively.
#[derive(Default)]
pub(crate) struct Gate {
    lock: RwLock<()>,
    /// The ingests that hold it or wait for it. They hold it while they flush memtables.
    ingests: AtomicUsize,
}

/// A held gate, released when dropped.
pub(crate) enum HeldGate<'a> {
    Shared { _guard: RwLockReadGuard<'a, ()> },
    Alone { _guard: RwLockWriteGuard<'a, ()> },
    ForIngest { _guard: RwLockWriteGuard<'a, ()>, _note: IngestNote<'a> },
}

/// Counts an ingest until it is dropped.
pub(crate) struct IngestNote<'a>(&'a AtomicUsize);

impl Drop for IngestNote<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate {
    pub(crate) fn pass(&self) -> HeldGate<'_> {
        HeldGate::Shared { _guard: self.lock.read() }
    }

    pub(crate) fn pass_alone(&self) -> HeldGate<'_> {
        HeldGate::Alone { _guard: self.lock.write() }
    }

    /// Passes alone, for the end of an ingest.
    pub(crate) fn pass_for_ingest(&self) -> HeldGate<'_> {
        self.ingests.fetch_add(1, Ordering::SeqCst);
        let _note = IngestNote(&self.ingests);
        HeldGate::ForIngest { _guard: self.lock.write(), _note }
    }

    /// Passes unless that would wait for an ingest. A range delete holds the gate only for its
    /// commit.
    pub(crate) fn try_pass(&self) -> Option<HeldGate<'_>> {
        loop {
            if let Some(_guard) = self.lock.try_read() {
                return Some(HeldGate::Shared { _guard });
            }
            if self.is_for_ingest() {
                return None;
            }
            yield_now();
        }
    }

    /// As [`Gate::try_pass`], alone. It may wait for updates, and for an ingest that has come
    /// after the check.
    pub(crate) fn try_pass_alone(&self) -> Option<HeldGate<'_>> {
        (!self.is_for_ingest()).then(|| self.pass_alone())
    }

    fn is_for_ingest(&self) -> bool {
        self.ingests.load(Ordering::SeqCst) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_must_not_wait_passes_unless_an_ingest_is_at_the_gate() {
        let gate = Gate::default();
        let update = gate.pass();
        assert!(gate.try_pass().is_some());
        std::thread::scope(|scope| {
            let ingest = scope.spawn(|| drop(gate.pass_for_ingest()));
            while !gate.is_for_ingest() {
                yield_now();
            }
            assert!(gate.try_pass_alone().is_none(), "it would wait for the ingest that waits");
            drop(update);
            ingest.join().unwrap();
        });
        let ingest = gate.pass_for_ingest();
        assert!(gate.try_pass().is_none() && gate.try_pass_alone().is_none());
        drop(ingest);
        assert!(gate.try_pass_alone().is_some());
    }
}
