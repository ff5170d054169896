//! Facts told to listeners: one enum for the log line, the metrics and the bands on a plot.

use flagstone_base::{Error, FileNumber};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Why writers were held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StallCause {
    /// Memtables fill faster than they are flushed.
    Memory,
    /// Flushed tables come faster than they are compacted.
    Compaction,
    /// The log is at its bound, and a flush that would shorten it fails again and again: writes are refused with its error.
    Log,
}

/// A table that cannot be read, and what it holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DamagedTable {
    /// Its file.
    pub file: PathBuf,
    /// The keyspace, by name.
    pub keyspace: String,
    /// Which partition of it.
    pub partition: usize,
    /// No key in it is smaller, ..
    pub smallest: Vec<u8>,
    /// .. and none is larger.
    pub largest: Vec<u8>,
    /// What is wrong, and where in the file.
    pub error: Error,
}

/// Shows a partition of a keyspace.
struct Part<'a>(&'a str, usize);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keyspace {:?}, partition {}", self.0, self.1)
    }
}

impl fmt::Display for DamagedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, keyspace, partition, smallest, largest, error } = self;
        write!(
            f,
            "{}, keys {}..={} of {}: {error}",
            file.display(),
            smallest.escape_ascii(),
            largest.escape_ascii(),
            Part(keyspace, *partition)
        )
    }
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
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// Which partition of it.
        partition: usize,
    },
    /// A memtable stands in tables.
    FlushFinished {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// Which partition of it.
        partition: usize,
        /// Tables written.
        tables: usize,
        /// Their bytes.
        bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// Tables began to be merged.
    CompactionStarted {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// Which partition of it.
        partition: usize,
        /// Why and what, for humans.
        job: String,
    },
    /// Tables were merged.
    CompactionFinished {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// Which partition of it.
        partition: usize,
        /// Tables that went.
        removed: usize,
        /// Tables that came.
        added: usize,
        /// Bytes of those that came.
        bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// The wall clock jumped ahead. Reads follow it, but for an hour no table is rid of entries that have expired by it
    /// alone. If the jump was a mistake: set the clock right within that hour and open the database again, and they are back.
    ClockJumped {
        /// By how much.
        by: Duration,
    },
    /// Background work failed; it is tried again unless the database is poisoned.
    BackgroundFailed {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        error: Error,
    },
    /// Work of one partition failed and rests before it is tried again. Others go on.
    BackedOff {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// Which partition of it.
        partition: usize,
        /// What was being done.
        doing: &'static str,
        /// For how long it rests: twice as long as after the failure before, at most a minute.
        delay: Duration,
        /// What went wrong.
        error: Error,
    },
    /// A table was found damaged for the first time since the database was opened: by a read, or by a compaction, which
    /// is tried again. Restore its keys from a copy.
    TableDamaged(DamagedTable),
    /// A damaged table made compactions fail: they leave it out until the database is opened again. Reads of its blocks
    /// that are damaged fail, everything else goes on.
    TableQuarantined(DamagedTable),
    /// The disk is full: flushes and compactions fail, and writers stop when memtables are full.
    DiskFull {
        /// What did not fit.
        error: Error,
    },
    /// A flush or compaction has found room again.
    DiskHasRoom {
        /// For how long there was none: since [`Event::DiskFull`].
        took: Duration,
    },
    /// The disk is full, and the ballast was removed for it: until there is room for another one, deletes, flushes
    /// and compactions go on, other writes are refused.
    BallastGivenUp {
        /// The room that it had taken.
        bytes: u64,
    },
    /// The ballast was made: all writes go on.
    BallastMade {
        /// The room that it takes.
        bytes: u64,
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
            Self::FlushStarted { keyspace, partition } => {
                write!(f, "{}: flush started", Part(keyspace, *partition))
            }
            Self::FlushFinished { keyspace, partition, tables, bytes, took } => write!(
                f,
                "{}: flushed {bytes} bytes to {tables} tables in {took:.1?}",
                Part(keyspace, *partition)
            ),
            Self::CompactionStarted { keyspace, partition, job } => {
                write!(f, "{}: compaction started: {job}", Part(keyspace, *partition))
            }
            Self::CompactionFinished { keyspace, partition, removed, added, bytes, took } => {
                let part = Part(keyspace, *partition);
                write!(
                    f,
                    "{part}: compacted {removed} tables to {added} of {bytes} bytes in {took:.1?}"
                )
            }
            Self::ClockJumped { by } => {
                write!(f, "the clock jumped ahead by {by:.0?}: tables keep what expired by it")
            }
            Self::BackgroundFailed { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::BackedOff { keyspace, partition, doing, delay, error } => {
                write!(f, "{}: {doing} rests for {delay:.1?}: {error}", Part(keyspace, *partition))
            }
            Self::TableDamaged(table) => write!(f, "damaged table: {table}"),
            Self::TableQuarantined(table) => write!(f, "quarantined table: {table}"),
            Self::DiskFull { error } => write!(f, "the disk is full: {error}"),
            Self::DiskHasRoom { took } => write!(f, "the disk has room again after {took:.1?}"),
            Self::BallastGivenUp { bytes } => {
                write!(f, "the ballast of {bytes} bytes was given up: deletes alone go on")
            }
            Self::BallastMade { bytes } => write!(f, "the ballast of {bytes} bytes was made"),
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
/// Reads and [`Database::stats`](crate::Engine::stats) may be called from here; every other call of the
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
