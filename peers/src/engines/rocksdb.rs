//! RocksDB, tuned as its own guides and the users of its Rust crate do.
//!
//! - memory: one cache of all of it, memtables (4 of memory/8: 64 MiB of 512) charged to it. Why:
//!   one bound over both, as for every engine here; what memtables leave serves reads.
//! - write buffer manager: half of the memory, charged to the cache. Why: holds memtables to their
//!   share without stalls of its own.
//! - block cache: HyperClock. Why: its authors' advice over LRU; no lock between readers.
//! - index and filter blocks: in the cache, high priority, all pinned. Why: counted in the memory,
//!   and never looked up twice.
//! - filter: full Bloom, 10 bits a key. Why: asked for by the workloads; whole keys.
//! - block: 4 KiB, format 6, hash index in data blocks. Why: values of 1 KiB: more bytes a block
//!   are read and checked for nothing.
//! - compression: none in L0 and the base level, lz4 below. Why: the guide's advice: the young
//!   levels are rewritten at once. A store that is compacted into one level has none.
//! - levels: dynamic level bytes, base = 4 memtables. Why: the guide's advice: L1 as large as L0.
//! - background: one job a core, at least 2; sub-compactions as many. Why: `increase_parallelism`.
//! - writes: one WAL write a group; its leader writes the memtable for all. Why: on few cores
//!   faster than all of the group at once, the default; less CPU a write than pipelined, and what
//!   it loses to unordered is paid for by snapshots: docs/bench/peers.md.
//! - memtables: a skip list, with a filter of a tenth of its bytes over whole keys. Why: most gets
//!   of the mixes find nothing there: docs/bench/peers.md.
//! - bytes_per_sync: 1 MiB. Why: the kernel writes tables out as they grow, not in one burst.
//! - recycle_log_file_num: 4. Why: a sync of a file that does not grow writes no metadata, and its
//!   pages are not new to the system.
//! - use_direct_reads: for data larger than memory. Why: no block is held a second time by the page
//!   cache.
//! - statistics, info log: off, warnings only. Why: they cost.
//! - transactions: an `OptimisticTransactionDB`, which checks at the commit as flagstone does and
//!   keeps flushed memtables for that. A transaction sets a snapshot, and reads from it; a
//!   serializable one reads by `get_for_update`, so that reads are checked, too. It is tried again
//!   at once after `Busy` or `TryAgain`. Why: only for the workload that runs transactions.
//!
//! A get takes the value pinned in its block, without a copy. Gets go through one `ReadOptions`
//! made once; a scan of more than 1,000 entries reads 2 MiB ahead; scans fill the cache, as by
//! default and as flagstone's do.

use super::choice::has;
use super::rocksdb_comments::RocksComments;
use super::ticker::Ticker;
use super::versions::locked;
use flagstone::Durability;
use flagstone_bench::engine::{
    Body, CommentStore, Engine, Gauges, Outcome, Stillness, Transaction,
};
use flagstone_bench::options::{Isolation, StoreOptions};
use rocksdb::{
    BlockBasedOptions, BlockBasedTablePinningTier, Cache, CompactOptions, DB, DBCompactionStyle,
    DBCompressionType, DataBlockIndexType, ErrorKind, LogLevel, OptimisticTransactionDB,
    OptimisticTransactionOptions, Options, ReadOptions, WaitForCompactOptions, WriteBufferManager,
    WriteOptions, properties,
};
use std::sync::Arc;
use std::time::Duration;

/// The variants of its tuning that were measured.
pub(super) const VARIANTS: &[(&str, &str)] = &[
    ("pipelined", "one group writes the WAL while the one before it writes the memtable"),
    ("unordered", "unordered_write: writers enter the memtable on their own; snapshots weaken"),
    ("16k", "blocks of 16 KiB"),
    ("lru", "an LRU cache"),
    ("lz4", "lz4 in all levels"),
    ("binary", "no hash index in data blocks"),
    ("jobs4", "four background jobs"),
    ("universal", "universal compaction"),
    ("concurrent", "all writers of a group in the memtable at once"),
    ("bare", "no filter in memtables"),
    ("noyield", "writers that wait for their group sleep at once"),
];

