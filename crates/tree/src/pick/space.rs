//! Which merge frees the most for what it costs.

use super::choose::{Tables, finish, is_quarantined};
use super::job::{Job, JobReason};
use super::piece::{Growth, Segment, piece};
use super::window::keeps_order;
use crate::options::TreeOptions;
use crate::space::{Rules, Space};
use crate::version::{LEVELS, Version};
use std::cmp::Ordering;

/// A merge that would free less than this part of its inputs is not worth it.
const GAIN_PARTS: u64 = 10;

/// The merge with the most bytes freed for each byte read or written: of a segment down to the last level, or of what it
/// has in L0, where keys are written so often that they meet there. With it, what is estimated of it.
pub(crate) fn pick_space(
    version: &Version,
    options: &TreeOptions,
    rules: &Rules,
) -> Option<(Job, Space)> {
    let mut best: Option<(f64, Space, Tables, usize)> = None;
    for segment in Segment::all(version, options) {
        let found = piece(version, options, &segment, (LEVELS - 1, Growth::Bounded));
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
