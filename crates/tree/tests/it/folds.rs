//! Tests of merge operands in tables: how many a flush and a compaction keep, and how many they
//! hold at once.
//!
//! The story: a counter that was incremented millions of times was one chain of operands, which
//! every flush and every compaction held in memory completely and wrote again.

use crate::bench_tree::{Append, AppendApart, BenchTree, small_options};
use flagstone_base::{Compression, KeyRange, Kind};
use flagstone_tree::{Direction, Fold, ScanOptions, TreeOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Appends, and records the most operands that it was given at once.
#[derive(Default)]
struct Noting(AtomicUsize);

impl Fold for Noting {
    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.fetch_max(operands.len(), Ordering::Relaxed);
        Append.fold(key, base, operands)
    }

    fn name(&self) -> &str {
        "noting"
    }
}

fn tree(fold: impl Fold + 'static, fold_bytes: usize) -> BenchTree {
    let fold: Option<Arc<dyn Fold>> = Some(Arc::new(fold));
    BenchTree::new(TreeOptions { fold, fold_bytes, ..small_options() })
}

fn merge(tree: &mut BenchTree, count: usize) -> String {
    let operands: String = ('a'..='z').cycle().take(count).collect();
    for operand in operands.bytes() {
        tree.write(Kind::Merge, b"k", &[operand]);
    }
    operands
}

fn entries(tree: &BenchTree) -> u64 {
    tree.tree.stats().levels.iter().map(|level| level.entries).sum()
}

#[test]
fn a_flush_keeps_one_operand_of_a_key_for_each_snapshot() {
    let mut tree = tree(Append, 4 << 20);
    let mut expected = vec!["_".to_owned()];
    for _ in 0..5 {
        let operands = merge(&mut tree, 1000);
        let longer = format!("{}{operands}", expected[expected.len() - 1]);
        expected.push(longer);
        tree.snapshots.push(tree.last);
    }
    merge(&mut tree, 1000);
    tree.flush();
    assert_eq!(entries(&tree), 6, "{}", tree.dump());
    assert_eq!(tree.tree.view().watermark(), tree.last, "readers between them begin again");
    tree.compact_full();
    assert_eq!(entries(&tree), 6, "{}", tree.dump());
    for (snapshot, expected) in tree.snapshots.clone().into_iter().zip(&expected[1..]) {
        assert_eq!(tree.get(b"k", snapshot).as_deref(), Some(expected.as_bytes()));
    }
    tree.snapshots.clear();
    tree.compact_full();
    assert_eq!(entries(&tree), 1, "{}", tree.dump());
}

/// A reader that is not registered may have taken its SeqNo before the flush.
#[test]
fn a_flush_of_only_a_combined_operand_warns_unregistered_readers() {
    let mut tree = tree(Append, 4 << 20);
    merge(&mut tree, 64);
    tree.flush();
    assert_eq!(entries(&tree), 1, "{}", tree.dump());
    assert_eq!(tree.tree.view().watermark(), tree.last);
}

#[test]
fn operands_that_a_deleted_range_divides_are_not_read_combined() {
    let mut tree = tree(Append, 4 << 20);
    // Blocks of operands in memory have eight, so the range falls into one, whatever their size up
    // to 37.
    let before = merge(&mut tree, 37);
    let read = |tree: &BenchTree, at| {
        let scanned = [Direction::Forward, Direction::Reverse].map(|way| {
            let mut scan = tree.tree.scan(KeyRange::ALL, at, way, ScanOptions::default());
            scan.advance().unwrap().then(|| {
                scan.show().unwrap();
                scan.value().to_vec()
            })
        });
        let found = tree.get(b"k", at);
        assert_eq!(scanned, [found.clone(), found.clone()]);
        found.map(|value| String::from_utf8(value).unwrap())
    };
    let whole = tree.last;
    let deleted = tree.write(Kind::RangeDelete, b"a", b"z");
    assert_eq!(read(&tree, deleted), None);
    let after = merge(&mut tree, 70);
    for _ in 0..2 {
        assert_eq!(read(&tree, tree.last), Some(format!("_{after}")));
        assert_eq!(read(&tree, whole), Some(format!("_{before}")));
        assert_eq!(read(&tree, deleted), None);
        tree.snapshots = vec![whole, deleted];
        tree.flush();
    }
}

