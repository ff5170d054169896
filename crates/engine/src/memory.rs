//! How the memory budget is divided between memtables and the block cache.
//!
//! ```text
//! | memtables .. up to half | a step to grow | indexes, filters, blocks: the rest of 7/8 | 1/8 |
//! ```
//! Memtables take what writes need, and the cache has the rest. So a database that is only read
//! caches more than twice as much as one with full memtables. The last eighth is for compactions,
//! for memory of blocks that is kept for the next ones, and for gaps between allocations. The
//! border moves in steps: up by the commit that crosses it, down when an edit was installed, and
//! all the way down when writers become idle.

use crate::health::Health;
use crate::setup::job_of;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_env::{Lane, Progress};
use flagstone_tree::TreeContext;
use std::sync::Arc;

/// The border moves up by one part in this many of the budget. Evicting one step of 16 KiB blocks
/// takes a commit's thread well below a millisecond at 512 MiB.
const STEPS: u64 = 64;
/// The border moves down by one part in this many of what is free, so that it hardly moves while
/// memtables fill and are flushed by turns.
const DOWN: u64 = 4;
/// Memory that the cache gave up is returned to the system when it is at least one part in this
/// many of the budget ..
const GIVE_BACK: u64 = 16;
/// .. and at least this many bytes: the call walks the whole heap, and all blocks of the cache.
const GIVE_BACK_MIN: u64 = 16 << 20;

/// The memory of memtables and cache, and the border between them.
pub(crate) struct Memory {
    health: Arc<Health>,
    trees: Arc<TreeContext>,
    /// Bytes of all memtables.
    memtables: Arc<AtomicU64>,
    /// Memtables may grow to this many bytes before the cache must shrink.
    border: AtomicU64,
    /// Held while the border moves.
    moving: Mutex<()>,
    /// The most bytes that the cache held since freed memory was last returned to the system.
    cached_most: AtomicU64,
    /// A job that returns memory to the system is scheduled.
    is_giving_back: AtomicBool,
}

impl Memory {
    pub(crate) fn new(health: &Arc<Health>, trees: &Arc<TreeContext>) -> Arc<Self> {
        Arc::new(Self {
            health: Arc::clone(health),
            trees: Arc::clone(trees),
            memtables: Arc::clone(&trees.memtable_bytes),
            border: AtomicU64::new(0),
            moving: Mutex::default(),
            cached_most: AtomicU64::new(0),
            is_giving_back: AtomicBool::new(false),
        })
    }

    /// Bytes of all memtables.
    #[inline]
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.memtables.load(Ordering::Relaxed)
    }

    /// Returns whether memtables that hold `bytes` have crossed the border. Called after every
    /// commit.
    #[inline]
    pub(crate) fn is_crossed(&self, bytes: u64) -> bool {
        // A thread that moves the border already counts these bytes, or the next commit checks
        // again.
        bytes > self.border.load(Ordering::Relaxed) && !self.moving.is_locked()
    }

    /// Makes room for memtables that have crossed the border.
    pub(crate) fn make_room(self: &Arc<Self>) {
        self.move_border();
        if self.has_memory_to_give_back() {
            self.give_back_soon();
        }
    }

    /// Moves the border to where memtables have a step to grow.
    #[cold]
    pub(crate) fn move_border(&self) {
        self.move_border_by(DOWN);
    }

    /// Moves the border all the way down, since writers are idle.
    pub(crate) fn give_to_readers(&self) {
        self.move_border_by(1);
        self.give_back();
    }

    fn move_border_by(&self, down: u64) {
        let _moving = self.moving.lock();
        let step = (self.health.setup.options.memory_budget / STEPS).max(1);
        let held = self.memtable_bytes();
        let wanted = (held / step + 2) * step;
        let before = self.border.load(Ordering::Relaxed);
        let border = wanted.max(before - before.saturating_sub(wanted) / down);
        self.border.store(border, Ordering::Relaxed);
        let cache = &self.trees.cache;
        self.cached_most.fetch_max(cache.used_bytes(), Ordering::Relaxed);
        // Chunks that are kept for the next memtable are memory, too, but no more of it than that
        // needs.
        self.trees.chunks.shrink_to(border.saturating_sub(held));
        let reserved = border.max(held + self.trees.chunks.bytes());
        cache.set_capacity(self.health.setup.options.cache_bytes(reserved));
    }

    /// Frees blocks and spare chunks after a close. Otherwise the allocator would keep their memory
    /// for the next allocation of the threads that have read here.
    pub(crate) fn release_all(&self) {
        let cache = &self.trees.cache;
        self.cached_most.fetch_max(cache.used_bytes(), Ordering::Relaxed);
        cache.clear();
        self.trees.chunks.shrink_to(0);
        self.give_back();
    }

    /// Returns memory in the background. Memtables that grow reduce the cache, but the allocator
    /// keeps its memory for blocks: until that is returned the process holds it twice.
    fn give_back_soon(self: &Arc<Self>) {
        if self.is_giving_back.swap(true, Ordering::AcqRel) {
            return;
        }
        let job = job_of(self, |memory| {
            memory.is_giving_back.store(false, Ordering::Release);
            memory.give_back();
            Progress::Done
        });
        self.health.setup.executor.submit(Lane::Flush, job);
    }

    fn has_memory_to_give_back(&self) -> bool {
        self.cached_most.load(Ordering::Relaxed) >= self.gives_back_from()
    }

    /// Memory is returned if the cache once held at least this many bytes.
    fn gives_back_from(&self) -> u64 {
        let part = (self.health.setup.options.memory_budget / GIVE_BACK).max(GIVE_BACK_MIN);
        self.trees.cache.used_bytes() + part
    }

    /// Returns memory that the cache gave up to the system. Takes milliseconds: for background
    /// threads.
    pub(crate) fn give_back(&self) {
        let (most, from) = (&self.cached_most, self.gives_back_from());
        let held = most.load(Ordering::Relaxed);
        let used = self.trees.cache.used_bytes();
        // Only one thread does it.
        if held >= from
            && most.compare_exchange(held, used, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.trees.cache.release_idle();
            self.cached_most.store(self.trees.cache.used_bytes(), Ordering::Relaxed);
            flagstone_env::os::trim_memory();
        }
    }
}
