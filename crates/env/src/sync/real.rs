//! What production runs on.

pub use super::barrier::{heavy_barrier, light_barrier, prepare_barriers};
pub use arc_swap::{ArcSwap, ArcSwapOption, Guard};
pub use parking_lot::{
    Condvar, FairMutex, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub use std::thread_local;

/// Atomics.
pub mod atomic {
    pub use std::sync::atomic::*;
}

/// Locks of the standard library, whose bells wake a whole group by one system call.
pub mod blocking {
    pub use std::sync::{Condvar, Mutex, MutexGuard};
}

/// How often a loop looks again before it gives way: `real` times here, once in a model, where looking
/// again without a change of thread finds nothing new.
pub const fn spins(real: usize) -> usize {
    real
}

/// Tells the processor that a loop waits.
#[inline]
pub fn spin_loop() {
    std::hint::spin_loop();
}

/// Lets other threads run.
#[inline]
pub fn yield_now() {
    std::thread::yield_now();
}

/// A moment at which a model may change threads; nothing here.
#[inline]
pub fn model_point() {}
