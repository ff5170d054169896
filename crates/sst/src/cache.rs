//! The block cache: checked and decompressed blocks of all tables, and parts of indexes and
//! filters, within one budget.

use crate::allowance::Allowance;
use crate::block::Block;
use crate::buffers::{Buffers, bytes_for};
use crate::dictionaries::{Dictionaries, SharedDictionary};
use crate::format::BLOCK_TRAILER_BYTES;
use crate::index::Index;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Memory that a cached block takes besides its bytes: its slot, a share of the empty slots, and
/// the bookkeeping of its allocation.
const SLOT_BYTES: u64 = 224;
/// The counters are spread over this many cache lines, so that threads rarely contend for one.
const COUNTER_LINES: usize = 16;

/// A value in the cache.
#[derive(Clone)]
enum Cached {
    /// A data block, or a part of a filter.
    Block(Block),
    /// A part of an index.
    Index(Arc<Index>),
}

/// A block of a table: the number of the table in this cache, and the number of the block.
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

/// Hashes the one word of a [`BlockKey`].
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

impl Weighter<BlockKey, Cached> for ByBytes {
    #[inline]
    fn weight(&self, _key: &BlockKey, cached: &Cached) -> u64 {
        SLOT_BYTES
            + match cached {
                // The buffer also had room for the trailer when the block was read.
                Cached::Block(block) => bytes_for(block.bytes().len() + BLOCK_TRAILER_BYTES) as u64,
                Cached::Index(index) => index.bytes() + size_of::<Index>() as u64,
            }
    }
}

/// Two counters that have a cache line of their own.
#[derive(Default)]
#[repr(align(128))]
struct CacheCounters {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Hits and misses of the block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// The number of blocks found in the cache.
    pub hits: u64,
    /// The number of blocks read from their file.
    pub misses: u64,
}

/// A cache of checked and decompressed blocks of all tables of a process, within one budget.
///
/// Eviction resists scans: a block that was read once is evicted first. A block that is larger than
/// the budget divided by the number of shards of the cache is not kept. The memory that open tables
/// hold ([`BlockCache::pinned_bytes`]) is not in the cache but reduces its capacity, down to an
/// eighth: indexes and filters as long as all pinned bytes leave half of the budget for blocks, and
/// what a table always needs in any case. In addition to its capacity, the cache may keep a 64th of
/// it (at least 64 KiB) in the buffers of evicted blocks, for the next blocks.
pub struct BlockCache {
    blocks: Cache<BlockKey, Cached, ByBytes, OneWord>,
    buffers: Arc<Buffers>,
    counters: [CacheCounters; COUNTER_LINES],
    tables: AtomicU64,
    /// The budget of blocks and pinned bytes together.
    limit: AtomicU64,
    /// The capacity that was set last. Locked while the capacity is set.
    fitted: Mutex<u64>,
    pinned: AtomicU64,
    scans: Allowance,
    dictionaries: Dictionaries<CachePin>,
    /// The initial capacity, and the number of steps in which the capacity moves below it.
    full: u64,
    steps: u64,
}

/// The capacity moves in steps of one 64th; in a cache whose shards remember fewer evicted blocks
/// than this, in as many steps as they remember.
const STEPS: u64 = 64;

impl BlockCache {
    /// Creates a cache with a budget of `bytes`.
    pub fn new(bytes: u64) -> Arc<Self> {
        // A power of two, so that the number a shard remembers is one too: see `fit`. Every shard
        // remembers at least 32.
        let items = (bytes >> 14).max(32).next_power_of_two();
        let full = bytes / items * items;
        let options = OptionsBuilder::new()
            .estimated_items_capacity(items as usize)
            .weight_capacity(full)
            .ghost_allocation(0.5)
            .build();
        let lifecycle = DefaultLifecycle::default();
        let blocks = match options {
            Ok(options) => Cache::with_options(options, ByBytes, OneWord(0), lifecycle),
            // Unreachable: all required options are set.
            Err(_) => Cache::with(items as usize, full, ByBytes, OneWord(0), lifecycle),
        };
        let steps = (items / 2 / blocks.num_shards() as u64).clamp(1, STEPS);
        Arc::new(Self {
            blocks,
            buffers: Buffers::new(bytes),
            counters: Default::default(),
            tables: AtomicU64::new(0),
            limit: AtomicU64::new(bytes),
            fitted: Mutex::new(full),
            pinned: AtomicU64::new(0),
            scans: Allowance::beside(bytes),
            dictionaries: Dictionaries::new(),
            full,
            steps,
        })
    }

