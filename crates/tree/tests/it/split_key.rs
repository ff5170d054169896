//! The key at which a tree is split in two.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::Kind;
use flagstone_tree::split_key;

/// A tree with `keys`, which ascend, in tables of about a kilobyte.
fn tree_of(keys: impl Iterator<Item = Vec<u8>>) -> BenchTree {
    let mut tree = BenchTree::new(small_options());
    for key in keys {
        tree.write(Kind::Put, &key, &[7; 40]);
    }
    tree.flush();
    tree
}

fn tables(tree: &BenchTree) -> usize {
    tree.tree.view().version().tables().count()
}

/// The part of `keys` below the key at which their tree is split, in thousandths.
fn part_below(tree: &BenchTree, keys: impl Iterator<Item = Vec<u8>> + Clone) -> usize {
    let cut = split_key(&tree.tree).expect("a key");
    keys.clone().filter(|key| *key < cut).count() * 1000 / keys.count()
}

fn keys(front: &str, count: u32) -> impl Iterator<Item = Vec<u8>> + Clone {
    (0..count).map(move |n| format!("{front}{n:06}").into_bytes())
}

#[test]
fn a_tree_is_split_about_in_the_middle() {
    let tree = tree_of(keys("k", 1000));
    assert!((3..=64).contains(&tables(&tree)));
    let part = part_below(&tree, keys("k", 1000));
    assert!((350..=650).contains(&part), "{part} of 1000");
}

/// Samples keep the first 64 bytes of a key: no sampled key was above another, so the tree was
/// never split.
#[test]
fn a_tree_whose_keys_share_a_long_front_is_split_where_a_table_begins() {
    let front = "f".repeat(70);
    let tree = tree_of(keys(&front, 400));
    assert!(tables(&tree) > 3);
    let part = part_below(&tree, keys(&front, 400));
    assert!((250..=750).contains(&part), "{part} of 1000");
}

/// The samples of all tables take hundreds of megabytes if there are thousands of tables.
#[test]
fn the_samples_of_a_tree_with_many_tables_are_not_read() {
    let tree = tree_of(keys("k", 10_000));
    assert!(tables(&tree) > 64, "{} tables", tables(&tree));
    let before = tree.disk.counts().bytes_read;
    let part = part_below(&tree, keys("k", 10_000));
    assert!((350..=650).contains(&part), "{part} of 1000");
    assert_eq!(tree.disk.counts().bytes_read, before);
}
