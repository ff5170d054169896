//! Capacities of large buffers, chosen so that their memory returns to the system as soon as they
//! are freed.
//!
//! glibc maps a buffer separately if it is larger than a threshold, which rises up to 32 MiB as a
//! process frees buffers. Smaller buffers come from the arena of their thread. Memory that is freed
//! at the end of an arena stays resident, up to 64 MiB in each arena, and `malloc_trim` does not
//! return it. So a buffer of megabytes gets more capacity than it needs, and is mapped separately.
//! Pages that are never written take no memory.

/// A capacity that is always mapped separately.
pub const MAPPED_BYTES: usize = (32 << 20) + (4 << 10);
/// Buffers of at least this length get a capacity of [`MAPPED_BYTES`].
const LARGE: usize = 8 << 20;

/// The capacity that a buffer for `bytes` bytes should get.
#[inline]
pub const fn capacity_for(bytes: usize) -> usize {
    if bytes >= LARGE && bytes < MAPPED_BYTES { MAPPED_BYTES } else { bytes }
}

/// Reserves space in `buffer` for exactly `more` bytes; if the buffer is large then, for
/// [`MAPPED_BYTES`] in all.
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
