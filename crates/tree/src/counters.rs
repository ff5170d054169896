//! Counters of the work that a tree has done.

use flagstone_env::sync::atomic::{AtomicU64, Ordering};

/// Work that a tree has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeCounters {
    /// The number of finished flushes.
    pub flushes: u64,
    /// Bytes of tables that flushes wrote.
    pub flush_bytes_written: u64,
    /// The number of finished compactions, without moves.
    pub compactions: u64,
    /// Bytes of tables that compactions read.
    pub compaction_bytes_read: u64,
    /// Bytes of tables that compactions wrote.
    pub compaction_bytes_written: u64,
    /// The number of tables that moved down a level without being rewritten.
    pub tables_moved: u64,
    /// The number of tables that were dropped unread because all their entries had expired.
    pub tables_expired: u64,
    /// About how many keys without a live entry scans have walked over. A dead range that was
    /// skipped counts as a few.
    pub dead_keys: u64,
}

#[derive(Default)]
pub(crate) struct AtomicCounters {
    flushes: AtomicU64,
    flush_bytes_written: AtomicU64,
    compactions: AtomicU64,
    compaction_bytes_read: AtomicU64,
    compaction_bytes_written: AtomicU64,
    tables_moved: AtomicU64,
    tables_expired: AtomicU64,
    dead_keys: AtomicU64,
}

impl AtomicCounters {
    pub(crate) fn add(&self, work: TreeCounters) {
        let add = |counter: &AtomicU64, n| counter.fetch_add(n, Ordering::Relaxed);
        add(&self.flushes, work.flushes);
        add(&self.flush_bytes_written, work.flush_bytes_written);
        add(&self.compactions, work.compactions);
        add(&self.compaction_bytes_read, work.compaction_bytes_read);
        add(&self.compaction_bytes_written, work.compaction_bytes_written);
        add(&self.tables_moved, work.tables_moved);
        add(&self.tables_expired, work.tables_expired);
        add(&self.dead_keys, work.dead_keys);
    }

    /// Counts keys without a live entry that a scan has walked over.
    pub(crate) fn pass(&self, dead_keys: u64) {
        self.dead_keys.fetch_add(dead_keys, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> TreeCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TreeCounters {
            flushes: get(&self.flushes),
            flush_bytes_written: get(&self.flush_bytes_written),
            compactions: get(&self.compactions),
            compaction_bytes_read: get(&self.compaction_bytes_read),
            compaction_bytes_written: get(&self.compaction_bytes_written),
            tables_moved: get(&self.tables_moved),
            tables_expired: get(&self.tables_expired),
            dead_keys: get(&self.dead_keys),
        }
    }
}