#[test]
fn operands_that_cannot_be_combined_are_folded_onto_their_base_part_by_part() {
    let noting = Arc::new(Noting::default());
    let fold: Option<Arc<dyn Fold>> = Some(Arc::clone(&noting) as Arc<dyn Fold>);
    let mut tree = BenchTree::new(TreeOptions { fold, fold_bytes: 2000, ..small_options() });
    tree.put("k", "base-");
    let mut expected = "base-".to_owned();
    // Three runs of L0, each a chain of its own. The last one has no base in memory.
    for _ in 0..3 {
        expected += &merge(&mut tree, 5000);
        tree.flush();
    }
    tree.compact_full();
    assert_eq!(entries(&tree), 1, "{}", tree.dump());
    let most = noting.0.swap(0, Ordering::Relaxed);
    assert!(most > 0 && most < 200, "{most} operands were held at once");
    assert_eq!(tree.text("k"), Some(expected));
}

#[test]
fn operands_without_a_base_are_written_as_they_come() {
    let mut tree = tree(AppendApart, 2000);
    tree.put("k", "base-");
    tree.flush();
    let operands = merge(&mut tree, 3000);
    tree.flush();
    assert_eq!(entries(&tree), 3001, "{}", tree.dump());
    assert_eq!(tree.text("k"), Some(format!("base-{operands}")));
}

/// Each stripe was read again from the end of the key's history: with many snapshots a step of a
/// job took many times as long.
#[test]
fn what_is_read_again_is_read_once_however_many_snapshots_divide_it() {
    for has_bases in [false, true] {
        let mut options = small_options();
        options.fold = Some(Arc::new(AppendApart));
        options.fold_bytes = 2000;
        options.tables.compression = Compression::None;
        options.tables.bottom_compression = Compression::None;
        let mut tree = BenchTree::new(options);
        let (mut value, mut expected) = ("_".to_owned(), Vec::new());
        for n in 0..20 {
            if has_bases {
                tree.put("k", "_");
                tree.flush();
                "_".clone_into(&mut value);
            }
            let operand = format!("{n:01000}");
            for _ in 0..200 {
                tree.write(Kind::Merge, b"k", operand.as_bytes());
                value += &operand;
            }
            expected.push(value.clone());
            tree.snapshots.push(tree.last);
            if has_bases {
                tree.flush();
            }
        }
        tree.flush();
        let stored = tree.tree.stats().levels.iter().map(|level| level.bytes).sum::<u64>();
        let before = tree.disk.counts().bytes_read;
        tree.compact_full();
        let read = tree.disk.counts().bytes_read - before;
        // What was written is read once to check it.
        assert!(read <= 4 * stored, "{read} bytes were read of {stored}");
        for (snapshot, expected) in tree.snapshots.clone().into_iter().zip(&expected) {
            assert!(tree.get(b"k", snapshot).as_deref() == Some(expected.as_bytes()));
        }
    }
}

#[test]
fn operands_with_nothing_below_are_folded_at_the_bottom_in_parts() {
    let mut tree = tree(AppendApart, 2000);
    let operands = merge(&mut tree, 3000);
    let snapshot = tree.last;
    tree.snapshots.push(snapshot);
    let newer = merge(&mut tree, 3000);
    tree.flush();
    tree.compact_full();
    assert_eq!(entries(&tree), 3001, "one value for the snapshot: {}", tree.dump());
    assert_eq!(tree.get(b"k", snapshot), Some(format!("_{operands}").into_bytes()));
    tree.snapshots.clear();
    tree.compact_full();
    assert_eq!(entries(&tree), 1, "{}", tree.dump());
    assert_eq!(tree.text("k"), Some(format!("_{operands}{newer}")));
}
