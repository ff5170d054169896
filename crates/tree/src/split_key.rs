//! The key at which a tree is cut in two halves of about the same size.

use crate::bounds::KeyBounds;
use crate::tree::Tree;
use crate::version::{TableHandle, Version};
use flagstone_base::sorted::sort_by;
use std::sync::Arc;

/// A key at which a table begins is preferred if at least this part of the tree, in thousandths,
/// lies on each side: then no table of its level reaches across the bound.
const SIDE_LEAST: u64 = 350;

/// With more tables than this their first keys are close enough, and their samples would take much
/// memory and many reads.
const SAMPLED_TABLES_MAX: usize = 64;

/// Returns a key with about half of the bytes of `tree` below it, or `None` if all its tables begin
/// at one key. Reads the samples of its tables if there are few; one that cannot be read does not
/// count.
pub fn split_key(tree: &Tree) -> Option<Vec<u8>> {
    let view = tree.view();
    let version = view.version();
    let bounds = tree.options().bounds.as_deref().cloned().unwrap_or_default();
    let is_small = version.tables().count() <= SAMPLED_TABLES_MAX;
    let sampled = is_small.then(|| middle_of(version, &bounds, sampled(version))).flatten();
    // Samples keep only the front of a long key, which many keys may share.
    sampled.or_else(|| middle_of(version, &bounds, starts(version)))
}

/// Returns the key that halves `weights`: keys of the tables of `version`, with their bytes.
fn middle_of(
    version: &Version,
    bounds: &KeyBounds,
    mut weights: Vec<(Vec<u8>, u64)>,
) -> Option<Vec<u8>> {
    weights.retain(|(key, _)| bounds.contains(key));
    sort_by(&mut weights, Ord::cmp);
    let first = weights.first()?.0.clone();
    // The weight below each key. A sum of 64 bits would overflow for hostile samples.
    let mut sum = 0_u128;
    let weights: Vec<(Vec<u8>, u128)> = weights
        .into_iter()
        .map(|(key, weight)| {
            let below = sum;
            sum += u128::from(weight);
            (key, below)
        })
        .collect();
    let part_below = |key: &[u8]| {
        let at = weights.partition_point(|(other, _)| other.as_slice() < key);
        (weights.get(at).map_or(sum, |(_, below)| *below) * 1000 / sum.max(1)) as u64
    };
    let is_good = |key: &[u8]| *key > first[..] && *key > *bounds.lower() && bounds.contains(key);
    let deepest = version.tables().map(|(level, _)| level).max()?;
    let lowest = version.tables().filter(|(level, _)| *level == deepest);
    let border = lowest
        .map(|(_, table)| table.meta().smallest.clone())
        .map(|key| (part_below(&key).abs_diff(500), key))
        .filter(|(off, key)| *off <= 500 - SIDE_LEAST && is_good(key))
        .min();
    let middle = || {
        let upper = weights.iter().find(|(key, below)| *below * 2 >= sum && is_good(key));
        upper.or_else(|| weights.iter().rev().find(|(key, _)| is_good(key)))
    };
    border.map(|(_, key)| key).or_else(|| middle().map(|(key, _)| key.clone()))
}

/// The sampled keys of all tables, with the bytes that each represents.
fn sampled(version: &Version) -> Vec<(Vec<u8>, u64)> {
    let mut weights = Vec::new();
    for (_, table) in version.tables() {
        let Some(sample) = table.open().and_then(|table| table.sample(0)).ok().flatten() else {
            continue;
        };
        let weight = |bytes: u64| (bytes + 1).saturating_mul(1 << sample.shift().min(30));
        let entries = sample.entries().iter();
        weights.extend(entries.map(|entry| (entry.key.to_vec(), weight(entry.bytes))));
    }
    weights
}

/// The first keys of all tables, with the bytes of each.
fn starts(version: &Version) -> Vec<(Vec<u8>, u64)> {
    let start = |table: &Arc<TableHandle>| (table.meta().smallest.clone(), table.meta().bytes);
    version.tables().map(|(_, table)| start(table)).collect()
}