    /// Changes the budget, which includes pinned bytes. Evicts at once the blocks that exceed it.
    /// Below the initial capacity, the capacity for blocks is a whole number of 64ths of that (of
    /// 16ths in a small cache).
    pub fn set_capacity(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.fit();
    }

    /// Sets the capacity, rounded down to a step, if it changed.
    ///
    /// At each change quick_cache multiplies the number of evicted blocks that a shard remembers by
    /// the ratio of the capacities, and truncates the product: after some thousand changes nothing
    /// would be left. So this number is a power of two at full capacity, the steps are parts of
    /// that power, and each change goes through full capacity: then both products are whole
    /// numbers.
    fn fit(&self) {
        let mut fitted = self.fitted.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.limit.load(Ordering::Relaxed);
        let capacity = self.rounded(limit.saturating_sub(self.pinned_bytes()).max(limit / 8));
        if capacity != *fitted {
            *fitted = capacity;
            self.blocks.set_capacity(self.full);
            self.blocks.set_capacity(capacity);
        }
    }

    fn rounded(&self, capacity: u64) -> u64 {
        let step = self.full / self.steps;
        if capacity > self.full || capacity < step || step == 0 {
            return capacity;
        }
        // `(1.0 / n) * n` is not 1.0 for every n: not for 49.
        let exact = |steps: &u64| (1.0 / *steps as f64) * *steps as f64 == 1.0;
        (1..=capacity / step).rev().find(exact).map_or(capacity, |steps| steps * step)
    }

    /// The most bytes that blocks may take now.
    pub fn capacity(&self) -> u64 {
        self.blocks.capacity()
    }

    /// Bytes that the cached blocks take, including the overhead of the cache.
    pub fn used_bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Bytes that all open tables hold: indexes or their tops, filters, deleted ranges and
    /// properties.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.load(Ordering::Relaxed)
    }

    /// The memory that scans hold in blocks and read-ahead buffers.
    #[inline]
    pub const fn scans(&self) -> &Allowance {
        &self.scans
    }

    /// Hits and misses since the cache was created.
    pub fn stats(&self) -> CacheStats {
        self.counters.iter().fold(CacheStats::default(), |sum, line| CacheStats {
            hits: sum.hits + line.hits.load(Ordering::Relaxed),
            misses: sum.misses + line.misses.load(Ordering::Relaxed),
        })
    }

    /// Removes all blocks.
    pub fn clear(&self) {
        self.blocks.clear();
        self.buffers.clear();
    }

    /// Frees the memory that is kept for the next blocks. If the heap of a large cache is longer
    /// than its capacity needs, also removes the blocks in the emptiest parts of the heap, so that
    /// their memory returns to the system. It walks all blocks then.
    pub fn release_idle(&self) {
        self.buffers.clear();
        let surplus = self.buffers.surplus(self.capacity(), self.used_bytes());
        if surplus.is_empty() {
            return;
        }
        let keys = RefCell::new(Vec::new());
        self.blocks.retain(|key, cached| {
            if let Cached::Block(block) = cached {
                let place = block.bytes().as_ptr().addr();
                let after = surplus.partition_point(|addresses| addresses.start <= place);
                if after > 0 && surplus[after - 1].contains(&place) {
                    keys.borrow_mut().push(*key);
                }
            }
            true
        });
        // Outside of the lock of their shard: what is removed is freed here.
        for key in keys.into_inner() {
            self.blocks.remove(&key);
        }
        self.buffers.clear();
    }

    /// Returns the dictionary `bytes` as other open tables have it, or prepares it and counts its
    /// memory. Returns `None` if `bytes` are not a dictionary.
    pub(crate) fn dictionary(self: &Arc<Self>, bytes: &[u8]) -> Option<Arc<PinnedDictionary>> {
        self.dictionaries.share(bytes, |memory| {
            let mut pin = CachePin::new(self);
            pin.add(memory as u64);
            pin
        })
    }

    /// The buffers that blocks are read into.
    pub(crate) const fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// Returns a number for a table that is being opened. No two tables get the same.
    pub(crate) fn number_table(&self) -> u64 {
        self.tables.fetch_add(1, Ordering::Relaxed)
    }

    /// Reduces the capacity by `bytes`, for memory that is held elsewhere.
    pub fn pin(&self, bytes: u64) {
        self.pinned.fetch_add(bytes, Ordering::Relaxed);
        self.fit();
    }

    /// Reverses [`BlockCache::pin`].
    pub fn unpin(&self, bytes: u64) {
        self.pinned.fetch_sub(bytes, Ordering::Relaxed);
        self.fit();
    }

    /// Returns a block, and counts a hit or a miss.
    #[inline]
    pub(crate) fn get(&self, key: BlockKey) -> Option<Block> {
        let found = self.hit(key);
        if found.is_none() {
            self.count_miss(key);
        }
        found
    }

    /// As [`BlockCache::get`], but counts no miss.
    #[inline]
    pub(crate) fn hit(&self, key: BlockKey) -> Option<Block> {
        let found = self.get_uncounted(key)?;
        self.counters[key.block as usize % COUNTER_LINES].hits.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    pub(crate) fn count_miss(&self, key: BlockKey) {
        self.counters[key.block as usize % COUNTER_LINES].misses.fetch_add(1, Ordering::Relaxed);
    }

    /// As [`BlockCache::get`], but does not count: for parts of filters.
    #[inline]
    pub(crate) fn get_uncounted(&self, key: BlockKey) -> Option<Block> {
        match self.blocks.get(&key) {
            Some(Cached::Block(block)) => Some(block),
            _ => None,
        }
    }

    /// As [`BlockCache::get`], but neither counts nor marks the block as used.
    pub(crate) fn peek(&self, key: BlockKey) -> Option<Block> {
        match self.blocks.peek(&key) {
            Some(Cached::Block(block)) => Some(block),
            _ => None,
        }
    }

    /// Returns a part of an index, and marks it as used.
    #[inline]
    pub(crate) fn index(&self, key: BlockKey) -> Option<Arc<Index>> {
        match self.blocks.get(&key) {
            Some(Cached::Index(index)) => Some(index),
            _ => None,
        }
    }

    /// As [`BlockCache::index`], but does not mark the part as used.
    pub(crate) fn peek_index(&self, key: BlockKey) -> Option<Arc<Index>> {
        match self.blocks.peek(&key) {
            Some(Cached::Index(index)) => Some(index),
            _ => None,
        }
    }

    pub(crate) fn insert(&self, key: BlockKey, block: Block) {
        self.blocks.insert(key, Cached::Block(block));
        if self.buffers.is_scattered() {
            self.release_idle();
        }
    }

    pub(crate) fn insert_index(&self, key: BlockKey, index: Arc<Index>) {
        self.blocks.insert(key, Cached::Index(index));
    }

    pub(crate) fn remove(&self, key: BlockKey) {
        self.blocks.remove(&key);
    }
}

