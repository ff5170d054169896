//! Picks the compaction that frees the most for its cost.

use super::choose::{finish, is_quarantined};
use super::fences::{JOB_BYTES_MAX, job_bytes_max};
use super::job::{Job, JobReason, Tables};
use super::piece::{Growth, Segment, segment_inputs};
use super::window::{cheapest, keeps_order};
use crate::options::TreeOptions;
use crate::space::{Rules, Space};
use crate::version::{LEVELS, Version};
use std::cmp::Ordering;

/// A compaction must free at least this part of its inputs.
const GAIN_PARTS: u64 = 10;
/// Tables of L0 that reach across the ends of segments hold back everything newer in them. If
/// therefore no compaction frees anything, pieces may be this many times larger.
const GROWTHS: [u64; 3] = [1, 2, 4];

/// Returns the compaction that frees the most bytes for each byte read or written, and its
/// estimate. Candidates are the compaction of a segment down to the last level, and a merge of its
/// tables in L0, where the versions of frequently written keys meet. The cost is proportional to
/// the number of tables and, for each segment, to its logarithm.
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

/// Returns a merge of runs of L0 for a tree with much garbage in which every piece has tables that
/// hold others back. The merge cuts its output at the ends of segments, or at least removes a run.
fn unblock(version: &Version, options: &TreeOptions, rules: &Rules) -> Option<(Job, Space)> {
    let all = rules.estimate_tree(version);
    if all.garbage() == 0 || all.garbage() < all.bytes / GAIN_PARTS {
        return None;
    }
    let window = cheapest(version, options)?;
    let space = rules.estimate(&window, 0);
    Some((finish(window, 0, JobReason::Space), space))
}

/// Returns the best compaction among pieces of at most `max` bytes; tables of the levels may make a
/// piece larger.
fn best_of(
    version: &Version,
    segments: &[Segment],
    rules: &Rules,
    max: u64,
) -> Option<(Job, Space)> {
    let mut best: Option<(f64, Space, Tables, usize)> = None;
    for segment in segments {
        let found = segment_inputs(version, segment, LEVELS - 1, Growth::Within(max));
        let l0: Tables = found.inputs.iter().filter(|(level, _)| *level == 0).cloned().collect();
        let l0 = (l0.len() > 1 && l0.len() < found.inputs.len()).then_some((l0, 0));
        for (inputs, output) in [(found.inputs, LEVELS - 1)].into_iter().chain(l0) {
            if is_quarantined(&inputs) {
                continue;
            }
            let space = rules.estimate(&inputs, output);
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
    Some((finish(inputs, output, JobReason::Space), space))
}
