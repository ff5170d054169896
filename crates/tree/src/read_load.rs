//! Decides whether a tree is mostly read or mostly written, and so what its compactions should
//! save.
//!
//! Reads are counted by sampling: about one in 64 counts for 64, so that counting rarely writes
//! memory that other cores share. The sampling is random: with a counter, a thread that reads its
//! trees in turn would count all its reads for the same tree.
//!
//! They are compared with the entries written in the same time: at each flush, and in between each
//! time that there were enough reads for it, since the flushes of a tree may be minutes apart.

use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::cell::Cell;

/// A scan reads every run, a get mostly their filters: a scan counts as this many gets.
pub(crate) const SCAN_WEIGHT: u32 = 16;
/// The weight that one sampled read adds: 2 to the 6.
const GRAIN: u32 = 64;
const GENERATOR_FACTOR: u64 = 6_364_136_223_846_793_005;
const GENERATOR_STEP: u64 = 1_442_695_040_888_963_407;
/// From this many reads for each written entry on, fewer runs are worth more than fewer rewrites:
/// one run less saves a read about 0.1 us of filters, one rewrite less saves an entry of 1 KiB
/// about 1 us.
const HEAVY_READS: u64 = 8;
/// After reads of this weight they are compared with what was written meanwhile: 8,192 scans.
const WINDOW: u64 = 1 << 17;

thread_local! {
    /// The state of a linear congruential generator (Knuth's MMIX). 0 means not seeded.
    static CHANCE: Cell<u64> = const { Cell::new(0) };
}

/// Returns a different seed for each thread; otherwise short-lived threads would all draw the same
/// numbers.
#[cold]
fn seed() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    THREADS.fetch_add(1, Ordering::Relaxed).wrapping_mul(GENERATOR_FACTOR)
}

/// Makes the sampling of reads on this thread start from `seed`, for tests that must be
/// reproducible.
pub fn seed_sampling(seed: u64) {
    CHANCE.set(seed.max(1));
}

/// The reads of one tree since its last flush.
#[derive(Default)]
pub(crate) struct ReadLoad {
    weight: AtomicU64,
    /// The unflushed entries when reads were last compared with them.
    entries: AtomicU64,
    /// Reads were compared with entries since the last flush.
    is_judged: AtomicBool,
    is_heavy: AtomicBool,
}

impl ReadLoad {
    /// Counts a read of `weight`, at most 64: adds 64 with a probability of `weight` in 64. Returns
    /// whether the caller should call [`ReadLoad::judge`].
    #[inline]
    pub(crate) fn note(&self, weight: u32) -> bool {
        let drawn = CHANCE.with(|state| {
            let now = if state.get() == 0 { seed() } else { state.get() };
            let next = now.wrapping_mul(GENERATOR_FACTOR).wrapping_add(GENERATOR_STEP);
            state.set(next);
            // The upper bits are the random ones.
            (next >> 58) as u32
        });
        if drawn >= weight {
            return false;
        }
        let before = self.weight.fetch_add(u64::from(GRAIN), Ordering::Relaxed);
        (before + u64::from(GRAIN)).is_multiple_of(WINDOW)
    }

    /// Decides whether reads outweighed writes since the last decision. The tree has `entries`
    /// unflushed entries.
    #[cold]
    pub(crate) fn judge(&self, entries: u64) {
        let before = self.entries.swap(entries, Ordering::Relaxed);
        let written = entries.saturating_sub(before);
        self.is_heavy.store(WINDOW >= HEAVY_READS.saturating_mul(written), Ordering::Relaxed);
        self.is_judged.store(true, Ordering::Relaxed);
    }

    /// Records a flush of `entries` entries, and decides whether reads outweighed writes since the
    /// flush before, unless that was decided in between.
    pub(crate) fn flushed(&self, entries: u64) {
        let reads = self.weight.swap(0, Ordering::Relaxed);
        let left = |before: u64| Some(before.saturating_sub(entries));
        let _before = self.entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        if !self.is_judged.swap(false, Ordering::Relaxed) {
            self.is_heavy.store(reads >= HEAVY_READS.saturating_mul(entries), Ordering::Relaxed);
        }
    }

    /// Returns whether reads outweighed writes when that was last decided.
    pub(crate) fn is_heavy(&self) -> bool {
        self.is_heavy.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_weigh_against_the_entries_flushed() {
        let reads = ReadLoad::default();
        // Twice the threshold, and half of it: chance does not reach that far.
        let bar = 10_000 * HEAVY_READS as u32;
        (0..bar * 2).for_each(|_| _ = reads.note(1));
        reads.flushed(10_000);
        assert!(reads.is_heavy());
        (0..bar / 2).for_each(|_| _ = reads.note(1));
        reads.flushed(10_000);
        assert!(!reads.is_heavy());
        (0..bar * 2 / SCAN_WEIGHT).for_each(|_| _ = reads.note(SCAN_WEIGHT));
        reads.flushed(10_000);
        assert!(reads.is_heavy());
    }

    /// Reads until the tree is due to be judged, and judges it with `entries` unflushed entries.
    fn read_window(reads: &ReadLoad, entries: u64) {
        let is_due = (0..WINDOW).any(|_| reads.note(SCAN_WEIGHT));
        assert!(is_due);
        reads.judge(entries);
    }

    #[test]
    fn reads_between_flushes_weigh_against_the_entries_written_meanwhile() {
        let reads = ReadLoad::default();
        let many = WINDOW / HEAVY_READS + 1;
        read_window(&reads, many);
        assert!(!reads.is_heavy());
        read_window(&reads, many + 10);
        assert!(reads.is_heavy(), "10 entries were written");
        // The flush knows no better than the last window.
        reads.flushed(many + 10);
        assert!(reads.is_heavy());
        read_window(&reads, many);
        assert!(!reads.is_heavy(), "what was flushed does not count");
        reads.flushed(many);
        reads.flushed(many);
        assert!(!reads.is_heavy());
    }

    #[test]
    fn a_thread_that_reads_trees_in_turn_is_counted_for_each() {
        let trees: [ReadLoad; 4] = Default::default();
        (0..64 * 400).for_each(|at| _ = trees[at % 4].note(1));
        for tree in &trees {
            let weight = tree.weight.load(Ordering::Relaxed);
            assert!((3200..12800).contains(&weight), "{weight} of 6400");
        }
    }
}
