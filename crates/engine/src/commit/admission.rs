//! The admission of writes: each is delayed or stopped by `throttle`, and large writes take turns,
//! so that memtables and the large writes in flight stay within the memtables' share.
//!
//! ```text
//! admitted -> encoded -> log -> memtable -> released
//!          |------- counted in flight ----|
//! ```
//! Without turns, many threads that fit at the same moment could fill the memory several times
//! over. Small writes are not counted and never wait for a turn.
//!
//! An update learns the length of its value while it holds its key, and calls the user's function
//! once. A large write that was admitted may wait for that key. So an update waits only for flushes
//! and for other updates, which hold all they need. Later writes wait for both:
//!
//! ```text
//! memtables + updates <= share             what an update waits for
//! memtables + all large writes <= share    what any other large write waits for
//! ```
//! So both kinds together take at most twice the share. Merges that become values are no updates:
//! they wait before they hold their keys. See [`values`].

mod values;

use super::large::LARGE_WRITE;
use super::throttle::{hold_back, is_free, refusal, stop};
use crate::core::Core;
use crate::event::StallCause;
use crate::keyspace_core::Trees;
use crate::stall::Wait;
use crate::user_code::runs_user_code;
use flagstone_base::Result;
use flagstone_env::sync::FairMutex;
use flagstone_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

pub(super) use values::ValueAdmission;
pub(crate) use values::WriteAdmission;

/// After this many flushes a large write that is alone may exceed the share: small writes may have
/// taken all the room that the flushes made. A flush frees at least about one part in this many of
/// the share.
const PATIENCE: u64 = 64;

/// Admits writes.
pub(crate) struct Admission {
    core: Arc<Core>,
    /// All large writes.
    large: Turns,
    /// The large writes that are updates: they hold their keys.
    updates: Turns,
    /// The number of writers that are first in a queue and wait.
    awaiting: AtomicU32,
}

/// Whether flushes may still make room for a writer.
#[derive(Clone, Copy)]
enum Room {
    Expected,
    Hopeless,
}

/// Writers that take turns.
#[derive(Default)]
struct Turns {
    /// Bytes of those that were admitted and are not in a memtable yet.
    bytes: AtomicU64,
    /// Held by the writer that is first in the queue.
    first: FairMutex<()>,
}

/// The admission of a large write. Its bytes are counted until this is dropped.
pub struct Admitted<'a> {
    admission: &'a Admission,
    bytes: u64,
    /// The part of `bytes` that is also counted for an update.
    updating: u64,
}

