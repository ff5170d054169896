//! A random generator for tests. A seed gives the same numbers in every version, so that it repeats
//! a failure.

use flagstone_base::hash::remix;

/// A Weyl sequence, remixed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns a generator whose numbers depend on `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self(remix(seed ^ 0x5DEE_CE66_D1CE_4E5B))
    }

    /// Returns any number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        remix(self.0)
    }

    /// Returns a number below `end`, which is not 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// Returns an index below `end`, which is not 0.
    pub const fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true in `percent` of a hundred calls.
    pub const fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Returns `len` bytes that no compression shrinks.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
