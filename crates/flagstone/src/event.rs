//! Facts told to listeners: one enum for the log line, the metrics and the bands on a plot.

use flagstone_base::{Error, FileNumber, TreeId};
use std::fmt;
use std::time::Duration;

/// Why writers were held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StallCause {
    /// Memtables fill faster than they are flushed.
    Memory,
    /// Flushed tables come faster than they are compacted.
    Compaction,
}

/// Something that happened in a database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The database is open; what recovery did.
    Opened {
        /// Records of the write-ahead log that were replayed.
        replayed_records: u64,
        /// Bytes behind the last whole record: a crash cut them short, nobody was promised them.
        torn_bytes: u64,
        /// Files removed because nothing named them.
        removed_files: usize,
        /// How long it took.
        took: Duration,
    },
    /// A memtable began to be written out.
    FlushStarted {
        /// Whose memtable.
        tree: TreeId,
    },
    /// A memtable stands in tables.
    FlushFinished {
        /// Whose memtable.
        tree: TreeId,
        /// Tables written.
        tables: usize,
        /// Their bytes.
        bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// Tables began to be merged.
    CompactionStarted {
        /// Of which tree.
        tree: TreeId,
        /// Why and what, for humans.
        job: String,
    },
    /// Tables were merged.
    CompactionFinished {
        /// Of which tree.
        tree: TreeId,
        /// Tables that went.
        removed: usize,
        /// Tables that came.
        added: usize,
        /// Bytes of those that came.
        bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// Background work failed; it is tried again unless the database is poisoned.
    BackgroundFailed {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        error: Error,
    },
    /// Writers began to be stopped.
    StallStarted {
        /// Why.
        cause: StallCause,
    },
    /// No writer is stopped any more.
    StallFinished {
        /// Why the last of them was.
        cause: StallCause,
        /// For how long some were: since [`Event::StallStarted`].
        took: Duration,
    },
    /// A file nothing needs any more was removed.
    FileRemoved {
        /// Its number.
        number: FileNumber,
    },
    /// A sync failed or background work panicked: the database takes no more writes until it is opened again.
    Poisoned {
        /// What went wrong.
        error: Error,
    },
    /// The database is closed.
    Closed {
        /// What went wrong while closing, if anything did.
        error: Option<Error>,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { replayed_records, torn_bytes, removed_files, took } => write!(
                f,
                "opened in {took:.1?}: {replayed_records} records replayed, {torn_bytes} torn bytes \
                 dropped, {removed_files} unnamed files removed"
            ),
            Self::FlushStarted { tree } => write!(f, "{tree}: flush started"),
            Self::FlushFinished { tree, tables, bytes, took } => {
                write!(f, "{tree}: flushed {bytes} bytes to {tables} tables in {took:.1?}")
            }
            Self::CompactionStarted { tree, job } => write!(f, "{tree}: compaction started: {job}"),
            Self::CompactionFinished { tree, removed, added, bytes, took } => write!(
                f,
                "{tree}: compacted {removed} tables to {added} of {bytes} bytes in {took:.1?}"
            ),
            Self::BackgroundFailed { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::StallStarted { cause } => write!(f, "writers stopped: {cause:?}"),
            Self::StallFinished { cause, took } => {
                write!(f, "writers go on after {took:.1?}: {cause:?}")
            }
            Self::FileRemoved { number } => write!(f, "file {number} removed"),
            Self::Poisoned { error } => write!(f, "no more writes: {error}"),
            Self::Closed { error: None } => write!(f, "closed"),
            Self::Closed { error: Some(error) } => write!(f, "closed with an error: {error}"),
        }
    }
}

/// Hears of events. Called from the thread where they happen, whatever locks it holds, so return soon.
/// Reads and [`Database::stats`](crate::Database::stats) may be called from here; every other call of the
/// same database returns InvalidInput, since it could wait for this very thread.
pub trait Listener: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Listener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}
