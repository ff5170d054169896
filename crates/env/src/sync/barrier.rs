//! A pair of memory barriers of which one is nearly free, for protocols with one frequent and one
//! rare side.
#![cfg_attr(
    all(target_os = "linux", not(miri)),
    expect(unsafe_code, reason = "a system call without a safe wrapper")
)]

use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// The system provides heavy barriers, so light ones need no instruction.
static IS_FREE: AtomicBool = AtomicBool::new(false);

/// Asks the system once whether it provides heavy barriers; if so, light ones are free from then
/// on. May take milliseconds.
pub fn prepare_barriers() {
    if system::is_there() {
        IS_FREE.store(true, Ordering::Relaxed);
    }
}

/// The frequent side's barrier. If two threads each store, run a barrier, and load what the other
/// one stored, and one of the barriers is a [heavy](heavy_barrier) one, then at least one thread
/// sees the other's store. Before [`prepare_barriers`], and on systems without heavy barriers, this
/// is a full barrier, which takes as long as a step of a scan.
#[inline]
pub fn light_barrier() {
    if IS_FREE.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst)
    } else {
        fence(Ordering::SeqCst)
    }
}

/// The rare side's barrier, for the other side of [`light_barrier`]: makes all threads of the
/// process run a full barrier. Takes microseconds. Returns false when the system refused, and then
/// there was no barrier.
#[must_use]
pub fn heavy_barrier() -> bool {
    if system::is_there() {
        return system::barrier();
    }
    fence(Ordering::SeqCst);
    true
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use std::sync::OnceLock;

    /// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, and the command with which a process registers once
    /// before its first use.
    const BARRIER: i64 = 1 << 3;
    const REGISTER: i64 = 1 << 4;

    fn call(command: i64) -> bool {
        // SAFETY: the call takes three integers and touches no memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0_i64, 0_i64) == 0 }
    }

    /// Returns whether the system provides heavy barriers. The result is constant in a process, so
    /// both sides always use the same pair of barriers.
    pub(super) fn is_there() -> bool {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        *IS_THERE.get_or_init(|| call(REGISTER) && call(BARRIER))
    }

    pub(super) fn barrier() -> bool {
        // A forked process must register again.
        call(BARRIER) || (call(REGISTER) && call(BARRIER))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    pub(super) const fn is_there() -> bool {
        false
    }

    pub(super) const fn barrier() -> bool {
        false
    }
}
