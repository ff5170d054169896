//! Pieces of memory inside of huge pages, for what is read at random: the blocks of a cache.
//!
//! With pages of 4 KiB most reads of a cache of hundreds of megabytes miss the TLB.
#![expect(unsafe_code, reason = "pieces are parts of memory from the system")]

use super::pages::{HUGE_PAGE_BYTES, Pages};
use super::ranges::{Ranges, Span};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Pieces start and end at multiples of this: a line of the processor's caches.
const UNIT_BYTES: usize = 64;
const CHUNK_UNITS: u32 = (HUGE_PAGE_BYTES / UNIT_BYTES) as u32;
/// The longest piece.
pub const PIECE_BYTES_MAX: usize = HUGE_PAGE_BYTES / 8;
/// The number of chunks without pieces that are kept for the next piece.
const SPARE_CHUNKS: usize = 1;

/// Memory for pieces of at most [`PIECE_BYTES_MAX`] bytes, in chunks of [`HUGE_PAGE_BYTES`].
///
/// Dropping a piece waits for no lock: so a forked process, whose other threads are gone with the
/// locks that they had, can drop what it holds.
pub struct Heap {
    state: Mutex<HeapState>,
    /// The pieces that were dropped while another thread had the state: a stack.
    dropped: AtomicPtr<Dropped>,
    chunks_max: usize,
}

/// Lies in a dropped piece.
struct Dropped {
    next: *mut Dropped,
    range: u32,
}

struct HeapState {
    ranges: Ranges,
    /// The chunks by number.
    chunks: Vec<Option<Chunk>>,
    mapped: usize,
    /// The number of chunks without pieces.
    unused: usize,
}

struct Chunk {
    pages: Pages,
    /// The units of all its pieces.
    taken: u32,
}

/// A piece of a heap. When it is dropped, the heap has its memory back.
pub struct Piece {
    start: NonNull<u8>,
    bytes: usize,
    range: u32,
    heap: Arc<Heap>,
}

// SAFETY: nobody else has access to the memory of a piece.
unsafe impl Send for Piece {}
// SAFETY: as above; a shared piece is only read.
unsafe impl Sync for Piece {}

impl Heap {
    /// Creates a heap that takes at most `bytes` from the system.
    pub fn new(bytes: u64) -> Arc<Self> {
        let chunks_max = usize::try_from(bytes).unwrap_or(usize::MAX) / HUGE_PAGE_BYTES;
        let ranges = Ranges::new(CHUNK_UNITS);
        let state = HeapState { ranges, chunks: Vec::new(), mapped: 0, unused: 0 };
        let dropped = AtomicPtr::new(ptr::null_mut());
        Arc::new(Self { state: Mutex::new(state), dropped, chunks_max })
    }

