//! Queued and running work under one lock, and counters that are read without it.

use super::back_off::BackOff;
use super::garbage::Spaces;
use super::groups::{Flushes, SealGroup};
use crate::health::Health;
use flagstone_base::sorted::SortedMap;
use flagstone_base::{Error, Result, SeqNo, TreeId};
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_env::sync::{Mutex, MutexGuard};
use flagstone_tree::Tree;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How often a close checks whether callers still run steps of compactions.
const CALLERS_AGAIN: Duration = Duration::from_millis(10);
/// A waiter checks again after this time even without a notification.
const RECHECK_AFTER: Duration = Duration::from_millis(50);

/// The queue of the background work and its counters.
pub(crate) struct Work {
    health: Arc<Health>,
    queue: Mutex<Queue>,
    /// Groups that were sealed and not yet installed, without those that pause because a flush
    /// fails. Read without the lock.
    pending: AtomicU64,
    /// Trees whose flush keeps failing.
    stuck: AtomicU64,
    /// Callers that wait for flushes.
    waiters: AtomicU64,
    /// Nothing queued will ever run: the database is closed.
    stopped: AtomicBool,
    /// When the last flush ended, in nanoseconds of the monotonic clock; 0 if none has.
    last_flush: AtomicU64,
    /// When the last flush began, in the same nanoseconds, and how long the last complete one took.
    flush_began: AtomicU64,
    flush_took: AtomicU64,
    /// Bytes of all installed tables.
    table_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) flushes: Flushes,
    /// Trees that are being compacted.
    pub(crate) compacting: HashSet<TreeId>,
    /// The number of these trees that a caller compacts: they occupy no worker.
    pub(crate) compacting_for_callers: usize,
    /// Steps of compactions that callers run right now.
    caller_steps: usize,
    /// Trees that have changed since the last search for a compaction found nothing.
    pub(crate) watched: BTreeMap<TreeId, Arc<Tree>>,
    /// Trees in which another compaction may be found when writers are idle.
    pub(crate) until_idle: BTreeMap<TreeId, Arc<Tree>>,
    /// Trees in which another compaction may be found when no snapshot at this SeqNo or an older
    /// one is left.
    pub(crate) held_back: SortedMap<(SeqNo, TreeId), Arc<Tree>>,
    /// Trees whose compactions fail.
    pub(crate) failing: HashMap<TreeId, BackOff>,
    /// Trees that need a compaction that damage makes impossible, and the damage.
    pub(crate) blocked: HashMap<TreeId, Error>,
    /// Trees whose writers are slowed, and how much: [`Tree::stall_fill`].
    pub(crate) fills: HashMap<TreeId, u32>,
    /// The bytes of all trees, and the live part of them.
    pub(crate) spaces: Spaces,
    /// Trees being compacted for space, and the bytes that this will free.
    pub(crate) freeing: HashMap<TreeId, u64>,
}

impl Queue {
    /// Trees that could free space now, the one with the largest part of garbage first.
    pub(crate) fn candidates(&self) -> Vec<Arc<Tree>> {
        let is_pausing =
            |id: &TreeId| self.failing.get(id).is_some_and(|back_off| back_off.is_pausing);
        self.spaces.candidates(|id| !self.compacting.contains(id) && !is_pausing(id))
    }
}

