//! Traces of writes: whether a key was written after a SeqNo, and when that is not known any more.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::hash::HashedKey;
use flagstone_base::{Kind, Moment, SeqNo};
use flagstone_env::{Disk, Random, SeededRandom};
use flagstone_testkit::seed;
use std::collections::BTreeMap;

fn written_after(tree: &BenchTree, key: &str, since: SeqNo) -> Option<SeqNo> {
    let key = key.as_bytes();
    flagstone_tree::written_after(&tree.tree, HashedKey { key, hash: tree.hash(key) }, since)
        .unwrap()
}

fn untraced(tree: &BenchTree) -> SeqNo {
    tree.tree.view().version().untraced_through()
}

#[test]
fn what_a_flush_has_replaced_says_nothing_about_absent_keys() {
    let mut tree = BenchTree::new(small_options());
    tree.put("old", "1");
    tree.flush();
    let since = tree.last;
    for _ in 0..2 {
        tree.put("b", "2");
        tree.write(Kind::Merge, b"c", b"+");
        tree.write(Kind::Delete, b"d", b"");
    }
    tree.flush();
    assert_eq!(tree.tree.view().watermark(), tree.last);
    assert_eq!(written_after(&tree, "absent", since), None);
    assert_eq!(written_after(&tree, "old", since), None);
    for key in ["b", "c", "d"] {
        assert!(written_after(&tree, key, since) > Some(since.plus(3)), "{key}");
    }
}

/// A put that nobody reads any more and the tombstone that hid it leave nothing, together.
#[test]
fn a_key_that_came_and_went_since_then_counts_as_written() {
    let gone: [fn(&mut BenchTree) -> SeqNo; 4] = [
        |tree| tree.write(Kind::Delete, b"k", b""),
        |tree| tree.write(Kind::RangeDelete, b"j", b"l"),
        |tree| tree.put_until(b"k", b"2", Moment::from_millis(5)),
        |tree| {
            tree.write(Kind::RangeDelete, b"j", b"l");
            tree.put("other", "3")
        },
    ];
    for (case, remove) in gone.iter().enumerate() {
        let mut tree = BenchTree::new(small_options());
        tree.put("old", "1");
        tree.flush();
        let since = tree.last;
        tree.put("k", "1");
        remove(&mut tree);
        let last = tree.last;
        tree.moment = Moment::from_millis(9);
        tree.flush();
        assert!(written_after(&tree, "k", since).is_some(), "{case}");
        tree.compact_full();
        assert_eq!(tree.text("k"), None);
        assert!(written_after(&tree, "k", since).is_some(), "{case}");
        tree.reopen();
        assert!(written_after(&tree, "k", since).is_some(), "{case}");
        assert_eq!(written_after(&tree, "k", last), None, "{case}");
        assert_eq!(written_after(&tree, "old", since), None, "{case}: it has an older trace");
    }
}

#[test]
fn tables_that_were_dropped_unread_leave_no_trace() {
    let mut tree = BenchTree::new(small_options());
    tree.put_until(b"k", b"1", Moment::from_millis(5));
    tree.flush();
    tree.moment = Moment::from_millis(9);
    assert!(tree.expire_once());
    assert_eq!(untraced(&tree), SeqNo::new(1));
    assert!(written_after(&tree, "k", SeqNo::ZERO).is_some());
    assert_eq!(written_after(&tree, "k", SeqNo::new(1)), None);
}

#[test]
fn only_tables_with_something_newer_are_read() {
    let mut tree = BenchTree::new(small_options());
    tree.put("a", "1");
    tree.put("c", "1");
    tree.flush();
    tree.reopen();
    for (_, table) in tree.tree.view().version().tables() {
        let path = tree.tree.context().table_path(table.meta().number);
        tree.disk.remove(&path).unwrap();
    }
    tree.put("c", "2");
    for (key, expected) in [("a", None), ("b", None), ("c", Some(tree.last))] {
        assert_eq!(written_after(&tree, key, SeqNo::new(2)), expected, "{key}");
    }
    let key = &b"b"[..];
    let sought = HashedKey { key, hash: tree.hash(key) };
    flagstone_tree::written_after(&tree.tree, sought, SeqNo::new(1)).unwrap_err();
}

/// The newest write of each key, as the test knows it.
type Writes = BTreeMap<String, SeqNo>;

fn write_something(tree: &mut BenchTree, writes: &mut Writes, below: impl Fn(u64) -> u64) {
    let key = format!("{:02}", below(30));
    let seqno = match below(10) {
        0..3 => tree.put(&key, "put"),
        3 => tree.put_until(key.as_bytes(), b"brief", Moment::from_millis(below(100))),
        4 => tree.write(Kind::Merge, key.as_bytes(), b"+"),
        5 => {
            let end = format!("{:02}", below(30));
            let (start, end) = (key.as_str().min(&end), key.as_str().max(&end));
            if start < end {
                let seqno = tree.write(Kind::RangeDelete, start.as_bytes(), end.as_bytes());
                let inside = (0..30).map(|n| format!("{n:02}"));
                let inside = inside.filter(|key| (start..end).contains(&key.as_str()));
                writes.extend(inside.map(|key| (key, seqno)));
            }
            return;
        }
        _ => tree.write(Kind::Delete, key.as_bytes(), b""),
    };
    writes.insert(key, seqno);
}

fn change_shape(tree: &mut BenchTree, below: impl Fn(u64) -> u64) {
    match below(6) {
        0..3 => tree.flush(),
        3 => drop(tree.compact_once()),
        4 => drop(tree.compact_full()),
        _ => {
            tree.tree.seal(tree.last);
            let Some(flush) = tree.start_flush() else { return };
            let mut flush = flush.removing_hidden();
            let edit = loop {
                if let Some(edit) = flush.step().unwrap() {
                    break edit;
                }
            };
            drop(flush);
            tree.install(&edit);
        }
    }
    if below(4) == 0 {
        tree.expire_once();
    }
    match below(4) {
        0 => tree.snapshots.push(tree.last),
        1 if !tree.snapshots.is_empty() => drop(tree.snapshots.remove(0)),
        _ => {}
    }
}

/// No write is missed, and nothing counts as written unless the tree says that traces are missing.
#[test]
fn random_trees_know_what_was_written_after_any_seqno() {
    let random = SeededRandom::new(seed("traces", 1));
    let below = |n: u64| random.next_u64() % n;
    let mut unknown = [0, 0];
    for _ in 0..40 {
        let (mut tree, mut writes) = (BenchTree::new(small_options()), Writes::new());
        for _ in 0..60 {
            (0..below(12)).for_each(|_| write_something(&mut tree, &mut writes, below));
            tree.moment = Moment::from_millis(tree.moment.millis() + below(4));
            if below(3) == 0 {
                change_shape(&mut tree, below);
            }
            let since = SeqNo::new(below(tree.last.get() + 1));
            let untraced = untraced(&tree);
            for n in 0..30 {
                let key = format!("{n:02}");
                let last = writes.get(&key).copied().unwrap_or(SeqNo::ZERO);
                match written_after(&tree, &key, since) {
                    None => assert!(last <= since, "{key} at {last}, since {since}"),
                    Some(found) if last > since => {
                        assert!(found > since && found <= last.max(untraced), "{key} at {last}");
                    }
                    Some(found) => {
                        assert_eq!(found, untraced, "{key} at {last}, since {since}");
                        assert!(untraced > since);
                        unknown[0] += 1;
                    }
                }
                unknown[1] += 1;
            }
        }
    }
    assert!(unknown[0] > 0 && unknown[0] * 4 < unknown[1], "{unknown:?}");
}