/// The number of old logs that are recycled.
const RECYCLED_LOGS: usize = 4;
/// The longest time for which a store waits for background work.
const SETTLES_IN: Duration = Stillness::USUAL.most;

/// An open store: plain, or for transactions.
#[derive(Clone)]
enum Store {
    Plain(Arc<DB>),
    Optimistic(Arc<OptimisticTransactionDB>),
}

/// Calls a method that both kinds of stores have.
macro_rules! with {
    ($store:expr, $db:ident => $call:expr) => {
        match &$store {
            Store::Plain($db) => $call,
            Store::Optimistic($db) => $call,
        }
    };
}

struct Rocks {
    // Declared before `db`: they hold a handle of `db` and must be dropped first.
    comments: Option<RocksComments>,
    ticker: Option<Ticker>,
    db: Store,
    read: ReadOptions,
    write: WriteOptions,
    flush_on_close: bool,
    tuning: String,
}

/// Opens a store as the workload asks.
pub(super) fn open(variant: &str, options: &StoreOptions) -> Outcome<Box<dyn Engine>> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let jobs = if has(variant, "jobs4") { 4 } else { cores };
    let memory = usize::try_from(options.memory_bytes)?;
    let buffers = memory / 2;
    let memtable = match options.memtable_bytes {
        Some(bytes) => usize::try_from(bytes)?,
        None => (memory / 8).max(1 << 20),
    };
    let memtables = (buffers / memtable).max(2);
    let cache = if has(variant, "lru") {
        Cache::new_lru_cache(memory)
    } else {
        Cache::new_hyper_clock_cache(memory, 0)
    };
    let mut opts = Options::default();
    opts.create_if_missing(true);
    opts.increase_parallelism(i32::try_from(jobs)?);
    opts.set_max_subcompactions(u32::try_from(cores)?);
    opts.set_write_buffer_size(memtable);
    opts.set_max_write_buffer_number(i32::try_from(memtables)?);
    let charged = cache.clone();
    opts.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
        buffers, false, charged,
    ));
    opts.set_level_compaction_dynamic_level_bytes(true);
    opts.set_max_bytes_for_level_base((memtable * memtables.max(4)) as u64);
    opts.set_target_file_size_base(memtable as u64);
    opts.set_bytes_per_sync(1 << 20);
    opts.set_use_direct_reads(options.direct_reads);
    opts.set_max_open_files(-1);
    opts.set_log_level(LogLevel::Warn);
    opts.set_keep_log_file_num(1);
    opts.set_unordered_write(has(variant, "unordered"));
    opts.set_enable_pipelined_write(has(variant, "pipelined"));
    opts.set_compression_type(DBCompressionType::Lz4);
    if has(variant, "universal") {
        opts.set_compaction_style(DBCompactionStyle::Universal);
    } else if !has(variant, "lz4") {
        use DBCompressionType::{Lz4, None};
        opts.set_compression_per_level(&[None, None, Lz4, Lz4, Lz4, Lz4, Lz4]);
    }
    opts.set_block_based_table_factory(&tables(variant, options, &cache));

    let (write, plain) = (writes(options.durability), writes(options.durability));
    // RocksDB refuses this without a log.
    if options.durability != Durability::None {
        opts.set_recycle_log_file_num(RECYCLED_LOGS);
    }
    if !has(variant, "bare") {
        opts.set_memtable_prefix_bloom_ratio(0.1);
        opts.set_memtable_whole_key_filtering(true);
    }
    opts.set_enable_write_thread_adaptive_yield(!has(variant, "noyield"));
    // Unordered writes have no leader that could write for others.
    let is_concurrent = has(variant, "concurrent") || has(variant, "unordered");
    opts.set_allow_concurrent_memtable_write(is_concurrent);
    let db = if options.transactions {
        Store::Optimistic(Arc::new(OptimisticTransactionDB::open(&opts, &options.dir)?))
    } else {
        Store::Plain(Arc::new(DB::open(&opts, &options.dir)?))
    };
    let ticker = match options.durability {
        Durability::Interval(interval) => {
            let db = db.clone();
            Some(Ticker::start(interval, move || with!(db, db => Ok(db.flush_wal(true)?))))
        }
        _ => None,
    };
    let tuning = format!(
        "{memtables} memtables of {} MiB charged to a {} cache of {} MiB, {} jobs, {} writes, \
         {}{}{}{}",
        memtable >> 20,
        if has(variant, "lru") { "LRU" } else { "HyperClock" },
        memory >> 20,
        jobs,
        if has(variant, "pipelined") {
            "pipelined"
        } else if has(variant, "unordered") {
            "unordered"
        } else {
            "ordered"
        },
        if has(variant, "universal") { "universal compaction" } else { "dynamic levels" },
        if options.direct_reads { ", direct reads" } else { "" },
        if options.transactions { ", optimistic transactions" } else { "" },
        if variant.is_empty() { String::new() } else { format!(" ({variant})") },
    );
    let flush_on_close = options.durability == Durability::None;
    let read = ReadOptions::default();
    let comments = match &db {
        Store::Plain(db) => Some(RocksComments::new(Arc::clone(db), plain)),
        Store::Optimistic(_) => None,
    };
    Ok(Box::new(Rocks { comments, ticker, db, read, write, flush_on_close, tuning }))
}

