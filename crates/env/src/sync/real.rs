//! The real locks, atomics and pointers, for production.

pub use super::barrier::{heavy_barrier, light_barrier, prepare_barriers};
pub use arc_swap::{ArcSwap, ArcSwapOption, Guard};
pub use parking_lot::{
    Condvar, FairMutex, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub use std::thread_local;

/// The atomics of the standard library.
pub mod atomic {
    pub use std::sync::atomic::*;
}

/// The locks of the standard library, whose condition variables wake a whole group with one system
/// call.
pub mod blocking {
    pub use std::sync::{Condvar, Mutex, MutexGuard};
}

/// The number of times that a loop checks again before it yields: `real` here, 1 in a model, where
/// nothing changes between two checks without a switch of threads.
pub const fn spins(real: usize) -> usize {
    real
}

/// Tells the processor that the thread waits in a loop.
#[inline]
pub fn spin_loop() {
    std::hint::spin_loop();
}

/// Lets other threads run.
#[inline]
pub fn yield_now() {
    std::thread::yield_now();
}

/// A point at which a model may switch threads. Does nothing here.
#[inline]
pub fn model_point() {}
