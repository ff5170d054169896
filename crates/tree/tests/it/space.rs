//! Tests of the estimate of garbage by samples, against what a full compaction leaves; and of the
//! compactions that are picked to free it.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::hash::remix;
use flagstone_base::{Kind, TreeId};
use flagstone_env::{Random, SeededRandom};
use flagstone_tree::{
    Compaction, HashBounds, KeyBounds, Space, Successor, Tree, TreeOptions, inherited, replace,
    retire,
};
use std::sync::Arc;

const KEYS: u64 = 20_000;

fn key(n: u64) -> String {
    format!("key {n:06}")
}

/// Returns bytes that hardly compress, whose length differs from key to key.
fn value(n: u64, round: u64) -> Vec<u8> {
    let len = 40 + remix(n + 1) % 160;
    (0..len).map(|at| remix(n * 1000 + round * 7_000_003 + at) as u8).collect()
}

fn filled(options: TreeOptions) -> BenchTree {
    let mut tree = BenchTree::new(options);
    for n in 0..KEYS {
        tree.write(Kind::Put, key(n).as_bytes(), &value(n, 0));
    }
    tree.flush();
    tree.compact_full();
    tree
}

fn options() -> TreeOptions {
    let mut options = TreeOptions { table_bytes: 256 << 10, ..small_options() };
    options.tables.block_bytes = 4096;
    options
}

fn space(tree: &BenchTree) -> Space {
    tree.tree.space(&tree.snapshots, tree.last)
}

fn bytes(tree: &BenchTree) -> u64 {
    tree.tree.stats().levels.iter().map(|level| level.bytes).sum()
}

/// Checks that a full compaction leaves what the estimate says, to a twentieth.
fn check(what: &str, tree: &mut BenchTree) {
    let told = space(tree);
    assert_eq!(told.bytes, bytes(tree), "{what}");
    tree.compact_full();
    let left = bytes(tree);
    let off = told.live.abs_diff(left) as f64 / (told.bytes as f64);
    assert!(off < 0.04, "{what}: {told:?}, left {left}");
    let after = space(tree);
    assert!(after.garbage() <= after.bytes / 50, "{what}: {after:?}");
}

/// The trees that two halves of the keys of `tree` are split into.
fn halves(tree: &BenchTree, is_hashed: bool) -> Vec<Arc<Tree>> {
    let middle = key(KEYS / 2).into_bytes();
    let bounded = |half| match half {
        0 => KeyBounds::new(Vec::new(), Some(middle.clone())),
        _ => KeyBounds::new(middle.clone(), None),
    };
    let hashes = |half| match half {
        0 => HashBounds::new(0, u64::MAX / 2),
        _ => HashBounds::new(u64::MAX / 2 + 1, u64::MAX),
    };
    let old = std::slice::from_ref(&tree.tree);
    let new = (0..2).map(|half| {
        let mut options = options();
        if is_hashed {
            options.hashes = Some(hashes(half))
        } else {
            options.bounds = Some(Arc::new(bounded(half)))
        }
        let bounds = options.bounds.as_deref().cloned().unwrap_or_default();
        Successor { edit: inherited(old, TreeId(20 + half), &bounds), options }
    });
    let new = replace(old, new.collect()).unwrap();
    retire(old, &new);
    new
}

/// Each half counted the tables of both as its own.
#[test]
fn two_trees_count_what_they_share_once() {
    for is_hashed in [false, true] {
        let mut tree = filled(options());
        for n in (0..KEYS / 2).map(|n| n * 2) {
            tree.write(Kind::Put, key(n).as_bytes(), &value(n, 1));
        }
        tree.flush();
        let whole = space(&tree);
        assert!(whole.garbage() > whole.bytes / 5, "{whole:?}");
        let halves = halves(&tree, is_hashed);
        let spaces: Vec<Space> = halves.iter().map(|half| half.space(&[], tree.last)).collect();
        let sum = |of: fn(&Space) -> u64| spaces.iter().map(of).sum::<u64>();
        for (told, wanted) in [
            (sum(|space| space.bytes), whole.bytes),
            (sum(|space| space.live), whole.live),
            (sum(|space| space.garbage()), whole.garbage()),
        ] {
            assert!(told.abs_diff(wanted) < whole.bytes / 20, "{spaces:?} of {whole:?}");
        }
    }
}