fn writes(durability: Durability) -> WriteOptions {
    let mut write = WriteOptions::default();
    match durability {
        Durability::None => write.disable_wal(true),
        Durability::Buffered | Durability::Interval(_) => {}
        Durability::Group | Durability::Each => write.set_sync(true),
    }
    write
}

fn tables(variant: &str, options: &StoreOptions, cache: &Cache) -> BlockBasedOptions {
    let mut tables = BlockBasedOptions::default();
    let default_block = if has(variant, "16k") { 16 << 10 } else { 4 << 10 };
    tables.set_block_size(options.block_bytes.unwrap_or(default_block));
    tables.set_block_cache(cache);
    tables.set_bloom_filter(f64::from(options.filter_bits.unwrap_or(10)), false);
    tables.set_format_version(6);
    tables.set_cache_index_and_filter_blocks(true);
    tables.set_cache_index_and_filter_blocks_with_high_priority(true);
    tables.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
    if !has(variant, "binary") {
        tables.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        tables.set_data_block_hash_ratio(0.75);
    }
    tables
}

impl Engine for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(with!(self.db, db => db.put_opt(key, value, &self.write))?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = with!(self.db, db => db.get_pinned_opt(key, &self.read))?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        Ok(with!(self.db, db => db.delete_opt(key, &self.write))?)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        let mut read = ReadOptions::default();
        if limit > 1000 {
            read.set_readahead_size(2 << 20);
        }
        let mut seen = 0;
        with!(self.db, db => {
            let mut cursor = db.raw_iterator_opt(read);
            cursor.seek(from);
            while seen < limit
                && let Some((key, value)) = cursor.item()
            {
                each(key, value);
                seen += 1;
                if seen < limit {
                    cursor.next();
                }
            }
            cursor.status()?;
        });
        Ok(seen)
    }

    fn transact(&self, isolation: Isolation, body: Body<'_>) -> Outcome<u64> {
        let Store::Optimistic(db) = &self.db else {
            return Err("the store was not opened for transactions".into());
        };
        let mut options = OptimisticTransactionOptions::default();
        options.set_snapshot(true);
        for tries in 1.. {
            let transaction = db.transaction_opt(&self.write, &options);
            let done = {
                let snapshot = transaction.snapshot();
                let mut read = ReadOptions::default();
                read.set_snapshot(&snapshot);
                body(&mut RocksTransaction { transaction: &transaction, read, isolation })
            };
            done?;
            match transaction.commit() {
                Ok(()) => return Ok(tries),
                Err(error) if [ErrorKind::Busy, ErrorKind::TryAgain].contains(&error.kind()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err("out of tries".into())
    }

    fn comments(&self) -> Option<&dyn CommentStore> {
        self.comments.as_ref().map(|comments| comments as &dyn CommentStore)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(with!(self.db, db => db.flush())?)
    }

    fn compact(&self) -> Outcome<()> {
        self.flush()?;
        let mut whole = CompactOptions::default();
        whole.set_exclusive_manual_compaction(false);
        with!(self.db, db => db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &whole));
        Ok(with!(self.db, db => db.wait_for_compact(&WaitForCompactOptions::default()))?)
    }

    fn settle(&self) -> Outcome<()> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_timeout(SETTLES_IN.as_micros() as u64);
        match with!(self.db, db => db.wait_for_compact(&wait)) {
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
            waited => Ok(waited?),
        }
    }

    fn gauges(&self) -> Gauges {
        let mut levels = Vec::new();
        for file in with!(self.db, db => db.live_files()).unwrap_or_default() {
            let level = usize::try_from(file.level).unwrap_or(0);
            if levels.len() <= level {
                levels.resize(level + 1, 0);
            }
            levels[level] += file.size as u64;
        }
        let bytes = properties::CUR_SIZE_ALL_MEM_TABLES;
        let memtables = with!(self.db, db => db.property_int_value(bytes));
        let stats = with!(self.db, db => db.property_value(properties::DBSTATS)).ok().flatten();
        Gauges {
            memtable_bytes: memtables.ok().flatten(),
            level_bytes: levels,
            stalled_s: stats.and_then(|stats| stalled_seconds(&stats)),
            ..Gauges::default()
        }
    }

    fn version(&self) -> String {
        let library = locked("librocksdb-sys");
        let library = library.split_once('+').map_or(library, |(_, version)| version);
        format!("rocksdb {library} (crate {})", locked("rocksdb"))
    }

    fn tuning(&self) -> String {
        self.tuning.clone()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        if self.flush_on_close {
            self.flush()?;
        }
        let Self { comments, ticker, db, .. } = *self;
        drop((comments, ticker));
        drop(db);
        Ok(())
    }
}

