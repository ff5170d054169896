//! CRC-32C, the checksum of every file format. Which errors it detects is proved, and hardware
//! computes it.

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest, checksum};
use std::cell::Cell;

// Without `inline`: all of the library's code for a checksum would be compiled in each crate again.

/// The CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // Deletes have no value, and a call of the library is not free.
    if bytes.is_empty() { 0 } else { checksum(Crc32Iscsi, bytes) as u32 }
}

/// The CRC-32C of the concatenation of `parts`.
pub fn crc32c_of_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

/// Returns whether the checksum `read` from a file equals the `computed` one. Inside [`believing`],
/// always true.
#[inline]
pub fn fits(computed: u32, read: u32) -> bool {
    computed == read || is_believed()
}

thread_local! {
    static BELIEVED: Cell<bool> = const { Cell::new(false) };
}

#[cold]
fn is_believed() -> bool {
    cfg!(debug_assertions) && BELIEVED.get()
}

/// Runs `work`. Meanwhile [`fits`] accepts every checksum in this thread, so that a fuzzer reaches
/// the code after the checks. Has an effect only in builds with debug assertions.
#[doc(hidden)]
pub fn believing<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            BELIEVED.set(self.0);
        }
    }
    let _restore = Restore(BELIEVED.replace(true));
    work()
}

/// Computes the CRC-32C of bytes that arrive in pieces.
pub struct Crc32c(Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Self(Digest::new(Crc32Iscsi))
    }
}

impl Crc32c {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes added so far.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_checksum_is_believed_only_while_a_fuzzer_asks_for_it() {
        assert!(fits(7, 7) && !fits(7, 8));
        assert!(believing(|| fits(7, 8)) && !fits(7, 8));
        let panicked = std::panic::catch_unwind(|| believing(|| std::panic::panic_any(1)));
        assert!(panicked.is_err() && !fits(7, 8));
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let mut sum = Crc32c::default();
        sum.update(b"1234");
        sum.update(b"56789");
        assert_eq!(sum.value(), crc32c(b"123456789"));
    }

    #[test]
    fn the_published_check_value_comes_out() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_of_parts(&[b"1234", b"", b"56789"]), 0xE306_9283);
        assert_eq!(crc32c(b""), crc32c_of_parts(&[]));
    }
}
