//! How long operations take: histograms since the start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each power of two of microseconds has this many buckets.
const PER_OCTAVE: usize = 4;
/// Beyond the last bucket, at 112 s, operations count as in it.
const BUCKETS: usize = 104;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Read,
    Write,
    Command,
}

impl OperationKind {
    /// All, with their names in `serverStatus`.
    pub(crate) const ALL: [(Self, &'static str); 3] =
        [(Self::Read, "reads"), (Self::Write, "writes"), (Self::Command, "commands")];
}

/// The latencies of operations, by what they are.
#[derive(Default)]
pub(crate) struct Latencies([Histogram; 3]);

impl Latencies {
    pub(crate) fn add(&self, kind: OperationKind, took: Duration) {
        self.of(kind).add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) const fn of(&self, kind: OperationKind) -> &Histogram {
        &self.0[kind as usize]
    }
}

/// Counts durations in microseconds.
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], micros: AtomicU64::new(0) }
    }
}

impl Histogram {
    fn add(&self, micros: u64) {
        self.buckets[bucket_of(micros)].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the sum of all durations.
    pub(crate) fn micros(&self) -> u64 {
        self.micros.load(Ordering::Relaxed)
    }

    /// Returns the counts that are not 0, with the least duration that they count, ascending.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        counts.enumerate().filter(|(_, count)| *count > 0).map(|(at, n)| (least_of(at), n))
    }
}

const fn bucket_of(micros: u64) -> usize {
    if micros < PER_OCTAVE as u64 {
        return micros as usize;
    }
    let octave = micros.ilog2() as usize;
    let within = (micros >> (octave - 2)) as usize % PER_OCTAVE;
    let bucket = (octave - 1) * PER_OCTAVE + within;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// Returns the least duration that a bucket counts.
const fn least_of(bucket: usize) -> u64 {
    if bucket < PER_OCTAVE {
        return bucket as u64;
    }
    ((PER_OCTAVE + bucket % PER_OCTAVE) as u64) << (bucket / PER_OCTAVE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_from_its_least_duration_to_the_next_one() {
        for bucket in 0..BUCKETS {
            let least = least_of(bucket);
            assert_eq!(bucket_of(least), bucket);
            assert!(bucket == 0 || bucket_of(least - 1) == bucket - 1, "{bucket}");
        }
        assert_eq!(least_of(BUCKETS - 1), 117_440_512);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn durations_are_counted_by_kind() {
        let latencies = Latencies::default();
        for micros in [9, 8, 8, 100] {
            latencies.add(OperationKind::Write, Duration::from_micros(micros));
        }
        let writes = latencies.of(OperationKind::Write);
        assert_eq!(writes.micros(), 125);
        assert_eq!(writes.counts().collect::<Vec<_>>(), [(8, 3), (96, 1)]);
        assert_eq!(latencies.of(OperationKind::Read).counts().count(), 0);
    }
}
