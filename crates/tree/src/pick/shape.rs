//! How large each level should be, and how far a tree is from it.
//!
//! The last level holds most of the data, whatever its size; each level above it is `fanout` times
//! smaller, up to the first whose size does not exceed `level_base_bytes`: the base level, where L0
//! goes. So a small tree has one level, and space amplification stays near 1 + 1/fanout (dynamic
//! level sizes, as RocksDB has them).
//!
//! Under [`Policy::Tiering`] L0 is let grow instead: its runs are merged among themselves when they
//! are too many, and go down only when they hold twice what lies below.

use crate::options::TreeOptions;
use crate::version::{LEVELS, Version};

/// What compactions are to save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Reads and space: few runs, each level a fraction of the next. For trees that rest or are read.
    #[default]
    Leveling,
    /// Writes: every byte is rewritten as seldom as a bounded number of runs allows. For trees that
    /// are written heavily; what it leaves is for `Leveling` to tidy up when there is time.
    Tiering,
}

/// How far a tree is out of shape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Overlapping runs in L0: what a get pays for.
    pub l0_runs: usize,
    /// Bytes in L0.
    pub l0_bytes: u64,
    /// The fullest level against its size; from 1 on there is work.
    pub score: f64,
    /// Bytes that compactions will have to write until the tree is in shape.
    pub debt_bytes: u64,
}

/// Sizes and scores of the levels.
pub(super) struct Shape {
    pub(super) base: usize,
    pub(super) bytes: [u64; LEVELS],
    pub(super) targets: [u64; LEVELS],
    pub(super) l0_runs: usize,
    pub(super) scores: [f64; LEVELS],
    /// From so many bytes on L0 goes down under [`Policy::Tiering`].
    pub(super) l0_bytes_max: u64,
}

/// Under [`Policy::Tiering`] L0 goes down when it holds so many times what lies below, ..
const TIERING_L0_FACTOR: u64 = 2;
/// .. but not before it holds so many base levels.
const TIERING_L0_BASES: u64 = 16;
/// Under [`Policy::Tiering`] deeper levels may exceed their size so many times.
const TIERING_SLACK: f64 = 2.0;

impl Shape {
    pub(super) fn of(version: &Version, options: &TreeOptions, policy: Policy) -> Self {
        let bytes: [u64; LEVELS] = std::array::from_fn(|level| version.level_bytes(level));
        let fanout = options.level_fanout.max(2);
        let base_max = options.level_base_bytes.max(1);
        let largest = bytes[1..].iter().copied().max().unwrap_or(0);
        let first = (1..LEVELS).find(|&level| bytes[level] > 0).unwrap_or(LEVELS - 1);
        let (mut base, mut target) = (LEVELS - 1, largest);
        while base > 1 && target > base_max {
            target /= fanout;
            base -= 1;
        }
        base = base.min(first);
        let mut targets = [u64::MAX; LEVELS];
        let mut size = largest;
        for level in (base..LEVELS).rev() {
            targets[level] = size.max(base_max);
            size /= fanout;
        }
        let l0_runs = version.l0_runs().len();
        let mut scores = [0.0; LEVELS];
        let below: u64 = bytes[1..].iter().sum();
        let l0_bytes_max = (TIERING_L0_FACTOR * below).max(TIERING_L0_BASES * base_max);
        let (runs_max, bytes_max, slack) = match policy {
            Policy::Leveling => (options.l0_runs_trigger.max(1), base_max, 1.0),
            Policy::Tiering => (options.l0_runs_tiering.max(1) + 1, l0_bytes_max, TIERING_SLACK),
        };
        scores[0] = (l0_runs as f64 / runs_max as f64).max(bytes[0] as f64 / bytes_max as f64);
        for level in base..LEVELS - 1 {
            scores[level] = bytes[level] as f64 / targets[level] as f64 / slack;
        }
        Self { base, bytes, targets, l0_runs, scores, l0_bytes_max }
    }

    fn debt(&self, options: &TreeOptions) -> u64 {
        let levels_below = |level: usize| (LEVELS - level.max(1)) as u64;
        let mut debt = 0_u64;
        if self.scores[0] >= 1.0 {
            debt += self.bytes[0] + self.bytes[self.base].min(4 * self.bytes[0]);
        }
        for level in self.base..LEVELS - 1 {
            let excess = self.bytes[level].saturating_sub(self.targets[level]);
            // Half the fan-out overlaps on average, at each level on the way down one of them.
            let factor = (1 + options.level_fanout / 2).min(levels_below(level) * 8);
            debt = debt.saturating_add(excess.saturating_mul(factor));
        }
        debt
    }
}

/// How far `version` is out of the shape that `policy` wants; costs its tables.
pub fn pressure(version: &Version, options: &TreeOptions, policy: Policy) -> Pressure {
    let shape = Shape::of(version, options, policy);
    Pressure {
        l0_runs: shape.l0_runs,
        l0_bytes: shape.bytes[0],
        score: shape.scores.iter().copied().fold(0.0, f64::max),
        debt_bytes: shape.debt(options),
    }
}
