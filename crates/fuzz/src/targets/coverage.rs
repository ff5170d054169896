//! The code that an input reached. `cargo xtask fuzz` makes LLVM count every edge in a byte
//! (`sanitizer-coverage-inline-8bit-counters`, which stable compilers know). Without these counters
//! nothing is known.

#![allow(unsafe_code, reason = "the counters are memory that the compiler laid out")]

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The first counter of the program, and their number. The programs of this workspace have one
/// array of counters.
static FIRST: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Every part of the program that counts calls this before `main`, each time with the same array.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(first: *mut u8, end: *mut u8) {
    FIRST.store(first, Ordering::Relaxed);
    COUNT.store(end.addr().saturating_sub(first.addr()), Ordering::Relaxed);
}

/// Returns the counters, if there are any.
fn counters() -> Option<(*mut u8, usize)> {
    let (first, count) = (FIRST.load(Ordering::Relaxed), COUNT.load(Ordering::Relaxed));
    (count > 0).then_some((first, count))
}

/// The code that inputs have reached so far.
#[derive(Default)]
pub(super) struct Coverage {
    /// A bit for each class of counts of each edge.
    seen: Vec<u8>,
    edges: usize,
}

impl Coverage {
    /// Returns whether edges are counted.
    pub(super) fn is_known() -> bool {
        counters().is_some()
    }

    /// Returns the number of edges that were reached.
    pub(super) const fn edges(&self) -> usize {
        self.edges
    }

    /// Resets the counters before an input runs.
    pub(super) fn begin() {
        if let Some((first, count)) = counters() {
            // SAFETY: the compiler placed `count` bytes there, which live as long as the program;
            // one thread fuzzes.
            unsafe { first.write_bytes(0, count) };
        }
    }

    /// Returns whether an edge was reached for the first time, or more often than before, since
    /// [`Coverage::begin`].
    pub(super) fn has_new(&mut self) -> bool {
        let Some((first, count)) = counters() else { return false };
        self.seen.resize(count, 0);
        let mut is_new = false;
        // SAFETY: as in `begin`; nothing that counts runs while the slice lives, but this function
        // itself, whose counts do not matter.
        let counted = unsafe { std::slice::from_raw_parts(first, count) };
        for (chunk, seen) in counted.chunks(32).zip(self.seen.chunks_mut(32)) {
            if chunk.iter().all(|count| *count == 0) {
                continue;
            }
            for (count, seen) in chunk.iter().zip(seen).filter(|(count, _)| **count > 0) {
                let class = 1 << (u8::BITS - 1 - count.leading_zeros());
                if *seen & class == 0 {
                    self.edges += usize::from(*seen == 0);
                    *seen |= class;
                    is_new = true;
                }
            }
        }
        is_new
    }
}
