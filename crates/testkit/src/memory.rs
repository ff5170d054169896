//! How much memory a piece of work takes at its worst moment: an allocator that counts, a test binary at a time.
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

/// The system's allocator, counted in each thread by itself. What another thread frees is not subtracted.
pub struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn note(change: isize) {
    // A thread that ends frees memory when these are gone.
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
        // For a moment both may be there.
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

/// Runs `work`; how many bytes more than before it this thread had at the worst moment. `None` in a binary whose allocator is
/// not [`Counting`].
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, Option<usize>) {
    let before = NOW.get();
    drop(std::hint::black_box(Box::new(before)));
    let counts = PEAK.get() != 0;
    PEAK.set(before);
    let done = work();
    let taken = (PEAK.get() - before).max(0) as usize;
    (done, counts.then_some(taken))
}
