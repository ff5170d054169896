//! How the memory budget is divided between memtables and the block cache.
//!
//! ```text
//! | memtables .. up to half | a step to grow | indexes, filters, blocks: the rest of 7/8 | 1/8 |
//! ```
//! Memtables take what writes need; the cache has the rest, so a database that is only read caches
//! more than twice as much as one with full memtables. The last eighth is for compactions, for
//! memory of blocks that waits for the next ones, and for what allocators round up. The border moves in
//! steps: up by the commit that crosses it, down when an edit was installed, and at once when writers
//! rest.

use crate::shared::Shared;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_env::{Lane, Progress};

/// The border moves up by one part in so many of the budget: evicting one step of 16 KiB blocks takes
/// a commit's thread well below a millisecond at 512 MiB.
const STEPS: u64 = 64;
/// Down it moves by one part in so many of what is free, so that it hardly moves while memtables
/// fill and are flushed by turns.
const DOWN: u64 = 4;
/// Memory that the cache gave up goes back to the system when it is one part in so many.
const GIVE_BACK: u64 = 16;
/// And not less than this: the call walks the whole heap.
const GIVE_BACK_MIN: u64 = 16 << 20;

/// Where the border stands.
#[derive(Default)]
pub(crate) struct Division {
    /// Memtables may grow to this many bytes before the cache must shrink.
    memtables: AtomicU64,
    /// Held while the border moves.
    moving: Mutex<()>,
    /// The most bytes the cache held since freed memory was last given back to the system.
    cached_most: AtomicU64,
    /// A job will give memory back.
    is_giving_back: AtomicBool,
}

impl Shared {
    /// Makes room for memtables that hold `bytes`. Called after every commit: cheap unless they have
    /// crossed the border.
    #[inline]
    pub(crate) fn divide_if_needed(&self, bytes: u64) {
        // Whoever moves the border already sees these bytes, or the next commit asks again.
        if bytes > self.division.memtables.load(Ordering::Relaxed)
            && !self.division.moving.is_locked()
        {
            self.divide_memory();
            if self.has_memory_to_give_back() {
                self.give_back_memory_soon();
            }
        }
    }

    /// Moves the border to where memtables that hold what they hold now have a step to grow.
    #[cold]
    pub(crate) fn divide_memory(&self) {
        self.divide(DOWN);
    }

    /// Moves the border down at once: writers rest.
    pub(crate) fn give_memory_to_readers(&self) {
        self.divide(1);
        self.give_back_memory();
    }

    fn divide(&self, down: u64) {
        let _moving = self.division.moving.lock();
        let step = (self.options.memory_budget / STEPS).max(1);
        let held = self.memtable_bytes();
        let wanted = (held / step + 2) * step;
        let before = self.division.memtables.load(Ordering::Relaxed);
        let room = wanted.max(before - before.saturating_sub(wanted) / down);
        self.division.memtables.store(room, Ordering::Relaxed);
        let cache = &self.trees.cache;
        self.division.cached_most.fetch_max(cache.used_bytes(), Ordering::Relaxed);
        // Chunks that wait for the next memtable are memory too, but not more than that needs.
        self.trees.chunks.shrink_to(room.saturating_sub(held));
        let reserved = room.max(held + self.trees.chunks.bytes());
        cache.set_capacity(self.options.cache_bytes(reserved));
    }

    /// Lets blocks and spare chunks go, since the database is closed: the allocator would keep them for
    /// whoever asks next from the threads that read here.
    pub(crate) fn let_memory_go(&self) {
        let cache = &self.trees.cache;
        self.division.cached_most.fetch_max(cache.used_bytes(), Ordering::Relaxed);
        cache.clear();
        self.trees.chunks.shrink_to(0);
        self.give_back_memory();
    }

    /// Memtables that grow take from the cache what the allocator keeps for blocks: until it is given
    /// back the process holds it twice.
    fn give_back_memory_soon(&self) {
        if self.division.is_giving_back.swap(true, Ordering::AcqRel) {
            return;
        }
        let job = self.job(|shared| {
            shared.division.is_giving_back.store(false, Ordering::Release);
            shared.give_back_memory();
            Progress::Done
        });
        self.executor.submit(Lane::Flush, job);
    }

    fn has_memory_to_give_back(&self) -> bool {
        self.division.cached_most.load(Ordering::Relaxed) >= self.gives_back_from()
    }

    /// Memory goes back when the cache held as much before.
    fn gives_back_from(&self) -> u64 {
        let part = (self.options.memory_budget / GIVE_BACK).max(GIVE_BACK_MIN);
        self.trees.cache.used_bytes() + part
    }

    /// Gives memory that the cache gave up back to the system. Takes milliseconds: for background
    /// threads.
    pub(crate) fn give_back_memory(&self) {
        let (most, from) = (&self.division.cached_most, self.gives_back_from());
        let held = most.load(Ordering::Relaxed);
        let used = self.trees.cache.used_bytes();
        // One thread does it.
        if held >= from
            && most.compare_exchange(held, used, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.trees.cache.release_idle();
            flagstone_env::os::trim_memory();
        }
    }
}
