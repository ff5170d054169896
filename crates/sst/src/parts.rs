//! A filter in parts, so that a get needs only 16 KiB of it.
//!
//! A probe touches one block of the filter, which the hash of the key determines. So the filter is
//! stored as parts of 512 blocks, each like a data block, all of the same length except the last.
//! If memory allows it, opening a table reads the whole filter into memory. Otherwise the block
//! cache holds the parts.

use crate::filter::{Filter, block_of, mask, probe};
use crate::format::BLOCK_TRAILER_BYTES;
use crate::properties::{FilterParts, Handle};

/// The number of filter blocks in a part: 16 KiB, which one device read returns anyway.
const PART_BLOCKS: u64 = 512;
/// Bytes of a filter block.
const BLOCK_BYTES: u64 = 32;
/// Bytes of a full part in the file.
const STRIDE: u64 = PART_BLOCKS * BLOCK_BYTES + BLOCK_TRAILER_BYTES as u64;

impl FilterParts {
    /// The number of parts.
    pub(crate) const fn count(self) -> u32 {
        (self.blocks as u64).div_ceil(PART_BLOCKS) as u32
    }

    /// Bytes of all parts in the file.
    pub(crate) const fn len(self) -> u64 {
        self.bytes() + self.count() as u64 * BLOCK_TRAILER_BYTES as u64
    }

    /// Bytes of the filter in memory.
    pub(crate) const fn bytes(self) -> u64 {
        self.blocks as u64 * BLOCK_BYTES
    }

    /// The place of part `number`.
    pub(crate) fn handle(self, number: u32) -> Handle {
        let before = u64::from(number) * PART_BLOCKS;
        let blocks = (u64::from(self.blocks) - before).min(PART_BLOCKS);
        let len = blocks * BLOCK_BYTES + BLOCK_TRAILER_BYTES as u64;
        Handle { offset: self.offset + u64::from(number) * STRIDE, len }
    }

    /// The number of the part that covers `hash`.
    #[inline]
    pub(crate) fn part_of(self, hash: u64) -> u32 {
        (block_of(hash, self.blocks as usize) as u64 / PART_BLOCKS) as u32
    }

    /// Probes for `hash`. `part` is the content of the part that [`FilterParts::part_of`] returned.
    #[inline]
    pub(crate) fn may_contain(self, part: &[u8], hash: u64) -> bool {
        let block = block_of(hash, self.blocks as usize) as u64 % PART_BLOCKS;
        let at = (block * BLOCK_BYTES) as usize;
        let Some(bytes) = part.get(at..at + BLOCK_BYTES as usize) else { return true };
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        probe(&words, mask(hash))
    }
}

impl Filter {
    /// Encodes the parts of the filter, without the trailers of stored blocks.
    pub(crate) fn parts(&self) -> Vec<Vec<u8>> {
        let bytes = |blocks: &[_]| Self::bytes_of(blocks);
        self.blocks().chunks(PART_BLOCKS as usize).map(bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::hash::remix;

    #[test]
    fn the_parts_say_what_the_whole_says() {
        for keys in [1_u64, 500, 13_107, 13_108, 60_000] {
            let hashes: Vec<u64> = (0..keys).map(remix).collect();
            let filter = Filter::build(&hashes, 10);
            let stored = filter.parts();
            let parts = FilterParts { offset: 64, blocks: filter.blocks().len() as u32 };
            assert_eq!(stored.len(), parts.count() as usize);
            let mut end = 64;
            for (number, bytes) in (0..).zip(&stored) {
                let handle = parts.handle(number);
                assert_eq!((handle.offset, handle.len), (end, bytes.len() as u64 + 9));
                end = handle.offset + handle.len;
            }
            assert_eq!(end, 64 + parts.len());
            for hash in (0..keys * 2).map(remix) {
                let part = &stored[parts.part_of(hash) as usize];
                assert_eq!(parts.may_contain(part, hash), filter.may_contain(hash));
            }
        }
    }
}
