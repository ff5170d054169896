//! The options of a database: few, with units in their names, checked before anything is written.

use super::changes::ChangeRetention;
use super::durability::{Durability, check_interval};
use flagstone_base::{Error, Result};

/// The options of a database, chosen each time it is opened; they are not stored.
///
/// ```
/// # use flagstone_engine::{Durability, Options};
/// let options = Options::new().memory_budget(512 << 20).durability(Durability::Group);
/// assert!(options.create_if_missing);
/// ```
///
/// ```
/// # use flagstone_engine::{ChangeRetention, Durability, Options};
/// # use std::time::Duration;
/// // A server with 2 GiB to spare, on a disk that it shares, whose data is much larger.
/// let options = Options::new()
///     .memory_budget(2 << 30)
///     .direct_reads(true)                                     // the page cache would not hold it
///     .files_open_max(500)
///     .compaction_workers(2)
///     .durability(Durability::Interval(Duration::from_millis(100)))
///     .space_amplification_max(1.5)                           // space before speed
///     .split_bytes(512 << 20)
///     .scrub_bytes_per_second(5 << 20)                        // to detect bit rot early
///     .copy_bytes_per_second(50 << 20)
///     .change_retention(ChangeRetention::age(Duration::from_secs(86_400)));
/// assert_eq!((options.memory_budget, options.files_open_max), (2 << 30, Some(500)));
///
/// // A small device: little memory, no spare file, and nothing is created by mistake.
/// let small = Options::new()
///     .memory_budget(16 << 20)
///     .memtable_bytes(1 << 20)
///     .document_bytes_max(64 << 10)
///     .entry_checks(true)                                     // the default
///     .ballast_bytes(0)
///     .create_if_missing(false);
/// assert_eq!((small.ballast_bytes, small.memtable_bytes), (Some(0), Some(1 << 20)));
/// assert_eq!(small.memtable_bytes(None).memtable_bytes, Options::new().memtable_bytes);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Memory for memtables, cache, indexes, filters and compaction together, in bytes. Default: a
    /// quarter of the machine's memory within 64 MiB..=4 GiB. Half of it, at most 4 GiB, is for
    /// memtables. The cache has seven eighths of it, less what memtables take. Indexes and filters
    /// of open tables stay in memory while they fit into half of the cache; otherwise their parts
    /// are cached like blocks. docs/guide/memory.md lists everything that counts.
    pub memory_budget: u64,
    /// When a commit (`Database::commit`) or a single-key write returns. Default: `Buffered`.
    pub durability: Durability,
    /// Threads that compact, at least 1. Default: half the cores.
    pub compaction_workers: usize,
    /// The most that tables may take while writers overwrite and delete, as a multiple of the live
    /// bytes, 1.2 to 100. Half of the memtables' share comes on top, and the log is not counted. A
    /// larger value lets writers write faster: where all entries are overwritten, each byte put
    /// costs about 1 / (this - 1) bytes of compaction. Above it writers are slowed until
    /// compactions have caught up. What a snapshot reads counts as live. While writers are idle,
    /// tables are compacted to about 1.15. Default: 2.
    pub space_amplification_max: f64,
    /// The longest document or patch that collections accept from a caller, in bytes. Default: 16
    /// MiB, as in MongoDB, so that one document never fills a memtable. At most 512 MiB. Patches
    /// that are written without reading may make a document longer, up to 512 MiB: what was
    /// acknowledged is kept, whatever the limit is when patches are folded.
    pub document_bytes_max: usize,
    /// Advanced: seal the memtable of a partition when it holds this many bytes, 64 KiB to a
    /// quarter of the memory budget. `None`, the default: only when all memtables together fill
    /// half of their share of the budget, the largest first, which writes fewer and larger tables.
    /// While a flush runs a memtable may grow beyond this size.
    pub memtable_bytes: Option<u64>,
    /// Split a partition of a keyspace with ranges of keys ([`Routing::Range`](crate::Routing)) in
    /// two when its tables take about this many bytes, at least 1 KiB, and merge neighbours that a
    /// split has made while together they take less than a quarter of it. Partitions that grow
    /// alike are not all split at once: one of several is split at 0.63 to 1.28 times this size. A
    /// split writes one edit and stops no writer. A keyspace has at most 256 partitions.
    ///
    /// A partition of any size is also split, in up to four, when a fourth of its writers wait for
    /// one another: at the keys that divide what they write evenly, and into no more partitions
    /// than a keyspace has by default. For ten minutes these do not merge.
    ///
    /// A hash partition is split in two at eight times this size, since every scan merges all of
    /// them. Hash partitions never merge.
    ///
    /// 0: partitions stay as they are. Default: 256 MiB, eight full tables.
    pub split_bytes: u64,
    /// Read blocks that are not in the cache past the page cache of the operating system
    /// (`O_DIRECT`), where it supports that: for data much larger than the machine's memory, which
    /// the page cache would hold a second time or not at all. Each miss is then a read of the
    /// device, so give `memory_budget` the memory that the page cache would have had. Blocks of
    /// more than 256 KiB, long scans and compactions use the page cache, which reads ahead for
    /// them, and so does everything on a file system without such reads (some silently serve them
    /// from the page cache).
    ///
    /// Cost: a second descriptor for each open table (both count in `files_open_max`), and up to
    /// 260 KiB for each thread that reads, outside of the budget. Default: false. As RocksDB's
    /// `use_direct_reads`; measured in docs/decisions/tables.md.
    pub direct_reads: bool,
    /// The most descriptors that open tables may hold, at least 8. A table beyond that is closed
    /// when others are read, and opened by the next read of a block that is not in the cache: about
    /// 10 us more. Running reads, the log and files being written come on top, fewer than 50.
    /// `None`, the default: three quarters of what the process may have (`ulimit -n`), but not the
    /// last 64.
    pub files_open_max: Option<usize>,
    /// Every entry carries a check, a CRC-32C of its value with the hash of its key, its kind and
    /// its SeqNo, from the write call into the block of a table. A flush or compaction refuses an
    /// entry that has changed in memory on the way. So a bit flipped by bad memory, or by a program
    /// that writes where it must not, is reported as Corruption and not stored. Reads compare
    /// nothing. As RocksDB's `protection_bytes_per_key` and `memtable_protection_bytes_per_key`.
    ///
    /// Cost: 0 to 3 % of the CPU time of a write, and 4 bytes of memory a version in memtables,
    /// which they take in any case; docs/decisions/entry-checks.md. Default: true.
    pub entry_checks: bool,
    /// A file of this many bytes that is removed when the disk is full, so that deletes, flushes
    /// and compactions have space to free more. Other writes are refused with OutOfSpace until the
    /// file could be created again, which happens automatically when twice its size is free.
    /// `None`, the default: an eighth of the memory budget within 2 MiB..=128 MiB, created when
    /// tables hold 16 times as many live bytes. `Some(0)`: no file; a full disk then stays full
    /// until space is freed in another way.
    pub ballast_bytes: Option<u64>,
    /// Read all tables over and over in the background, this many bytes a second, and compare them
    /// with the manifest's checksums. Damage is reported by
    /// [`Event::TableDamaged`](crate::Event::TableDamaged) while there is a backup to restore.
    /// Reads bypass the page cache where the system supports that. Default: 0, off. 10 MB/s read
    /// 860 GB a day.
    pub scrub_bytes_per_second: u64,
    /// How fast backups (`Database::backup`) copy, in bytes a second, so that they leave the
    /// disk to others; also checkpoints (`Database::checkpoint`), where the file system has no
    /// hard links. A backup reads back its copies at the same rate. Default: 0, no limit.
    pub copy_bytes_per_second: u64,
    /// Keep this much of the log for readers of changes (`Database::changes`). Unlike the other
    /// options it is stored: `None`, the default, leaves it as it was set last, at first off. While
    /// it is off, nothing is kept and no commit pays for it.
    pub change_retention: Option<ChangeRetention>,
    /// Create the directory and the database if there is none. Default: true.
    pub create_if_missing: bool,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory_budget: (machine_memory() / 4).clamp(64 << 20, 4 << 30),
            durability: Durability::Buffered,
            compaction_workers: (cores / 2).max(1),
            space_amplification_max: 2.0,
            document_bytes_max: 16 << 20,
            memtable_bytes: None,
            split_bytes: 256 << 20,
            direct_reads: false,
            files_open_max: None,
            entry_checks: true,
            ballast_bytes: None,
            scrub_bytes_per_second: 0,
            copy_bytes_per_second: 0,
            change_retention: None,
            create_if_missing: true,
        }
    }
}

