//! When the entries of a table expire: their count, and the least, middle and greatest moment.
//!
//! The middle one is the median of a sample: of all expiries of a small table, of one in two to
//! some power of them in a large one. So a builder keeps at most 8,192 moments in memory.

use flagstone_base::Moment;
use std::fmt;

/// A sample keeps at most this many moments.
const SAMPLED_MAX: usize = 8192;

/// The expiries of the entries of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiries {
    /// The number of entries that have an expiry. If it is 0, the moments are [`Moment::ZERO`].
    pub count: u64,
    /// The moment at which the first of them expires.
    pub min: Moment,
    /// The moment at which about half of them have expired.
    pub median: Moment,
    /// The moment at which all of them have expired.
    pub max: Moment,
}

impl Expiries {
    /// Returns whether the moments are in order, and none is set without entries.
    pub(crate) fn is_sound(&self) -> bool {
        let Self { count, min, median, max } = *self;
        min <= median && median <= max && (count > 0 || max == Moment::ZERO)
    }

    /// The number of entries that have expired at `moment`: a lower bound.
    pub fn expired_at(&self, moment: Moment) -> u64 {
        match self.count {
            0 => 0,
            count if self.max <= moment => count,
            count if self.median <= moment => count / 2,
            _ => u64::from(self.min <= moment),
        }
    }
}

/// For example `120 expire @1700000000000..@1700000005000`.
impl fmt::Display for Expiries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} expire {}..{}", self.count, self.min, self.max)
    }
}

/// Summarizes the expiries of a table while it is written or read.
#[derive(Default)]
pub(crate) struct ExpirySampler {
    count: u64,
    min: Moment,
    max: Moment,
    sample: Vec<Moment>,
    /// One in two to this power is sampled.
    shift: u32,
}

impl ExpirySampler {
    /// Adds the expiry of the next entry.
    pub(crate) fn add(&mut self, expiry: Moment) {
        if self.count == 0 {
            (self.min, self.max) = (expiry, expiry);
        }
        (self.min, self.max) = (self.min.min(expiry), self.max.max(expiry));
        if self.count & ((1 << self.shift) - 1) == 0 {
            if self.sample.len() == SAMPLED_MAX {
                let mut place = 0;
                self.sample.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.shift += 1;
            }
            self.sample.push(expiry);
        }
        self.count += 1;
    }

    /// The summary of everything that was added.
    pub(crate) fn summary(&mut self) -> Expiries {
        let middle = self.sample.len().saturating_sub(1) / 2;
        let median = match self.sample.is_empty() {
            true => Moment::ZERO,
            false => *self.sample.select_nth_unstable(middle).1,
        };
        Expiries { count: self.count, min: self.min, median, max: self.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(moments: impl Iterator<Item = u64>) -> Expiries {
        let mut sampler = ExpirySampler::default();
        moments.for_each(|millis| sampler.add(Moment::from_millis(millis)));
        assert!(sampler.sample.len() <= SAMPLED_MAX);
        let summary = sampler.summary();
        assert!(summary.is_sound());
        summary
    }

    #[test]
    fn few_expiries_have_their_exact_median() {
        let moment = Moment::from_millis;
        let all = summary([9, 3, 7, 3, 8].into_iter());
        let (min, median, max) = (moment(3), moment(7), moment(9));
        assert_eq!(all, Expiries { count: 5, min, median, max });
        assert_eq!(summary(std::iter::empty()), Expiries::default());
        assert_eq!(summary([0].into_iter()), Expiries { count: 1, ..Expiries::default() });
        for (at, expired) in [(2, 0), (3, 1), (6, 1), (7, 2), (8, 2), (9, 5)] {
            assert_eq!(all.expired_at(moment(at)), expired, "{at}");
        }
    }

    #[test]
    fn the_median_of_many_expiries_is_near_the_middle() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 44
        };
        let all = summary((0..300_000).map(|_| random()));
        let middle = 1 << 19;
        assert!(all.median.millis().abs_diff(middle) < middle / 20, "{all:?}");
        assert_eq!(all.count, 300_000);
        let rising = summary(0..100_000);
        assert!(rising.median.millis().abs_diff(50_000) < 1000, "{rising:?}");
    }
}