#[test]
fn a_tree_without_overwrites_has_no_garbage() {
    let mut tree = BenchTree::new(options());
    for n in 0..KEYS {
        // Not in the order of keys.
        let n = n * 7919 % KEYS;
        tree.write(Kind::Put, key(n).as_bytes(), &value(n, 0));
        if n.is_multiple_of(2000) {
            tree.flush();
        }
    }
    tree.flush();
    let told = space(&tree);
    assert!(told.garbage() <= told.bytes / 50, "{told:?}");
    assert!(tree.tree.pick_space(&[], tree.last).is_none());
    check("inserts", &mut tree);
}

#[test]
fn overwritten_and_deleted_entries_are_garbage() {
    let mut tree = filled(options());
    for round in 1..4 {
        for n in (0..KEYS).filter(|n| remix(n + round * KEYS).is_multiple_of(3)) {
            tree.write(Kind::Put, key(n).as_bytes(), &value(n, round));
        }
        tree.flush();
    }
    check("overwrites", &mut tree);
    for n in (0..KEYS).filter(|n| remix(n * 3).is_multiple_of(4)) {
        tree.write(Kind::Delete, key(n).as_bytes(), b"");
    }
    tree.flush();
    check("deletes", &mut tree);
}

#[test]
fn deleted_ranges_are_garbage() {
    let mut tree = filled(options());
    tree.write(Kind::RangeDelete, key(2000).as_bytes(), key(9500).as_bytes());
    for n in 3000..4000 {
        tree.write(Kind::Put, key(n).as_bytes(), &value(n, 1));
    }
    tree.flush();
    let told = space(&tree);
    assert!(told.live < told.bytes / 4 * 3, "{told:?}");
    check("a range", &mut tree);
}

#[test]
fn a_deleted_range_that_a_snapshot_keeps_is_alive() {
    let mut tree = BenchTree::new(options());
    tree.snapshots.push(tree.last);
    tree.write(Kind::Put, b"first", b"");
    tree.write(Kind::RangeDelete, &[0], &vec![0xFF; 60_000]);
    tree.flush();
    tree.compact_full();
    assert!(bytes(&tree) > 60_000, "the snapshot is older than the range");
    let picked = tree.tree.pick_space(&tree.snapshots, tree.last);
    assert_eq!(picked.map(|(_, space)| space), None, "a compaction would write it again");
    tree.snapshots.clear();
    let (job, space) = tree.tree.pick_space(&[], tree.last).expect("nothing needs the range");
    assert!(space.live < 1000 && job.bytes > 60_000, "{space:?}");
}

/// The range counted as bytes of the live entries of its table, which was never picked.
#[test]
fn a_deleted_range_in_the_last_level_is_garbage_also_beside_entries_that_are_alive() {
    let mut tree = BenchTree::new(options());
    tree.snapshots.push(tree.last);
    tree.write(Kind::RangeDelete, &[0], &vec![0xFF; 60_000]);
    for n in 0..50 {
        tree.write(Kind::Put, key(n).as_bytes(), &value(n, 0));
    }
    tree.flush();
    tree.compact_full();
    let levels = tree.tree.stats().levels;
    assert!(levels[6].range_deletes == 1 && bytes(&tree) > 120_000, "range and upper bound");
    tree.snapshots.clear();
    assert!(space(&tree).live < 15_000, "{:?}", space(&tree));
    let (job, told) = tree.tree.pick_space(&[], tree.last).expect("nothing needs the range");
    tree.run(job);
    let left = bytes(&tree);
    assert!(left > 4000 && left.abs_diff(told.live) < 1000, "{told:?}, left {left}");
    assert_eq!(tree.tree.pick_space(&[], tree.last).map(|(_, space)| space), None);
}

#[test]
fn what_a_snapshot_reads_is_alive() {
    let mut tree = filled(options());
    tree.snapshots.push(tree.last);
    for round in 1..3 {
        for n in 0..KEYS {
            tree.write(Kind::Put, key(n).as_bytes(), &value(n, round));
        }
        tree.flush();
    }
    check("of three versions two are alive", &mut tree);
    tree.snapshots.clear();
    let told = space(&tree);
    assert!(told.live < told.bytes / 100 * 55, "{told:?}");
    check("without readers", &mut tree);
}

#[test]
fn operands_that_can_be_folded_are_garbage() {
    let mut tree = filled(options());
    for round in 0..20 {
        for n in (0..KEYS).step_by(2) {
            tree.write(Kind::Merge, key(n).as_bytes(), &[round]);
        }
        tree.flush();
    }
    // The values grow by what was appended, which no estimate can know.
    let told = space(&tree);
    assert!(told.garbage() > told.bytes / 3, "{told:?}");
    tree.compact_full();
    assert!(bytes(&tree).abs_diff(told.live) < told.live / 5, "{told:?}, left {}", bytes(&tree));
}