impl Options {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($argument:ident: $type:ty) = $value:expr;)*) => {
        /// Setters, one for each option.
        impl Options {
            $(
                $(#[$doc])*
                #[doc = concat!(
                    "See [`Options::", stringify!($name), "`](#structfield.", stringify!($name),
                    ")."
                )]
                #[must_use]
                pub fn $name(mut self, $argument: $type) -> Self {
                    self.$name = $value;
                    self
                }
            )*
        }

        // Does not compile if an option has no setter.
        const _: fn(Options) = |Options { $($name: _),* }| {};
    };
}

setters! {
    /// Sets the memory for memtables, cache and the rest, in bytes, at least 1 MiB.
    memory_budget(bytes: u64) = bytes;
    /// Sets the durability of commits that name none of their own.
    durability(durability: Durability) = durability;
    /// Sets the number of threads that compact.
    compaction_workers(threads: usize) = threads;
    /// Sets the space that tables may take, as a multiple of the live bytes.
    space_amplification_max(times: f64) = times;
    /// Sets the length of the longest document or patch, in bytes.
    document_bytes_max(bytes: usize) = bytes;
    /// Sets the size in bytes at which the memtable of a partition is sealed; `None` is the
    /// default.
    memtable_bytes(bytes: impl Into<Option<u64>>) = bytes.into();
    /// Sets the size in bytes at which a partition with a range of keys is split; 0: never.
    split_bytes(bytes: u64) = bytes;
    /// Sets whether blocks are read past the page cache of the system.
    direct_reads(on: bool) = on;
    /// Sets how many descriptors open tables may hold; `None` is the default.
    files_open_max(files: impl Into<Option<usize>>) = files.into();
    /// Sets whether entries carry checks against changes in memory.
    entry_checks(on: bool) = on;
    /// Sets the size in bytes of the file that is removed when the disk is full; `None` is
    /// the default.
    ballast_bytes(bytes: impl Into<Option<u64>>) = bytes.into();
    /// Sets how fast tables are read and checked in the background, in bytes a second.
    scrub_bytes_per_second(bytes: u64) = bytes;
    /// Sets how fast backups and checkpoints copy, in bytes a second.
    copy_bytes_per_second(bytes: u64) = bytes;
    /// Sets how long changes are kept for readers; `None`: as it was set last.
    change_retention(retention: impl Into<Option<ChangeRetention>>)
        = retention.into();
    /// Sets whether a missing database is created.
    create_if_missing(on: bool) = on;
}

