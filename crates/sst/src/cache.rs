//! The block cache: blocks of all tables, checked and decompressed, within one budget.

use crate::block::Block;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a cached block takes besides its bytes: the slot, its share of empty ones, the allocation.
const SLOT_BYTES: u64 = 160;
/// Counters are spread over this many cache lines, so that threads seldom meet on one.
const COUNTER_LINES: usize = 16;

/// A block of a table: the table's number in this cache and the number of the block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockKey {
    pub(crate) table: u64,
    pub(crate) block: u32,
}

impl Hash for BlockKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.table << 32 ^ u64::from(self.block));
    }
}

/// Remixes the one word a [`BlockKey`] hashes.
#[derive(Clone, Copy, Default)]
struct OneWord(u64);

impl Hasher for OneWord {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = flagstone_base::hash::remix(self.0 ^ word);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
}

impl BuildHasher for OneWord {
    type Hasher = Self;

    #[inline]
    fn build_hasher(&self) -> Self {
        *self
    }
}

#[derive(Clone, Copy)]
struct ByBytes;

impl Weighter<BlockKey, Block> for ByBytes {
    #[inline]
    fn weight(&self, _key: &BlockKey, block: &Block) -> u64 {
        block.bytes().len() as u64 + SLOT_BYTES
    }
}

/// Two counters on a line of their own.
#[derive(Default)]
#[repr(align(128))]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// How often blocks were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks found in the cache.
    pub hits: u64,
    /// Blocks read from their file.
    pub misses: u64,
}

/// Blocks of all tables of a process, checked and decompressed, within one budget.
///
/// Eviction resists scans (a block read once is the first to go). A
/// block that is larger than its share of the budget (the budget over the number of the cache's
/// shards) is not kept. Indexes and filters of open tables are not in it, but their bytes
/// ([`BlockCache::pinned_bytes`]) are taken off its capacity, down to an eighth of it.
pub struct BlockCache {
    blocks: Cache<BlockKey, Block, ByBytes, OneWord>,
    counters: [Counters; COUNTER_LINES],
    tables: AtomicU64,
    /// What blocks and pinned bytes together may take.
    limit: AtomicU64,
    /// The capacity that was set last.
    fitted: AtomicU64,
    pinned: AtomicU64,
}

/// The capacity of a cache of 64 of these or more moves by whole ones.
const GRAIN: u64 = 4 << 20;

impl BlockCache {
    /// A cache that holds up to `bytes`.
    pub fn new(bytes: u64) -> Arc<Self> {
        let options = OptionsBuilder::new()
            .estimated_items_capacity((bytes >> 14) as usize)
            .weight_capacity(bytes)
            .build();
        let blocks = match options {
            Ok(options) => {
                Cache::with_options(options, ByBytes, OneWord(0), DefaultLifecycle::default())
            }
            // Not reached: every option that must be given is given.
            Err(_) => Cache::with(
                (bytes >> 14) as usize,
                bytes,
                ByBytes,
                OneWord(0),
                DefaultLifecycle::default(),
            ),
        };
        Arc::new(Self {
            blocks,
            counters: Default::default(),
            tables: AtomicU64::new(0),
            limit: AtomicU64::new(bytes),
            fitted: AtomicU64::new(bytes),
            pinned: AtomicU64::new(0),
        })
    }

    /// Changes how many bytes it holds, pinned ones included; evicts at once what is too much.
    pub fn set_capacity(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.fit();
    }

    /// Rounded down to a grain: changing the capacity locks every shard, and costs the cache some of its
    /// memory of blocks it evicted.
    fn fit(&self) {
        let limit = self.limit.load(Ordering::Relaxed);
        let capacity = limit.saturating_sub(self.pinned_bytes()).max(limit / 8);
        let capacity = if capacity < 64 * GRAIN { capacity } else { capacity / GRAIN * GRAIN };
        if capacity != self.fitted.swap(capacity, Ordering::Relaxed) {
            self.blocks.set_capacity(capacity);
        }
    }

    /// How many bytes of blocks it holds at most now.
    pub fn capacity(&self) -> u64 {
        self.blocks.capacity()
    }

    /// How many bytes its blocks take, with what keeping them costs.
    pub fn used_bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// How many bytes the indexes, filters and small sections of all open tables take.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.load(Ordering::Relaxed)
    }

    /// Hits and misses since it was made.
    pub fn stats(&self) -> CacheStats {
        self.counters.iter().fold(CacheStats::default(), |sum, line| CacheStats {
            hits: sum.hits + line.hits.load(Ordering::Relaxed),
            misses: sum.misses + line.misses.load(Ordering::Relaxed),
        })
    }

    /// Forgets all blocks.
    pub fn clear(&self) {
        self.blocks.clear();
    }

    /// A number for a table just opened, never given twice.
    pub(crate) fn number_table(&self) -> u64 {
        self.tables.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn pin(&self, bytes: u64) {
        self.pinned.fetch_add(bytes, Ordering::Relaxed);
        self.fit();
    }

    pub(crate) fn unpin(&self, bytes: u64) {
        self.pinned.fetch_sub(bytes, Ordering::Relaxed);
        self.fit();
    }

    #[inline]
    pub(crate) fn get(&self, key: BlockKey) -> Option<Block> {
        let found = self.blocks.get(&key);
        let line = &self.counters[key.block as usize % COUNTER_LINES];
        let counter = if found.is_some() { &line.hits } else { &line.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    pub(crate) fn insert(&self, key: BlockKey, block: Block) {
        self.blocks.insert(key, block);
    }

    pub(crate) fn remove(&self, key: BlockKey) {
        self.blocks.remove(&key);
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        write!(
            f,
            "BlockCache({} of {} bytes, {} pinned, {} hits, {} misses)",
            self.used_bytes(),
            self.capacity(),
            self.pinned_bytes(),
            stats.hits,
            stats.misses
        )
    }
}
