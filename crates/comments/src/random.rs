//! Random numbers that belong to a place: a stream starts from (a, b) alone, in a few cycles.
//!
//! The stream is splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
//! generators", 2014). It is part of the documents: any change here changes all comments, and fails
//! every golden test.

use crate::math;

/// The step of splitmix64: 2^64 divided by the golden ratio, odd.
pub const WEYL: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection of 64 bits that leaves no pattern: the finisher of splitmix64.
#[inline]
pub const fn scramble(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A pseudorandom number that depends on `a` and `b` alone.
#[inline]
pub(crate) const fn mix(a: u64, b: u64) -> u64 {
    let sum = a.wrapping_mul(WEYL).wrapping_add(b.wrapping_mul(0xBF58_476D_1CE4_E5B9));
    scramble(sum.wrapping_add(0x94D0_49BB_1331_11EB))
}

/// A stream of random numbers: splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream that belongs to `place`: any number, usually one that was mixed.
    #[inline]
    pub const fn new(place: u64) -> Self {
        Self(place)
    }

    /// Any 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(WEYL);
        scramble(self.0)
    }

    /// Any 32 bits.
    #[inline]
    pub(crate) const fn bits32(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// From 0 to 1, without 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// True with probability `p`.
    #[inline]
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// From 0 to `end`, without `end`; 0 if `end` is 0.
    #[inline]
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    /// From `first` to `last`, both included.
    #[inline]
    pub(crate) const fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// One of `choices`.
    #[inline]
    pub(crate) const fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Normal: Marsaglia's polar method, of whose two numbers one is used.
    pub(crate) fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                return mean + deviation * x * (-2.0 * math::ln(square) / square).sqrt();
            }
        }
    }

    /// A whole number from a normal distribution, limited to `least` and `most`.
    pub(crate) fn normal_count(&mut self, of: (f64, f64), least: usize, most: usize) -> usize {
        ((self.normal(of.0, of.1) + 0.5).max(0.0) as usize).clamp(least, most)
    }

    /// Lognormal: e to the power of a normal number.
    pub(crate) fn lognormal(&mut self, mu: f64, sigma: f64) -> f64 {
        math::exp(self.normal(mu, sigma))
    }

    /// Exponential with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -math::ln(1.0 - self.unit()) * mean
    }

    /// Pareto: from 1 upwards, with the tail exponent `alpha`.
    pub(crate) fn pareto(&mut self, alpha: f64) -> f64 {
        math::exp(-math::ln(1.0 - self.unit()) / alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_deviation(mut draw: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
        let mut random = Random::new(mix(1, 2));
        let n = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = draw(&mut random);
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        (mean, (squares / f64::from(n) - mean * mean).sqrt())
    }

    #[test]
    fn the_draws_have_the_mean_and_deviation_of_their_distribution() {
        let near = |(mean, deviation): (f64, f64), m: f64, d: f64| {
            assert!((mean - m).abs() < 0.015 * m.abs().max(d), "mean {mean}, not {m}");
            assert!((deviation - d).abs() < 0.02 * d, "deviation {deviation}, not {d}");
        };
        near(mean_and_deviation(Random::unit), 0.5, 1.0 / 12_f64.sqrt());
        near(mean_and_deviation(|r| r.normal(3.0, 2.0)), 3.0, 2.0);
        near(mean_and_deviation(|r| r.exponential(7.0)), 7.0, 7.0);
        near(mean_and_deviation(|r| math::ln(r.pareto(0.75))), 4.0 / 3.0, 4.0 / 3.0);
        near(mean_and_deviation(|r| r.between(3, 12) as f64), 7.5, 8.25_f64.sqrt());
        near(mean_and_deviation(|r| f64::from(u8::from(r.chance(0.3)))), 0.3, 0.21_f64.sqrt());
    }

    #[test]
    fn neighbouring_places_have_unrelated_streams() {
        let mut ones = 0;
        for i in 0..10_000 {
            ones +=
                (Random::new(mix(1, i)).bits() ^ Random::new(mix(1, i + 1)).bits()).count_ones();
        }
        assert!((315_000..325_000).contains(&ones), "{ones} of 640,000 bits differ");
    }
}
