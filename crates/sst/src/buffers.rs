//! Memory of blocks, used again.
//!
//! A cache that is full lets a block go for each that it takes, mostly one of about the same length.
//! Through an allocator this costs a search, the zeroing of what is filled next anyway, and locks when
//! one thread frees what another one got; and it leaves holes: with 32 threads they took half as much
//! again as the cache.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// So many lengths lie between a power of two and the next: a buffer is a 32nd too long, on the mean.
const STEPS: usize = 16;
/// Buffers are kept from above 2^9 bytes up to 2^16: longer ones are few.
const KEPT_LOG2: std::ops::Range<usize> = 9..16;
const CLASSES: usize = KEPT_LOG2.end.saturating_sub(KEPT_LOG2.start) * STEPS;
/// At least so many bytes may lie idle.
const IDLE_BYTES_MIN: u64 = 256 << 10;

/// Buffers that wait to be used again, by length.
pub(crate) struct Buffers {
    idle: [Mutex<Vec<Box<[u8]>>>; CLASSES],
    idle_bytes: AtomicU64,
    idle_bytes_max: u64,
}

impl Buffers {
    /// Those of a cache of `bytes`.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            idle: [const { Mutex::new(Vec::new()) }; CLASSES],
            idle_bytes: AtomicU64::new(0),
            idle_bytes_max: (bytes / 64).max(IDLE_BYTES_MIN),
        })
    }

    /// A buffer of `len` bytes that hold anything. Who finds another thread at the same length does not
    /// wait: the allocator has more.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let idle = class(len).and_then(|class| match self.idle[class].try_lock() {
            Ok(mut idle) => idle.pop(),
            Err(TryLockError::Poisoned(idle)) => idle.into_inner().pop(),
            Err(TryLockError::WouldBlock) => None,
        });
        let bytes = match idle {
            Some(bytes) => {
                self.idle_bytes.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                bytes
            }
            None => vec![0; bytes_for(len)].into_boxed_slice(),
        };
        Buffer { bytes, len, home: Arc::clone(self) }
    }

    fn give_back(&self, bytes: Box<[u8]>) {
        let Some(class) = class(bytes.len()) else {
            return;
        };
        let len = bytes.len() as u64;
        if self.idle_bytes.fetch_add(len, Ordering::Relaxed) + len <= self.idle_bytes_max {
            match self.idle[class].try_lock() {
                Ok(mut idle) => return idle.push(bytes),
                Err(TryLockError::Poisoned(idle)) => return idle.into_inner().push(bytes),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.idle_bytes.fetch_sub(len, Ordering::Relaxed);
    }

    /// Gives all that wait to the allocator.
    pub(crate) fn clear(&self) {
        for idle in &self.idle {
            let idle = std::mem::take(&mut *idle.lock().unwrap_or_else(PoisonError::into_inner));
            let bytes: usize = idle.iter().map(|bytes| bytes.len()).sum();
            self.idle_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffers({} bytes idle)", self.idle_bytes.load(Ordering::Relaxed))
    }
}

/// How much memory a buffer of `len` bytes takes.
#[inline]
pub(crate) const fn bytes_for(len: usize) -> usize {
    match class(len) {
        Some(class) => ((STEPS + 1 + class % STEPS) << (KEPT_LOG2.start + class / STEPS)) / STEPS,
        None => len,
    }
}

/// Which buffers have room for `len` bytes: those of the class are `bytes_for` it long.
#[inline]
const fn class(len: usize) -> Option<usize> {
    if len <= 1 << KEPT_LOG2.start || len > 1 << KEPT_LOG2.end {
        return None;
    }
    let log2 = (len - 1).ilog2() as usize;
    let above = len - 1 - (1 << log2);
    Some((log2 - KEPT_LOG2.start) * STEPS + above * STEPS / (1 << log2))
}

/// Memory of a block: dropped, it waits for the next.
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
    home: Arc<Buffers>,
}

impl Buffer {
    /// Leaves the first `len` bytes of it.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.bytes));
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
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
        assert_eq!([0, 512, (64 << 10) + 1].map(bytes_for), [0, 512, (64 << 10) + 1]);
    }

    #[test]
    fn what_is_dropped_comes_again_and_not_too_much_waits() {
        let buffers = Buffers::new(0);
        let idle = || buffers.idle_bytes.load(Ordering::Relaxed);
        let mut first = buffers.take(16_000);
        first.copy_from_slice(&[7; 16_000]);
        first.truncate(10);
        assert_eq!(&first[..], [7; 10]);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(idle(), bytes_for(16_000) as u64);
        let again = buffers.take(15_900);
        assert_eq!((again.as_ptr(), again.len(), idle()), (place, 15_900, 0));
        assert_ne!(buffers.take(12_000).as_ptr(), place);

        let many: Vec<_> = (0..100).map(|n| buffers.take(16_000 - n)).collect();
        drop((again, many));
        assert!((IDLE_BYTES_MIN - (32 << 10)..=IDLE_BYTES_MIN).contains(&idle()), "{}", idle());
        buffers.clear();
        assert_eq!(idle(), 0);
        drop((buffers.take(100), buffers.take(100 << 10)));
        assert_eq!(idle(), 0);
    }
}
