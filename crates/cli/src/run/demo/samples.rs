//! Latencies: collected one by one, summarised as a rate and percentiles.

use crate::units::{grouped, per_second};
use std::fmt;
use std::time::Duration;

/// Latencies of one kind of call, by several threads.
#[derive(Debug, Default)]
pub(super) struct Samples {
    nanos: Vec<u32>,
    /// Calls a second, added up over threads.
    rate: u64,
}

impl Samples {
    pub(super) fn push(&mut self, took: Duration) {
        self.nanos.push(took.as_nanos().min(u128::from(u32::MAX)) as u32);
    }

    /// Completes the latencies of one thread.
    #[must_use]
    pub(super) fn of_thread(mut self) -> Self {
        let sum: u64 = self.nanos.iter().map(|nanos| u64::from(*nanos)).sum();
        self.rate = per_second(self.nanos.len() as u64, Duration::from_nanos(sum));
        self
    }

    /// Adds the latencies of another thread that ran at the same time.
    pub(super) fn join(&mut self, other: Self) {
        self.nanos.extend(other.nanos);
        self.rate += other.rate;
    }

    fn percentile(&self, sorted: &[u32], percent: usize) -> Duration {
        let place = (self.nanos.len() * percent / 100).min(sorted.len().saturating_sub(1));
        Duration::from_nanos(sorted.get(place).copied().unwrap_or_default().into())
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        let (median, high) = (self.percentile(&sorted, 50), self.percentile(&sorted, 99));
        let rate = grouped(self.rate);
        write!(f, "{rate:>9} a second   p50 {median:.1?}   p99 {high:.1?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_percentiles_are_of_all() {
        let thread = |nanos: std::ops::Range<u64>| {
            let mut samples = Samples::default();
            nanos.for_each(|n| samples.push(Duration::from_nanos(n * 1000)));
            samples.of_thread()
        };
        let mut all = thread(0..50);
        all.join(thread(50..100));
        assert_eq!(all.rate, 50 * 1_000_000 / 1225 + 50 * 1_000_000 / 3725);
        assert!(all.to_string().ends_with("p50 50.0µs   p99 99.0µs"), "{all}");
    }
}
