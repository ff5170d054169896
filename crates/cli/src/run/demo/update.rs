//! The writes of the demo: several threads increment scores at the same time. No increment may be
//! lost.

use super::read::{below, is_comment};
use super::samples::Samples;
use crate::failure::Failure;
use flagstone::internal::env::SeededRandom;
use flagstone::{Collection, Space};
use flagstone_comments::Comments;
use std::collections::BTreeMap;
use std::time::Instant;

/// Returns the numbers of the comments whose scores the thread of `seed` increments. They are few,
/// so that threads update the same ones.
pub(super) fn choices(count: u64, updates: u64, seed: u64) -> impl Iterator<Item = u64> {
    let random = SeededRandom::new(seed);
    let targets = (updates / 2).clamp(1, count);
    let step = count / targets;
    (0..updates).map(move |_| below(&random, targets) * step)
}

/// Increments the score of each of `numbers`.
pub(super) fn count_up(
    collection: &Collection,
    comments: Comments,
    numbers: impl Iterator<Item = u64>,
) -> Result<Samples, Failure> {
    let mut samples = Samples::default();
    for number in numbers {
        let key = comments.key(number);
        let started = Instant::now();
        collection.update(key.as_str(), |d| d.inc("score", 1))?;
        samples.push(started.elapsed());
    }
    Ok(samples.of_thread())
}

/// The number of documents whose score is not the original plus the increments.
pub(super) fn check(
    collection: &Collection,
    comments: Comments,
    increments: &BTreeMap<u64, i64>,
) -> Result<u64, Failure> {
    let mut wrong = 0;
    for (number, added) in increments {
        let is_right = match collection.get(comments.key(*number).as_str())? {
            Some(document) => is_comment(comments, *number, *added, &document)?,
            None => false,
        };
        wrong += u64::from(!is_right);
    }
    Ok(wrong)
}
