//! Room for large buffers that goes back to the system as soon as they are freed.
//!
//! glibc maps a buffer by itself from a size on that rises to 32 MiB with what a process frees. Smaller buffers come from
//! the arena of their thread. What is freed at the end of an arena stays resident, up to 64 MiB in each, and
//! `malloc_trim` does not give it back. So a buffer of megabytes gets more capacity than it needs: pages that
//! nobody writes take no memory.

/// A capacity that is always mapped by itself.
pub const MAPPED_BYTES: usize = (32 << 20) + (4 << 10);
/// Buffers from this length on get that capacity.
const LARGE: usize = 8 << 20;

/// The capacity for a buffer of `bytes` bytes.
#[inline]
pub const fn capacity_for(bytes: usize) -> usize {
    if bytes >= LARGE && bytes < MAPPED_BYTES { MAPPED_BYTES } else { bytes }
}

/// Makes room in `buffer` for exactly `more` bytes, or more if that makes them a mapping by itself.
#[inline]
pub fn reserve_large(buffer: &mut Vec<u8>, more: usize) {
    let capacity = capacity_for(buffer.len() + more);
    if capacity > buffer.capacity() {
        buffer.reserve_exact(capacity - buffer.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_buffers_get_more_than_they_need() {
        for (bytes, capacity) in
            [(100, 100), (LARGE - 1, LARGE - 1), (LARGE, MAPPED_BYTES), (1 << 30, 1 << 30)]
        {
            assert_eq!(capacity_for(bytes), capacity);
        }
        let mut buffer = vec![1, 2];
        reserve_large(&mut buffer, 1000);
        assert_eq!((buffer.capacity(), buffer.len()), (1002, 2));
        reserve_large(&mut buffer, LARGE);
        assert_eq!((buffer.capacity(), &buffer[..]), (MAPPED_BYTES, &[1, 2][..]));
    }
}
