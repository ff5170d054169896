//! Zipf's distribution: rank r with a probability in proportion to 1 / (r + 1)^theta.
//!
//! The method is that of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly generating
//! billion-record synthetic databases" (SIGMOD 1994), which YCSB uses too.

use flagstone_comments::Random;

/// The exponent that YCSB uses.
const THETA: f64 = 0.99;

/// Ranks below a bound, the small ones often.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks below `count`, theta 0.99. Takes about 10 ns a rank, once.
    pub fn new(count: u64) -> Self {
        let count = count.max(1);
        let zeta = zeta(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta2() / zeta);
        Self { count, zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// A rank.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 || self.count == 1 {
            return 0;
        }
        if uz < zeta2() || self.count == 2 {
            return 1;
        }
        let spread = (self.eta * u - self.eta + 1.0).powf(self.alpha);
        ((self.count as f64 * spread) as u64).min(self.count - 1)
    }
}

fn zeta(count: u64) -> f64 {
    // From the small terms on: the sum loses less.
    (1..=count).rev().map(|rank| 1.0 / (rank as f64).powf(THETA)).sum()
}

fn zeta2() -> f64 {
    1.0 + 0.5_f64.powf(THETA)
}

#[cfg(test)]
mod tests {
    use super::super::random;
    use super::*;

    #[test]
    fn the_first_ranks_come_as_often_as_the_formula_says() {
        let zipf = Zipf::new(1000);
        let mut random = random(1, 0);
        let draws = 1_000_000;
        let mut counts = vec![0_u64; 1000];
        for _ in 0..draws {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        let all = zeta(1000);
        for rank in [0, 1] {
            let expected = draws as f64 / ((rank + 1) as f64).powf(THETA) / all;
            let found = counts[rank] as f64;
            assert!((found / expected - 1.0).abs() < 0.02, "{rank}: {found}, not {expected}");
        }
        // Beyond the first two the method is an approximation: compare in tenths of the ranks.
        for tenth in 1..10 {
            let ranks = tenth * 100..(tenth + 1) * 100;
            let found: u64 = counts[ranks.clone()].iter().sum();
            let expected: f64 =
                ranks.map(|rank| draws as f64 / ((rank + 1) as f64).powf(THETA) / all).sum();
            assert!(
                (found as f64 / expected - 1.0).abs() < 0.1,
                "{tenth}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn few_ranks_work() {
        let mut random = random(1, 0);
        for count in [0, 1, 2, 3] {
            let zipf = Zipf::new(count);
            assert!((0..1000).all(|_| zipf.draw(&mut random) < count.max(1)), "{count}");
        }
    }
}
