//! A random generator for tests: the same numbers for the same seed, for ever.

use flagstone_base::hash::remix;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Numbers that depend on `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self(remix(seed ^ 0x5DEE_CE66_D1CE_4E5B))
    }

    /// Any number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        remix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// An index below `end`, which is not 0.
    pub const fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of a hundred cases.
    pub const fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// So many bytes that no compression shrinks.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
