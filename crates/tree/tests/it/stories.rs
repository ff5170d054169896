//! Stories: single facts about a tree, some of them bugs that others had.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::{KeyRange, Kind, SeqNo};
use flagstone_tree::{Direction, ScanOptions};

#[test]
fn a_value_is_read_from_memory_and_from_tables() {
    let mut tree = BenchTree::new(small_options());
    tree.put("a", "1");
    assert_eq!(tree.text("a").as_deref(), Some("1"));
    tree.flush();
    assert_eq!(tree.text("a").as_deref(), Some("1"));
    assert_eq!(tree.tree.oldest_unflushed(), None);
    tree.put("a", "2");
    tree.flush();
    tree.compact_full();
    assert_eq!(tree.text("a").as_deref(), Some("2"));
    assert_eq!(tree.text("b"), None);
    let scan =
        tree.tree.scan(KeyRange::ALL, SeqNo::MAX, Direction::Forward, ScanOptions::default());
    let _unused = (scan, Kind::Put);
}
