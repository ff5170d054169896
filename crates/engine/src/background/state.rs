//! What is queued, what runs, and the bell for those who wait for it.

use super::back_off::BackOff;
use super::ballast::Ballast;
use super::deletes::Deletes;
use super::groups::SealGroup;
use super::scrub::ScrubCounters;
use super::space::Spaces;
use flagstone_base::{Error, SeqNo, TreeId};
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_env::sync::{Condvar, Mutex, MutexGuard};
use flagstone_tree::Tree;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Who waits for callers looks again after this time.
const CALLERS_AGAIN: Duration = Duration::from_millis(10);

/// The queue of the background work and its counters.
#[derive(Default)]
pub(crate) struct Background {
    queue: Mutex<Queue>,
    bell: Condvar,
    /// Groups sealed and not yet installed, without those that must wait since a flush fails; read without the lock.
    pending: AtomicU64,
    /// Trees whose flush fails again and again.
    pub(super) stuck: AtomicU64,
    /// Since when the log is at its bound for them.
    pub(super) log_full_since: Mutex<Option<Duration>>,
    /// Callers that wait for flushes.
    waiters: AtomicU64,
    /// A job makes a spare segment of the log.
    pub(crate) preparing: AtomicBool,
    /// A job has the manifest grant more SeqNos, or waits to try again.
    pub(super) supplying: AtomicBool,
    /// From this SeqNo on it should.
    pub(super) raise_at: AtomicU64,
    /// Nothing queued will ever run: the database is closed.
    stopped: AtomicBool,
    /// When a flush ended last, in nanoseconds of the monotonic clock; 0: never.
    last_flush: AtomicU64,
    pub(crate) ballast: Ballast,
    pub(super) deletes: Deletes,
    pub(crate) scrub: ScrubCounters,
    /// Since when the disk is full.
    pub(crate) full_since: Mutex<Option<Duration>>,
    /// A job waits to look whether writers rest.
    pub(crate) settling: AtomicBool,
    /// Bytes of all tables that are installed.
    table_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) stall_nanos: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) groups: VecDeque<SealGroup>,
    /// The number of the group that is being flushed.
    pub(super) running: Option<u64>,
    /// That one holds unlogged writes.
    pub(super) runs_unlogged: bool,
    /// Trees that are being compacted.
    pub(crate) compacting: HashSet<TreeId>,
    /// How many of them a caller asked for: they take the place of no others.
    pub(crate) compacting_for_callers: usize,
    /// Steps of compactions that callers do right now.
    caller_steps: usize,
    /// Trees that changed since a compaction was last looked for in vain.
    pub(crate) watched: BTreeMap<TreeId, Arc<Tree>>,
    /// Trees in which another compaction may be found when writers rest.
    pub(crate) until_rest: BTreeMap<TreeId, Arc<Tree>>,
    /// Trees in which another compaction may be found when nobody reads at this SeqNo any more, or at an older one.
    pub(crate) held_back: BTreeMap<(SeqNo, TreeId), Arc<Tree>>,
    /// Trees whose compactions fail.
    pub(crate) failing: HashMap<TreeId, BackOff>,
    /// Trees that need a compaction and can have none, and the damage that is in the way.
    pub(crate) blocked: HashMap<TreeId, Error>,
    /// Trees whose writers are held back, and how much: [`Tree::brake`].
    pub(crate) brakes: HashMap<TreeId, u32>,
    /// A flush failed for a reason that concerns all, as a full disk does.
    pub(super) rest_of_flushes: Option<BackOff>,
    /// What all trees hold, and what of it is alive.
    pub(crate) spaces: Spaces,
    /// Trees being compacted for space, and what that will free.
    pub(crate) freeing: HashMap<TreeId, u64>,
    /// How many groups were sealed, and how many of them are installed.
    pub(crate) sealed: u64,
    pub(crate) installed: u64,
    /// Attempts of flushes that failed.
    pub(crate) flush_failures: u64,
}

impl Background {
    pub(crate) fn new(ballast: Ballast) -> Self {
        Self { ballast, ..Self::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Whether sealed memtables wait for their flush.
    #[inline]
    pub(crate) fn is_flush_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Whether a caller waits for sealed memtables to be flushed.
    pub(super) fn is_flush_awaited(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }

    /// Counts the caller among those who wait for flushes, until it drops what it gets.
    pub(super) fn await_flushes(&self) -> FlushWaiter<'_> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        FlushWaiter(self)
    }

    pub(crate) fn push(&self, group: SealGroup) {
        let mut queue = self.queue.lock();
        queue.sealed += 1;
        let number = queue.sealed;
        queue.groups.push_back(SealGroup { number, ..group });
        self.recount(&queue);
    }

    /// After a change of the groups in `queue`.
    pub(super) fn recount(&self, queue: &Queue) {
        self.pending.store(queue.pending(), Ordering::Relaxed);
        let stuck = queue.lasting_groups().map(|(group, _)| group.trees.len() as u64).sum();
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    /// The tables of a tree took `before` bytes, and take `after` now.
    pub(crate) fn note_table_bytes(&self, before: u64, after: u64) {
        // Each tree's own bytes are part of the sum, so it never wraps for good.
        self.table_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Bytes of all tables.
    pub(super) fn table_bytes(&self) -> u64 {
        self.table_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn note_flush(&self, now: Duration) {
        self.last_flush.store((now.as_nanos() as u64).max(1), Ordering::Relaxed);
    }

    /// How long ago a flush ended; `None`: none ever did.
    pub(crate) fn since_flush(&self, now: Duration) -> Option<Duration> {
        let last = self.last_flush.load(Ordering::Relaxed);
        (last > 0).then(|| now.saturating_sub(Duration::from_nanos(last)))
    }

    /// No job runs from now on: whoever waits for one must give up.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.ring();
    }

    /// Counts a step that a caller does of a compaction, until it drops what it gets; `None` when nothing may run any more.
    pub(super) fn begin_caller_step(&self) -> Option<CallerStep<'_>> {
        let mut queue = self.queue.lock();
        if self.is_stopped() {
            return None;
        }
        queue.caller_steps += 1;
        Some(CallerStep(self))
    }

    /// After [`Background::stop`]: waits until no caller writes a file any more.
    pub(crate) fn wait_for_callers(&self) {
        let mut queue = self.queue.lock();
        while queue.caller_steps > 0 {
            self.wait(&mut queue, CALLERS_AGAIN);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Wakes everybody who waits for background work.
    pub(crate) fn ring(&self) {
        let _queue = self.queue.lock();
        self.bell.notify_all();
    }

    /// Waits for the bell, at most for `limit`.
    pub(crate) fn wait(&self, queue: &mut MutexGuard<'_, Queue>, limit: Duration) {
        self.bell.wait_for(queue, limit);
    }
}

/// A caller that waits for flushes.
pub(super) struct FlushWaiter<'a>(&'a Background);

impl Drop for FlushWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A step of a compaction that a caller does.
pub(super) struct CallerStep<'a>(&'a Background);

impl Drop for CallerStep<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().caller_steps -= 1;
        self.0.ring();
    }
}
