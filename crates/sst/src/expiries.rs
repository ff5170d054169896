//! When the entries of a table expire: their count, and the least, middle and greatest moment.
//!
//! The middle one is the median of a sample: of all expiries of a small table, of about one in two
//! to some power of them in a large one. So a builder keeps at most 8,192 moments in memory. Their
//! places alone decide which ones are sampled, so a reader of the table finds the same median.
//! Distances vary, because keys often have a regular structure: of four fields for each user one
//! may expire late, and a sample at equal distances could consist of that field alone.

use flagstone_base::Moment;
use std::fmt;

/// A sample keeps at most this many moments.
const SAMPLED_MAX: usize = 8192;
/// Two to the power of 64, divided by the golden ratio. The leading bits of its multiples are
/// spread evenly, also among the multiples of every second, third or nth number.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

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

    /// Estimates the number of entries that have expired at `moment`. Never too high for a table
    /// whose expiries are all in the sample.
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
    /// About one in two to this power is sampled.
    shift: u32,
}

/// Returns whether the expiry with this number is in the sample of one in two to the power of
/// `shift`.
const fn is_sampled(number: u64, shift: u32) -> bool {
    number.wrapping_mul(SPREAD).leading_zeros() >= shift
}

impl ExpirySampler {
    /// Adds the expiry of the next entry.
    pub(crate) fn add(&mut self, expiry: Moment) {
        if self.count == 0 {
            (self.min, self.max) = (expiry, expiry);
        }
        (self.min, self.max) = (self.min.min(expiry), self.max.max(expiry));
        if self.sample.len() == SAMPLED_MAX && is_sampled(self.count, self.shift) {
            self.thin_out();
        }
        if is_sampled(self.count, self.shift) {
            self.sample.push(expiry);
        }
        self.count += 1;
    }

    /// Drops about half of the sample.
    fn thin_out(&mut self) {
        let shift = self.shift;
        let mut numbers = (0..self.count).filter(|number| is_sampled(*number, shift));
        self.sample.retain(|_| numbers.next().is_some_and(|number| is_sampled(number, shift + 1)));
        self.shift += 1;
    }

    /// The summary of everything that was added.
    pub(crate) fn summary(&mut self) -> Expiries {
        let middle = self.sample.len().saturating_sub(1) / 2;
        let median = if self.sample.is_empty() {
            Moment::ZERO
        } else {
            *self.sample.select_nth_unstable(middle).1
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
    fn the_median_does_not_depend_on_how_the_keys_are_structured() {
        for fields in [3, 4, 5, 8, 13, 16, 21, 100] {
            for odd in [0, 1, fields - 1] {
                let median = |of_one, of_others| {
                    let moment = |number| if number % fields == odd { of_one } else { of_others };
                    summary((0..20_000).map(moment)).median.millis()
                };
                assert_eq!(median(1000, 1), 1, "one in {fields} expires late: number {odd}");
                assert_eq!(median(1, 1000), 1000, "one in {fields} expires early: number {odd}");
            }
        }
    }

    #[test]
    fn the_sample_of_a_large_table_is_large_and_spread_over_all_of_it() {
        let mut sampler = ExpirySampler::default();
        for count in 0..200_000_u64 {
            sampler.add(Moment::from_millis(count));
            let kept = sampler.sample.len();
            assert!(kept as u64 == count + 1 || (4000..=SAMPLED_MAX).contains(&kept), "{count}");
            assert!(count - sampler.sample[kept - 1].millis() < 256, "{count}");
        }
        let gaps = sampler.sample.windows(2).map(|two| two[1].millis() - two[0].millis());
        assert!(gaps.max() < Some(128));
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