impl Admission {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let (large, updates) = (Turns::default(), Turns::default());
        Self { core: Arc::clone(core), large, updates, awaiting: AtomicU32::new(0) }
    }

    /// Waits until a write of `bytes` may begin. If it may not `wait`, returns Busy instead of
    /// stopping. A large write keeps its admission until it is in its memtable. `trees` returns the
    /// trees that are written; it is called only if somebody must wait.
    #[inline]
    pub(crate) fn admit<'t>(
        &self,
        bytes: usize,
        wait: Wait,
        trees: impl FnOnce() -> Trees<'t>,
    ) -> Result<Option<Admitted<'_>>> {
        self.admit_after(bytes, wait, trees).map(|(admitted, _)| admitted)
    }

    /// Like [`Admission::admit`] for a writer that does not wait. Also returns how long it should
    /// pause after the write.
    pub(crate) fn try_admit<'t>(
        &self,
        bytes: usize,
        trees: impl FnOnce() -> Trees<'t>,
    ) -> Result<(Option<Admitted<'_>>, Duration)> {
        self.admit_after(bytes, Wait::No, trees)
    }

    #[inline]
    fn admit_after<'t>(
        &self,
        bytes: usize,
        wait: Wait,
        trees: impl FnOnce() -> Trees<'t>,
    ) -> Result<(Option<Admitted<'_>>, Duration)> {
        self.core.health.check_may_write()?;
        let mut pause = Duration::ZERO;
        if !is_free(&self.core) {
            pause = hold_back(&self.core, &trees(), wait)?;
        }
        let is_small = bytes < LARGE_WRITE;
        Ok((if is_small { None } else { self.admit_large(bytes as u64, wait)? }, pause))
    }

    /// Admits large writes in their order of arrival, each as soon as it fits. Returns `None` for
    /// more bytes than a batch may have: the commit path refuses them.
    #[cold]
    fn admit_large(&self, bytes: u64, wait: Wait) -> Result<Option<Admitted<'_>>> {
        if bytes > self.core.setup().batch_bytes_max() {
            return Ok(None);
        }
        if runs_user_code() {
            // This thread holds the key of an update of another database. A writer that is admitted
            // here may wait for that key, so waiting for its bytes could deadlock.
            return Ok(self.count_large(bytes as usize));
        }
        let mut admitted = self.nothing();
        if wait == Wait::Yes {
            admitted.admit_again(bytes)?;
        } else if !admitted.try_grow_to(bytes) {
            return Err(refusal(&self.core, StallCause::Memory, bytes));
        }
        Ok(Some(admitted))
    }

    /// Admits an update, which holds its key. Returns `None` for a small one. If it may not `wait`,
    /// returns Busy instead. An update of more bytes than a batch may have does not wait: the
    /// commit path refuses it.
    #[inline]
    pub(crate) fn admit_update(&self, bytes: usize, wait: Wait) -> Result<Option<Admitted<'_>>> {
        // Counted from here on: later writes wait for it.
        let Some(mut admitted) = self.count_large(bytes) else { return Ok(None) };
        let bytes = admitted.bytes;
        if bytes <= self.core.setup().batch_bytes_max() {
            if wait == Wait::Yes {
                self.take_turn(&self.updates, bytes)?;
            } else if !self.try_count(&self.updates, bytes, Room::Expected) {
                return Err(refusal(&self.core, StallCause::Memory, bytes));
            }
            admitted.updating = bytes;
        }
        Ok(Some(admitted))
    }

    /// Counts a large write that must not wait. Later writes wait for it.
    #[inline]
    fn count_large(&self, bytes: usize) -> Option<Admitted<'_>> {
        (bytes >= LARGE_WRITE).then(|| {
            let mut admitted = self.nothing();
            admitted.grow_to(bytes);
            admitted
        })
    }

    /// The admission of no bytes.
    pub(super) const fn nothing(&self) -> Admitted<'_> {
        Admitted { admission: self, bytes: 0, updating: 0 }
    }

    /// Waits until `bytes` fit beside the memtables and what `turns` counts, and counts them there.
    #[cold]
    fn take_turn(&self, turns: &Turns, bytes: u64) -> Result<()> {
        let core = &self.core;
        let _first = turns.first.try_lock().unwrap_or_else(|| {
            let started = core.setup().now();
            let first = turns.first.lock();
            core.stall.note_waited(core.setup().now() - started);
            first
        });
        if self.try_count(turns, bytes, Room::Expected) {
            return Ok(());
        }
        let installed = core.work.lock().flushes.installed;
        let check = || {
            let room = self.room_after(installed);
            Ok(self.try_count(turns, bytes, room).then_some(()))
        };
        self.awaiting.fetch_add(1, Ordering::SeqCst);
        let admitted = stop(core, StallCause::Memory, check);
        self.awaiting.fetch_sub(1, Ordering::SeqCst);
        admitted
    }

    /// Returns what a writer may hope for that waits since flush number `installed`. It is nothing
    /// if flushes fail, or other writers have taken all the room that many flushes made.
    fn room_after(&self, installed: u64) -> Room {
        let work = &self.core.work;
        let queue = work.lock();
        let is_failing = work.stuck() > 0 || queue.flushes.pause.is_some();
        let is_hopeless = is_failing || queue.flushes.installed >= installed + PATIENCE;
        if is_hopeless { Room::Hopeless } else { Room::Expected }
    }

    /// Counts `bytes` in `turns` if they may pass.
    fn try_count(&self, turns: &Turns, bytes: u64, room: Room) -> bool {
        let share = self.core.setup().options.memtable_share();
        let more = |others: u64| {
            // Read after `others`: a write that is no longer in that sum is in the memtables by
            // now.
            let held = self.core.memory.memtable_bytes();
            let sum = others.saturating_add(bytes);
            may_pass(others, sum, held, share, room).then_some(sum)
        };
        turns.bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }
}

/// Returns whether a write is admitted. `sum` counts the bytes in flight with it, `others` those
/// without it. The memtables hold `held` bytes of their `share`. The largest write takes half of
/// the share, and flushes run until the memtables are half empty, so every write that is alone fits
/// in the end. If there is no hope of that, one write may exceed the share while the memtables are
/// within it.
const fn may_pass(others: u64, sum: u64, held: u64, share: u64, room: Room) -> bool {
    let is_hopeless = matches!(room, Room::Hopeless);
    held.saturating_add(sum) <= share || (others == 0 && is_hopeless && held < share)
}

impl Admitted<'_> {
    /// The bytes that are counted.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back all that is counted, then waits until `bytes` fit. What waits holds nothing that
    /// others wait for.
    fn admit_again(&mut self, bytes: u64) -> Result<()> {
        self.shrink_to(0);
        self.admission.take_turn(&self.admission.large, bytes)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Raises the count to `bytes` if they fit now and no other write waits. Returns whether it
    /// did.
    fn try_grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let is_next = self.admission.awaiting.load(Ordering::SeqCst) == 0;
        let has_grown =
            is_next && self.admission.try_count(&self.admission.large, more, Room::Expected);
        if has_grown {
            self.bytes += more;
        }
        has_grown
    }

    /// Raises the count to `bytes` if the write is longer than estimated. Later writes wait for the
    /// difference; this one does not.
    pub(crate) fn grow_to(&mut self, bytes: usize) {
        let more = (bytes as u64).saturating_sub(self.bytes);
        self.admission.large.bytes.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }

    /// Lowers the count to `bytes` if it is higher, and wakes the writers that wait for the
    /// difference.
    fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        if less == 0 {
            return;
        }
        self.bytes -= less;
        // SeqCst: either the waiting writer sees the new sum, or this thread sees the waiting
        // writer.
        self.admission.large.bytes.fetch_sub(less, Ordering::SeqCst);
        if self.admission.awaiting.load(Ordering::SeqCst) > 0 {
            self.admission.core.health.writers.notify_all();
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        // The memtables count the entry by now.
        self.admission.updates.bytes.fetch_sub(self.updating, Ordering::SeqCst);
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests;
