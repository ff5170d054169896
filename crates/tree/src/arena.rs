//! The memory of a memtable: chunks that are filled from front to back and freed together.
//!
//! ```text
//! address, u32:   chunk number : 14  |  place in the chunk, in units of 8 bytes : 18
//! ```
//!
//! The first chunk is small and each next chunk twice as large, up to 2 MiB, so a tree that is
//! rarely written costs little. A tree that is written much takes a recycled full-size chunk as
//! early as its fifth. An allocation above 512 KiB gets a chunk of its own; only its beginning
//! needs an address. Address 0 means none: the first unit of every chunk stays unused.
//!
//! One writer allocates, under the memtable's lock. Readers take no lock; they follow addresses
//! that were published by a Release store. Full-size chunks are huge pages where the system has
//! them, and are recycled through a [`ChunkPool`]: page faults are half the cost of inserting a
//! kilobyte into fresh memory.

use flagstone_base::large_buffer::capacity_for;
use flagstone_env::memory::{HUGE_PAGE_BYTES, Pages};
use flagstone_env::sync::Mutex;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const UNIT: usize = 8;
const UNIT_BITS: u32 = 18;
const UNIT_MASK: u32 = (1 << UNIT_BITS) - 1;
const CHUNKS_MAX: usize = 1 << (32 - UNIT_BITS);
const SEGMENT: usize = 512;
const SEGMENTS: usize = CHUNKS_MAX / SEGMENT;
/// The size of the first chunk.
const CHUNK_MIN: usize = 16 << 10;
/// The size of full chunks, which are recycled.
const CHUNK_MAX: usize = HUGE_PAGE_BYTES;
/// A large arena takes a recycled chunk, whose pages are mapped, in place of a new chunk of at
/// least this size.
const RECYCLED_FROM: usize = 256 << 10;
/// An arena is large if it is expected to hold at least this much. In a memtable that is sealed
/// earlier, a full-size chunk would count for more than it holds.
const GROWS_LARGE: u64 = 4 * CHUNK_MAX as u64;
/// A larger allocation gets a chunk of its own.
const SHARED_MAX: usize = CHUNK_MAX / 4;
const _: () = assert!(CHUNK_MAX == UNIT << UNIT_BITS && SHARED_MAX > CHUNK_MIN);

/// Memory aligned to 8 bytes, freed on drop.
struct Chunk {
    start: NonNull<u8>,
    bytes: usize,
    /// The pages of a full-size chunk, which come from the system. Other chunks come from the
    /// allocator.
    pages: Option<Pages>,
}

// SAFETY: a chunk is memory and its size; the arena decides who may access which part of it.
unsafe impl Send for Chunk {}

impl Chunk {
    fn layout(bytes: usize) -> Layout {
        // Sizes are multiples of 8 far below isize::MAX: the error case cannot occur.
        Layout::from_size_align(capacity_for(bytes), UNIT).unwrap_or(Layout::new::<u64>())
    }

    fn new(bytes: usize) -> Self {
        debug_assert!(bytes.is_multiple_of(UNIT) && bytes > 0);
        let layout = Self::layout(bytes);
        if bytes == CHUNK_MAX {
            let Some(pages) = Pages::new(bytes) else { handle_alloc_error(layout) };
            return Self { start: pages.start(), bytes, pages: Some(pages) };
        }
        // SAFETY: `bytes` is not zero, so neither is the layout's size.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, bytes, pages: None }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.pages.is_none() {
            // SAFETY: `start` came from `alloc` with this very layout, in `new`, and is freed once.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) };
            flagstone_env::os::freed(Self::layout(self.bytes).size());
        }
    }
}

/// Idle full-size chunks, for any memtable of a database.
pub struct ChunkPool {
    chunks: Mutex<Vec<Chunk>>,
    chunks_max: usize,
}

impl ChunkPool {
    /// Creates an empty pool that keeps at most `bytes_max` bytes.
    pub const fn new(bytes_max: usize) -> Self {
        Self { chunks: Mutex::new(Vec::new()), chunks_max: bytes_max / CHUNK_MAX }
    }

    /// Bytes of the chunks in the pool.
    pub fn bytes(&self) -> u64 {
        (self.chunks.lock().len() * CHUNK_MAX) as u64
    }

    /// Frees chunks until at most `bytes` remain in the pool.
    pub fn shrink_to(&self, bytes: u64) {
        let kept = usize::try_from(bytes / CHUNK_MAX as u64).unwrap_or(usize::MAX);
        let mut pool = self.chunks.lock();
        let at = kept.min(pool.len());
        let dropped = pool.split_off(at);
        drop(pool);
        drop(dropped);
    }