/// A dictionary whose memory is counted in the cache.
pub(crate) type PinnedDictionary = SharedDictionary<CachePin>;

/// The memory that one open table, or a dictionary, holds. It reduces the capacity of the cache
/// until the pin is dropped.
pub(crate) struct CachePin {
    cache: Arc<BlockCache>,
    bytes: u64,
}

impl CachePin {
    /// Creates a pin of no bytes.
    pub(crate) fn new(cache: &Arc<BlockCache>) -> Self {
        Self { cache: Arc::clone(cache), bytes: 0 }
    }

    /// Pins `bytes` more if the pinned bytes of all tables then leave half of the budget for
    /// blocks. Returns whether it did.
    pub(crate) fn try_add(&mut self, bytes: u64) -> bool {
        let most = self.cache.limit.load(Ordering::Relaxed) / 2;
        let add = |pinned: u64| pinned.checked_add(bytes).filter(|sum| *sum <= most);
        let added = self.cache.pinned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if added.is_ok() {
            self.bytes += bytes;
            self.cache.fit();
        }
        added.is_ok()
    }

    /// Pins `bytes` more, which are in memory in any case.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.cache.pinned.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        self.cache.fit();
    }

    /// Releases `bytes` of the pin.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.cache.pinned.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
        self.cache.fit();
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for CachePin {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

impl Drop for BlockCache {
    /// Slices may outlive the cache; their buffers must then not be kept.
    fn drop(&mut self) {
        self.buffers.close();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockBuilder;
    use flagstone_base::{EntryRef, Kind, SeqNo, Slice};

    const LIMIT: u64 = 4 << 20;

    fn block() -> Block {
        let mut builder = BlockBuilder::default();
        builder.add(EntryRef::new(b"key", SeqNo::new(1), Kind::Put, &[7; 4000]), 0);
        Block::new(Slice::copy_of(builder.finish()), None).unwrap()
    }

    /// Returns how many blocks the cache admits as hot because it remembers evicting them: they
    /// stay when many others are read once.
    fn remembered(cache: &BlockCache) -> usize {
        let block = block();
        let key = |block| BlockKey { table: 3, block };
        let insert = |number| cache.insert(key(number), block.clone());
        (0..2_000).for_each(insert);
        (1_500..2_000).rev().for_each(insert);
        (10_000..15_000).for_each(insert);
        (1_500..2_000).filter(|&number| cache.get(key(number)).is_some()).count()
    }

    #[test]
    fn a_capacity_that_moved_often_leaves_the_memory_of_evicted_blocks() {
        let (still, moved) = (BlockCache::new(LIMIT), BlockCache::new(LIMIT));
        for number in 0..10_000 {
            moved.set_capacity(LIMIT / 2 + flagstone_base::hash::remix(number) % (LIMIT / 2));
        }
        moved.set_capacity(LIMIT);
        assert_eq!(moved.capacity(), still.capacity());
        let remembered_still = remembered(&still);
        assert!(remembered_still >= 64, "{remembered_still} of 128");
        assert_eq!(remembered(&moved), remembered_still);
    }

    #[test]
    fn what_a_smaller_cache_has_freed_returns_to_the_system() {
        let large: u64 = 128 << 20;
        let cache = BlockCache::new(large);
        let (heap, len) =
            (|| cache.buffers.heap_bytes(), |number: u32| 9_000 + number as usize % 9);
        let key = |block| BlockKey { table: 3, block };
        for number in 0..8_000 {
            let mut buffer = cache.buffers.take(len(number));
            buffer.fill(number as u8);
            cache.insert(key(number), Block::opaque(Slice::from_owner(buffer)));
        }
        let held = cache.peek(key(7_777)).unwrap();
        let (full, used) = (heap(), cache.used_bytes());
        assert!(full > used / 8 * 7 && full < used / 4 * 5, "{full} bytes for {used}");
        // What is evicted leaves gaps between blocks that are used.
        for number in (0..8_000).step_by(5).cycle().take(4_000) {
            cache.get(key(number)).unwrap();
        }
        cache.set_capacity(large / 4);
        assert!(heap() > cache.used_bytes() * 2, "{} bytes for {}", heap(), cache.used_bytes());
        cache.release_idle();
        let used = cache.used_bytes();
        assert!(used > large / 6, "{used}");
        assert!(heap() < large / 32 * 9 + (2 << 20), "{} bytes", heap());
        cache.release_idle();
        assert_eq!(cache.used_bytes(), used, "once is enough");
        for number in 0..8_000 {
            if let Some(block) = cache.peek(key(number)) {
                assert!(block.bytes().iter().all(|byte| *byte == number as u8));
                assert_eq!(block.bytes().len(), len(number));
            }
        }
        assert!(held.bytes().iter().all(|byte| *byte == 7_777_u32 as u8));
        drop(held);
        cache.clear();
        assert_eq!(heap(), 0);
    }

    #[test]
    fn blocks_of_another_length_take_the_place_of_scattered_ones() {
        let bytes: u64 = 64 << 20;
        let cache = BlockCache::new(bytes);
        let key = |block| BlockKey { table: 3, block };
        let add = |number, len| {
            let block = Block::opaque(Slice::from_owner(cache.buffers.take(len)));
            cache.insert(key(number), block);
        };
        (0..20_000).for_each(|number| add(number, 4_000));
        // Every third block stays, in all parts of the heap, since it is used.
        for _turn in 0..4 {
            (0..20_000).step_by(3).for_each(|number| drop(cache.get(key(number))));
        }
        for number in 20_000..24_000 {
            add(number, 60_000);
            cache.get(key(number));
            if number % 10 == 0 {
                (0..20_000).step_by(3).for_each(|number| drop(cache.get(key(number))));
            }
        }
        let beside = cache.used_bytes().saturating_sub(cache.buffers.taken_bytes());
        let all = cache.buffers.heap_bytes() + beside;
        assert!(all < bytes / 16 * 21, "{all} bytes for a cache of {bytes}");
    }

    #[test]
    fn a_capacity_is_at_most_a_step_below_what_is_asked() {
        let cache = BlockCache::new(LIMIT);
        for asked in (0..LIMIT).step_by(4_099).chain(LIMIT..LIMIT + 10) {
            cache.set_capacity(asked);
            let (capacity, shards) = (cache.capacity(), 256);
            assert!(capacity < asked + shards, "{capacity} for {asked}");
            assert!(capacity + LIMIT / 16 * 2 > asked, "{capacity} for {asked}");
        }
    }
}
