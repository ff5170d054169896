//! The block cache: blocks of all tables, checked and decompressed, and parts of indexes and filters, within one budget.

use crate::allowance::Allowance;
use crate::block::Block;
use crate::buffers::{Buffers, bytes_for};
use crate::format::BLOCK_TRAILER_BYTES;
use crate::index::Index;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a cached block takes besides its bytes: the slot, its share of empty ones, the allocation.
const SLOT_BYTES: u64 = 160;
/// Counters are spread over this many cache lines, so that threads seldom meet on one.
const COUNTER_LINES: usize = 16;

/// What is kept of a table.
#[derive(Clone)]
enum Cached {
    /// A block, or a part of a filter.
    Block(Block),
    /// A part of an index.
    Index(Arc<Index>),
}

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

impl Weighter<BlockKey, Cached> for ByBytes {
    #[inline]
    fn weight(&self, _key: &BlockKey, cached: &Cached) -> u64 {
        SLOT_BYTES
            + match cached {
                // It was read with its trailer.
                Cached::Block(block) => bytes_for(block.bytes().len() + BLOCK_TRAILER_BYTES) as u64,
                Cached::Index(index) => index.bytes() + size_of::<Index>() as u64,
            }
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
/// shards) is not kept. What open tables keep in memory ([`BlockCache::pinned_bytes`]) is not in it, but is taken off
/// its capacity, down to an eighth of it: indexes and filters while all of it together leaves half for blocks, what a
/// table cannot do without in any case. Beyond its capacity
/// a 64th of it (64 KiB at least) may wait in buffers of blocks that went, for those that come.
pub struct BlockCache {
    blocks: Cache<BlockKey, Cached, ByBytes, OneWord>,
    buffers: Arc<Buffers>,
    counters: [Counters; COUNTER_LINES],
    tables: AtomicU64,
    /// What blocks and pinned bytes together may take.
    limit: AtomicU64,
    /// The capacity that was set last; held while it is set.
    fitted: Mutex<u64>,
    pinned: AtomicU64,
    scans: Allowance,
    /// The capacity it was made for, and in how many steps it moves below that.
    full: u64,
    steps: u64,
}

/// The capacity moves by one part in so many; in a cache whose shards remember fewer evicted blocks
/// than this, by one part in that many.
const STEPS: u64 = 64;

impl BlockCache {
    /// A cache that holds up to `bytes`.
    pub fn new(bytes: u64) -> Arc<Self> {
        // A power of two, so that a shard remembers one too: see `fit`. Every shard has 32 at least.
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
            // Not reached: every option that must be given is given.
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
            full,
            steps,
        })
    }

    /// Changes how many bytes it holds, pinned ones included; evicts at once what is too much. Below
    /// what it was made for, blocks get a whole number of 64ths of that (of 16ths in a small cache).
    pub fn set_capacity(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.fit();
    }

    /// Sets the capacity anew if it is another one, rounded down to a step.
    ///
    /// A change makes quick_cache multiply the number of evicted blocks that a shard remembers by
    /// the ratio of capacities, and cut off what is behind the point: after some thousand changes
    /// nothing would be left. So this number is a power of two at full capacity, the steps are parts
    /// of that power, and a change goes by way of full capacity: then both products are whole numbers.
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
        // One over a number, times that number, is not always one: not for 49.
        let exact = |steps: &u64| (1.0 / *steps as f64) * *steps as f64 == 1.0;
        (1..=capacity / step).rev().find(exact).map_or(capacity, |steps| steps * step)
    }

    /// How many bytes of blocks it holds at most now.
    pub fn capacity(&self) -> u64 {
        self.blocks.capacity()
    }

    /// How many bytes its blocks take, with what keeping them costs.
    pub fn used_bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// How many bytes all open tables keep: indexes or the tops of them, filters, deleted ranges, properties.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.load(Ordering::Relaxed)
    }

    /// What scans hold outside of it, or may keep it from evicting.
    #[inline]
    pub const fn scans(&self) -> &Allowance {
        &self.scans
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
        self.buffers.clear();
    }

    /// Lets memory go that waits for the next blocks.
    pub fn release_idle(&self) {
        self.buffers.clear();
    }

    /// What blocks are read into.
    pub(crate) const fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// A number for a table just opened, never given twice.
    pub(crate) fn number_table(&self) -> u64 {
        self.tables.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes `bytes` off its capacity, for something that stays in memory.
    pub fn pin(&self, bytes: u64) {
        self.pinned.fetch_add(bytes, Ordering::Relaxed);
        self.fit();
    }

    /// Gives them back.
    pub fn unpin(&self, bytes: u64) {
        self.pinned.fetch_sub(bytes, Ordering::Relaxed);
        self.fit();
    }

    #[inline]
    pub(crate) fn get(&self, key: BlockKey) -> Option<Block> {
        let found = self.get_uncounted(key);
        let line = &self.counters[key.block as usize % COUNTER_LINES];
        let counter = if found.is_some() { &line.hits } else { &line.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// The same for what is no block of entries: not counted.
    #[inline]
    pub(crate) fn get_uncounted(&self, key: BlockKey) -> Option<Block> {
        match self.blocks.get(&key) {
            Some(Cached::Block(block)) => Some(block),
            _ => None,
        }
    }

    /// The same for who wants no part in what stays: neither counted nor a use of the block.
    pub(crate) fn peek(&self, key: BlockKey) -> Option<Block> {
        match self.blocks.peek(&key) {
            Some(Cached::Block(block)) => Some(block),
            _ => None,
        }
    }

    /// A part of an index; a use of it if `counts`.
    pub(crate) fn index(&self, key: BlockKey, counts: bool) -> Option<Arc<Index>> {
        match if counts { self.blocks.get(&key) } else { self.blocks.peek(&key) } {
            Some(Cached::Index(index)) => Some(index),
            _ => None,
        }
    }

    pub(crate) fn insert(&self, key: BlockKey, block: Block) {
        self.blocks.insert(key, Cached::Block(block));
    }

    pub(crate) fn insert_index(&self, key: BlockKey, index: Arc<Index>) {
        self.blocks.insert(key, Cached::Index(index));
    }

    pub(crate) fn remove(&self, key: BlockKey) {
        self.blocks.remove(&key);
    }
}

/// What one open table keeps in memory, taken off the capacity of the cache until it is dropped.
pub(crate) struct Pin {
    cache: Arc<BlockCache>,
    bytes: u64,
}

impl Pin {
    /// Nothing yet.
    pub(crate) fn new(cache: &Arc<BlockCache>) -> Self {
        Self { cache: Arc::clone(cache), bytes: 0 }
    }

    /// Takes `bytes` more, if all that is pinned then leaves half of the cache for blocks.
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

    /// Takes `bytes` more, which are in memory in any case.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.cache.pinned.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        self.cache.fit();
    }

    /// Gives back `bytes` of what it took.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.cache.pinned.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
        self.cache.fit();
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

impl Drop for BlockCache {
    /// Slices that are still held shall not gather memory for nobody.
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

    /// How many blocks a cache takes for hot since it remembers that it evicted them: they stay
    /// when many others are read once.
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