impl Options {
    /// Refuses values that are out of range.
    pub(crate) fn check(&self) -> Result<()> {
        if self.memory_budget < MEMORY_BUDGET_MIN {
            return Err(Error::invalid(format!(
                "a memory budget of {} bytes: expected at least {MEMORY_BUDGET_MIN}",
                self.memory_budget
            )));
        }
        if !(1..=256).contains(&self.compaction_workers) {
            return Err(Error::invalid(format!(
                "{} compaction workers: expected 1 to 256",
                self.compaction_workers
            )));
        }
        if !(1.2..=100.0).contains(&self.space_amplification_max) {
            return Err(Error::invalid(format!(
                "tables of {} times the live bytes: expected 1.2 to 100",
                self.space_amplification_max
            )));
        }
        let limit = flagstone_base::key::VALUE_BYTES_MAX;
        if !(1..=limit).contains(&self.document_bytes_max) {
            return Err(Error::invalid(format!(
                "documents of at most {} bytes: expected 1 to {limit}",
                self.document_bytes_max
            )));
        }
        if (1..SPLIT_BYTES_MIN).contains(&self.split_bytes) {
            return Err(Error::invalid(format!(
                "partitions that split at {} bytes: expected 0, or at least {SPLIT_BYTES_MIN}",
                self.split_bytes
            )));
        }
        if let Some(bytes) = self.memtable_bytes {
            self.check_memtable_bytes(bytes)?;
        }
        if let Durability::Interval(interval) = self.durability {
            check_interval(interval)?;
        }
        if let Some(retention) = self.change_retention {
            retention.check()?;
        }
        match self.files_open_max {
            Some(max) if max < FILES_OPEN_MIN => Err(Error::invalid(format!(
                "at most {max} open files: expected at least {FILES_OPEN_MIN}"
            ))),
            _ => Ok(()),
        }
    }

