//! What a user can choose: few options, with units in their names, checked before anything is
//! written.

use flagstone_base::{Compression, Error, Result};
use std::time::Duration;

/// When a commit returns, and so what its acknowledgement promises.
///
/// A commit is acknowledged only when everything before it in the log is as durable as itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// Not logged. Kept only once a later [`flush`](crate::Engine::flush) or
    /// [`close`](crate::Engine::close) has returned; a crash before keeps a whole cut of history.
    None,
    /// Handed to the operating system: survives the death of the process (kill -9), not of the
    /// machine. The default: about a microsecond a commit.
    #[default]
    Buffered,
    /// As `Buffered`, and synced in the background, each time so long after the last sync has ended. A
    /// power cut loses what came since the last finished sync began: about this time and that of a sync,
    /// more while a flush keeps the disk busy.
    Interval(Duration),
    /// Synced before it returns; commits that wait at the same time share one sync.
    Group,
    /// Synced before it returns, by a sync of its own. For devices where latency is all that counts.
    Each,
}

impl Durability {
    /// Whether the write-ahead log gets the commit.
    pub(crate) const fn is_logged(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// How the keys of a keyspace are spread over partitions. Fixed at creation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Routing {
    /// By ranges of the hash of the key: 1 to 256 partitions. Even load for any keys; a scan merges
    /// all partitions.
    Hash(u16),
    /// By ranges of the key itself, given the ascending first keys of the second partition and those
    /// behind it (at most 255). A scan reads the partitions one after another.
    Range(Vec<Vec<u8>>),
}

impl Routing {
    /// The default: hash partitions, the next power of two of the processor's cores within 4..=32.
    pub(crate) fn by_cores() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::Hash(cores.next_power_of_two().clamp(4, 32) as u16)
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        match self {
            Self::Hash(partitions) => usize::from(*partitions),
            Self::Range(bounds) => bounds.len() + 1,
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::Hash(1..=256) => Ok(()),
            Self::Hash(n) => Err(Error::invalid(format!("{n} hash partitions: expected 1 to 256"))),
            Self::Range(bounds) if bounds.len() > 255 => {
                Err(Error::invalid(format!("{} range bounds: expected at most 255", bounds.len())))
            }
            Self::Range(bounds) => {
                for bound in bounds {
                    flagstone_base::key::check_key(bound)?;
                }
                if bounds.is_sorted_by(|a, b| a < b) {
                    Ok(())
                } else {
                    Err(Error::invalid("range bounds must ascend, each above the one before"))
                }
            }
        }
    }
}

/// What is chosen for a keyspace when it is created; stored, and checked when it is opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// How keys find their partition.
    pub routing: Routing,
    /// Compression of all but the deepest level. lz4, for speed: these levels are rewritten soon.
    pub compression: Compression,
    /// Compression of the deepest level, which holds most of the data and is rewritten seldom. zstd 1,
    /// for space. What comes in the order of its keys is moved there as it is, and gets it by
    /// [`Database::compact`](crate::Engine::compact_with).
    pub bottom_compression: Compression,
    /// Bytes of a block before compression, 1 KiB to 1 MiB. 16 KiB: larger compresses better, smaller
    /// reads less for one uncached get.
    pub block_bytes: usize,
    /// Bits of filter a key, 0 (none) to 20. 10: about one absent key in a hundred costs a read.
    pub filter_bits: u8,
    /// The name of the fold that combines merge operands, registered with
    /// `Builder::fold` of crate flagstone; without one, merges are refused. A collection made
    /// without one gets the fold of `Collection::patch`.
    pub fold: Option<String>,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self {
            routing: Routing::by_cores(),
            compression: Compression::Lz4,
            bottom_compression: Compression::Zstd(1),
            block_bytes: 16 << 10,
            filter_bits: 10,
            fold: None,
        }
    }
}

impl KeyspaceOptions {
    /// Refuses what is out of range.
    pub(crate) fn check(&self) -> Result<()> {
        self.routing.check()?;
        if !((1 << 10)..=(1 << 20)).contains(&self.block_bytes) {
            return Err(Error::invalid(format!(
                "blocks of {} bytes: expected 1,024 to 1,048,576",
                self.block_bytes
            )));
        }
        if self.filter_bits > 20 {
            return Err(Error::invalid(format!(
                "{} filter bits a key: expected 0 to 20",
                self.filter_bits
            )));
        }
        for compression in [self.compression, self.bottom_compression] {
            if let Compression::Zstd(level) = compression
                && !(1..=19).contains(&level)
            {
                return Err(Error::invalid(format!("zstd level {level}: expected 1 to 19")));
            }
        }
        Ok(())
    }
}

