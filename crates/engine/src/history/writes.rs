//! The state of the writes of a database: what is numbered, logged, visible and read.

use super::expiry::ExpiryClock;
use super::numbering::Numbering;
use super::publish::Publisher;
use super::snapshots::{Registered, Snapshots};
use super::version::HistoryId;
use flagstone_base::{Moment, SeqNo};
use flagstone_env::sync::atomic::AtomicBool;
use flagstone_env::sync::{Condvar, Mutex};
use flagstone_wal::{Log, LogFiles};
use std::sync::Arc;
use std::time::Duration;

/// The history of writes of an open database.
pub(crate) struct History {
    pub(crate) id: HistoryId,
    /// `None` in a database opened for reading only.
    pub(crate) log: Option<Log>,
    /// The files of the log, for readers of changes, in a database opened for reading only.
    pub(crate) log_files: Option<LogFiles>,
    pub(crate) numbering: Mutex<Numbering>,
    /// Rings when held trees are released.
    pub(crate) released: Condvar,
    pub(crate) publisher: Publisher,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) clock: ExpiryClock,
    /// The log is being replayed. Its later records are not in memtables yet, so nothing of it may
    /// be released, and only the replay seals memtables.
    pub(crate) replaying: AtomicBool,
}

impl History {
    /// The history of a database in which `visible` was the last write.
    pub(crate) fn new(
        id: HistoryId,
        log: Option<Log>,
        log_files: Option<LogFiles>,
        visible: SeqNo,
        clock: ExpiryClock,
    ) -> Self {
        Self {
            id,
            log,
            log_files,
            numbering: Mutex::new(Numbering::new(visible)),
            released: Condvar::new(),
            publisher: Publisher::new(visible),
            snapshots: Arc::default(),
            clock,
            replaying: AtomicBool::new(true),
        }
    }

    pub(crate) const fn is_read_only(&self) -> bool {
        self.log.is_none()
    }

    /// Returns whether changes are kept for readers.
    pub(crate) fn keeps_changes(&self) -> bool {
        self.log.as_ref().is_some_and(Log::keeps_changes)
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::bytes)
    }

    /// The newest SeqNo that a new reader sees.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        self.publisher.visible()
    }

    /// Registers a reader of what is visible now. `now` reads the monotonic clock.
    pub(crate) fn register(&self, now: impl FnOnce() -> Duration) -> Registered {
        self.snapshots.register(&self.publisher, &self.clock, now)
    }

    /// When the oldest reader came that keeps what was overwritten since.
    pub(crate) fn oldest_reader_since(&self) -> Option<Duration> {
        self.snapshots.oldest_since(&self.publisher)
    }

    /// The moment up to which expired entries may be removed from tables: no reader judges by an
    /// earlier one, now or later. ZERO while nothing expires.
    pub(crate) fn expire_through(&self) -> Moment {
        if !self.clock.is_used() {
            return Moment::ZERO;
        }
        // The clock is read first: readers that register later keep no earlier moment.
        let safe = self.clock.safe();
        self.snapshots.moment().min(safe)
    }

    /// The SeqNos of registered readers, ascending, and the SeqNo visible now.
    pub(crate) fn live(&self) -> (Vec<SeqNo>, SeqNo) {
        self.snapshots.live(&self.publisher)
    }
}
