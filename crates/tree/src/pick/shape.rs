//! How large each level should be, and how far a tree is from it.
//!
//! The last level holds most of the data, whatever its size; each level above it is `fanout` times
//! smaller, up to the first whose size does not exceed `level_base_bytes`: the base level, where L0
//! goes. So a small tree has one level, and space amplification stays near 1 + 1/fanout (dynamic
//! level sizes, as RocksDB has them).
//!
//! Under [`Policy::Tiering`] L0 is let grow instead: its runs are merged among themselves when they
//! are too many, and go down only when they hold about twice what lies below. Trees that fill alike
//! would all do so at the same time; each has a turn of its own, and once they are out of step they
//! stay so.

use crate::options::TreeOptions;
use crate::version::{LEVELS, Run, Version};

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
    /// The fullest level against its size; from 1 on there is work.
    pub score: f64,
}

/// Sizes and scores of the levels.
pub(super) struct Shape {
    pub(super) base: usize,
    pub(super) bytes: [u64; LEVELS],
    pub(super) l0_runs: usize,
    pub(super) scores: [f64; LEVELS],
    /// From so many bytes on L0 goes down under [`Policy::Tiering`].
    pub(super) l0_bytes_max: u64,
}

/// Under [`Policy::Tiering`] L0 goes down when it holds about so many times what lies below, ..
const TIERING_L0_FACTOR: u64 = 2;
/// .. but not before it holds about so many base levels.
const TIERING_L0_BASES: u64 = 16;
/// Trees take turns: see [`TreeOptions::turn`].
const TURNS: u64 = 8;
/// L0 is young while its largest run is not so many times larger than its smallest.
const YOUNG_RUNS_ALIKE: u64 = 4;
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
        let turn = u64::from(options.turn).min(TURNS - 1);
        // From 2/3 to 5/4.
        let l0_bytes_max = (TIERING_L0_FACTOR * below).max(TIERING_L0_BASES * base_max);
        let l0_bytes_max = l0_bytes_max / 12 * (TURNS + turn);
        let l0_runs_max = match is_young(version) {
            true => options.l0_runs_tiering.saturating_sub((TURNS - 1 - turn) as usize),
            false => options.l0_runs_tiering,
        };
        let (runs_max, bytes_max, slack) = match policy {
            Policy::Leveling => (options.l0_runs_trigger.max(1), base_max, 1.0),
            Policy::Tiering => (l0_runs_max.max(1) + 1, l0_bytes_max, TIERING_SLACK),
        };
        scores[0] = (l0_runs as f64 / runs_max as f64).max(bytes[0] as f64 / bytes_max as f64);
        for level in base..LEVELS - 1 {
            scores[level] = bytes[level] as f64 / targets[level] as f64 / slack;
        }
        Self { base, bytes, l0_runs, scores, l0_bytes_max }
    }
}

/// Whether no runs of L0 were merged yet: the moment to bring trees out of step for little.
fn is_young(version: &Version) -> bool {
    let bytes = |run: &Run| run.iter().map(|table| table.meta().bytes).sum::<u64>();
    let runs = version.l0_runs().iter().map(bytes);
    let (least, most) = runs.fold((u64::MAX, 0), |(a, b), run| (a.min(run), b.max(run)));
    most <= least.saturating_mul(YOUNG_RUNS_ALIKE)
}

/// How far `version` is out of the shape that `policy` wants; costs its tables.
pub fn pressure(version: &Version, options: &TreeOptions, policy: Policy) -> Pressure {
    let shape = Shape::of(version, options, policy);
    Pressure { l0_runs: shape.l0_runs, score: shape.scores.iter().copied().fold(0.0, f64::max) }
}
