//! Whether a tree is rather read or rather written: what its compactions should save.
//!
//! Reads are counted from flush to flush, one in 64 for all, so that counting costs a read nothing
//! another core sees.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A scan asks every run, a get mostly their filters: a scan weighs so many gets.
pub(crate) const SCAN_WEIGHT: u32 = 16;
/// So much weight is noted at once.
const GRAIN: u32 = 64;
/// From so many reads a written entry on, fewer runs are worth more than fewer rewrites: a run less
/// saves a read about 0.1 us of filters, a rewrite less saves an entry of 1 KiB about 1 us.
const HEAVY_READS: u64 = 8;

thread_local! {
    static UNNOTED: Cell<u32> = const { Cell::new(0) };
}

/// The reads of one tree since its last flush.
#[derive(Default)]
pub(crate) struct Reads {
    weight: AtomicU64,
    is_heavy: AtomicBool,
}

impl Reads {
    /// Counts a read. What a thread has not noted yet goes to the tree it reads when it is enough.
    #[inline]
    pub(crate) fn note(&self, weight: u32) {
        UNNOTED.with(|unnoted| {
            let now = unnoted.get() + weight;
            if now < GRAIN {
                unnoted.set(now);
            } else {
                unnoted.set(0);
                self.weight.fetch_add(u64::from(now), Ordering::Relaxed);
            }
        });
    }

    /// So many entries were flushed since the last call.
    pub(crate) fn flushed(&self, entries: u64) {
        let reads = self.weight.swap(0, Ordering::Relaxed);
        self.is_heavy.store(reads >= HEAVY_READS.saturating_mul(entries), Ordering::Relaxed);
    }

    /// Whether reads outweighed writes between the last two flushes.
    pub(crate) fn is_heavy(&self) -> bool {
        self.is_heavy.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_weigh_against_the_entries_flushed() {
        let reads = Reads::default();
        (0..64 * 8).for_each(|_| reads.note(1));
        reads.flushed(64);
        assert!(reads.is_heavy());
        (0..64).for_each(|_| reads.note(1));
        reads.flushed(64);
        assert!(!reads.is_heavy());
        (0..64).for_each(|_| reads.note(SCAN_WEIGHT));
        reads.flushed(64);
        assert!(reads.is_heavy());
    }
}
