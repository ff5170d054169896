//! Picks the compaction that frees the most for its cost.

use super::choose::{Tables, finish, is_quarantined};
use super::fences::{JOB_BYTES_MAX, job_bytes_max};
use super::job::{Job, JobReason};
use super::piece::{Growth, Segment, piece};
use super::window::{cheapest, keeps_order};
use crate::options::TreeOptions;
use crate::space::{Rules, Space};
use crate::version::{LEVELS, Version};
use std::cmp::Ordering;

/// A compaction must free at least this part of its inputs.
const GAIN_PARTS: u64 = 10;
/// Tables of L0 that reach over the ends of segments hold back all that is newer in them. When
/// nothing can be freed for that, pieces may be so many times larger.
const GROWTHS: [u64; 3] = [1, 2, 4];

/// The merge with the most bytes freed for each byte read or written: of a segment down to the last
/// level, or of what it has in L0, where keys are written so often that they meet there. With it,
/// what is estimated of it. Costs the tables of the tree and, for each segment, the logarithm of
/// their number.
pub(crate) fn pick_space(
    version: &Version,
    options: &TreeOptions,
    rules: &Rules,
) -> Option<(Job, Space)> {
    let segments = Segment::all(version, options);
    let max = job_bytes_max(version, options);
    let bounds = GROWTHS.iter().map(|times| (max * times).min(JOB_BYTES_MAX.max(max)));
    let mut different: Vec<u64> = bounds.collect();
    different.dedup();
    let best = different.into_iter().find_map(|max| best_of(version, &segments, rules, max));
    best.or_else(|| unblock(version, options, rules))
}

/// Merges runs of L0 where much is garbage and no piece is free of tables that hold others back:
/// what is written is cut at the ends of segments, or is at least one run less.
fn unblock(version: &Version, options: &TreeOptions, rules: &Rules) -> Option<(Job, Space)> {
    let all = rules.estimate_tree(version);
    if all.garbage() == 0 || all.garbage() < all.bytes / GAIN_PARTS {
        return None;
    }
    let window = cheapest(version, options)?;
    let space = rules.estimate(&window, false);
    Some((finish(window, 0, JobReason::Space, false), space))
}

/// The best merge among pieces of at most `max` bytes, if no table of the levels makes one larger.
fn best_of(
    version: &Version,
    segments: &[Segment],
    rules: &Rules,
    max: u64,
) -> Option<(Job, Space)> {
    let mut best: Option<(f64, Space, Tables, usize)> = None;
    for segment in segments {
        let found = piece(version, segment, (LEVELS - 1, Growth::Within(max)));
        let l0: Tables = found.inputs.iter().filter(|(level, _)| *level == 0).cloned().collect();
        let l0 = (l0.len() > 1 && l0.len() < found.inputs.len()).then_some((l0, 0));
        for (inputs, output) in [(found.inputs, LEVELS - 1)].into_iter().chain(l0) {
            if is_quarantined(&inputs) {
                continue;
            }
            let space = rules.estimate(&inputs, output == LEVELS - 1);
            if space.garbage() == 0 || space.garbage() < space.bytes / GAIN_PARTS {
                continue;
            }
            let worth = space.garbage() as f64 / (space.bytes + space.live) as f64;
            let is_better = |(other, ..): &(f64, Space, Tables, usize)| {
                worth.total_cmp(other) == Ordering::Greater
            };
            let fits = || output > 0 || keeps_order(version, &inputs);
            if best.as_ref().is_none_or(is_better) && fits() {
                best = Some((worth, space, inputs, output));
            }
        }
    }
    let (_, space, inputs, output) = best?;
    Some((finish(inputs, output, JobReason::Space, false), space))
}