#[test]
fn the_merge_that_is_picked_frees_what_was_estimated() {
    let segmented = TreeOptions { job_bytes_min: 512 << 10, ..options() };
    let mut tree = filled(segmented);
    // Everything once, and the first quarter again and again.
    for round in 1..9 {
        let of_round = |n: &u64| *n < KEYS / 4 || n % 8 == round % 8;
        for n in (0..KEYS).filter(of_round) {
            tree.write(Kind::Put, key(n).as_bytes(), &value(n, round));
        }
        tree.flush();
    }
    let mut jobs = 0;
    while let Some((job, told)) = tree.tree.pick_space(&[], tree.last) {
        let before = bytes(&tree);
        assert!(job.bytes <= before / 3, "a piece, not the tree of {before}: {job}");
        tree.run(job);
        let freed = before - bytes(&tree);
        assert!(freed.abs_diff(told.garbage()) < told.bytes / 8, "{told:?}, freed {freed}");
        jobs += 1;
        assert!(jobs < 50, "it ends");
    }
    assert!(jobs > 2, "{jobs}");
    let after = space(&tree);
    assert!(after.garbage() < after.bytes / 6, "{after:?}");
    for n in 0..KEYS {
        let newest = (1..9).rev().find(|round| n < KEYS / 4 || n % 8 == round % 8).unwrap();
        assert_eq!(tree.get(key(n).as_bytes(), tree.last).unwrap(), value(n, newest));
    }
}

/// Overwrites keys at random while the tree is kept at 2.25 times its live bytes. Returns what
/// compactions write for each byte put, and the largest output as a fraction of the live bytes.
fn cost_of_overwrites(options: TreeOptions) -> (f64, f64) {
    let mut tree = filled(options);
    let live = bytes(&tree) as f64;
    let random = SeededRandom::new(5);
    let (mut put, mut written, mut largest) = (0, 0, 0);
    for round in 0..45 {
        for _ in 0..KEYS / 4 {
            let n = random.next_u64() % KEYS;
            let value = value(n, round);
            put += if round < 15 { 0 } else { value.len() as u64 + 10 };
            tree.write(Kind::Put, key(n).as_bytes(), &value);
        }
        tree.flush();
        while bytes(&tree) as f64 > live * 2.25 {
            let _seen = space(&tree);
            let (job, _) = tree.tree.pick_space(&[], tree.last).expect("more than half is garbage");
            let (before, inputs) = (bytes(&tree), job.bytes);
            tree.run(job);
            let output = inputs + bytes(&tree) - before;
            // Until tables are cut at the ends of small segments, pieces are larger.
            if round >= 15 {
                written += output;
                largest = output.max(largest);
            }
        }
    }
    (written as f64 / put as f64, largest as f64 / live)
}

/// The best possible is 0.4: a segment is written for about two and a half times its bytes. When
/// segments were hardly smaller than the tree, and tables of L0 reached across their ends, it was
/// 1.2, in outputs of half of the live bytes.
#[test]
fn a_small_tree_is_relieved_in_small_pieces_while_it_is_overwritten() {
    // As 105 MB with jobs of 64 MiB and tables of 32 MiB; and as a quarter of that.
    for (job_bytes_min, largest_max) in [(1800 << 10, 0.25), (7200 << 10, 0.5)] {
        let options = TreeOptions { job_bytes_min, table_bytes: job_bytes_min / 2, ..options() };
        let (written, largest) = cost_of_overwrites(options);
        assert!(written < 0.6 && largest < largest_max, "{written}, in pieces of {largest}");
    }
}

/// A flush that is too small to be cut spans all segments: nothing newer could go down in any
/// piece.
#[test]
fn a_small_table_over_all_segments_does_not_keep_garbage_from_being_freed() {
    let mut tree = filled(TreeOptions { job_bytes_min: 256 << 10, ..options() });
    for n in (0..KEYS).step_by(5000).chain([KEYS - 1]) {
        tree.write(Kind::Put, key(n).as_bytes(), &value(n, 1));
    }
    tree.flush();
    for round in 2..4 {
        (0..KEYS).for_each(|n| {
            tree.write(Kind::Put, key(n).as_bytes(), &value(n, round));
        });
        tree.flush();
    }
    let before = bytes(&tree);
    assert!(space(&tree).garbage() > before / 2);
    let mut jobs = 0;
    while let Some((job, _)) = tree.tree.pick_space(&[], tree.last) {
        assert!(job.bytes < before * 3 / 4, "not all at once: {job}");
        tree.run(job);
        jobs += 1;
        assert!(jobs < 100, "it ends");
    }
    let after = space(&tree);
    assert!(after.garbage() < after.bytes / 6, "{after:?}");
    assert_eq!(tree.get(key(7).as_bytes(), tree.last).unwrap(), value(7, 3));
}