    fn take(&self) -> Option<Chunk> {
        self.chunks.lock().pop()
    }

    fn give_back(&self, chunks: Vec<Chunk>) {
        let mut pool = self.chunks.lock();
        let room = self.chunks_max.saturating_sub(pool.len());
        pool.extend(chunks.into_iter().filter(|chunk| chunk.bytes == CHUNK_MAX).take(room));
    }
}

type ChunkPointers = [AtomicPtr<u8>; SEGMENT];

/// The chunks of one memtable, found by number without a lock.
pub(super) struct Arena {
    segments: [AtomicPtr<ChunkPointers>; SEGMENTS],
    bytes: AtomicU64,
}

/// The writer's part of an arena: the next free place, and ownership of the chunks.
#[derive(Default)]
pub(super) struct Bump {
    chunks: Vec<Chunk>,
    /// The chunk that small allocations share, and its used bytes.
    current: Option<(usize, usize)>,
    next_bytes: usize,
    grows_large: bool,
}

impl Bump {
    /// Creates the state for an arena that is expected to hold about `bytes` bytes.
    pub(super) fn expecting(bytes: u64) -> Self {
        Self { grows_large: bytes >= GROWS_LARGE, ..Self::default() }
    }

    /// The smallest chunk that is replaced by a recycled one.
    const fn recycled_from(&self) -> usize {
        if self.grows_large { RECYCLED_FROM } else { CHUNK_MAX }
    }
}

impl Arena {
    pub(super) const fn new() -> Self {
        let segments = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];
        Self { segments, bytes: AtomicU64::new(0) }
    }

    /// Bytes taken from the allocator or the pool.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Allocates `bytes` bytes, aligned to 8 and not initialised. Returns their address and
    /// pointer, or `None` if all chunk numbers are used, which takes more than 8 GiB.
    ///
    /// `bump` must be the one that this arena was always used with. The memtable's lock guards it.
    pub(super) fn allocate(
        &self,
        bump: &mut Bump,
        pool: &ChunkPool,
        bytes: usize,
    ) -> Option<(u32, NonNull<u8>)> {
        let bytes = bytes.next_multiple_of(UNIT);
        if bytes > SHARED_MAX {
            let bytes = bytes + UNIT;
            let recycled = if bytes == CHUNK_MAX { pool.take() } else { None };
            let number = self.add_chunk(bump, recycled, bytes)?;
            return Some(place(&bump.chunks[number], number, UNIT));
        }
        if let Some((number, used)) = &mut bump.current
            && *used + bytes <= bump.chunks[*number].bytes
        {
            let at = *used;
            *used += bytes;
            return Some(place(&bump.chunks[*number], *number, at));
        }
        let mut size = bump.next_bytes.max(CHUNK_MIN);
        while size < bytes + UNIT {
            size *= 2;
        }
        let recycled = if size >= bump.recycled_from() { pool.take() } else { None };
        let number = self.add_chunk(bump, recycled, size)?;
        bump.next_bytes = (bump.chunks[number].bytes * 2).min(CHUNK_MAX);
        bump.current = Some((number, UNIT + bytes));
        Some(place(&bump.chunks[number], number, UNIT))
    }

    /// Adds the `recycled` chunk, or a new one of `bytes`.
    fn add_chunk(&self, bump: &mut Bump, recycled: Option<Chunk>, bytes: usize) -> Option<usize> {
        let number = bump.chunks.len();
        if number == CHUNKS_MAX {
            return None;
        }
        let segment = &self.segments[number / SEGMENT];
        let mut slots = segment.load(Ordering::Relaxed);
        if slots.is_null() {
            let new: Box<ChunkPointers> =
                Box::new([const { AtomicPtr::new(ptr::null_mut()) }; SEGMENT]);
            slots = Box::into_raw(new);
            segment.store(slots, Ordering::Release);
        }
        let chunk = recycled.unwrap_or_else(|| Chunk::new(bytes));
        // SAFETY: `slots` came from `Box::into_raw` and lives until the arena is dropped.
        let slot = unsafe { &(&*slots)[number % SEGMENT] };
        slot.store(chunk.start.as_ptr(), Ordering::Release);
        self.bytes.fetch_add(chunk.bytes as u64, Ordering::Relaxed);
        bump.chunks.push(chunk);
        Some(number)
    }

    /// Returns the pointer of an address that [`Arena::allocate`] of this arena returned.
    ///
    /// # Safety
    /// This arena returned `address`, and the store that published it to this thread was a Release
    /// read by an Acquire (or the memtable's lock is held).
    #[inline]
    pub(super) unsafe fn pointer(&self, address: u32) -> *mut u8 {
        let number = (address >> UNIT_BITS) as usize;
        let slots = self.segments[number / SEGMENT].load(Ordering::Acquire);
        // SAFETY: the arena returned the address, so its segment and chunk were published before.
        let start = unsafe { (&*slots)[number % SEGMENT].load(Ordering::Acquire) };
        // SAFETY: the place is in the chunk, because `allocate` made the address from it.
        unsafe { start.add((address & UNIT_MASK) as usize * UNIT) }
    }

    /// Frees the arena: its chunks go to the pool or the allocator.
    pub(super) fn give_back(&mut self, bump: &mut Bump, pool: &ChunkPool) {
        pool.give_back(std::mem::take(&mut bump.chunks));
        bump.current = None;
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for segment in &mut self.segments {
            let slots = *segment.get_mut();
            if !slots.is_null() {
                // SAFETY: the pointer came from `Box::into_raw` in `add_chunk`, and is freed once,
                // here.
                drop(unsafe { Box::from_raw(slots) });
            }
        }
    }
}

