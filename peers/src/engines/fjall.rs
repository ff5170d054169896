//! fjall 3, tuned as its documentation advises.
//!
//! - memory: memtables of memory/8 (64 MiB of 512), cache of half (in cells that only read: of all
//!   but one memtable). Why: fjall seals at that size and stops writers at four sealed ones; there
//!   is no bound over all of it that is not deprecated.
//! - cache: half of the memory; variant `reads`, which cells that only read take: all but one
//!   memtable. Why: its documentation: as much as can be had; memtables cannot be charged to it.
//! - journals: 512 MiB on disk at most. Why: the default.
//! - filter: Bloom of 10 bits a key, 0.01% in L0. Why: the default, as `--filter-bits` leaves it.
//! - block: 4 KiB. Why: the default, advised for point reads.
//! - indexes, filters: pinned, in one block a table. Why: of 512 MiB they take little, and a get
//!   looks up one block less or two.
//! - compression: none in L0 and L1, lz4 below. Why: the default.
//! - values: in the tree. Why: separation (from 1 KiB by default, variant `blobs`) was measured:
//!   docs/bench/peers.md.
//! - workers: one a core. Why: the default.
//!
//! Durability: every write goes to the operating system at once (`Buffered`), or is left in the
//! journal's buffer and synced by `persist(SyncData)` (`Group`, `Each`: fjall has no group commit,
//! but one thread's sync covers what others wrote before it). The journal cannot be turned off:
//! `None` leaves it in its buffer.

use super::choice::has;
use super::ticker::Ticker;
use super::versions::locked;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, HashRatioPolicy,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use flagstone::Durability;
use flagstone_bench::engine::{Engine, Gauges, Outcome, Stillness};
use flagstone_bench::options::StoreOptions;

/// The variants of its tuning that were measured.
pub(super) const VARIANTS: &[(&str, &str)] = &[
    ("blobs", "values of 1 KiB and more apart from the keys, as its defaults for separation do"),
    ("hashed", "a hash index in data blocks"),
    ("reads", "a cache of all memory but one memtable; cells that only read take it unasked"),
];

struct Fjall {
    ticker: Option<Ticker>,
    keys: Keyspace,
    db: Database,
    sync_each: bool,
    tuning: String,
}

/// Opens a store as the workload asks.
pub(super) fn open(variant: &str, options: &StoreOptions) -> Outcome<Box<dyn Engine>> {
    let memtable = options.memtable_bytes.unwrap_or((options.memory_bytes / 8).max(1 << 20));
    let cache = if has(variant, "reads") {
        options.memory_bytes.saturating_sub(memtable).max(options.memory_bytes / 2)
    } else {
        options.memory_bytes / 2
    };
    let sync_each = matches!(options.durability, Durability::Group | Durability::Each);
    let by_hand = sync_each || options.durability == Durability::None;
    let db = Database::builder(&options.dir).cache_size(cache).open()?;
    let block = options.block_bytes.map(u32::try_from).transpose()?;
    let hashed = if has(variant, "hashed") { 1.33 } else { 0.0 };
    let keys = db.keyspace("kv", || {
        let mut create = KeyspaceCreateOptions::default()
            .max_memtable_size(memtable)
            .index_block_pinning_policy(PinningPolicy::all(true))
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .index_block_partitioning_policy(PartitioningPolicy::all(false))
            .filter_block_partitioning_policy(PartitioningPolicy::all(false))
            .data_block_hash_ratio_policy(HashRatioPolicy::all(hashed))
            .manual_journal_persist(by_hand);
        if has(variant, "blobs") {
            let separation = KvSeparationOptions::default().separation_threshold(1 << 10);
            create = create.with_kv_separation(Some(separation));
        }
        if let Some(block) = block {
            create = create.data_block_size_policy(BlockSizePolicy::all(block));
        }
        if let Some(bits) = options.filter_bits {
            let bloom = BloomConstructionPolicy::BitsPerKey(f32::from(bits));
            create = create.filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)));
        }
        create
    })?;
    let ticker = match options.durability {
        Durability::Interval(interval) => {
            let db = db.clone();
            Some(Ticker::start(interval, move || Ok(db.persist(PersistMode::SyncData)?)))
        }
        _ => None,
    };
    let tuning = format!(
        "memtables of {} MiB, cache of {} MiB{}",
        memtable >> 20,
        cache >> 20,
        if has(variant, "blobs") { ", values of 1 KiB and more apart" } else { "" },
    );
    Ok(Box::new(Fjall { ticker, keys, db, sync_each, tuning }))
}

impl Fjall {
    fn written(&self) -> Outcome<()> {
        if self.sync_each {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.keys.insert(key, value)?;
        self.written()
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.keys.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.keys.remove(key)?;
        self.written()
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        let mut seen = 0;
        for entry in self.keys.range(from..).take(limit) {
            let (key, value) = entry.into_inner()?;
            each(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.keys.rotate_memtable_and_wait()?)
    }

    fn compact(&self) -> Outcome<()> {
        self.flush()?;
        Ok(self.keys.major_compact()?)
    }

    fn settle(&self) -> Outcome<()> {
        let _out_of_time = Stillness::USUAL.wait(|| {
            let db = &self.db;
            let done = db.compactions_completed();
            (db.outstanding_flushes(), db.active_compactions(), done, db.disk_space().ok())
        });
        Ok(())
    }

    fn gauges(&self) -> Gauges {
        Gauges { memtable_bytes: Some(self.db.write_buffer_size()), ..Gauges::default() }
    }

    fn version(&self) -> String {
        format!("fjall {}", locked("fjall"))
    }

    fn tuning(&self) -> String {
        self.tuning.clone()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let Self { ticker, keys, db, .. } = *self;
        drop(ticker);
        db.persist(PersistMode::SyncAll)?;
        drop(keys);
        drop(db);
        Ok(())
    }
}