/// What is chosen for a database each time it is opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Memory for memtables, cache, indexes, filters and compaction together, in bytes. Default: a
    /// quarter of the machine's memory within 64 MiB..=4 GiB. Half of it is for memtables. Indexes of open
    /// tables stay in memory, about 30 bytes a block: they take from the cache down to an eighth of its share, then
    /// exceed the budget. So do filters as long as they fit into half of the cache; else their parts are cached like
    /// blocks.
    pub memory_budget: u64,
    /// What [`commit`](crate::Engine::start) and the single-key writes promise.
    pub durability: Durability,
    /// Threads that compact, at least 1. Default: half the cores.
    pub compaction_workers: usize,
    /// How many times the bytes that are alive the tables may take while writers overwrite and delete, 1.2 to 100: half
    /// of the memtables' share comes on top, the log is not in it. More lets writers write faster: each byte put costs
    /// about 1 / (this - 1) bytes of compaction where all are overwritten. When it is exceeded, writers are slowed until
    /// compactions have caught up. What a snapshot reads is alive. While writers rest it is brought to about
    /// 1.15. Default: 2.
    pub space_amplification_max: f64,
    /// The longest document or patch that collections take from a caller, in bytes: 16 MiB, as
    /// MongoDB's, so that one document never fills a memtable. At most 512 MiB. Patches written without
    /// reading may make a document longer, up to 512 MiB: what was acknowledged is kept, whatever the
    /// limit is when it is folded.
    pub document_bytes_max: usize,
    /// Advanced: seal the memtable of a partition when it holds so many bytes, 64 KiB to a quarter of
    /// the memory budget. `None`, the default: only when all memtables together fill half of their
    /// share of the budget, the largest first; that writes fewer and larger tables. While one flush
    /// runs a memtable may grow beyond.
    pub memtable_bytes: Option<u64>,
    /// Read blocks that are not in the cache past the page cache of the operating system (`O_DIRECT`), where
    /// it can do that: for data much larger than the machine's memory, which the page cache would hold a
    /// second time or not at all. Each miss is a read of the device then, so give `memory_budget` what the
    /// page cache would have had. Blocks of more than 256 KiB, long scans and compactions go through the
    /// page cache, which reads ahead for them, and so does everything on a file system without
    /// such reads (some answer them out of the page cache without a word).
    ///
    /// Cost: a second descriptor for each open table (both count in `files_open_max`), and up to 260 KiB for each thread that reads, outside of
    /// the budget. Default: false. As RocksDB's `use_direct_reads`; measured in docs/decisions/tables.md.
    pub direct_reads: bool,
    /// How many descriptors open tables may hold, at least 8. A table beyond that is closed when others are read, and
    /// opened again by the next read of a block that is not in the cache: about 10 us more. Reads that are under way,
    /// the log and what is being written come on top, fewer than 50. `None`, the default: three quarters of what the
    /// process may have (`ulimit -n`), and not the last 64.
    pub files_open_max: Option<usize>,
    /// Every entry carries a check, a CRC-32C of its value with the hash of its key, its kind and its SeqNo, from the
    /// write call into the block of a table. A flush or compaction refuses what has changed in memory on the way: a bit
    /// flipped by bad memory, or by a program that writes where it must not, is told as Corruption and not stored. Reads
    /// compare nothing. As RocksDB's `protection_bytes_per_key` and `memtable_protection_bytes_per_key`.
    ///
    /// Cost: 0 to 3 % of the CPU time of a write, and 4 bytes of memory a version in memtables, which they take in any
    /// case; docs/decisions/entry-checks.md. Default: true.
    pub entry_checks: bool,
    /// A file of so many bytes that is removed when the disk is full, so that deletes, flushes and compactions have room to
    /// free more; other writes are refused with OutOfSpace until the file can be made again, which happens by itself when twice its
    /// size is free. `None`, the default: an eighth of the memory budget within 2 MiB..=128 MiB, made
    /// when 16 times as much is alive in tables. `Some(0)`: none; a full disk is then left when something else makes room.
    pub ballast_bytes: Option<u64>,
    /// Read all tables again and again in the background, so many bytes a second, and compare them with the manifest's
    /// checksums: damage is told by [`Event::TableDamaged`](crate::Event::TableDamaged) while there is a backup to restore.
    /// Reads go past the page cache where the system can do that. Default: 0, off. 10 MB/s read 860 GB a day.
    pub scrub_bytes_per_second: u64,
    /// How fast [backups](crate::Engine::backup) copy, and [checkpoints](crate::Engine::checkpoint) where the file system
    /// makes no links: so many bytes a second, so that they leave the disk to others. A backup reads back what it has
    /// copied at the same rate. Default: 0, as fast as it goes.
    pub copy_bytes_per_second: u64,
    /// Make the directory and the database when there is none.
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
            direct_reads: false,
            files_open_max: None,
            entry_checks: true,
            ballast_bytes: None,
            scrub_bytes_per_second: 0,
            copy_bytes_per_second: 0,
            create_if_missing: true,
        }
    }
}