struct RocksTransaction<'t, 'db> {
    transaction: &'t rocksdb::Transaction<'db, OptimisticTransactionDB>,
    /// Reads of the snapshot of the transaction.
    read: ReadOptions,
    isolation: Isolation,
}

impl Transaction for RocksTransaction<'_, '_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = match self.isolation {
            Isolation::Snapshot => self.transaction.get_pinned_opt(key, &self.read)?,
            Isolation::Serializable => {
                self.transaction.get_pinned_for_update_opt(key, true, &self.read)?
            }
        };
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.transaction.put(key, value)?)
    }
}

/// Parses the seconds of the line `Cumulative stall: 01:02:03.456 H:M:S, 1.2 percent`.
fn stalled_seconds(stats: &str) -> Option<f64> {
    let line = stats.lines().find_map(|line| line.strip_prefix("Cumulative stall: "))?;
    let clock = line.split_whitespace().next()?;
    clock.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::stalled_seconds;

    #[test]
    fn the_seconds_of_a_stall_are_read_from_the_statistics() {
        let stats = "** DB Stats **\nCumulative stall: 01:00:02.500 H:M:S, 1.2 percent\n";
        assert_eq!(stalled_seconds(stats), Some(3602.5));
        assert_eq!(stalled_seconds("nothing"), None);
    }
}
