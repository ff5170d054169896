//! Reuses the memory of blocks.
//!
//! A full cache evicts a block for each that it inserts, usually one of about the same length. With
//! an allocator this costs a search, zeroing memory that is overwritten next, and locks when one
//! thread frees what another allocated. It also fragments memory: with 32 threads the blocks took
//! half as much again as the cache. And its pages are small, so the blocks of a large cache are in
//! a heap of huge pages.

use flagstone_base::large_buffer::capacity_for;
use flagstone_env::memory::{HUGE_PAGE_BYTES, Heap, PIECE_BYTES_MAX, Piece};
use flagstone_env::os::{LARGE_BUFFER, freed};
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The number of buffer lengths between a power of two and the next: a buffer is a 32nd too long on
/// average.
const STEPS: usize = 16;
/// Buffers longer than 2^9 bytes and up to 2^18 bytes are kept.
const KEPT_LOG2: Range<usize> = 9..18;
const CLASSES: usize = (KEPT_LOG2.end - KEPT_LOG2.start) * STEPS;
/// The least limit on idle bytes.
const IDLE_BYTES_MIN: u64 = 64 << 10;
/// A cache of at least this many bytes has a heap. A smaller one suffers less from small pages, and
/// the last chunk of a heap is half empty.
const HEAP_FROM: u64 = 16 * HUGE_PAGE_BYTES as u64;
/// The number of lengths that `make_room` tries.
const LOOKS: usize = 16;

/// Idle buffers by length. They take at most a 64th of the cache.
pub(crate) struct Buffers {
    idle: [Idle; CLASSES],
    idle_bytes: CacheLine<AtomicU64>,
    idle_bytes_max: AtomicU64,
    /// The length class where `make_room` starts next.
    hand: AtomicUsize,
    heap: Option<Arc<Heap>>,
    /// The most bytes of the heap.
    heap_bytes_max: u64,
    /// Bytes that came from the allocator because the heap had no room, since this was last looked
    /// into.
    beside_heap: AtomicU64,
}

/// The memory of a buffer.
enum BufferMemory {
    /// From the heap.
    Piece(Piece),
    /// From the allocator: where there is no heap, where it is full, and for what is long.
    Allocated(Box<[u8]>),
}

/// A value with cache lines of its own.
#[repr(align(128))]
struct CacheLine<T>(T);

/// The idle buffers of one length.
type Idle = CacheLine<Mutex<Vec<BufferMemory>>>;

