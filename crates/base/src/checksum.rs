//! CRC-32C, the checksum of every file format: its detection is proved and hardware computes it.

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest, checksum};

/// The CRC-32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    checksum(Crc32Iscsi, bytes) as u32
}

/// The CRC-32C of `parts`, as if they stood behind one another.
#[inline]
pub fn crc32c_of_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_check_value_comes_out() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_of_parts(&[b"1234", b"", b"56789"]), 0xE306_9283);
    }
}
