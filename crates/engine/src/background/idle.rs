//! Whether writers are idle: no flush has ended lately, and memtables hardly grow.
//!
//! Flushes alone do not tell. One partition fills half of the memtables' share before it is
//! flushed, so flushes may end seconds apart while writers work all the time; of many partitions
//! one is flushed every moment.

use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When no flush has ended for this long, and memtables hardly grow, writers count as idle, and
/// trees are compacted for readers.
pub(super) const SETTLE_AFTER: Duration = Duration::from_secs(1);
/// Writers work if they fill half of the memtables' share in less than this time.
const FILL_WITHIN: Duration = Duration::from_secs(8);

/// How fast memtables grow while no flush ends.
#[derive(Default)]
pub(crate) struct Growth {
    /// The time of the last check, and the bytes of the memtables then.
    checked: Mutex<(Duration, u64)>,
    /// Writers count as working up to this time, in nanoseconds.
    works_until: AtomicU64,
}

impl Growth {
    /// Begins to watch memtables, which have `bytes` at the time `now`.
    pub(super) fn watch(&self, now: Duration, bytes: u64) {
        *self.checked.lock() = (now, bytes);
    }

    /// Notes that the memtables have `bytes` at the time `now`; `full` is half of their share. To
    /// be called about every [`SETTLE_AFTER`] while writers work.
    pub(super) fn check(&self, now: Duration, bytes: u64, full: u64) {
        let (then, before) = std::mem::replace(&mut *self.checked.lock(), (now, bytes));
        let (grown, time) = (bytes.saturating_sub(before), now.saturating_sub(then));
        let is_fast =
            u128::from(grown) * FILL_WITHIN.as_nanos() >= u128::from(full) * time.as_nanos();
        if grown > 0 && is_fast {
            // Beyond the next check, which may come late.
            let until = now + SETTLE_AFTER * 2;
            self.works_until.store(until.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Returns whether writers counted as working at the last check.
    pub(super) fn is_fast(&self, now: Duration) -> bool {
        now.as_nanos() < u128::from(self.works_until.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_work_while_they_fill_memtables_in_seconds() {
        let (growth, full) = (Growth::default(), 800);
        let at = Duration::from_secs;
        growth.watch(at(100), 50);
        assert!(!growth.is_fast(at(100)));
        growth.check(at(101), 150, full);
        assert!(growth.is_fast(at(101)) && growth.is_fast(at(102)));
        assert!(!growth.is_fast(at(103)), "nothing was checked since");
        growth.check(at(103), 349, full);
        assert!(!growth.is_fast(at(103)), "199 in two seconds");
        // A flush has made the memtables smaller.
        growth.check(at(104), 20, full);
        assert!(!growth.is_fast(at(104)));
        growth.check(at(104), 20, full);
        assert!(!growth.is_fast(at(104)), "neither time nor growth");
        growth.check(at(105), 120, full);
        assert!(growth.is_fast(at(105)));
    }
}
