//! The memory that all scans together may hold in blocks and in what they read ahead.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So much is left to scans at least: what one of them reads ahead, and its blocks.
const BYTES_MIN: u64 = 8 << 20;
const BYTES_MAX: u64 = 256 << 20;
/// A cache of seven eighths of the memory budget leaves scans a sixteenth of the budget.
const PART_OF_CACHE: u64 = 14;

/// Counts what scans hold. A block is counted whether the cache holds it or not, and read by a scan in any case; reading
/// ahead waits until there is room.
pub struct Allowance {
    used: AtomicU64,
    max: u64,
    /// A scan would have read ahead, but there was no room.
    is_short: AtomicBool,
}

impl Allowance {
    /// That beside a cache of `bytes`.
    pub(crate) fn beside(bytes: u64) -> Self {
        let max = (bytes / PART_OF_CACHE).clamp(BYTES_MIN, BYTES_MAX);
        Self { used: AtomicU64::new(0), max, is_short: AtomicBool::new(false) }
    }

    /// What is held now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What should be held at most.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Whether more is held than should be, or somebody waits for room to read ahead.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.used() > self.max || self.is_short.load(Ordering::Relaxed)
    }

    /// From now on somebody has to ask again.
    pub fn forget_short(&self) {
        self.is_short.store(false, Ordering::Relaxed);
    }

    /// Who held `before` bytes holds `now`.
    pub fn change(&self, before: u64, now: u64) {
        match now.checked_sub(before) {
            Some(0) => {}
            Some(more) => drop(self.used.fetch_add(more, Ordering::Relaxed)),
            None => drop(self.used.fetch_sub(before - now, Ordering::Relaxed)),
        }
    }

    /// The same if there is room; else nothing has changed.
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
