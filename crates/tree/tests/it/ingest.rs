//! Ingests: where the tables go, what readers see of them, and what is left of one that ended.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::{ErrorKind, Kind, SeqNo};
use flagstone_env::Disk;
use flagstone_tree::{Ingest, IngestOptions, TreeEdit};
use std::path::Path;

fn new() -> BenchTree {
    BenchTree::new(small_options())
}

/// Moves the only table that holds `key` to `level`.
fn move_to(tree: &mut BenchTree, key: &str, level: u8) {
    let view = tree.tree.view();
    let holds = |meta: &flagstone_sst::TableMeta| {
        meta.smallest.as_slice() <= key.as_bytes() && key.as_bytes() <= meta.largest.as_slice()
    };
    let mut tables = view.version().tables().filter(|(_, table)| holds(table.meta()));
    let meta = tables.next().unwrap().1.meta().clone();
    assert!(tables.next().is_none());
    let mut edit = TreeEdit::new(tree.tree.id());
    edit.removed = vec![meta.number];
    edit.added = vec![(level, meta)];
    tree.install(&edit);
}

/// Compares the values of all keys, as they are and after a compaction.
fn expect(tree: &mut BenchTree, expected: &[(&str, &str)]) {
    for round in 0..2 {
        for (key, value) in expected {
            assert_eq!(tree.text(key).as_deref(), Some(*value), "{key} in round {round}");
        }
        tree.tree.verify().unwrap();
        tree.reopen();
        tree.compact_full();
    }
}

#[test]
fn tables_go_to_the_last_level_or_above_what_they_overlap() {
    let mut tree = new();
    assert_eq!(tree.ingest(&["c", "d", "e", "f"], "1", true), [6, 6], "an empty tree");
    assert_eq!(tree.ingest(&["a", "b"], "1", true), [6], "before the others");
    assert_eq!(tree.ingest(&["ca", "cb"], "2", true), [0], "only the last level has tables");
    assert_eq!(tree.ingest(&["ca"], "3", true), [0], "above an older table of L0");
    assert_eq!(tree.ingest(&["x"], "1", false), [0], "the tree is being compacted");
    let expected = [("a", "1"), ("b", "1"), ("ca", "3"), ("cb", "2"), ("d", "1"), ("x", "1")];
    expect(&mut tree, &expected);
}

#[test]
fn tables_go_between_levels_but_not_above_the_first_one_with_tables() {
    let mut tree = new();
    tree.ingest(&["a", "b"], "1", true);
    tree.ingest(&["c", "d", "e"], "1", true);
    move_to(&mut tree, "a", 5);
    assert_eq!(tree.ingest(&["d"], "2", true), [5], "above the last level");
    assert_eq!(tree.ingest(&["b"], "2", true), [0]);
    assert_eq!(tree.ingest(&["y", "z"], "2", true), [6]);
    let expected = [("a", "1"), ("b", "2"), ("c", "1"), ("d", "2"), ("e", "1"), ("z", "2")];
    expect(&mut tree, &expected);
}

#[test]
fn readers_of_the_past_see_what_was_there() {
    let mut tree = new();
    tree.put("k", "old");
    tree.snapshots.push(tree.last);
    let before = tree.last;
    tree.ingest(&["a", "k"], "new", true);
    let ingested = tree.last;
    let below = SeqNo::new(ingested.get() - 1);
    for _ in 0..2 {
        assert_eq!(tree.get(b"k", before).as_deref(), Some(&b"old"[..]));
        assert_eq!(tree.get(b"k", below).as_deref(), Some(&b"old"[..]));
        assert_eq!(tree.get(b"a", below), None, "not at the SeqNo in the file");
        assert_eq!(tree.get(b"k", ingested).as_deref(), Some(&b"new"[..]));
        tree.compact_full();
    }
}

#[test]
fn operands_and_deletes_after_an_ingest_apply_to_its_entries() {
    let mut tree = new();
    tree.write(Kind::Merge, b"k", b"lost");
    tree.ingest(&["j", "k"], "base", true);
    tree.write(Kind::Merge, b"k", b"+1");
    tree.write(Kind::Delete, b"j", b"");
    for _ in 0..2 {
        assert_eq!(tree.text("k").as_deref(), Some("base+1"));
        assert_eq!(tree.text("j"), None);
        tree.flush();
        tree.compact_full();
    }
}

#[test]
fn a_flush_that_ends_after_an_ingest_is_above_it_only_if_it_is_newer() {
    let mut tree = new();
    tree.put("k", "1");
    tree.ingest(&["k"], "2", true);
    tree.put("k", "3");
    tree.flush();
    let shown = tree.dump();
    assert_eq!(tree.text("k").as_deref(), Some("3"), "{shown}");
    tree.tree.verify().unwrap();
}

#[test]
fn an_ingest_that_is_dropped_or_out_of_order_leaves_only_obsolete_files() {
    let tree = new();
    let options = || IngestOptions {
        file_seqno: SeqNo::new(1),
        attachments: Vec::new(),
        entries_max: 2,
        is_one_of_many: false,
    };
    let files = || {
        let names = tree.disk.list(Path::new("/db")).unwrap();
        names.into_iter().filter(|name| name.ends_with(".sst")).count()
    };
    let put = |ingest: &mut Ingest, key: &[u8]| {
        let creates = ingest.cut_before(key).unwrap();
        ingest.put(key, b"value", None).map(|()| creates)
    };
    let mut ingest = Ingest::start(&tree.tree, b"a", options());
    let created: Vec<bool> =
        [b"a", b"b", b"c", b"d", b"e"].iter().map(|key| put(&mut ingest, *key).unwrap()).collect();
    assert_eq!(created, [true, false, true, false, true], "two entries a table");
    assert_eq!(put(&mut ingest, b"e").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(tree.tree.context().unfinished.bytes(), 0, "they replace nothing");
    drop(ingest);
    let obsolete = tree.tree.context().obsolete.take();
    assert_eq!((obsolete.len(), files()), (3, 3));
    assert!(!tree.tree.has_tables());
}