    /// Returns a piece of `bytes` of arbitrary content. `None` if that is zero or too long, or the
    /// heap or the system has no more memory.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Piece> {
        if bytes == 0 || bytes > PIECE_BYTES_MAX {
            return None;
        }
        let units = bytes.div_ceil(UNIT_BYTES) as u32;
        let mut state = self.lock();
        let range = match state.ranges.take(units) {
            Some(range) => range,
            None => {
                state.add_chunk(self.chunks_max)?;
                state.ranges.take(units)?
            }
        };
        let Span { chunk, start, .. } = state.ranges.span(range);
        let chunk = state.chunks.get_mut(chunk as usize)?.as_mut()?;
        let was_unused = usize::from(chunk.taken == 0);
        chunk.taken += units;
        // SAFETY: a range lies within its chunk.
        let start = unsafe { chunk.pages.start().add(start as usize * UNIT_BYTES) };
        state.unused -= was_unused;
        drop(state);
        Some(Piece { start, bytes, range, heap: Arc::clone(self) })
    }

    /// Bytes that the heap has from the system.
    pub fn bytes(&self) -> u64 {
        (self.lock().mapped * HUGE_PAGE_BYTES) as u64
    }

    /// Bytes that all pieces take.
    pub fn taken_bytes(&self) -> u64 {
        let state = self.lock();
        let units: u64 = state.chunks.iter().flatten().map(|chunk| u64::from(chunk.taken)).sum();
        units * UNIT_BYTES as u64
    }

    /// Returns the addresses of the chunks beyond those that pieces of `bytes` need, in order. The
    /// pieces need nine eighths of their length, since gaps lie between them. The chunks in which
    /// the least is taken come first. Once their pieces are dropped, their memory returns to the
    /// system.
    pub fn surplus(&self, bytes: u64) -> Vec<Range<usize>> {
        let state = self.lock();
        let taken = |chunk: &Chunk| (chunk.taken, chunk.pages.start().as_ptr().addr());
        let mut chunks: Vec<(u32, usize)> = state.chunks.iter().flatten().map(taken).collect();
        drop(state);
        let needed = (bytes / 8).saturating_mul(9).div_ceil(HUGE_PAGE_BYTES as u64);
        let needed = usize::try_from(needed).unwrap_or(usize::MAX);
        chunks.sort_unstable();
        chunks.truncate(chunks.len().saturating_sub(needed));
        let mut starts: Vec<usize> = chunks.into_iter().map(|(_taken, start)| start).collect();
        starts.sort_unstable();
        starts.into_iter().map(|start| start..start + HUGE_PAGE_BYTES).collect()
    }

    /// Returns the chunks without pieces to the system.
    pub fn trim(&self) {
        let unmapped = self.lock().unmap(0);
        drop(unmapped);
    }

    fn give_back(&self, start: NonNull<u8>, range: u32) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return self.push(start.cast(), range),
        };
        state.give_back(range);
        self.settle(&mut state);
        let unmapped = state.unmap(SPARE_CHUNKS);
        drop(state);
        drop(unmapped);
    }

    /// Leaves a piece to the next thread that has the state.
    fn push(&self, place: NonNull<Dropped>, range: u32) {
        let mut next = self.dropped.load(Ordering::Relaxed);
        loop {
            // SAFETY: the piece is dropped and its range still taken, so nobody else has access to
            // its memory, which is a unit or more and aligned to that.
            unsafe { place.write(Dropped { next, range }) };
            let (success, failure) = (Ordering::Release, Ordering::Relaxed);
            match self.dropped.compare_exchange_weak(next, place.as_ptr(), success, failure) {
                Ok(_) => return,
                Err(now) => next = now,
            }
        }
    }

    /// Gives back the pieces that others have left.
    fn settle(&self, state: &mut HeapState) {
        if self.dropped.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut place = self.dropped.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(dropped) = NonNull::new(place) {
            // SAFETY: `push` has written it, only this swap has taken it, and its range is taken
            // until `give_back` below.
            let Dropped { next, range } = unsafe { dropped.read() };
            place = next;
            state.give_back(range);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeapState> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.settle(&mut state);
        state
    }
}

impl HeapState {
    /// Maps another chunk. `None` if there may be no more.
    fn add_chunk(&mut self, chunks_max: usize) -> Option<()> {
        if self.mapped >= chunks_max {
            return None;
        }
        let pages = Pages::new(HUGE_PAGE_BYTES)?;
        let number = self.chunks.iter().position(Option::is_none).unwrap_or(self.chunks.len());
        if number == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[number] = Some(Chunk { pages, taken: 0 });
        self.mapped += 1;
        self.unused += 1;
        self.ranges.add_chunk(number as u32);
        Some(())
    }

    /// Frees the range of a piece.
    fn give_back(&mut self, range: u32) {
        let Span { chunk, units, .. } = self.ranges.span(range);
        if let Some(Some(chunk)) = self.chunks.get_mut(chunk as usize) {
            chunk.taken -= units;
            self.unused += usize::from(chunk.taken == 0);
        }
        self.ranges.give_back(range);
    }

