//! Random numbers, and keys that are computed, not stored: the key of the i-th put of a thread is a
//! function of the seed, the thread and i. To draw a key that was put before, a thread draws a
//! smaller i.

use clap::ValueEnum;
use flagstone_comments::{Random, WEYL, scramble};
use serde::Serialize;

/// A number that looks random and depends on `seed` and `n` alone; for one seed no two are equal.
#[inline]
pub const fn mix64(seed: u64, n: u64) -> u64 {
    scramble(n.wrapping_mul(WEYL).wrapping_add(scramble(seed.wrapping_add(WEYL))))
}

/// The random numbers of `thread` under `seed`.
pub const fn random(seed: u64, thread: u64) -> Random {
    Random::new(mix64(seed ^ 0x5851_F42D_4C95_7F2D, thread))
}

/// The order of keys by the numbers of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyOrder {
    /// None: the keys of neighbours are far apart
    #[default]
    Random,
    /// That of the numbers, as times and counters have it
    Ascending,
}

/// The keys of a workload: numbers below a bound, and the bytes of each.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    seed: u64,
    /// The number of different keys.
    pub(super) space: u64,
    /// Bytes of a key.
    pub(super) bytes: usize,
    order: KeyOrder,
}

impl Keys {
    /// Keys of `bytes` bytes (8 at least, so that different numbers have different keys), numbered
    /// below `space`.
    pub const fn new(seed: u64, space: u64, bytes: usize, order: KeyOrder) -> Self {
        Self { seed, space, bytes: if bytes < 8 { 8 } else { bytes }, order }
    }

    /// Returns the number of the key of the `i`-th put of `thread`, uniformly distributed over all
    /// numbers.
    #[inline]
    pub const fn draw(&self, thread: u64, i: u64) -> u64 {
        let drawn = mix64(mix64(self.seed, thread), i);
        ((drawn as u128 * self.space as u128) >> 64) as u64
    }

    /// Writes the bytes of key `number` to `key`: in the order of the numbers, or uniformly
    /// distributed over all byte strings of their length and unordered. Different numbers have
    /// different bytes.
    #[inline]
    pub fn write(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        let mut word = match self.order {
            KeyOrder::Random => mix64(self.seed, number),
            KeyOrder::Ascending => number,
        };
        let mut left = self.bytes;
        while left > 0 {
            let take = left.min(8);
            key.extend_from_slice(&word.to_be_bytes()[..take]);
            word = mix64(number, word);
            left -= take;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn draws_are_even_and_repeat_for_a_seed() {
        let keys = Keys::new(7, 1000, 16, KeyOrder::Random);
        let mut counts = [0_u32; 10];
        for i in 0..100_000 {
            let number = keys.draw(3, i);
            assert_eq!(number, Keys::new(7, 1000, 16, KeyOrder::Random).draw(3, i));
            counts[(number / 100) as usize] += 1;
        }
        // 10,000 each, with a deviation of 95.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
        assert_ne!(keys.draw(3, 1), keys.draw(4, 1));
    }

    #[test]
    fn keys_differ_spread_and_have_the_length_asked_for() {
        for bytes in [8, 16, 21] {
            let keys = Keys::new(1, 1 << 40, bytes, KeyOrder::Random);
            let mut key = Vec::new();
            let mut seen = HashSet::new();
            let mut first = [0_u32; 4];
            for number in 0..40_000 {
                keys.write(number, &mut key);
                assert_eq!(key.len(), bytes);
                first[usize::from(key[0] >> 6)] += 1;
                assert!(seen.insert(key.clone()));
            }
            assert!(first.iter().all(|count| count.abs_diff(10_000) < 500), "{first:?}");
        }
    }

    #[test]
    fn ascending_keys_have_the_order_of_their_numbers() {
        let keys = Keys::new(1, 1 << 40, 16, KeyOrder::Ascending);
        let (mut before, mut key) = (Vec::new(), Vec::new());
        for number in [0, 1, 255, 256, 1 << 33, u64::MAX] {
            keys.write(number, &mut key);
            assert!(key.len() == 16 && key > before);
            std::mem::swap(&mut before, &mut key);
        }
    }
}
