//! What a thread of a workload does, and how it is timed.

use super::ledger::Ledger;
use crate::engine::Outcome;
use crate::record::OpKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One thread of a workload.
pub trait Worker: Send {
    /// Makes one operation, performs it between [`Meter::begin`] and [`Meter::end`], and checks its
    /// answer; false when there is nothing more to do. Called again and again until the phase ends.
    ///
    /// # Errors
    /// What the engine says, or what is wrong with its answer: it ends the run.
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool>;
}

/// What a timed call did, beyond the time it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Operations: 1, or what a batch holds.
    pub ops: u64,
    /// For a get, whether it found its key; for a delete, whether it did if it tells.
    pub found: Option<bool>,
    /// Entries that a scan returned.
    pub scanned: u64,
    /// Bytes of keys and values put, or of JSON loaded.
    pub user_bytes: u64,
}

impl Tally {
    /// One operation, nothing else.
    pub const ONE: Self = Self { ops: 1, found: None, scanned: 0, user_bytes: 0 };

    /// A put of so many bytes, the key included.
    pub const fn put(bytes: usize) -> Self {
        Self { user_bytes: bytes as u64, ..Self::ONE }
    }

    /// A get, or a delete that tells.
    pub const fn found(found: bool) -> Self {
        Self { found: Some(found), ..Self::ONE }
    }

    /// A scan that returned so many entries.
    pub const fn scanned(entries: usize) -> Self {
        Self { scanned: entries as u64, ..Self::ONE }
    }
}

/// A ledger on cache lines of its own: its thread locks it once an operation, without contention but
/// for the moment in which it is taken.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Slot(Mutex<Ledger>);

impl Slot {
    pub(super) fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Times the operations of one thread.
#[derive(Debug)]
pub struct Meter<'a> {
    slot: &'a Slot,
    stop: &'a AtomicBool,
    /// When the last call ended.
    last: Instant,
    /// When the call that runs began.
    began: Instant,
}

impl<'a> Meter<'a> {
    pub(super) fn new(slot: &'a Slot, stop: &'a AtomicBool) -> Self {
        let now = Instant::now();
        Self { slot, stop, last: now, began: now }
    }

    /// The operation is made: the timed call begins. What went by since the call before was spent on
    /// making it and on checking the answer before.
    #[inline]
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// The timed call has ended.
    #[inline]
    pub fn end(&mut self, kind: OpKind, tally: Tally) {
        let now = Instant::now();
        let made = self.began.saturating_duration_since(self.last);
        let took = now.saturating_duration_since(self.began);
        self.last = now;
        let mut ledger = self.slot.lock();
        ledger.ops += tally.ops;
        ledger.scanned += tally.scanned;
        ledger.user_bytes += tally.user_bytes;
        ledger.make_ns += made.as_nanos() as u64;
        if let Some(found) = tally.found {
            match kind {
                OpKind::Delete => *ledger.deletes_found.get_or_insert(0) += u64::from(found),
                _ => ledger.gets_found += u64::from(found),
            }
        }
        ledger.record(kind, took.as_nanos() as u64);
    }

    /// Adds the latency of a call that another thread made.
    pub fn sample(&mut self, kind: OpKind, took: Duration) {
        self.slot.lock().record(kind, took.as_nanos() as u64);
    }

    /// Counts what was done by others, without a latency.
    pub fn count(&mut self, tally: Tally) {
        let mut ledger = self.slot.lock();
        ledger.ops += tally.ops;
        ledger.scanned += tally.scanned;
        ledger.user_bytes += tally.user_bytes;
    }

    /// Whether the phase is over: for workers whose step is long.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
