//! Tests of deleted ranges in memory and in tables.
//!
//! An open table once kept every deleted range in two forms, 170 bytes for keys of 16, and a flush
//! or a compaction held them in five more at once: 100,000 of them took a database 30 MiB beyond
//! its bound. All ranges between two keys went into one table, and a section of more than 514 MiB
//! cannot be written.

use crate::bench_tree::{BenchTree, first_full, small_options};
use flagstone_base::{KeyRange, Kind, SeqNo};
use flagstone_sst::TableMeta;
use flagstone_testkit::memory::peak;
use flagstone_tree::{Compaction, Direction, ScanOptions, TreeOptions};
use std::collections::BTreeMap;

/// The number of ranges; their keys have 16 bytes.
const RANGES: u64 = 20_000;
/// The memory of a range in a set: its keys, and 32 bytes.
const IN_SET: u64 = 16 + 16 + 32;
/// The most bytes of a range in a table.
const IN_TABLE: u64 = 40;
/// Memory for everything else.
const SLACK: u64 = 256 << 10;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:013}").into_bytes()
}

/// Deletes these ranges in a tree of large tables. Nothing is flushed.
fn deleted(tree: &mut BenchTree, ranges: impl Iterator<Item = u64>) {
    for n in ranges {
        tree.write(Kind::RangeDelete, &key(n * 8), &key(n * 8 + 4));
    }
}

fn large_tables() -> BenchTree {
    BenchTree::new(TreeOptions { table_bytes: 32 << 20, ..small_options() })
}

/// Returns the peak memory of `work` for each range.
fn bytes_a_range(work: impl FnOnce()) -> u64 {
    let ((), bytes) = peak(work);
    (bytes.unwrap() as u64).saturating_sub(SLACK) / RANGES
}

fn metas(tree: &BenchTree) -> Vec<TableMeta> {
    tree.tree.view().version().tables().map(|(_, table)| table.meta().clone()).collect()
}

fn pinned(tree: &BenchTree) -> u64 {
    tree.tree.context().cache.pinned_bytes()
}

#[test]
fn an_open_table_keeps_its_deleted_ranges_once_and_only_when_they_are_asked_for() {
    let mut tree = large_tables();
    deleted(&mut tree, 0..RANGES);
    tree.flush();
    assert_eq!(metas(&tree).len(), 1);
    let open = pinned(&tree);
    assert!(open < 4096, "{open} bytes of an open table without reads");
    let asking = bytes_a_range(|| assert_eq!(tree.get(&key(3), tree.last), None));
    assert_eq!(pinned(&tree) - open, RANGES * IN_SET);
    assert!(asking <= IN_SET + IN_TABLE, "{asking} bytes a range, for the set and the section");
    let ((), taken) = peak(|| (0..1000).for_each(|n| drop(tree.get(&key(n * 8 + 1), tree.last))));
    assert!(taken.unwrap() < 1024, "{taken:?} bytes to read deleted keys");
    tree.compact_full();
    drop(tree.tree.context().obsolete.take());
    assert_eq!(pinned(&tree), 0, "they deleted nothing, and no table is left");
}

/// Flushes with the right to remove tables. Returns the bytes of new tables, and the tables
/// removed.
fn flush_and_remove(tree: &mut BenchTree) -> (u64, usize) {
    assert!(tree.tree.seal(tree.last));
    let mut flush = tree.start_flush().unwrap().removing_hidden();
    let edit = loop {
        if let Some(edit) = flush.step().unwrap() {
            break edit;
        }
    };
    drop(flush);
    let written = edit.added.iter().map(|(_, meta)| meta.bytes).sum();
    tree.install(&edit);
    (written, edit.removed.len())
}

/// A tree with tables at two levels, the deeper one below key 200.
fn two_levels() -> BenchTree {
    let mut tree = large_tables();
    for keys in [0..200, 100..300] {
        for n in keys {
            tree.write(Kind::Put, &key(n), b"value");
        }
        tree.flush();
        if tree.tree.view().version().tables().count() == 1 {
            tree.compact_full();
        }
    }
    tree
}

#[test]
fn a_flush_removes_the_tables_that_its_deleted_ranges_hide_and_keeps_no_range_over_nothing() {
    let mut tree = two_levels();
    tree.write(Kind::RangeDelete, &key(0), &key(1000));
    assert_eq!(flush_and_remove(&mut tree), (0, 2), "nothing is left that the range deletes");
    assert_eq!(metas(&tree), []);
    assert_eq!(tree.get(&key(150), tree.last), None);
    assert_eq!(tree.tree.view().watermark(), tree.last, "readers of before start again");
    tree.write(Kind::Put, &key(5), b"new");
    tree.flush();
    tree.compact_full();
    assert!(tree.get(&key(5), tree.last).is_some());
}