/// Inputs and outputs of a job are on disk at the same time. Abandoned outputs are to be removed.
#[test]
fn tables_count_from_their_first_byte_until_they_are_installed_or_given_up() {
    let mut tree = filled(options());
    let context = Arc::clone(tree.tree.context());
    let unfinished = || context.unfinished.bytes();
    assert_eq!(unfinished(), 0);
    (0..KEYS).for_each(|n| {
        tree.write(Kind::Put, key(n).as_bytes(), &value(n, 1));
    });
    tree.tree.seal(tree.last);
    let mut flush = tree.start_flush().unwrap();
    assert!(flush.step().unwrap().is_none() && unfinished() > 256 << 10, "{}", unfinished());
    drop(flush);
    assert_eq!(unfinished(), 0, "a flush was given up");
    let mut flush = tree.start_flush().unwrap();
    let edit = loop {
        if let Some(edit) = flush.step().unwrap() {
            break edit;
        }
    };
    assert_eq!(unfinished(), edit.added.iter().map(|(_, meta)| meta.bytes).sum::<u64>());
    tree.install(&edit);
    assert_eq!(unfinished(), 0, "it is installed");
    let (job, _) = tree.tree.pick_space(&[], tree.last).unwrap();
    let mut compaction = Compaction::start(&tree.tree, job, &[], tree.last).unwrap();
    let edit = loop {
        if let Some(edit) = compaction.step().unwrap() {
            break edit;
        }
        assert!(unfinished() > 0);
    };
    tree.tree.abandon(&edit);
    assert_eq!(unfinished(), 0, "the manifest refused it");
}

/// Every piece is a job and an edit of its own. Finished pieces are not done again.
#[test]
fn a_full_compaction_is_done_in_pieces_that_stay_when_it_is_given_up() {
    let segmented = TreeOptions { job_bytes_min: 512 << 10, ..options() };
    let mut tree = filled(segmented.clone());
    for n in (0..KEYS).step_by(2) {
        tree.write(Kind::Put, key(n).as_bytes(), &value(n, 1));
    }
    tree.flush();
    let view = tree.tree.view();
    let mut pass = flagstone_tree::FullPass::new(view.version());
    let (mut pieces, mut largest) = (0, 0);
    while let Some(job) = pass.next(tree.tree.view().version(), &segmented) {
        largest = largest.max(job.bytes);
        tree.run(job);
        pieces += 1;
        if pieces == 3 {
            break;
        }
    }
    assert!(pieces == 3 && largest <= 1 << 20, "{pieces} of {largest}");
    let part = pass.part_done(tree.tree.view().version());
    assert!((0.2..0.8).contains(&part), "{part}");
    tree.reopen();
    let version = std::sync::Arc::clone(tree.tree.view().version());
    let mut again = flagstone_tree::FullPass::new(&version);
    let mut left = Vec::new();
    let mut tables = std::collections::BTreeSet::new();
    while let Some(job) = again.next(&version, &segmented) {
        tables.extend(job.inputs.iter().map(|(_, number)| *number));
        left.push(job);
    }
    let all = version.tables().count();
    assert!(tables.len() < all, "{} of {all} are still to be done", tables.len());
    assert!(tree.compact_full());
    assert!(!tree.compact_full());
    assert_eq!(space(&tree).garbage(), 0);
}

/// Returns the bytes of the samples that an estimate keeps, with `others` other trees.
fn kept_samples(others: usize) -> u64 {
    let mut tree = filled(options());
    for n in (0..KEYS).step_by(3) {
        tree.write(Kind::Put, key(n).as_bytes(), &value(n, 1));
    }
    tree.flush();
    let context = tree.tree.context();
    let _others: Vec<_> = (0..others).map(|_| std::sync::Arc::clone(&context.sampled)).collect();
    // Opened tables are pinned too.
    tree.tree.verify_quickly().unwrap();
    let before = context.cache.pinned_bytes();
    let space = space(&tree);
    assert!(space.garbage() > space.bytes / 8, "{space:?}");
    context.cache.pinned_bytes() - before
}

#[test]
fn samples_of_all_trees_share_their_memory() {
    let (alone, shared) = (kept_samples(0), kept_samples(400));
    assert!(alone > 100_000 && shared < alone / 4, "{alone} bytes, and {shared} among 400 trees");
}
