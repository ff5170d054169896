//! The entries that a sorter holds in memory.

use flagstone_base::bytes::{order, same};
use flagstone_base::key::key_front;
use std::cmp::Ordering;

/// Entries in the order of their arrival, until they are sorted.
///
/// Bytes are in chunks, so that growing copies nothing. Only the index of places is reallocated.
pub(super) struct Buffer {
    chunks: Vec<Vec<u8>>,
    chunk_bytes: usize,
    places: Vec<BufferedEntry>,
    /// The sum of the capacities of the chunks.
    allocated: usize,
}

/// Where an entry is, and the first bytes of its key, which decide most comparisons.
#[derive(Clone, Copy)]
struct BufferedEntry {
    front: u64,
    chunk: u32,
    at: u32,
    key_len: u32,
    value_len: u32,
}

/// The bytes that a place takes. The index grows by half, so it has up to half as many to spare.
pub(super) const PLACE_BYTES: usize = size_of::<BufferedEntry>();

/// Entries of at least one part in this many of a chunk get a chunk of their own.
const LARGE_PARTS: usize = 8;
/// The smallest growth of the index, in places.
const GROWTH_MIN: usize = 64;

impl Buffer {
    /// A buffer that is to hold at most about `memory` bytes.
    pub(super) fn new(memory: usize) -> Self {
        let chunk_bytes = (memory / 16).clamp(1 << 10, 1 << 20);
        Self { chunks: Vec::new(), chunk_bytes, places: Vec::new(), allocated: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The bytes of memory that the buffer holds.
    pub(super) const fn bytes(&self) -> usize {
        self.allocated + self.places.capacity() * PLACE_BYTES
    }

    /// The bytes of memory that the buffer holds after one more entry of `len` bytes.
    pub(super) fn bytes_with(&self, len: usize) -> usize {
        let chunk = if self.fits_last(len) { 0 } else { self.chunk_of(len) };
        let grown = if self.places.len() < self.places.capacity() { 0 } else { self.growth() };
        self.bytes() + chunk + grown * PLACE_BYTES
    }

    /// The number of places by which the index grows.
    fn growth(&self) -> usize {
        (self.places.capacity() / 2).max(GROWTH_MIN)
    }

    fn fits_last(&self, len: usize) -> bool {
        self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= len)
    }

    /// The size of a new chunk that begins with an entry of `len` bytes.
    const fn chunk_of(&self, len: usize) -> usize {
        if len > self.chunk_bytes / LARGE_PARTS { len } else { self.chunk_bytes }
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        let len = key.len() + value.len();
        if !self.fits_last(len) {
            let chunk = Vec::with_capacity(self.chunk_of(len));
            self.allocated += chunk.capacity();
            self.chunks.push(chunk);
        }
        if self.places.len() == self.places.capacity() {
            self.places.reserve_exact(self.growth());
        }
        let last = self.chunks.len() - 1;
        let chunk = &mut self.chunks[last];
        self.places.push(BufferedEntry {
            front: key_front(key),
            chunk: last as u32,
            at: chunk.len() as u32,
            key_len: key.len() as u32,
            value_len: value.len() as u32,
        });
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(value);
    }

    /// The key of the entry `index`.
    pub(super) fn key(&self, index: usize) -> &[u8] {
        key_of(&self.chunks, &self.places[index])
    }

    /// The value of the entry `index`.
    pub(super) fn value(&self, index: usize) -> &[u8] {
        let place = &self.places[index];
        let start = place.at as usize + place.key_len as usize;
        &self.chunks[place.chunk as usize][start..start + place.value_len as usize]
    }

    /// Sorts the entries by key, those with one key by arrival. With `distinct` only the first of
    /// each key stays; of all, the first `limit`.
    pub(super) fn sort(&mut self, distinct: bool, limit: usize) {
        let Self { chunks, places, .. } = self;
        places.sort_unstable_by(|a, b| compare(chunks, a, b));
        if distinct {
            places.dedup_by(|a, b| same(key_of(chunks, a), key_of(chunks, b)));
        }
        places.truncate(limit);
    }

    /// Returns the bytes that a buffer of only these entries takes, about.
    pub(super) fn live_bytes(&self) -> usize {
        let bytes =
            |place: &BufferedEntry| place.key_len as usize + place.value_len as usize + PLACE_BYTES;
        self.places.iter().map(bytes).sum::<usize>() + self.chunk_bytes
    }

    /// Copies the entries, which are sorted, to new chunks. Frees the old ones.
    pub(super) fn compact(&mut self) {
        let mut compacted = Self {
            chunks: Vec::new(),
            chunk_bytes: self.chunk_bytes,
            places: Vec::with_capacity(self.places.len()),
            allocated: 0,
        };
        (0..self.len()).for_each(|index| compacted.push(self.key(index), self.value(index)));
        *self = compacted;
    }

    /// Removes all entries and keeps one chunk and the index.
    pub(super) fn clear(&mut self) {
        self.chunks.truncate(1);
        self.chunks.iter_mut().for_each(Vec::clear);
        self.allocated = self.chunks.iter().map(Vec::capacity).sum();
        self.places.clear();
    }
}

fn key_of<'a>(chunks: &'a [Vec<u8>], place: &BufferedEntry) -> &'a [u8] {
    let start = place.at as usize;
    &chunks[place.chunk as usize][start..start + place.key_len as usize]
}

/// The order of two entries: by key, then by arrival.
fn compare(chunks: &[Vec<u8>], a: &BufferedEntry, b: &BufferedEntry) -> Ordering {
    let by_front = a.front.cmp(&b.front);
    let by_key = by_front.then_with(|| order(key_of(chunks, a), key_of(chunks, b)));
    by_key.then_with(|| (a.chunk, a.at).cmp(&(b.chunk, b.at)))
}