impl Work {
    pub(crate) fn new(health: &Arc<Health>) -> Self {
        Self {
            health: Arc::clone(health),
            queue: Mutex::default(),
            pending: AtomicU64::new(0),
            stuck: AtomicU64::new(0),
            waiters: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            last_flush: AtomicU64::new(0),
            flush_began: AtomicU64::new(0),
            flush_took: AtomicU64::new(0),
            table_bytes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            compactions: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Returns whether sealed memtables wait for their flush.
    #[inline]
    pub(crate) fn is_flush_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Returns whether a caller waits for flushes.
    pub(crate) fn is_flush_awaited(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }

    /// Counts the caller among those that wait for flushes until the result is dropped.
    pub(crate) fn await_flushes(&self) -> FlushWaiter<'_> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        FlushWaiter(self)
    }

    pub(crate) fn push(&self, group: SealGroup) {
        let mut queue = self.queue.lock();
        queue.flushes.push(group);
        self.recount(&queue);
    }

    /// The number of trees whose flush keeps failing.
    pub(crate) fn stuck(&self) -> u64 {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Updates the counters after a change of the groups in `queue`.
    pub(crate) fn recount(&self, queue: &Queue) {
        self.pending.store(queue.flushes.pending(), Ordering::Relaxed);
        let stuck = queue.flushes.lasting_groups().map(|(group, _)| group.trees.len() as u64).sum();
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Notes that the tables of a tree took `before` bytes, and take `after` now.
    pub(crate) fn note_table_bytes(&self, before: u64, after: u64) {
        // Each tree's own bytes are part of the sum, so it never wraps for good.
        self.table_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// The bytes of all tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn note_flush_began(&self, now: Duration) {
        self.flush_began.store(now.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_flush(&self, now: Duration) {
        let now = now.as_nanos() as u64;
        let took = now.saturating_sub(self.flush_began.load(Ordering::Relaxed));
        self.flush_took.store(took, Ordering::Relaxed);
        self.last_flush.store(now.max(1), Ordering::Relaxed);
    }

    /// How long the running flush will still take, if it takes as long as the one before.
    pub(crate) fn left_of_flush(&self, now: Duration) -> Duration {
        let began = self.flush_began.load(Ordering::Relaxed);
        let end = began + self.flush_took.load(Ordering::Relaxed);
        Duration::from_nanos(end).saturating_sub(now)
    }

    /// How long ago a flush ended; `None` if none ever did.
    pub(crate) fn since_flush(&self, now: Duration) -> Option<Duration> {
        let last = self.last_flush.load(Ordering::Relaxed);
        (last > 0).then(|| now.saturating_sub(Duration::from_nanos(last)))
    }

    /// Stops all jobs for good. Threads that wait for one must give up.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.notify_all();
    }

    /// Counts a step of a compaction that a caller runs until the result is dropped. Returns `None`
    /// when nothing may run any more.
    pub(crate) fn begin_caller_step(&self) -> Option<CallerStep<'_>> {
        let mut queue = self.queue.lock();
        if self.is_stopped() {
            return None;
        }
        queue.caller_steps += 1;
        Some(CallerStep(self))
    }

    /// Waits, after [`Work::stop`], until no caller writes a file any more.
    pub(crate) fn wait_for_callers(&self) {
        loop {
            let seen = self.health.waiters.generation();
            if self.queue.lock().caller_steps == 0 {
                return;
            }
            self.health.waiters.wait(seen, CALLERS_AGAIN);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Returns the error `closed` if a close has dropped the jobs that the caller would wait for.
    pub(crate) fn check_runs(&self, closed: impl FnOnce() -> Error) -> Result<()> {
        if self.is_stopped() { Err(closed()) } else { Ok(()) }
    }

    /// Wakes all who wait for background work.
    pub(crate) fn notify_all(&self) {
        self.health.waiters.notify_all();
    }

    /// Waits briefly for a notification if `should_wait` holds under the queue's lock.
    pub(crate) fn wait_if(&self, should_wait: impl Fn(&Queue) -> bool) {
        let seen = self.health.waiters.generation();
        if should_wait(&self.lock()) {
            self.health.waiters.wait(seen, RECHECK_AFTER);
        }
    }
}

/// A caller that waits for flushes.
pub(crate) struct FlushWaiter<'a>(&'a Work);

impl Drop for FlushWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A step of a compaction that a caller runs.
pub(crate) struct CallerStep<'a>(&'a Work);

impl Drop for CallerStep<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().caller_steps -= 1;
        self.0.notify_all();
    }
}