impl Buffers {
    /// Creates the buffers for a cache of `bytes`.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            idle: [const { CacheLine(Mutex::new(Vec::new())) }; CLASSES],
            idle_bytes: CacheLine(AtomicU64::new(0)),
            idle_bytes_max: AtomicU64::new((bytes / 64).max(IDLE_BYTES_MIN)),
            hand: AtomicUsize::new(0),
            heap: (bytes >= HEAP_FROM).then(|| Heap::new(bytes)),
            heap_bytes_max: bytes,
            beside_heap: AtomicU64::new(0),
        })
    }

    /// Returns a buffer of `len` bytes of arbitrary content. If another thread uses the same length
    /// at this moment, the buffer is a new one.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let idle = class(len).and_then(|class| self.pop(class));
        let memory = idle.unwrap_or_else(|| self.allocate(bytes_for(len)));
        Buffer { memory, len, home: Arc::clone(self) }
    }

    fn allocate(&self, bytes: usize) -> BufferMemory {
        if let Some(heap) = self.heap.as_ref().filter(|_| bytes <= PIECE_BYTES_MAX) {
            if let Some(piece) = heap.take(bytes) {
                return BufferMemory::Piece(piece);
            }
            self.beside_heap.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        BufferMemory::Allocated(vec![0; capacity_for(bytes)].into_boxed_slice())
    }

    /// Returns whether a 16th of the heap's bytes was allocated beside the heap although it is not
    /// full: then its gaps are too short. The count starts again with each call that looks into it.
    pub(crate) fn is_scattered(&self) -> bool {
        let beside = self.beside_heap.load(Ordering::Relaxed);
        let Some(heap) = self.heap.as_ref().filter(|_| beside > self.heap_bytes_max / 16) else {
            return false;
        };
        let is_first = self
            .beside_heap
            .compare_exchange(beside, 0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        is_first && heap.taken_bytes() < heap.bytes() / 8 * 7
    }

    fn pop(&self, class: usize) -> Option<BufferMemory> {
        let bytes = self.idle[class].try_lock()?.pop()?;
        self.idle_bytes.0.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
        Some(bytes)
    }

    fn give_back(&self, bytes: BufferMemory) {
        let Some(class) = class(bytes.len()) else {
            return;
        };
        let len = bytes.len() as u64;
        let max = self.idle_bytes_max.load(Ordering::Relaxed);
        let idle = self.idle_bytes.0.fetch_add(len, Ordering::Relaxed) + len;
        if (idle <= max || (len <= max && self.make_room(len)))
            && let Some(mut idle) = self.idle[class].try_lock()
        {
            return idle.push(bytes);
        }
        self.idle_bytes.0.fetch_sub(len, Ordering::Relaxed);
    }

    /// Frees at least `len` bytes of idle buffers, one length after another, so that lengths no
    /// longer in use do not displace current ones. Returns false if it does not find enough.
    fn make_room(&self, len: u64) -> bool {
        let mut freed = 0;
        for _look in 0..LOOKS {
            let class = self.hand.load(Ordering::Relaxed) % CLASSES;
            while let Some(bytes) = self.pop(class) {
                freed += bytes.len() as u64;
                if freed >= len {
                    return true;
                }
            }
            self.hand.store(class + 1, Ordering::Relaxed);
        }
        false
    }

    /// Frees all idle buffers, and returns what is wholly free of the heap to the system.
    pub(crate) fn clear(&self) {
        for idle in &self.idle {
            let idle = std::mem::take(&mut *idle.0.lock().unwrap_or_else(PoisonError::into_inner));
            let bytes: usize = idle.iter().map(|bytes| bytes.len()).sum();
            self.idle_bytes.0.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
        if let Some(heap) = &self.heap {
            heap.trim();
        }
    }

    /// The addresses of the parts of the heap that a cache of `capacity` bytes does not need. It
    /// uses `used` bytes, in the heap and beside it.
    pub(crate) fn surplus(&self, capacity: u64, used: u64) -> Vec<Range<usize>> {
        let Some(heap) = &self.heap else { return Vec::new() };
        let beside = used.saturating_sub(heap.taken_bytes());
        heap.surplus(capacity.saturating_sub(beside))
    }

    /// As [`Buffers::clear`], and keeps no buffer from now on.
    pub(crate) fn close(&self) {
        self.idle_bytes_max.store(0, Ordering::Relaxed);
        self.clear();
    }

    /// Bytes of the buffers in the heap.
    #[cfg(test)]
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.heap.as_ref().map_or(0, |heap| heap.taken_bytes())
    }

    /// Bytes that the heap has from the system.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> u64 {
        self.heap.as_ref().map_or(0, |heap| heap.bytes())
    }

    /// Bytes of idle buffers.
    #[cfg(test)]
    pub(crate) fn idle_bytes(&self) -> u64 {
        self.idle_bytes.0.load(Ordering::Relaxed)
    }
}