impl Options {
    /// Refuses what is out of range.
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
                "tables of {} times what is alive: expected 1.2 to 100",
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
        if let Some(bytes) = self.memtable_bytes {
            self.check_memtable_bytes(bytes)?;
        }
        if let Durability::Interval(interval) = self.durability {
            check_interval(interval)?;
        }
        match self.files_open_max {
            Some(max) if max < FILES_OPEN_MIN => Err(Error::invalid(format!(
                "at most {max} open files: expected at least {FILES_OPEN_MIN}"
            ))),
            _ => Ok(()),
        }
    }

    /// How many descriptors open tables may hold.
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
            "memtables of {bytes} bytes: expected {MEMTABLE_BYTES_MIN} to {limit} with this memory budget"
        )))
    }

    /// The size of the ballast; 0: none.
    pub(crate) fn ballast(&self) -> u64 {
        let by_budget = (self.memory_budget / 8).clamp(2 << 20, 128 << 20);
        self.ballast_bytes.unwrap_or(by_budget)
    }

    /// How many bytes all memtables together may hold.
    pub(crate) const fn memtable_share(&self) -> u64 {
        let half = self.memory_budget / 2;
        if half < MEMTABLES_BYTES_MAX { half } else { MEMTABLES_BYTES_MAX }
    }

    /// How many bytes the block cache may hold, indexes and filters included, while memtables may take
    /// `memtables`: what is left of seven eighths of the budget, at least an eighth. The last eighth
    /// is for compactions and for what allocators round up.
    pub(crate) const fn cache_bytes(&self, memtables: u64) -> u64 {
        let eighth = self.memory_budget / 8;
        let left = (7 * eighth).saturating_sub(memtables);
        if left > eighth { left } else { eighth }
    }

    /// What the write-ahead log may hold as long as flushes keep up.
    pub(crate) const fn wal_bytes_max(&self) -> u64 {
        let twice = self.memtable_share() * 2;
        if twice < WAL_BYTES_MAX { twice } else { WAL_BYTES_MAX }
    }

    /// At what size it makes the trees that pin its oldest segment flush: early enough for that to be
    /// done before it is full.
    pub(crate) const fn wal_bytes_long(&self) -> u64 {
        self.wal_bytes_max() / 5 * 4
    }

    /// The size of a segment of the write-ahead log.
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

/// 1 MiB: tests fill a tree with it in a moment.
pub(crate) const MEMORY_BUDGET_MIN: u64 = 1 << 20;
/// 64 KiB: below it a memtable is mostly its own bookkeeping.
const MEMTABLE_BYTES_MIN: u64 = 64 << 10;
/// 4 GiB: one memtable has addresses for 8 GiB, and all may lie in one tree.
const MEMTABLES_BYTES_MAX: u64 = 4 << 30;
/// Fewer descriptors are no use: a compaction reads so many tables by turns.
const FILES_OPEN_MIN: usize = 8;
/// So many descriptors are left to the log, to files being written, and to whoever embeds the database.
const DESCRIPTORS_LEFT: u64 = 64;
/// Replay at open reads at most about this much.
const WAL_BYTES_MAX: u64 = 512 << 20;

/// Refuses an interval that nothing can keep.
pub(crate) fn check_interval(interval: Duration) -> Result<()> {
    if interval < Duration::from_millis(1) {
        return Err(Error::invalid(format!("a sync every {interval:?}: expected at least 1 ms")));
    }
    Ok(())
}

/// The machine's memory in bytes; 4 GiB where it cannot be found.
fn machine_memory() -> u64 {
    flagstone_env::os::memory_bytes().unwrap_or(4 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        refused(|o| o.files_open_max = Some(7));
        refused(|o| o.memtable_bytes = Some(o.memory_budget / 2));
    }

    #[test]
    fn the_cache_gets_what_memtables_leave() {
        let options = Options { memory_budget: 800 << 20, ..Options::default() };
        let mib = |memtables: u64| options.cache_bytes(memtables << 20) >> 20;
        assert_eq!([0, 400, 650, 900].map(mib), [700, 300, 100, 100]);
    }

    #[test]
    fn keyspace_options_out_of_range_are_refused() {
        let refused = |change: fn(&mut KeyspaceOptions)| {
            let mut options = KeyspaceOptions::default();
            change(&mut options);
            assert!(options.check().is_err(), "{options:?}");
        };
        assert!(KeyspaceOptions::default().check().is_ok());
        refused(|o| o.routing = Routing::Hash(0));
        refused(|o| o.routing = Routing::Hash(257));
        refused(|o| o.routing = Routing::Range(vec![b"b".to_vec(), b"a".to_vec()]));
        refused(|o| o.routing = Routing::Range(vec![b"a".to_vec(), b"a".to_vec()]));
        refused(|o| o.routing = Routing::Range(vec![vec![]]));
        refused(|o| o.block_bytes = 100);
        refused(|o| o.filter_bits = 21);
        refused(|o| o.compression = Compression::Zstd(0));
    }
}