    /// Takes out the chunks without pieces, except `kept` of them. The caller drops them when the
    /// state is no longer locked.
    fn unmap(&mut self, kept: usize) -> Vec<Chunk> {
        if self.unused <= kept {
            return Vec::new();
        }
        let removed = self.ranges.remove_chunks(kept);
        self.mapped -= removed.len();
        self.unused -= removed.len();
        removed.into_iter().filter_map(|chunk| self.chunks[chunk as usize].take()).collect()
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is taken until the piece is dropped, at least as long as the piece,
        // zeroed by the system or written since, and nobody else has access to it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.heap.give_back(self.start, self.range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = HUGE_PAGE_BYTES as u64;

    #[test]
    fn pieces_do_not_overlap_and_their_memory_is_used_again() {
        let heap = Heap::new(4 * CHUNK);
        let lens = [1, 63, 64, 65, 4_096, 20_000, PIECE_BYTES_MAX];
        let mut pieces: Vec<Piece> = lens.iter().map(|len| heap.take(*len).unwrap()).collect();
        for (fill, piece) in pieces.iter_mut().enumerate() {
            piece.fill(fill as u8);
        }
        for ((fill, piece), len) in pieces.iter().enumerate().zip(lens) {
            assert_eq!(piece.len(), len);
            assert!(piece.iter().all(|byte| *byte == fill as u8));
            assert!(piece.as_ptr().addr().is_multiple_of(UNIT_BYTES));
        }
        let place = pieces[5].as_ptr();
        drop(pieces.remove(5));
        assert_eq!(heap.take(19_990).unwrap().as_ptr(), place);
        assert_eq!(heap.bytes(), CHUNK);
        assert!([0, PIECE_BYTES_MAX + 1].iter().all(|len| heap.take(*len).is_none()));
    }

    #[test]
    fn a_heap_has_a_limit_and_gives_back_what_is_free() {
        let heap = Heap::new(4 * CHUNK + 5);
        let mut pieces: Vec<Piece> =
            std::iter::from_fn(|| heap.take(PIECE_BYTES_MAX)).take(100).collect();
        assert_eq!((pieces.len(), heap.bytes()), (32, 4 * CHUNK));
        assert_eq!(heap.surplus(4 * CHUNK), []);
        // One piece remains in the first and in the third chunk, all in the others.
        let mut number = 0;
        pieces.retain(|_| {
            number += 1;
            [0, 2].iter().all(|chunk| !(chunk * 8 + 2..chunk * 8 + 9).contains(&number))
        });
        let surplus = heap.surplus(heap.taken_bytes());
        assert_eq!((pieces.len(), surplus.len()), (18, 1));
        pieces.retain(|piece| !surplus[0].contains(&piece.as_ptr().addr()));
        assert_eq!((pieces.len(), heap.bytes()), (17, 4 * CHUNK), "a chunk is kept");
        heap.trim();
        assert_eq!(heap.bytes(), 3 * CHUNK);
        drop(pieces);
        assert_eq!(heap.bytes(), CHUNK);
        heap.trim();
        assert_eq!(heap.bytes(), 0);
        assert!(heap.take(1).is_some());
    }

    #[test]
    fn many_threads_share_a_heap() {
        let (turns, bytes_max) = if cfg!(miri) { (50, 2_000) } else { (2_000, 30_000) };
        let heap = Heap::new(64 * CHUNK);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let heap = &heap;
                scope.spawn(move || {
                    let mut held: Vec<Piece> = Vec::new();
                    for turn in 0..turns {
                        let mut piece = heap.take(1 + turn * 7_919 % bytes_max).unwrap();
                        piece.fill(thread);
                        held.push(piece);
                        if held.len() > 30 {
                            let piece = held.swap_remove(turn % 30);
                            assert!(piece.iter().all(|byte| *byte == thread));
                        }
                    }
                });
            }
        });
        heap.trim();
        assert_eq!(heap.bytes(), 0);
    }

    #[test]
    fn a_piece_is_dropped_while_another_thread_has_the_state() {
        let heap = Heap::new(4 * CHUNK);
        let pieces: Vec<Piece> = (1..20).map(|n| heap.take(n * 1_000).unwrap()).collect();
        let state = heap.lock();
        let taken = |state: &HeapState| state.chunks[0].as_ref().unwrap().taken;
        let before = taken(&state);
        drop(pieces);
        assert_eq!(taken(&state), before, "nobody had the state to give them back");
        drop(state);
        assert_eq!(taken(&heap.lock()), 0);
        heap.trim();
        assert_eq!(heap.bytes(), 0);
    }
}