    /// The most descriptors that open tables may hold.
    pub(crate) fn files_open(&self) -> usize {
        self.files_open_max.unwrap_or_else(|| {
            let process = flagstone_env::os::descriptors_max().unwrap_or(u64::MAX);
            let ours = process.saturating_sub((process / 4).max(DESCRIPTORS_LEFT));
            usize::try_from(ours).unwrap_or(usize::MAX).max(FILES_OPEN_MIN)
        })
    }

    fn check_memtable_bytes(&self, bytes: u64) -> Result<()> {
        let limit = self.memtable_share() / 2;
        if (MEMTABLE_BYTES_MIN..=limit).contains(&bytes) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "memtables of {bytes} bytes: expected {MEMTABLE_BYTES_MIN} to {limit} with this memory \
             budget"
        )))
    }

    /// The size of the ballast in bytes; 0 for none.
    pub(crate) fn ballast(&self) -> u64 {
        let by_budget = (self.memory_budget / 8).clamp(2 << 20, 128 << 20);
        self.ballast_bytes.unwrap_or(by_budget)
    }

    /// The most bytes that the keys of recent writes may take, which serializable transactions
    /// need: a thirty-second part of the budget, 512 KiB to 64 MiB. The least is room for the
    /// longest keys.
    pub(crate) fn recent_writes_bytes(&self) -> usize {
        (self.memory_budget / 32).clamp(512 << 10, 64 << 20) as usize
    }

    /// The most bytes that all memtables together may hold.
    pub(crate) const fn memtable_share(&self) -> u64 {
        let half = self.memory_budget / 2;
        if half < MEMTABLES_BYTES_MAX { half } else { MEMTABLES_BYTES_MAX }
    }

    /// The bytes that the block cache may hold, indexes and filters included, while memtables may
    /// take `memtables`: the rest of seven eighths of the budget, but at least one eighth. The last
    /// eighth is for compactions and for gaps between allocations.
    pub(crate) const fn cache_bytes(&self, memtables: u64) -> u64 {
        let eighth = self.memory_budget / 8;
        let left = (7 * eighth).saturating_sub(memtables);
        if left > eighth { left } else { eighth }
    }

    /// The most bytes that the write-ahead log holds as long as flushes keep up.
    pub(crate) const fn wal_bytes_max(&self) -> u64 {
        let twice = self.memtable_share() * 2;
        if twice < WAL_BYTES_MAX { twice } else { WAL_BYTES_MAX }
    }

    /// The size of the log at which the trees that pin its oldest segment are flushed: early enough
    /// for the flush to end before the log is full.
    pub(crate) const fn wal_bytes_long(&self) -> u64 {
        self.wal_bytes_max() / 5 * 4
    }

    /// The size of a segment of the write-ahead log in bytes.
    pub(crate) const fn segment_bytes(&self) -> u64 {
        let part = self.memtable_share() / 8;
        if part > 64 << 20 {
            64 << 20
        } else if part < 1 << 20 {
            1 << 20
        } else {
            part
        }
    }
}

