//! A pair of barriers of which one is nearly free: for protocols whose one side works all the time and whose other one
//! comes seldom.
#![cfg_attr(
    all(target_os = "linux", not(miri)),
    expect(unsafe_code, reason = "a system call without a safe wrapper")
)]

use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// The system makes heavy barriers, so light ones need no instruction.
static IS_FREE: AtomicBool = AtomicBool::new(false);

/// Asks the system once whether it makes heavy barriers, so that light ones are free from then on. May take milliseconds.
pub fn prepare_barriers() {
    if system::is_there() {
        IS_FREE.store(true, Ordering::Relaxed);
    }
}

/// Of two threads of which each stores, has a barrier, and loads what the other one stored, at least one sees the other's
/// store, if one of the barriers is a [heavy](heavy_barrier) one. A full barrier, which takes as long as a step of a scan,
/// before [`prepare_barriers`], and where the system makes no heavy ones.
#[inline]
pub fn light_barrier() {
    match IS_FREE.load(Ordering::Relaxed) {
        true => compiler_fence(Ordering::SeqCst),
        false => fence(Ordering::SeqCst),
    }
}

/// The other side of [`light_barrier`]: makes all threads of the process run a full barrier. Takes microseconds. False
/// when the system refused: then there was no barrier.
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

    /// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, and what a process says once before it.
    const BARRIER: i64 = 1 << 3;
    const REGISTER: i64 = 1 << 4;

    fn call(command: i64) -> bool {
        // SAFETY: the call takes three integers and touches no memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0_i64, 0_i64) == 0 }
    }

    /// The answer is the same for the life of a process, so both sides always mean the same pair of barriers.
    pub(super) fn is_there() -> bool {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        *IS_THERE.get_or_init(|| call(REGISTER) && call(BARRIER))
    }

    pub(super) fn barrier() -> bool {
        // A process that was forked has to register again.
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
