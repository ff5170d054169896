//! Allocates large pieces of memory directly from the system, with huge pages where it has them.
//!
//! The accesses of a memtable are spread over hundreds of megabytes. With pages of 4 KiB most of
//! its reads miss the TLB, and every fourth insert of a kilobyte is a page fault.
#![expect(unsafe_code, reason = "memory from the system without an allocator between")]

use std::ptr::NonNull;

/// The size and the alignment of huge pages.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeroed memory, aligned to [`HUGE_PAGE_BYTES`], which is returned to the system when dropped.
///
/// The holder is responsible for synchronizing access to the memory.
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the value is an address and a length; it grants no access to the memory by itself.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `bytes`, a multiple of [`HUGE_PAGE_BYTES`] above zero, and asks for huge pages. `None`
    /// when the system has no memory left, or for another size.
    pub fn new(bytes: usize) -> Option<Self> {
        if bytes == 0 || !bytes.is_multiple_of(HUGE_PAGE_BYTES) {
            return None;
        }
        system::map(bytes).map(|start| Self { start, bytes })
    }

    /// The address of the first byte.
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `map` returned this piece, and it is unmapped only here, once.
        unsafe { system::unmap(self.start, self.bytes) };
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use super::HUGE_PAGE_BYTES;
    use std::ptr::{self, NonNull};

    /// Maps `bytes` aligned. The system often places them so, each next to the one before: together
    /// they are one mapping, of which a process may have 65,530. Else maps more, and unmaps the
    /// parts before and after the aligned one.
    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let found = map_anywhere(bytes)?;
        if found.as_ptr().addr().is_multiple_of(HUGE_PAGE_BYTES) {
            return Some(advised(found, bytes));
        }
        // SAFETY: nobody knows this mapping.
        unsafe { unmap(found, bytes) };
        let found = map_anywhere(bytes.checked_add(HUGE_PAGE_BYTES)?)?;
        let before = found.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `before` is below HUGE_PAGE_BYTES, so the place lies inside the mapping.
        let start = unsafe { found.add(before) };
        // SAFETY: `before + bytes` is at most the length of the mapping.
        let end = unsafe { start.add(bytes) };
        if before > 0 {
            // SAFETY: this part of the mapping is not part of the result.
            unsafe { unmap(found, before) };
        }
        if before < HUGE_PAGE_BYTES {
            // SAFETY: as above.
            unsafe { unmap(end, HUGE_PAGE_BYTES - before) };
        }
        Some(advised(start, bytes))
    }

    fn map_anywhere(bytes: usize) -> Option<NonNull<u8>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping at an address of the system's choice touches no other
        // memory.
        let found = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if found == libc::MAP_FAILED { None } else { NonNull::new(found.cast::<u8>()) }
    }

    /// Asks for huge pages for a mapping of our own.
    fn advised(start: NonNull<u8>, bytes: usize) -> NonNull<u8> {
        // SAFETY: the range is mapped and belongs to us; the advice changes no content. A failure
        // is ignored: the advice is a hint, and a system without huge pages loses nothing.
        let _hint = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        start
    }

    /// # Safety
    /// The range is mapped by `map`, and nothing uses it any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: by the contract of this function.
        let _never_fails = unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use super::HUGE_PAGE_BYTES;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, HUGE_PAGE_BYTES).ok()?;
        // SAFETY: `bytes` is not zero.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// # Safety
    /// The piece came from `map` with this size, and nothing uses it any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        if let Ok(layout) = Layout::from_size_align(bytes, HUGE_PAGE_BYTES) {
            // SAFETY: by the contract of this function.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_zeroed_and_writable() {
        for bytes in [HUGE_PAGE_BYTES, 3 * HUGE_PAGE_BYTES] {
            let pages = Pages::new(bytes).unwrap();
            assert_eq!(pages.bytes(), bytes);
            assert!(pages.start().as_ptr().addr().is_multiple_of(HUGE_PAGE_BYTES));
            for at in [0, 4096, bytes - 1] {
                // SAFETY: `at` is inside the piece, and no other thread uses the memory.
                let place = unsafe { pages.start().add(at) };
                // SAFETY: as above.
                assert_eq!(unsafe { place.read() }, 0);
                // SAFETY: as above.
                unsafe { place.write(7) };
            }
        }
        assert!(Pages::new(0).is_none());
        assert!(Pages::new(4096).is_none());
    }
}
