//! Decides whether to compress a block: after blocks that did not shrink, most blocks are not
//! tried.
//!
//! For random or already compressed values, a flush or a compaction would spend a good part of its
//! time compressing blocks only to store them uncompressed.

use flagstone_base::Compression;

/// After this many blocks in a row that did not shrink, the next blocks are suspect.
const MISSES_FEW: u32 = 2;
/// One in this many suspect blocks is compressed whatever its sample says: repetition over long
/// distances, and what only zstd can shrink, do not show in a sample.
const TRY_EVERY: u32 = 32;
/// The bytes of a suspect block that are compressed as a sample: an eighth of a usual block.
const SAMPLE_BYTES: usize = 2 << 10;

/// The number of blocks in a row that did not shrink.
#[derive(Default)]
pub(crate) struct Compressibility {
    misses: u32,
}

impl Compressibility {
    /// Returns the compression for `raw`: `wanted`, or none. Overwrites `scratch`.
    pub(crate) fn choose(
        &self,
        wanted: Compression,
        raw: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Compression {
        if wanted == Compression::None
            || self.misses < MISSES_FEW
            || self.misses.is_multiple_of(TRY_EVERY)
        {
            return wanted;
        }
        let middle = raw.len().saturating_sub(SAMPLE_BYTES) / 2;
        let sample = &raw[middle..raw.len().min(middle + SAMPLE_BYTES)];
        scratch.clear();
        if Compression::Lz4.compress(sample, scratch) { wanted } else { Compression::None }
    }

    /// Records whether a block shrank.
    pub(crate) const fn note(&mut self, shrank: bool) {
        self.misses = if shrank { 0 } else { self.misses.wrapping_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pseudo-random bytes.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn after_noise_only_some_blocks_are_tried_and_text_is_seen_at_once() {
        let (noise, text) = (noise(16 << 10), b"the same words, ".repeat(1 << 10));
        let (mut compressibility, mut scratch, mut tried) =
            (Compressibility::default(), Vec::new(), 0);
        for _ in 0..80 {
            let chosen = compressibility.choose(Compression::Lz4, &noise, &mut scratch);
            tried += usize::from(chosen == Compression::Lz4);
            compressibility.note(false);
        }
        assert_eq!(tried, 4);
        assert_eq!(
            compressibility.choose(Compression::Zstd(1), &text, &mut scratch),
            Compression::Zstd(1)
        );
        compressibility.note(true);
        assert_eq!(
            compressibility.choose(Compression::Lz4, &noise, &mut scratch),
            Compression::Lz4
        );
    }

    #[test]
    fn repetition_that_no_sample_shows_is_found_by_the_next_trial() {
        let once = noise(4 << 10);
        let raw = once.repeat(4);
        let (mut compressibility, mut scratch) = (Compressibility { misses: 9 }, Vec::new());
        let mut skipped = 0;
        while compressibility.choose(Compression::Lz4, &raw, &mut scratch) == Compression::None {
            compressibility.note(false);
            skipped += 1;
        }
        assert!(Compression::Lz4.compress(&raw, &mut scratch));
        assert_eq!(skipped, 32 - 9);
    }
}
