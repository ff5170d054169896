//! Facts told to listeners: one enum for the log line, the metrics and the bands on a plot.

use flagstone_base::Error;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The reason why writers were held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StallCause {
    /// Memtables fill faster than they are flushed.
    Memory,
    /// Flushes add tables faster than they are compacted.
    Compaction,
    /// The log is at its limit, and a flush that would shorten it keeps failing. Writes are refused
    /// with its error.
    Log,
}

/// A table that cannot be read, and the keys that it may hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DamagedTable {
    /// The file of the table.
    pub file: PathBuf,
    /// The keyspace, by name.
    pub keyspace: String,
    /// The index of the partition.
    pub partition: usize,
    /// The smallest key that the table may hold.
    pub smallest: Vec<u8>,
    /// The largest key that the table may hold.
    pub largest: Vec<u8>,
    /// The damage, and its offset in the file.
    pub error: Error,
}

/// Shows a partition of a keyspace.
struct PartitionText<'a>(&'a str, usize);

impl fmt::Display for PartitionText<'_> {
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
            PartitionText(keyspace, *partition)
        )
    }
}

/// Something that happened in a database. An index is named after its collection:
/// `comments/by_author`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The database was opened.
    Opened {
        /// Records of the write-ahead log that were replayed.
        replayed_records: u64,
        /// Bytes after the last whole record, which a crash has cut short. No write in them was
        /// acknowledged.
        torn_bytes: u64,
        /// Files removed because nothing named them.
        removed_files: usize,
        /// The duration of the open.
        took: Duration,
    },
    /// The flush of a memtable has started.
    FlushStarted {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// The index of the partition.
        partition: usize,
    },
    /// A memtable was written to tables.
    FlushFinished {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// The index of the partition.
        partition: usize,
        /// The number of tables written.
        tables: usize,
        /// The bytes of these tables.
        bytes: u64,
        /// The duration of the flush.
        took: Duration,
    },
    /// A compaction has started.
    CompactionStarted {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// The index of the partition.
        partition: usize,
        /// The reason and the tables, as text.
        job: String,
    },
    /// Tables were merged.
    CompactionFinished {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// The index of the partition.
        partition: usize,
        /// The number of input tables.
        removed: usize,
        /// The number of output tables.
        added: usize,
        /// The bytes of the output tables.
        bytes: u64,
        /// The duration of the compaction.
        took: Duration,
    },
    /// A partition was split in two.
    PartitionSplit {
        /// The keyspace, by name.
        keyspace: String,
        /// The index of the partition. The second half is the next one.
        partition: usize,
        /// The first key of the second half; of a hash partition its first hash, eight bytes, the
        /// most significant first.
        bound: Vec<u8>,
    },
    /// Two neighbouring partitions were merged.
    PartitionsMerged {
        /// The keyspace, by name.
        keyspace: String,
        /// The index of the first of them, and of the result.
        partition: usize,
    },
    /// An ingest was installed.
    Ingested {
        /// The keyspace, by name.
        keyspace: String,
        /// The number of entries.
        entries: u64,
        /// The number of tables.
        tables: usize,
        /// The bytes of the tables.
        bytes: u64,
    },
    /// Changes that were kept for readers were removed: the bound of
    /// [`Options::change_retention`](crate::Options::change_retention) was reached, the disk was
    /// full, or an open has found that the segment after them is lost or damaged.
    ChangesDropped {
        /// The number of segments of the log.
        segments: u64,
        /// Their bytes.
        bytes: u64,
        /// Changes up to this SeqNo cannot be read any more.
        through: u64,
        /// The disk was full.
        is_disk_full: bool,
        /// The segment after them is lost, is another one, or is shorter than it was.
        is_damaged: bool,
    },
    /// The wall clock jumped ahead. Reads follow it at once, but for an hour no entry that has
    /// expired only because of the jump is removed from tables. If the jump was a mistake, set the
    /// clock right within that hour and open the database again: the entries are back.
    ClockJumped {
        /// The size of the jump.
        by: Duration,
    },
    /// Background work failed. It is retried unless the database is poisoned.
    BackgroundFailed {
        /// The work that failed.
        doing: &'static str,
        /// The reason.
        error: Error,
    },
    /// Work of one partition failed and pauses before a retry. Other work continues.
    BackedOff {
        /// The keyspace, by name; empty if it was dropped meanwhile.
        keyspace: String,
        /// The index of the partition.
        partition: usize,
        /// The work that failed.
        doing: &'static str,
        /// The length of the pause: twice that after the previous failure, at most a minute.
        delay: Duration,
        /// The reason.
        error: Error,
    },
    /// A table was found damaged for the first time since the database was opened: by a read, or by
    /// a compaction, which is retried. Restore its keys from a copy.
    TableDamaged(DamagedTable),
    /// A damaged table made compactions fail. They leave it out until the database is opened again.
    /// Reads of its damaged blocks fail; everything else works.
    TableQuarantined(DamagedTable),
    /// The disk is full: flushes and compactions fail, and writers stop when memtables are full.
    DiskFull {
        /// The error of the work that found the disk full.
        error: Error,
    },
    /// A flush or compaction has found space again.
    DiskHasRoom {
        /// The time since [`Event::DiskFull`].
        took: Duration,
    },
    /// The disk is full, and the ballast was removed because of it. Until there is space for a new
    /// one, deletes, flushes and compactions continue, and other writes are refused.
    BallastGivenUp {
        /// The space that the ballast took.
        bytes: u64,
    },
    /// The ballast was created: all writes are accepted.
    BallastCreated {
        /// The space that the ballast takes.
        bytes: u64,
    },
    /// The first writer was stopped.
    StallStarted {
        /// The reason.
        cause: StallCause,
    },
    /// No writer is stopped any more.
    StallFinished {
        /// The reason why the last of them was stopped.
        cause: StallCause,
        /// The time since [`Event::StallStarted`].
        took: Duration,
    },
    /// A file that nothing needs any more was removed.
    FileRemoved {
        /// The number in the name of the file.
        number: u64,
    },
    /// A sync failed, background work panicked, or the directory of the database was moved, removed
    /// or replaced: the database accepts no writes until it is opened again.
    Poisoned {
        /// The reason.
        error: Error,
    },
    /// The database is closed.
    Closed {
        /// The first error while closing, if there was any.
        error: Option<Error>,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { replayed_records, torn_bytes, removed_files, took } => write!(
                f,
                "opened in {took:.1?}: {replayed_records} records replayed, {torn_bytes} torn \
                 bytes dropped, {removed_files} unnamed files removed"
            ),
            Self::FlushStarted { keyspace, partition } => {
                write!(f, "{}: flush started", PartitionText(keyspace, *partition))
            }
            Self::FlushFinished { keyspace, partition, tables, bytes, took } => write!(
                f,
                "{}: flushed {bytes} bytes to {tables} tables in {took:.1?}",
                PartitionText(keyspace, *partition)
            ),
            Self::CompactionStarted { keyspace, partition, job } => {
                write!(f, "{}: compaction started: {job}", PartitionText(keyspace, *partition))
            }
            Self::CompactionFinished { keyspace, partition, removed, added, bytes, took } => {
                let part = PartitionText(keyspace, *partition);
                write!(
                    f,
                    "{part}: compacted {removed} tables to {added} of {bytes} bytes in {took:.1?}"
                )
            }
            Self::PartitionSplit { keyspace, partition, bound } => {
                let bound = &bound[..bound.len().min(64)];
                write!(
                    f,
                    "{}: split at {}",
                    PartitionText(keyspace, *partition),
                    bound.escape_ascii()
                )
            }
            Self::PartitionsMerged { keyspace, partition } => {
                write!(f, "{}: merged with the next one", PartitionText(keyspace, *partition))
            }
            Self::Ingested { keyspace, entries, tables, bytes } => write!(
                f,
                "keyspace {keyspace:?}: ingested {entries} entries in {tables} tables of {bytes} \
                 bytes"
            ),
            Self::ChangesDropped { segments, bytes, through, is_disk_full, is_damaged } => write!(
                f,
                "{segments} segments of {bytes} bytes with changes up to #{through} removed: {}",
                match (is_disk_full, is_damaged) {
                    (_, true) => "the segment after them is lost or damaged",
                    (true, _) => "the disk is full",
                    _ => "more are not kept",
                }
            ),
            Self::ClockJumped { by } => write!(
                f,
                "the clock jumped ahead by {by:.0?}: tables keep entries that expired by it"
            ),
            Self::BackgroundFailed { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::BackedOff { keyspace, partition, doing, delay, error } => {
                write!(
                    f,
                    "{}: {doing} pauses for {delay:.1?}: {error}",
                    PartitionText(keyspace, *partition)
                )
            }
            Self::TableDamaged(table) => write!(f, "damaged table: {table}"),
            Self::TableQuarantined(table) => write!(f, "quarantined table: {table}"),
            Self::DiskFull { error } => write!(f, "the disk is full: {error}"),
            Self::DiskHasRoom { took } => write!(f, "the disk has space again after {took:.1?}"),
            Self::BallastGivenUp { bytes } => {
                write!(f, "the ballast of {bytes} bytes was given up: only deletes are accepted")
            }
            Self::BallastCreated { bytes } => write!(f, "the ballast of {bytes} bytes was created"),
            Self::StallStarted { cause } => write!(f, "writers stopped: {cause:?}"),
            Self::StallFinished { cause, took } => {
                write!(f, "writers continue after {took:.1?}: {cause:?}")
            }
            Self::FileRemoved { number } => write!(f, "file {number:06} removed"),
            Self::Poisoned { error } => write!(f, "no more writes are accepted: {error}"),
            Self::Closed { error: None } => write!(f, "closed"),
            Self::Closed { error: Some(error) } => write!(f, "closed with an error: {error}"),
        }
    }
}

/// Receives events. Called from the thread where they happen, whatever locks it holds, so it should
/// return soon. It may read, and call `Database::stats`. Every other call of the same database
/// returns InvalidInput, since it could wait for this very thread.
pub trait Listener: Send + Sync {
    /// Called when something has happened.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Listener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}
