//! Forked processes. A child of `os.fork` has the memory of its parent, but none of its threads: a
//! handle that it touched could wait for ever, or write the parent's log. So every handle knows in
//! which process it was made, and in another one it is neither used nor dropped.

use pyo3::prelude::*;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Called by Python in the child of a fork.
#[pyfunction]
pub(crate) fn _after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A value of the process that made it. In another process it is forgotten instead of dropped.
pub(crate) struct OfProcess<T> {
    value: Option<T>,
    generation: u32,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), generation: GENERATION.load(Ordering::Relaxed) }
    }

    /// Returns whether this is the process that made the value.
    pub(crate) fn is_here(&self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // Only `drop` takes the value.
        self.value.as_ref().unwrap_or_else(|| unreachable!("a value after its drop"))
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            std::mem::forget(self.value.take());
        }
    }
}