/// The least size at which a partition can be told to split.
const SPLIT_BYTES_MIN: u64 = 1 << 10;
/// 1 MiB: tests fill a tree of this size in a moment.
const MEMORY_BUDGET_MIN: u64 = 1 << 20;
/// 64 KiB: a smaller memtable is mostly its own bookkeeping.
const MEMTABLE_BYTES_MIN: u64 = 64 << 10;
/// 4 GiB: one memtable has addresses for 8 GiB, and one tree may hold all memtables.
const MEMTABLES_BYTES_MAX: u64 = 4 << 30;
/// A compaction reads this many tables in turn, so fewer descriptors are of no use.
const FILES_OPEN_MIN: usize = 8;
/// The number of descriptors left to the log, to files being written, and to the embedding program.
const DESCRIPTORS_LEFT: u64 = 64;
/// The most bytes, roughly, that a replay at open reads.
const WAL_BYTES_MAX: u64 = 512 << 20;

/// The machine's memory in bytes; 4 GiB where it cannot be found.
fn machine_memory() -> u64 {
    flagstone_env::os::memory_bytes().unwrap_or(4 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn options_out_of_range_are_refused() {
        let refused = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            assert!(options.check().is_err(), "{options:?}");
        };
        assert!(Options::default().check().is_ok());
        refused(|o| o.memory_budget = 1000);
        refused(|o| o.compaction_workers = 0);
        refused(|o| o.space_amplification_max = 1.0);
        refused(|o| o.space_amplification_max = f64::NAN);
        refused(|o| o.document_bytes_max = 1 << 30);
        refused(|o| o.durability = Durability::Interval(Duration::ZERO));
        refused(|o| o.memtable_bytes = Some(1000));
        refused(|o| o.change_retention = Some(ChangeRetention::age(Duration::ZERO)));
        refused(|o| o.files_open_max = Some(7));
        refused(|o| o.memtable_bytes = Some(o.memory_budget / 2));
    }

    #[test]
    fn every_setter_sets_its_option() {
        let set = Options::new()
            .memory_budget(1)
            .durability(Durability::Group)
            .compaction_workers(2)
            .space_amplification_max(3.0)
            .document_bytes_max(4)
            .memtable_bytes(5)
            .split_bytes(10)
            .direct_reads(true)
            .files_open_max(6)
            .entry_checks(false)
            .ballast_bytes(7)
            .scrub_bytes_per_second(8)
            .copy_bytes_per_second(9)
            .change_retention(ChangeRetention::bytes(10))
            .create_if_missing(false);
        let expected = Options {
            memory_budget: 1,
            durability: Durability::Group,
            compaction_workers: 2,
            space_amplification_max: 3.0,
            document_bytes_max: 4,
            memtable_bytes: Some(5),
            split_bytes: 10,
            direct_reads: true,
            files_open_max: Some(6),
            entry_checks: false,
            ballast_bytes: Some(7),
            scrub_bytes_per_second: 8,
            copy_bytes_per_second: 9,
            change_retention: Some(ChangeRetention::bytes(10)),
            create_if_missing: false,
        };
        assert_eq!(set, expected);
        let back = set.memtable_bytes(None).ballast_bytes(None).files_open_max(None);
        assert_eq!(
            (back.memtable_bytes, back.ballast_bytes, back.files_open_max),
            (None, None, None)
        );
    }

    #[test]
    fn the_cache_gets_what_memtables_leave() {
        let options = Options { memory_budget: 800 << 20, ..Options::default() };
        let mib = |memtables: u64| options.cache_bytes(memtables << 20) >> 20;
        assert_eq!([0, 400, 650, 900].map(mib), [700, 300, 100, 100]);
    }
}
