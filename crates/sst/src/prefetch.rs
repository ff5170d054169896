//! Prefetches memory that will be read soon into the processor's caches.
#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the instruction has no safe wrapper")
)]

const LINE_BYTES: usize = 64;

/// Prefetches up to `lines` cache lines of `bytes` from `start` on. Never touches memory outside
/// `bytes`.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], start: usize, lines: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for part in bytes.get(start..).unwrap_or_default().chunks(LINE_BYTES).take(lines) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing; besides, the place lies within `bytes`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(part.as_ptr().cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, start, lines, LINE_BYTES);
}