#[test]
fn a_range_over_a_part_of_the_tables_stays_for_the_rest() {
    let mut tree = two_levels();
    tree.write(Kind::RangeDelete, &key(100), &key(1000));
    let (written, removed) = flush_and_remove(&mut tree);
    assert!(written > 0);
    assert_eq!((removed, metas(&tree).len()), (1, 2), "the range, and the table below key 200");
    assert_eq!(tree.get(&key(150), tree.last), None);
    assert!(tree.get(&key(50), tree.last).is_some());
}

#[test]
fn a_flush_removes_no_table_that_a_snapshot_reads() {
    let mut tree = two_levels();
    tree.snapshots.push(tree.last);
    let at = tree.last;
    tree.write(Kind::RangeDelete, &key(0), &key(1000));
    let (written, removed) = flush_and_remove(&mut tree);
    assert!(written > 0, "the range is written");
    assert_eq!(removed, 0);
    assert!(tree.get(&key(150), at).is_some());
    assert_eq!(tree.get(&key(150), tree.last), None);
}

#[test]
fn no_compaction_starts_while_a_flush_may_remove_tables() {
    let mut tree = two_levels();
    tree.write(Kind::RangeDelete, &key(0), &key(1000));
    assert!(tree.tree.seal(tree.last));
    let flush = tree.start_flush().unwrap().removing_hidden();
    let job = first_full(tree.tree.view().version(), tree.tree.options()).unwrap();
    let start = || Compaction::start(&tree.tree, job.clone(), &[], tree.last);
    assert!(start().is_none());
    drop(flush);
    assert!(start().is_some(), "the flush was given up");
}

#[test]
fn a_flush_holds_its_deleted_ranges_in_one_set_and_as_they_are_stored() {
    let mut tree = large_tables();
    deleted(&mut tree, 0..RANGES);
    let flush = bytes_a_range(|| tree.flush());
    // The set; 28 bytes of what is to be written; the section, which grows, once more as stored,
    // and on the disk in memory.
    assert!(flush <= IN_SET + 28 + 5 * IN_TABLE, "{flush} bytes a range");
}

#[test]
fn a_compaction_holds_the_deleted_ranges_of_one_table_no_second_time() {
    let mut tree = large_tables();
    // A reader still sees what was deleted: no range may be dropped.
    let before = tree.put("key", "value");
    tree.snapshots.push(before);
    deleted(&mut tree, 0..RANGES);
    tree.flush();
    let one = bytes_a_range(|| assert!(tree.compact_full()));
    // The set is that of the table, which was read for it.
    assert!(one <= IN_SET + 28 + 5 * IN_TABLE, "{one} bytes a range");
    assert_eq!(metas(&tree).iter().map(|meta| meta.range_deletes).sum::<u64>(), RANGES);
}

#[test]
fn a_compaction_holds_the_deleted_ranges_of_several_tables_in_one_set_of_its_own() {
    let mut tree = large_tables();
    let before = tree.put("key", "value");
    tree.snapshots.push(before);
    deleted(&mut tree, (0..RANGES).step_by(2));
    tree.flush();
    deleted(&mut tree, (1..RANGES).step_by(2));
    tree.flush();
    let two = bytes_a_range(|| assert!(tree.compact_full()));
    assert!(two <= 2 * IN_SET + 28 + 5 * IN_TABLE, "{two} bytes a range");
    assert_eq!(metas(&tree).iter().map(|meta| meta.range_deletes).sum::<u64>(), RANGES);
    assert_eq!(tree.get(&key(8 * 77 + 3), tree.last), None);
}

/// A scan once built a set of all ranges for itself whenever a range had been added since the last
/// time.
#[test]
fn scans_share_the_deleted_ranges_of_a_memtable() {
    let mut tree = large_tables();
    tree.put("key", "value");
    deleted(&mut tree, 0..RANGES);
    let scan = |tree: &BenchTree| {
        let options = ScanOptions::default();
        let mut scan = tree.tree.scan(KeyRange::ALL, tree.last, Direction::Forward, options);
        assert!(scan.advance().unwrap());
        assert_eq!(scan.key(), b"key");
        scan
    };
    // Of two consecutive ranges at least one does not make the large set grow.
    for n in 0..2 {
        deleted(&mut tree, RANGES + n..RANGES + n + 1);
        let first = peak(|| drop(scan(&tree))).1.unwrap() as u64;
        assert!(first < RANGES * IN_SET / 10, "{first} bytes");
    }
    let second = peak(|| drop(scan(&tree))).1.unwrap();
    assert!(second < 4096, "{second} bytes");
    // A range added since then is visible.
    tree.write(Kind::RangeDelete, b"ke", b"l");
    let mut scan =
        tree.tree.scan(KeyRange::ALL, tree.last, Direction::Reverse, ScanOptions::default());
    assert!(!scan.advance().unwrap());
}