fn place(chunk: &Chunk, number: usize, at: usize) -> (u32, NonNull<u8>) {
    debug_assert!(at < chunk.bytes && at.is_multiple_of(UNIT));
    let address = (number as u32) << UNIT_BITS | (at / UNIT) as u32;
    // SAFETY: `at` is inside the chunk.
    let pointer = unsafe { chunk.start.add(at) };
    (address, pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_their_bytes_in_chunks_of_every_size() {
        let (arena, pool, mut bump) = (Arena::new(), ChunkPool::new(8 << 20), Bump::default());
        let mut given = Vec::new();
        for (i, bytes) in
            [1, 8, 20_000, 600_000, 9, 4 << 20, 400_000].iter().cycle().take(40).enumerate()
        {
            let (address, pointer) = arena.allocate(&mut bump, &pool, *bytes).unwrap();
            assert!(address != 0 && pointer.as_ptr().addr() % UNIT == 0);
            // SAFETY: the allocation has at least `bytes` bytes.
            unsafe { pointer.write_bytes(i as u8, *bytes) };
            given.push((address, *bytes, i as u8));
        }
        for (address, bytes, value) in given {
            // SAFETY: this thread allocated `address` above.
            let pointer = unsafe { arena.pointer(address) };
            // SAFETY: `bytes` bytes were written there.
            let found = unsafe { std::slice::from_raw_parts(pointer, bytes) };
            // Miri would look at megabytes byte by byte.
            let ends = if cfg!(miri) { bytes.min(500) } else { bytes };
            let (front, back) = (&found[..ends], &found[bytes - ends..]);
            assert!(front.iter().chain(back).all(|&byte| byte == value));
        }
        let mut arena = arena;
        arena.give_back(&mut bump, &pool);
        assert!(pool.bytes() > 0);
        let kept = pool.bytes();
        pool.shrink_to(kept);
        assert_eq!(pool.bytes(), kept);
        assert_eq!(pool.take().unwrap().bytes, CHUNK_MAX);
    }

    #[test]
    fn an_arena_that_will_be_large_takes_a_recycled_chunk_early() {
        const KIB: usize = 1 << 10;
        let pool = ChunkPool::new(CHUNK_MAX);
        let grow = |expected: u64| {
            let (mut arena, mut bump) = (Arena::new(), Bump::expecting(expected));
            while arena.bytes() < CHUNK_MAX as u64 - CHUNK_MIN as u64 {
                arena.allocate(&mut bump, &pool, 1000).unwrap();
            }
            let sizes = bump.chunks.iter().map(|chunk| chunk.bytes / KIB).collect::<Vec<_>>();
            assert_eq!(arena.bytes(), sizes.iter().map(|size| (size * KIB) as u64).sum());
            arena.give_back(&mut bump, &pool);
            sizes
        };
        let ladder = [16, 32, 64, 128, 256, 512, 1024];
        assert_eq!(grow(GROWS_LARGE), ladder, "none waits");
        pool.give_back(vec![Chunk::new(CHUNK_MAX)]);
        assert_eq!(grow(GROWS_LARGE - 1), ladder, "it stays small");
        assert_eq!(pool.bytes(), CHUNK_MAX as u64);
        assert_eq!(grow(GROWS_LARGE), [16, 32, 64, 128, 2048]);
        assert_eq!(pool.bytes(), CHUNK_MAX as u64, "and it is recycled again");
    }

    #[test]
    fn a_small_arena_is_small() {
        let (arena, pool, mut bump) = (Arena::new(), ChunkPool::new(0), Bump::default());
        assert_eq!(arena.bytes(), 0);
        arena.allocate(&mut bump, &pool, 100).unwrap();
        assert_eq!(arena.bytes(), CHUNK_MIN as u64);
    }
}
