//! Checksums of text that is read in parts, in any order, and put together.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of a text: a CRC of 64 bits. It depends on the text alone, not on the parts in
/// which it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum(Digest);

impl Default for Sum {
    fn default() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc64Nvme))
    }
}

impl PartialEq for Sum {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value() && self.0.get_amount() == other.0.get_amount()
    }
}

impl Eq for Sum {}

impl Sum {
    /// Returns the checksum of `text`.
    pub(crate) fn of(text: &[u8]) -> Self {
        Self::default().then(text)
    }

    /// Returns the checksum of this text and `text` after it.
    pub(crate) fn then(mut self, text: &[u8]) -> Self {
        self.0.update(text);
        self
    }

    /// Returns the checksum of this text and the other one after it.
    pub(crate) fn join(mut self, other: &Self) -> Self {
        self.0.combine(&other.0);
        self
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_text_does_not_depend_on_its_parts() {
        let text: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        let whole = Sum::of(&text);
        for cut in [0, 1, 7, 4096, 1_048_577, text.len() - 1, text.len()] {
            let (before, after) = text.split_at(cut);
            assert_eq!(Sum::of(before).then(after), whole, "{cut}");
            assert_eq!(Sum::of(before).join(&Sum::of(after)), whole, "{cut}");
            let joined = Sum::default().join(&Sum::of(before)).join(&Sum::default());
            assert_eq!(joined.then(after), whole, "{cut}");
        }
        let mut other = text.clone();
        other[2_000_000] ^= 1;
        assert_ne!(Sum::of(&other), whole);
        assert_ne!(Sum::of(&text[1..]), whole);
    }
}
