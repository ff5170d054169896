//! Whether a block is worth compressing: behind blocks that did not shrink, most are not tried.
//!
//! Random and already compressed values cost a flush and a compaction a good part of their time
//! when each block of them is compressed only to be stored plain.

use flagstone_base::Compression;

/// So many blocks in a row that do not shrink make the next ones suspect.
const MISSES_FEW: u32 = 2;
/// One of so many suspect blocks is tried whatever its sample says: what repeats over long
/// distances, or only zstd can shrink, does not show in a sample.
const TRY_EVERY: u32 = 32;
/// How much of a suspect block is compressed to learn about it: an eighth of a usual one.
const SAMPLE_BYTES: usize = 2 << 10;

/// What the last blocks of a table have taught.
#[derive(Default)]
pub(crate) struct Worth {
    misses: u32,
}

impl Worth {
    /// How to compress `raw`: as `wanted`, or not at all. `scratch` loses what it holds.
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

    /// Learns what became of a block.
    pub(crate) const fn note(&mut self, shrank: bool) {
        self.misses = if shrank { 0 } else { self.misses.wrapping_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that look drawn.
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
        let (mut worth, mut scratch, mut tried) = (Worth::default(), Vec::new(), 0);
        for _ in 0..80 {
            let chosen = worth.choose(Compression::Lz4, &noise, &mut scratch);
            tried += usize::from(chosen == Compression::Lz4);
            worth.note(false);
        }
        assert_eq!(tried, 4);
        assert_eq!(worth.choose(Compression::Zstd(1), &text, &mut scratch), Compression::Zstd(1));
        worth.note(true);
        assert_eq!(worth.choose(Compression::Lz4, &noise, &mut scratch), Compression::Lz4);
    }

    #[test]
    fn repetition_that_no_sample_shows_is_found_by_the_next_trial() {
        let once = noise(4 << 10);
        let raw = once.repeat(4);
        let (mut worth, mut scratch) = (Worth { misses: 9 }, Vec::new());
        let mut skipped = 0;
        while worth.choose(Compression::Lz4, &raw, &mut scratch) == Compression::None {
            worth.note(false);
            skipped += 1;
        }
        assert!(Compression::Lz4.compress(&raw, &mut scratch));
        assert_eq!(skipped, 32 - 9);
    }
}
