//! Measures the peak memory of a piece of work, by an allocator that counts. A test binary installs
//! it.
//!
//! ```
//! use flagstone_testkit::memory::{Counting, peak};
//!
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//!
//! let (vec, bytes) = peak(|| vec![0_u8; 1000]);
//! assert!(vec.len() == 1000 && bytes == Some(1000));
//! ```

#![allow(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a count for each thread. Memory that another thread frees is not
/// subtracted.
pub struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn note(change: isize) {
    // A thread that ends still frees memory after these are destroyed.
    let _ended = NOW.try_with(|now| {
        now.set(now.get() + change);
        let _ended = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // For a moment both the old and the new memory may exist.
        note(size as isize);
        note(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Runs `work` and returns its result, and the bytes that this thread had at the peak beyond those
/// it had before. They are `None` in a binary whose allocator is not [`Counting`].
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, Option<usize>) {
    let before = NOW.get();
    drop(std::hint::black_box(Box::new(before)));
    let counts = PEAK.get() != 0;
    PEAK.set(before);
    let done = work();
    let taken = (PEAK.get() - before).max(0) as usize;
    (done, counts.then_some(taken))
}