impl Idle {
    /// Returns `None` if another thread holds the lock.
    fn try_lock(&self) -> Option<MutexGuard<'_, Vec<BufferMemory>>> {
        match self.0.try_lock() {
            Ok(idle) => Some(idle),
            Err(TryLockError::Poisoned(idle)) => Some(idle.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The memory that a buffer of `len` bytes takes.
#[inline]
pub(crate) const fn bytes_for(len: usize) -> usize {
    match class(len) {
        Some(class) => ((STEPS + 1 + class % STEPS) << (KEPT_LOG2.start + class / STEPS)) / STEPS,
        None => len,
    }
}

/// The class of buffers for `len` bytes. Buffers of class c are (17 + c % 16) / 16 times 2^(9 + c /
/// 16) bytes long.
#[inline]
const fn class(len: usize) -> Option<usize> {
    if len <= 1 << KEPT_LOG2.start || len > 1 << KEPT_LOG2.end {
        return None;
    }
    let log2 = (len - 1).ilog2() as usize;
    let above = len - 1 - (1 << log2);
    Some((log2 - KEPT_LOG2.start) * STEPS + above * STEPS / (1 << log2))
}

/// Memory for a block. When dropped, it is kept for the next block.
pub(crate) struct Buffer {
    memory: BufferMemory,
    len: usize,
    home: Arc<Buffers>,
}

impl Buffer {
    /// Shortens the buffer to `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = self.memory.len();
        self.home.give_back(std::mem::take(&mut self.memory));
        if bytes >= LARGE_BUFFER {
            freed(bytes);
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for BufferMemory {
    fn default() -> Self {
        Self::Allocated(Box::default())
    }
}

impl Deref for BufferMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Piece(piece) => piece,
            Self::Allocated(bytes) => bytes,
        }
    }
}

impl DerefMut for BufferMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Piece(piece) => piece,
            Self::Allocated(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_at_most_a_sixteenth_too_long() {
        let mut last = None;
        for len in (1 << KEPT_LOG2.start) + 1..=1 << KEPT_LOG2.end {
            let (class, bytes) = (class(len).unwrap(), bytes_for(len));
            assert!(class < CLASSES && bytes >= len && bytes < len + len / STEPS + 1, "{len}");
            assert_eq!(super::class(bytes), Some(class), "{len}");
            assert!(last.is_none_or(|last| last == class || last + 1 == class), "{len}");
            last = Some(class);
        }
        assert_eq!(last, Some(CLASSES - 1));
        let beyond = (1 << KEPT_LOG2.end) + 1;
        assert_eq!([0, 512, beyond].map(bytes_for), [0, 512, beyond]);
    }

    #[test]
    fn what_is_dropped_comes_again_and_not_too_much_waits() {
        let buffers = Buffers::new(0);
        let mut first = buffers.take(16_000);
        first.copy_from_slice(&[7; 16_000]);
        first.truncate(10);
        assert_eq!(&first[..], [7; 10]);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(buffers.idle_bytes(), bytes_for(16_000) as u64);
        let other = buffers.take(12_000);
        assert_ne!(other.as_ptr(), place);
        let again = buffers.take(15_900);
        assert_eq!((again.as_ptr(), again.len(), buffers.idle_bytes()), (place, 15_900, 0));

        let many: Vec<_> = (0..100).map(|n| buffers.take(16_000 - n)).collect();
        drop((other, again, many));
        let idle = buffers.idle_bytes();
        assert!((IDLE_BYTES_MIN - (16 << 10)..=IDLE_BYTES_MIN).contains(&idle), "{idle}");
        buffers.clear();
        assert_eq!(buffers.idle_bytes(), 0);
        drop((buffers.take(100), buffers.take(300 << 10)));
        assert_eq!(buffers.idle_bytes(), 0);
        let last = buffers.take(1000);
        buffers.close();
        drop(last);
        assert_eq!(buffers.idle_bytes(), 0);
    }

    #[test]
    fn a_length_that_is_no_longer_used_makes_room() {
        let buffers = Buffers::new(0);
        drop((0..100).map(|_| buffers.take(16_000)).collect::<Vec<_>>());
        for _ in 0..CLASSES / LOOKS + 1 {
            drop(buffers.take(3_000));
        }
        let place = buffers.take(3_000).as_ptr();
        assert_eq!(buffers.take(3_000).as_ptr(), place);
        drop((0..100).map(|_| buffers.take(3_000)).collect::<Vec<_>>());
        assert!(buffers.pop(class(16_000).unwrap()).is_none());
        assert!(buffers.idle_bytes() <= IDLE_BYTES_MIN);
    }

    #[test]
    fn many_threads_lose_no_byte_of_the_count() {
        let buffers = Buffers::new(1 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let buffers = &buffers;
                scope.spawn(move || {
                    for n in 0..2_000_usize {
                        let held = [n, n * 7, n * 31].map(|n| buffers.take(600 + n % 9_000));
                        if n % 500 == thread {
                            buffers.clear();
                        }
                        drop(held);
                    }
                });
            }
        });
        let idle = buffers.idle.iter().map(|idle| {
            idle.try_lock().unwrap().iter().map(|memory| memory.len() as u64).sum::<u64>()
        });
        assert_eq!(buffers.idle_bytes(), idle.sum::<u64>());
        assert!(buffers.idle_bytes() <= IDLE_BYTES_MIN);
        buffers.clear();
        assert_eq!(buffers.idle_bytes(), 0);
    }
}
