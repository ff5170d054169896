//! Random numbers of the workloads: fast, seeded, and by place as well as by stream.

const WEYL: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection of 64 bits that leaves no pattern: the finisher of splitmix64 (Steele, Lea, Flood,
/// "Fast splittable pseudorandom number generators", 2014).
#[inline]
const fn scramble(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A number that looks random and depends on `seed` and `n` alone; for one seed no two are equal.
#[inline]
pub const fn mix64(seed: u64, n: u64) -> u64 {
    scramble(n.wrapping_mul(WEYL).wrapping_add(scramble(seed.wrapping_add(WEYL))))
}

/// A stream of random numbers: splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of `thread` under `seed`.
    pub const fn new(seed: u64, thread: u64) -> Self {
        Self(mix64(seed ^ 0x5851_F42D_4C95_7F2D, thread))
    }

    /// Any 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(WEYL);
        scramble(self.0)
    }

    /// From 0 to `end`, without `end`; 0 if `end` is 0.
    #[inline]
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    /// From 0 to 1, without 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}