#[test]
fn deleted_ranges_where_no_key_is_fill_several_tables() {
    let mut tree = BenchTree::new(small_options());
    tree.tree.set_keep_tombstones(true);
    deleted(&mut tree, 0..2_000);
    tree.flush();
    let flushed = metas(&tree);
    let table_bytes = tree.tree.options().table_bytes;
    assert!(flushed.len() > 40, "{} tables", flushed.len());
    tree.compact_full();
    let compacted = metas(&tree);
    assert!((10..30).contains(&compacted.len()), "{} tables", compacted.len());
    for meta in flushed.iter().chain(&compacted) {
        assert!(meta.bytes < table_bytes + 1500, "{meta}");
    }
    let count = |metas: &[TableMeta]| metas.iter().map(|meta| meta.range_deletes).sum::<u64>();
    assert_eq!((count(&flushed), count(&compacted)), (2_000, 2_000));
    tree.tree.verify().unwrap();
}

/// The keys put, and when which ranges were deleted.
#[derive(Default)]
struct Told {
    puts: BTreeMap<Vec<u8>, Vec<SeqNo>>,
    ranges: Vec<(Vec<u8>, Vec<u8>, SeqNo)>,
}

impl Told {
    fn put(&mut self, tree: &mut BenchTree, n: u64) {
        let seqno = tree.write(Kind::Put, &key(n), &key(n));
        self.puts.entry(key(n)).or_default().push(seqno);
    }

    fn delete(&mut self, tree: &mut BenchTree, from: u64, to: u64) {
        let seqno = tree.write(Kind::RangeDelete, &key(from), &key(to));
        self.ranges.push((key(from), key(to), seqno));
    }

    fn is_there(&self, key: &[u8], at: SeqNo) -> bool {
        let put = self.puts.get(key).and_then(|puts| puts.iter().rfind(|seqno| **seqno <= at));
        let covering = self.ranges.iter().filter(|(start, end, seqno)| {
            *seqno <= at && start.as_slice() <= key && key < end.as_slice()
        });
        put.is_some_and(|put| covering.map(|range| range.2).max() < Some(*put))
    }

    fn check(&self, tree: &BenchTree, keys: u64) {
        for at in tree.snapshots.iter().copied().chain([tree.last]) {
            let expected: Vec<Vec<u8>> =
                (0..keys).map(key).filter(|key| self.is_there(key, at)).collect();
            let got: Vec<Vec<u8>> =
                (0..keys).map(key).filter(|key| tree.get(key, at).is_some()).collect();
            assert_eq!(got, expected, "gets at {at}");
            let options = ScanOptions::default();
            let mut scan = tree.tree.scan(KeyRange::ALL, at, Direction::Forward, options);
            let mut scanned = Vec::new();
            while scan.advance().unwrap() {
                scanned.push(scan.key().to_vec());
            }
            assert_eq!(scanned, expected, "a scan at {at}");
        }
    }
}

#[test]
fn ranges_that_reach_over_many_tables_delete_the_same_in_each_of_them() {
    let (mut tree, mut told) = (BenchTree::new(small_options()), Told::default());
    let keys = 1_500;
    (0..keys).step_by(3).for_each(|n| told.put(&mut tree, n));
    tree.snapshots.push(tree.last);
    tree.flush();
    // One over everything, then many small ones within it, keys between them, and one over a half.
    told.delete(&mut tree, 10, 1_400);
    tree.snapshots.push(tree.last);
    for n in (0..keys).step_by(5) {
        told.delete(&mut tree, n, n + 2);
        if n % 200 == 0 {
            told.put(&mut tree, n + 1);
        }
    }
    tree.snapshots.push(tree.last);
    told.delete(&mut tree, 300, 900);
    told.put(&mut tree, 500);
    told.check(&tree, keys);
    tree.flush();
    told.check(&tree, keys);
    assert!(metas(&tree).len() > 20, "{}", tree.dump());
    tree.compact_full();
    told.check(&tree, keys);
    tree.tree.verify().unwrap();
    tree.reopen();
    told.check(&tree, keys);
    tree.snapshots.clear();
    tree.compact_full();
    told.check(&tree, keys);
    assert_eq!(metas(&tree).iter().map(|meta| meta.range_deletes).sum::<u64>(), 0);
}
