//! The memory that all scans together may hold in blocks and in read-ahead buffers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The least memory that scans are allowed: enough for the read-ahead and the blocks of one scan.
const BYTES_MIN: u64 = 8 << 20;
const BYTES_MAX: u64 = 256 << 20;
/// The allowance is this fraction of the cache. With a cache of seven eighths of the memory budget,
/// that is a sixteenth of the budget.
const PART_OF_CACHE: u64 = 14;

/// Counts the memory that scans hold. A block is read and counted even beyond the limit, whether
/// the cache holds it or not. Reading ahead stops at the limit.
pub struct Allowance {
    used: AtomicU64,
    max: u64,
    /// A scan did not read ahead because the limit was reached.
    is_short: AtomicBool,
}

impl Allowance {
    /// Creates the allowance for a cache of `bytes`.
    pub(crate) fn beside(bytes: u64) -> Self {
        let max = (bytes / PART_OF_CACHE).clamp(BYTES_MIN, BYTES_MAX);
        Self { used: AtomicU64::new(0), max, is_short: AtomicBool::new(false) }
    }

    /// Bytes that scans hold now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The limit, in bytes. Blocks may exceed it.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Returns whether scans hold more than the limit, or one of them could not read ahead.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.used() > self.max || self.is_short.load(Ordering::Relaxed)
    }

    /// Forgets that a scan could not read ahead.
    pub fn forget_short(&self) {
        self.is_short.store(false, Ordering::Relaxed);
    }

    /// Records that a scan which held `before` bytes now holds `now`.
    pub fn change(&self, before: u64, now: u64) {
        match now.checked_sub(before) {
            Some(0) => {}
            Some(more) => drop(self.used.fetch_add(more, Ordering::Relaxed)),
            None => drop(self.used.fetch_sub(before - now, Ordering::Relaxed)),
        }
    }

    /// As [`Allowance::change`], but changes nothing and returns false if that would exceed the
    /// limit.
    pub(crate) fn try_change(&self, before: u64, now: u64) -> bool {
        self.change(before, now);
        if now <= before || self.used() <= self.max {
            return true;
        }
        self.change(now, before);
        self.is_short.store(true, Ordering::Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ahead_waits_for_room_and_blocks_do_not() {
        let allowance = Allowance::beside(0);
        assert_eq!(allowance.max(), BYTES_MIN);
        assert!(allowance.try_change(0, BYTES_MIN - 10));
        assert!(!allowance.is_short());
        assert!(!allowance.try_change(5, 16));
        assert!(allowance.is_short(), "somebody waits");
        allowance.forget_short();
        assert!(!allowance.is_short());
        allowance.change(0, 11);
        assert!(allowance.is_short(), "too much is held");
        assert!(allowance.try_change(100, 50), "less is always granted");
        assert_eq!(allowance.used(), BYTES_MIN - 49);
    }
}
