//! The timing of the operations of a thread, and their counts in an interval.

use crate::record::{Latency, OpKind};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The counts of a timed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// 1, or the operations of a batch.
    pub ops: u64,
    /// Whether a get, or a delete that reports it, found its key.
    pub found: Option<bool>,
    /// Entries that a scan returned.
    pub scanned: u64,
    /// Bytes of keys and values put, or of JSON loaded.
    pub user_bytes: u64,
}

impl Tally {
    /// One operation, nothing else.
    pub const ONE: Self = Self { ops: 1, found: None, scanned: 0, user_bytes: 0 };

    /// A put of this many bytes, the key included.
    pub const fn put(bytes: usize) -> Self {
        Self { user_bytes: bytes as u64, ..Self::ONE }
    }

    /// A get, or a delete that reports whether the key was there.
    pub const fn found(found: bool) -> Self {
        Self { found: Some(found), ..Self::ONE }
    }

    /// A scan that returned this many entries.
    pub const fn scanned(entries: usize) -> Self {
        Self { scanned: entries as u64, ..Self::ONE }
    }
}

/// A ledger on cache lines of its own. Its thread locks it once an operation, without contention
/// except in the moment in which it is taken.
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
    /// When the running call began.
    began: Instant,
}

impl<'a> Meter<'a> {
    pub(super) fn new(slot: &'a Slot, stop: &'a AtomicBool) -> Self {
        let now = Instant::now();
        Self { slot, stop, last: now, began: now }
    }

    /// Begins the timed call. The time since the last call was spent on preparing this operation
    /// and on checking the last result.
    #[inline]
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Ends the timed call.
    #[inline]
    pub fn end(&mut self, kind: OpKind, tally: Tally) {
        let now = Instant::now();
        let made = self.began.saturating_duration_since(self.last);
        let took = now.saturating_duration_since(self.began);
        self.last = now;
        let mut ledger = self.slot.lock();
        ledger.count(tally);
        ledger.make_ns += made.as_nanos() as u64;
        if let Some(found) = tally.found {
            match kind {
                OpKind::Delete => *ledger.deletes_found.get_or_insert(0) += u64::from(found),
                _ => ledger.gets_found += u64::from(found),
            }
        }
        ledger.record(kind, took.as_nanos() as u64);
    }

    /// Adds the latency of a call of another thread.
    pub fn sample(&mut self, kind: OpKind, took: Duration) {
        self.slot.lock().record(kind, took.as_nanos() as u64);
    }

    /// Counts operations of other threads, without a latency.
    pub fn count(&mut self, tally: Tally) {
        self.slot.lock().count(tally);
    }

    /// Returns whether the phase is over: for workers whose step is long.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The resolution of a histogram in nanoseconds: the steps below 32 microseconds. Above, steps are
/// a thousandth of the value.
const STEP_NS: u64 = 16;
/// The largest value that a new histogram has room for; it grows.
const FIRST_MAX_NS: u64 = 10_000_000;
/// The significant digits of a histogram.
const DIGITS: u8 = 3;

/// The work of threads in an interval: counts and latencies by kind.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Operations, those of batches included.
    pub ops: u64,
    /// Gets that found their key.
    pub gets_found: u64,
    /// Deletes that found their key.
    pub deletes_found: Option<u64>,
    /// Entries that scans returned.
    pub scanned: u64,
    /// Bytes of keys and values put.
    pub user_bytes: u64,
    /// Nanoseconds of all threads outside the timed calls.
    pub make_ns: u64,
    histograms: [Option<Histogram<u64>>; OpKind::ALL.len()],
}

impl Ledger {
    #[inline]
    fn count(&mut self, tally: Tally) {
        self.ops += tally.ops;
        self.scanned += tally.scanned;
        self.user_bytes += tally.user_bytes;
    }

