//! The bytes of an admitted large write, counted until they are in a memtable.

use super::large::LARGE_WRITE;
use super::stall::Stall;
use super::throttle::Throttle;
use crate::bell::Bell;
use flagstone_env::sync::atomic::Ordering;

/// The admission of a large write. Its bytes are counted until this is dropped.
pub struct Admitted<'a> {
    stall: &'a Stall,
    bell: &'a Bell,
    pub(super) bytes: u64,
    /// The part of `bytes` that is also counted for an update.
    pub(super) updating: u64,
}

impl<'a> Admitted<'a> {
    /// The admission of `bytes` that are counted already.
    pub(super) fn of(throttle: &'a Throttle, bytes: u64) -> Self {
        Self { stall: &throttle.stall, bell: &throttle.health.writers, bytes, updating: 0 }
    }

    /// Raises the count to `bytes` if the write is longer than estimated. Later writes wait for the
    /// difference; this one does not.
    pub(crate) fn grow_to(&mut self, bytes: usize) {
        let more = (bytes as u64).saturating_sub(self.bytes);
        self.stall.large.bytes.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }

    /// Lowers the count to `bytes` if it is higher, and wakes the writers that wait for the
    /// difference.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        if less == 0 {
            return;
        }
        self.bytes -= less;
        // SeqCst: either the waiting writer sees the new sum, or this thread sees the waiting
        // writer.
        self.stall.large.bytes.fetch_sub(less, Ordering::SeqCst);
        if self.stall.awaiting.load(Ordering::SeqCst) > 0 {
            self.bell.ring();
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        // The memtables count the entry by now.
        self.stall.updates.bytes.fetch_sub(self.updating, Ordering::SeqCst);
        self.shrink_to(0);
    }
}

/// Counts a large write that must not wait. Later writes wait for it.
#[inline]
pub(super) fn count_write(throttle: &Throttle, bytes: usize) -> Option<Admitted<'_>> {
    (bytes >= LARGE_WRITE).then(|| {
        let mut admitted = Admitted::of(throttle, 0);
        admitted.grow_to(bytes);
        admitted
    })
}
