//! Memory of blocks, used again.
//!
//! A cache that is full lets a block go for each that it takes, mostly one of about the same length.
//! Through an allocator this costs a search, the zeroing of what is filled next anyway, and locks when
//! one thread frees what another one got; and it leaves holes: with 32 threads they took half as much
//! again as the cache.

use flagstone_base::room::capacity_for;
use flagstone_env::os::{LARGE_BUFFER, freed};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// So many lengths lie between a power of two and the next: a buffer is a 32nd too long, on the mean.
const STEPS: usize = 16;
/// Buffers are kept from above 2^9 bytes up to 2^18.
const KEPT_LOG2: std::ops::Range<usize> = 9..18;
const CLASSES: usize = (KEPT_LOG2.end - KEPT_LOG2.start) * STEPS;
/// At least so many bytes may lie idle.
const IDLE_BYTES_MIN: u64 = 64 << 10;
/// Who makes room looks at so many lengths.
const LOOKS: usize = 16;

/// Buffers that wait to be used again, by length: a 64th of the cache at most.
pub(crate) struct Buffers {
    idle: [Idle; CLASSES],
    idle_bytes: Line<AtomicU64>,
    idle_bytes_max: AtomicU64,
    /// Where room is made next.
    hand: AtomicUsize,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Line<T>(T);

/// Those of one length.
type Idle = Line<Mutex<Vec<Box<[u8]>>>>;

impl Buffers {
    /// Those of a cache of `bytes`.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            idle: [const { Line(Mutex::new(Vec::new())) }; CLASSES],
            idle_bytes: Line(AtomicU64::new(0)),
            idle_bytes_max: AtomicU64::new((bytes / 64).max(IDLE_BYTES_MIN)),
            hand: AtomicUsize::new(0),
        })
    }

    /// A buffer of `len` bytes that hold anything. Who finds another thread at the same length does not
    /// wait: the allocator has more.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let idle = class(len).and_then(|class| self.pop(class));
        let new = || vec![0; capacity_for(bytes_for(len))].into_boxed_slice();
        let bytes = idle.unwrap_or_else(new);
        Buffer { bytes, len, home: Arc::clone(self) }
    }

    fn pop(&self, class: usize) -> Option<Box<[u8]>> {
        let bytes = self.idle[class].try_lock()?.pop()?;
        self.idle_bytes.0.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
        Some(bytes)
    }

    fn give_back(&self, bytes: Box<[u8]>) {
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

    /// Lets `len` bytes go that lie idle longer: lengths that nobody asks for any more must not take the
    /// place of those that come now. False when it has not found as many.
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

    /// Gives all that wait to the allocator.
    pub(crate) fn clear(&self) {
        for idle in &self.idle {
            let idle = std::mem::take(&mut *idle.0.lock().unwrap_or_else(PoisonError::into_inner));
            let bytes: usize = idle.iter().map(|bytes| bytes.len()).sum();
            self.idle_bytes.0.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
    }

    /// As [`Buffers::clear`], and keeps none from now on.
    pub(crate) fn close(&self) {
        self.idle_bytes_max.store(0, Ordering::Relaxed);
        self.clear();
    }

    /// How many bytes wait.
    #[cfg(test)]
    pub(crate) fn idle_bytes(&self) -> u64 {
        self.idle_bytes.0.load(Ordering::Relaxed)
    }
}

impl Idle {
    /// `None` if another thread has it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Vec<Box<[u8]>>>> {
        match self.0.try_lock() {
            Ok(idle) => Some(idle),
            Err(TryLockError::Poisoned(idle)) => Some(idle.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
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

/// Which buffers have room for `len` bytes. Those of class c are (17 + c % 16) / 16 times 2^(9 + c / 16) long.
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
        let bytes = self.bytes.len();
        self.home.give_back(std::mem::take(&mut self.bytes));
        if bytes >= LARGE_BUFFER {
            freed(bytes);
        }
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
    fn a_length_that_nobody_wants_any_more_makes_room() {
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
        let idle = buffers.idle.iter().map(|idle| idle.try_lock().unwrap().concat().len() as u64);
        assert_eq!(buffers.idle_bytes(), idle.sum::<u64>());
        assert!(buffers.idle_bytes() <= IDLE_BYTES_MIN);
        buffers.clear();
        assert_eq!(buffers.idle_bytes(), 0);
    }
}
