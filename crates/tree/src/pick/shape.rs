//! Computes how large each level should be, and how far a tree is from that.
//!
//! The last level holds most of the data, whatever its size. Each level above it is `fanout` times
//! smaller, up to the first whose size does not exceed `level_base_bytes`: the base level, which
//! takes the tables of L0. So a small tree has one level, and space amplification stays near 1 +
//! 1/fanout (dynamic level sizes, as in RocksDB).
//!
//! Under [`Policy::Tiering`] L0 may grow instead: its runs are merged with each other when there
//! are too many, and go down only when they hold about twice the bytes below. Trees that fill at
//! the same rate would all do so at the same time. So each has its own turn, and once they are out
//! of step they stay so.

use crate::options::TreeOptions;
use crate::version::{LEVELS, Run, Version};

/// What compactions should save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Reads and space: few runs, each level a fraction of the next. For trees that are idle or
    /// mostly read.
    #[default]
    Leveling,
    /// Writes: every byte is rewritten as seldom as a bounded number of runs allows. For trees that
    /// are written heavily. `Leveling` brings them into shape when there is time.
    Tiering,
}

/// How far a tree is out of shape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// The number of overlapping runs in L0, each of which costs a get.
    pub l0_runs: usize,
    /// The highest ratio of a level to its target size. From 1 on a compaction is due.
    pub score: f64,
}

/// Sizes and scores of the levels.
pub(super) struct Shape {
    pub(super) base: usize,
    pub(super) bytes: [u64; LEVELS],
    pub(super) l0_runs: usize,
    pub(super) scores: [f64; LEVELS],
    /// Under [`Policy::Tiering`] L0 goes down when it has at least this many bytes.
    pub(super) l0_bytes_max: u64,
}

/// Under [`Policy::Tiering`] L0 goes down when it holds about this many times the bytes below, ..
const TIERING_L0_FACTOR: u64 = 2;
/// .. but not before it holds about this many base levels.
const TIERING_L0_BASES: u64 = 16;
/// The number of turns: see [`TreeOptions::turn`].
const TURNS: u64 = 8;
/// L0 is young while its largest run is at most this many times larger than its smallest.
const YOUNG_RUNS_ALIKE: u64 = 4;
/// Under [`Policy::Tiering`] deeper levels may exceed their target size by this factor.
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
        // The factor is 2/3 to 5/4, by turn.
        let l0_bytes_max = (TIERING_L0_FACTOR * below).max(TIERING_L0_BASES * base_max);
        let l0_bytes_max = l0_bytes_max / 12 * (TURNS + turn);
        let l0_runs_max = if is_young(version) {
            options.l0_runs_tiering.saturating_sub((TURNS - 1 - turn) as usize)
        } else {
            options.l0_runs_tiering
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

/// Returns whether no runs of L0 were merged yet. At that time it costs little to bring trees out
/// of step.
fn is_young(version: &Version) -> bool {
    let bytes = |run: &Run| run.iter().map(|table| table.meta().bytes).sum::<u64>();
    let runs = version.l0_runs().iter().map(bytes);
    let (least, most) = runs.fold((u64::MAX, 0), |(a, b), run| (a.min(run), b.max(run)));
    most <= least.saturating_mul(YOUNG_RUNS_ALIKE)
}

/// Returns how far `version` is from the shape that `policy` wants. The cost is proportional to the
/// number of tables.
pub fn pressure(version: &Version, options: &TreeOptions, policy: Policy) -> Pressure {
    let shape = Shape::of(version, options, policy);
    Pressure { l0_runs: shape.l0_runs, score: shape.scores.iter().copied().fold(0.0, f64::max) }
}
