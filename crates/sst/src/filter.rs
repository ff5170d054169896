//! The filter: tells whether a key is "certainly absent" or "maybe there", for a few bits a key.
//!
//! It is a split-block Bloom filter (Putze, Sanders, Singler 2007; as in Parquet and Impala): the
//! high half of the hash picks a block of 256 bits, the low half picks one bit in each of its eight
//! words. So a probe touches one cache line and takes eight independent multiplications.
//!
//! ```text
//! parts     of 512 blocks, the last one of fewer; block = 8 words u32          see `parts.rs`
//! section   kind u8 = 1 | zero u8 x 3 | blocks u32 | blocks x 8 words u32      in older tables
//! ```

use flagstone_base::codec::put_u32;
use flagstone_base::{Decoder, Malformed};

/// The kind byte of a split-block Bloom filter. A reader does not use a filter of an unknown kind.
const SPLIT_BLOCK_BLOOM: u8 = 1;

/// Odd numbers that spread the low half of a hash differently for each word. They are part of the
/// file format.
const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// One block of the filter, 256 bits, aligned so that it never crosses a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
pub(crate) struct Words([u32; 8]);

/// A whole filter in memory.
pub(crate) struct Filter {
    blocks: Box<[Words]>,
}

#[inline]
pub(crate) fn mask(hash: u64) -> [u32; 8] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

#[inline]
pub(crate) const fn block_of(hash: u64, blocks: usize) -> usize {
    (((hash >> 32) * blocks as u64) >> 32) as usize
}

/// Returns whether all bits of `mask` are set in `words`.
#[inline]
pub(crate) fn probe(words: &[u32; 8], mask: [u32; 8]) -> bool {
    words.iter().zip(mask).fold(0, |missing, (word, bit)| missing | (!word & bit)) == 0
}

impl Filter {
    /// Builds a filter for distinct keys with these remixed hashes, with `bits` bits for each key.
    pub(crate) fn build(hashes: &[u64], bits: u8) -> Self {
        let blocks = (hashes.len() as u64 * u64::from(bits)).div_ceil(256).max(1);
        let mut blocks = vec![Words::default(); blocks as usize].into_boxed_slice();
        for &hash in hashes {
            let block = &mut blocks[block_of(hash, blocks.len())];
            for (word, bit) in block.0.iter_mut().zip(mask(hash)) {
                *word |= bit;
            }
        }
        Self { blocks }
    }

    /// Returns whether a key with this remixed hash may be in the table.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let block = &self.blocks[block_of(hash, self.blocks.len())];
        probe(&block.0, mask(hash))
    }

    /// Bytes that the filter takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.blocks) as u64
    }

    pub(crate) const fn blocks(&self) -> &[Words] {
        &self.blocks
    }

    /// Encodes `blocks` as they are stored.
    pub(crate) fn bytes_of(blocks: &[Words]) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 * blocks.len());
        blocks.iter().flat_map(|block| block.0).for_each(|word| put_u32(&mut out, word));
        out
    }

    /// Decodes a filter from the concatenated bytes of its parts.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let blocks = bytes.chunks_exact(32).map(|chunk| {
            let mut block = Words::default();
            for (word, bytes) in block.0.iter_mut().zip(chunk.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            block
        });
        Self { blocks: blocks.collect() }
    }

    /// Decodes a filter that is one section, as in older tables. Returns `None` for an unknown
    /// kind: the table then works without a filter.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let [kind, ..] = decoder.array::<4>("the kind of a filter")?;
        if kind != SPLIT_BLOCK_BLOOM {
            return Ok(None);
        }
        let count = decoder.u32("the number of filter blocks")?;
        let words = decoder.rest();
        if count == 0 || words.len() as u64 != u64::from(count) * 32 {
            return Err(Malformed { at: 4, expected: "as many filter blocks as it says" });
        }
        Ok(Some(Self::from_bytes(words)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::hash::{key_hash, remix};

    #[test]
    fn a_filter_comes_back_and_knows_all_its_keys() {
        let hashes: Vec<u64> = (0..1000_u64).map(remix).collect();
        let built = Filter::build(&hashes, 10);
        let mut bytes = vec![SPLIT_BLOCK_BLOOM, 0, 0, 0];
        put_u32(&mut bytes, built.blocks().len() as u32);
        bytes.extend(Filter::bytes_of(built.blocks()));
        let filter = Filter::decode(&bytes).unwrap().unwrap();
        assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
        assert!(Filter::decode(&bytes[..bytes.len() - 1]).is_err());
        assert!(Filter::decode(&[9, 0, 0, 0]).unwrap().is_none());
    }

    /// Returns the rate of false positives, among keys whose hash has the eight high bits `only` if
    /// given.
    fn false_positives(only: Option<u64>) -> f64 {
        let mut hashes = (0_u64..)
            .map(|i| key_hash(&i.to_le_bytes(), 1))
            .filter(|hash| only.is_none_or(|bits| hash >> 56 == bits))
            .map(remix);
        let filter = Filter::build(&hashes.by_ref().take(20_000).collect::<Vec<_>>(), 10);
        let wrong = hashes.take(20_000).filter(|&hash| filter.may_contain(hash)).count();
        wrong as f64 / 20_000.0
    }

    #[test]
    fn one_tree_of_256_has_the_false_positives_of_any_other() {
        for only in [None, Some(0), Some(0xA7)] {
            let rate = false_positives(only);
            assert!((0.006..0.018).contains(&rate), "{only:?}: {rate}");
        }
    }
}
