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

/// Returns the dictionaries of the tables of the last level.
fn dictionaries(tree: &BenchTree) -> Vec<Option<Vec<u8>>> {
    let view = tree.tree.view();
    let tables = view.version().tables().filter(|(level, _)| *level == 6);
    tables.map(|(_, table)| table.open().unwrap().dictionary().unwrap()).collect()
}

#[test]
fn compactions_give_the_last_level_dictionaries_and_hand_them_on() {
    let mut options = small_options();
    options.table_bytes = 1 << 20;
    options.tables.bottom_dictionary = true;
    let value = |i: u32| {
        let hash = |of: u8| key_hash(&[of], u64::from(i)) % 100_000;
        let (author, votes, body) = (hash(1), hash(2) % 90, [hash(3), hash(4), hash(5)]);
        format!("author: user{author}, subreddit: sub{}, votes: {votes}, body: {body:?}", i % 500)
    };
    let mut tree = BenchTree::new(options.clone());
    let write = |tree: &mut BenchTree| {
        for i in 0..16_000 {
            tree.put(&format!("k{i:05}"), &value(i));
        }
        tree.flush();
        while tree.compact_once() {}
    };
    write(&mut tree);
    tree.compact_full();
    let first = dictionaries(&tree);
    let dictionary = first.iter().flatten().next().expect("a dictionary").clone();
    assert!(first.iter().flatten().all(|other| *other == dictionary));
    // The same again, also after an open.
    for _ in 0..2 {
        write(&mut tree);
        tree.compact_full();
        let again = dictionaries(&tree);
        assert!(again.iter().flatten().count() > 0);
        assert!(again.iter().flatten().all(|other| *other == dictionary));
        tree.reopen();
    }
    for i in [0, 7999, 15_999] {
        let found = tree.get(format!("k{i:05}").as_bytes(), tree.last);
        assert_eq!(found, Some(value(i).into_bytes()));
    }
    options.tables.bottom_dictionary = false;
    tree.reopen_with(options);
    write(&mut tree);
    tree.compact_full();
    assert!(dictionaries(&tree).iter().all(Option::is_none));
}
