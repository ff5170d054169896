//! Tests that a full compaction leaves everything in the compression of the last level, and writes
//! it only once.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::hash::key_hash;
use flagstone_base::{Compression, Kind};
use flagstone_tree::TreeOptions;

/// Returns level and compression of every table.
fn compressions(tree: &BenchTree) -> Vec<(u8, Option<Compression>)> {
    let view = tree.tree.view();
    view.version().tables().map(|(level, table)| (level, table.meta().compression)).collect()
}

/// Writes `values` under ascending keys, 40 a flush, and lets ordinary compactions move the tables
/// down.
fn moved_tree(options: TreeOptions, value: impl Fn(u32) -> Vec<u8>) -> BenchTree {
    let mut tree = BenchTree::new(options);
    for i in 0..400_u32 {
        tree.write(Kind::Put, format!("k{i:03}").as_bytes(), &value(i));
        if i % 40 == 39 {
            tree.flush();
        }
    }
    while tree.compact_once() {}
    assert_eq!(tree.tree.stats().counters.compaction_bytes_written, 0);
    tree
}

#[test]
fn moved_tables_get_the_last_levels_compression_by_one_full_compaction_and_stay() {
    let text = |i: u32| format!("{i} is a number, and so is {}; ", i + 1).repeat(9).into_bytes();
    let noise = |i: u32| (0..30).flat_map(|j| key_hash(&[j], u64::from(i)).to_le_bytes()).collect();
    let values: [&dyn Fn(u32) -> Vec<u8>; 2] = [&text, &noise];
    for value in values {
        let mut tree = moved_tree(small_options(), value);
        let moved = compressions(&tree);
        assert!(moved.iter().filter(|table| **table == (6, Some(Compression::Lz4))).count() > 4);
        assert!(tree.compact_full());
        assert!(compressions(&tree).iter().all(|t| *t == (6, Some(Compression::Zstd(1)))));
        for i in [0, 39, 40, 399] {
            assert_eq!(tree.get(format!("k{i:03}").as_bytes(), tree.last), Some(value(i)));
        }
        assert!(!tree.compact_full(), "what is in its last form stays");
        tree.reopen();
        assert!(!tree.compact_full(), "and when it is opened again");
    }
}

#[test]
fn another_compression_is_given_to_all_tables_by_the_next_full_compaction() {
    let mut tree = BenchTree::new(small_options());
    for i in 0..100 {
        tree.put(&format!("k{i:03}"), &"value ".repeat(20));
    }
    tree.flush();
    for compression in [Compression::None, Compression::Zstd(3), Compression::Lz4] {
        let mut options = small_options();
        options.tables.bottom_compression = compression;
        tree.reopen_with(options);
        assert!(tree.compact_full());
        assert!(compressions(&tree).iter().all(|t| *t == (6, Some(compression))));
        assert!(!tree.compact_full());
    }
}