    /// Adds a call of `kind` that took `nanoseconds`.
    #[inline]
    pub(super) fn record(&mut self, kind: OpKind, nanoseconds: u64) {
        if let Some(histogram) = &mut self.histograms[kind as usize] {
            // Fails only for histograms that may not grow.
            let _grows = histogram.record(nanoseconds);
        } else {
            self.record_first(kind, nanoseconds);
        }
    }

    #[cold]
    fn record_first(&mut self, kind: OpKind, nanoseconds: u64) {
        let histogram = Histogram::new_with_bounds(STEP_NS, FIRST_MAX_NS, DIGITS);
        self.histograms[kind as usize] = histogram.ok().map(|mut histogram| {
            histogram.auto(true);
            let _grows = histogram.record(nanoseconds);
            histogram
        });
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.gets_found += other.gets_found;
        if let Some(found) = other.deletes_found {
            *self.deletes_found.get_or_insert(0) += found;
        }
        self.scanned += other.scanned;
        self.user_bytes += other.user_bytes;
        self.make_ns += other.make_ns;
        for (ours, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            match (ours, theirs) {
                (_, None) => {}
                (Some(ours), Some(theirs)) => {
                    let _grows = ours.add(theirs);
                }
                (ours, Some(theirs)) => *ours = Some(theirs.clone()),
            }
        }
    }

    /// Sets all counts to zero and keeps the memory.
    pub fn clear(&mut self) {
        let mut histograms = std::mem::take(&mut self.histograms);
        for histogram in histograms.iter_mut().flatten() {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
        *self = Self { histograms, ..Self::default() };
    }

    /// The latencies of every kind of operation that happened.
    pub fn latencies(&self) -> impl Iterator<Item = (OpKind, Latency)> + '_ {
        let kinds = OpKind::ALL.into_iter().zip(&self.histograms);
        kinds.filter_map(|(kind, histogram)| {
            let histogram = histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
            Some((kind, latency(histogram)))
        })
    }
}

/// A histogram of nanoseconds as microseconds.
pub fn latency(histogram: &Histogram<u64>) -> Latency {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    Latency {
        count: histogram.len(),
        mean: histogram.mean() / 1000.0,
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max() as f64 / 1000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.002, "{found}: expected {expected}");
    }

    #[test]
    fn latencies_are_right_to_a_thousandth_and_in_microseconds() {
        let mut ledger = Ledger::default();
        for i in 1..=100_000_u64 {
            ledger.record(OpKind::Get, i * 1000);
        }
        let latencies: Vec<_> = ledger.latencies().collect();
        let [(OpKind::Get, found)] = latencies[..] else { panic!("{latencies:?}") };
        assert_eq!(found.count, 100_000);
        close(found.mean, 50_000.5);
        close(found.p50, 50_000.0);
        close(found.p99, 99_000.0);
        close(found.p999, 99_900.0);
        close(found.max, 100_000.0);
    }

    #[test]
    fn a_stop_of_minutes_fits() {
        let mut ledger = Ledger::default();
        ledger.record(OpKind::Put, 300);
        ledger.record(OpKind::Put, 600_000_000_000);
        let (_, found) = ledger.latencies().next().unwrap();
        assert_eq!(found.count, 2);
        close(found.max, 600_000_000.0);
    }

    #[test]
    fn ledgers_add_up_and_are_emptied() {
        let (mut a, mut b) = (Ledger::default(), Ledger::default());
        a.record(OpKind::Put, 1000);
        b.record(OpKind::Put, 90_000_000);
        b.record(OpKind::Scan, 2000);
        b.ops = 2;
        b.deletes_found = Some(1);
        a.add(&b);
        let counts: Vec<_> = a.latencies().map(|(kind, found)| (kind, found.count)).collect();
        assert_eq!(counts, [(OpKind::Put, 2), (OpKind::Scan, 1)]);
        assert_eq!((a.ops, a.deletes_found), (2, Some(1)));
        a.clear();
        assert_eq!((a.latencies().count(), a.ops, a.deletes_found), (0, 0, None));
    }
}
