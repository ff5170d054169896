//! Tests that a bit that flips in memory is found before it is stored. They flip one where the
//! write path copies an entry, and check that the flush or compaction refuses it, leaves the tree
//! unchanged, and can be repeated.

use crate::bench_tree::{AppendApart, BenchTree, context, small_options, unchecked};
use flagstone_base::flip::{EntryPart, Site, flip_next, flipped};
use flagstone_base::{EntryRef, ErrorKind, Kind, Result, SeqNo, TreeId};
use flagstone_env::Disk;
use flagstone_tree::{Compaction, Tree, TreeEdit, TreeOptions, Version};
use std::path::Path;
use std::sync::Arc;

const BOTH: [EntryPart; 2] = [EntryPart::Key, EntryPart::Value];

fn tree() -> BenchTree {
    BenchTree::new(small_options())
}

fn try_flush(tree: &mut BenchTree) -> Result<()> {
    tree.tree.seal(tree.last);
    while let Some(mut flush) = tree.start_flush() {
        let edit = loop {
            if let Some(edit) = flush.step()? {
                break edit;
            }
        };
        tree.install(&edit);
    }
    Ok(())
}

fn try_compact(tree: &mut BenchTree) -> Result<()> {
    let job = tree.first_full().unwrap();
    let started = Compaction::start(&tree.tree, job, &tree.snapshots, tree.last);
    let mut compaction = started.unwrap();
    let edit = loop {
        if let Some(edit) = compaction.step()? {
            break edit;
        }
    };
    tree.install(&edit);
    Ok(())
}

#[track_caller]
fn refused(done: Result<()>, part: &str) {
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("memory has changed"), "{error}");
    assert!(error.to_string().contains(part), "{error}: expected {part}");
}

/// Writes an entry of which one bit flips in the memtable.
fn write_flipped(tree: &mut BenchTree, kind: Kind, (key, value): (&str, &str), part: EntryPart) {
    flip_next(Site::Memtable, part, key.as_bytes());
    tree.write(kind, key.as_bytes(), value.as_bytes());
    assert!(flipped());
}

#[test]
fn a_bit_that_flips_in_a_memtable_fails_the_flush_and_nothing_is_installed() {
    for part in BOTH {
        let mut tree = tree();
        (0..100).for_each(|n| _ = tree.put(&format!("k{n:03}"), "old"));
        tree.flush();
        let before = tree.dump();
        (0..100).for_each(|n| _ = tree.put(&format!("n{n:03}"), "new"));
        write_flipped(&mut tree, Kind::Put, ("n050x", "value"), part);
        for _ in 0..2 {
            refused(try_flush(&mut tree), "n050");
            assert_eq!(tree.dump(), before);
        }
        assert_eq!(tree.text("k007").as_deref(), Some("old"));
        // The unfinished files are removed.
        let files = tree.disk.list(Path::new("/db")).unwrap();
        assert_eq!(files.len(), tree.tree.view().version().tables().count());
    }
}

/// Without checks the same flip is stored, which shows that the test above can fail.
#[test]
fn without_checks_a_bit_that_flips_is_stored() {
    let mut tree = unchecked(small_options());
    write_flipped(&mut tree, Kind::Put, ("key", "1"), EntryPart::Value);
    tree.flush();
    assert_eq!(tree.text("key").as_deref(), Some("0"));
    flip_next(Site::Output, EntryPart::Value, b"key");
    tree.compact_full();
    tree.put("kez", "");
    tree.flush();
    tree.compact_full();
    assert!(flipped());
    assert_eq!(tree.text("key").as_deref(), Some("1"));
}

/// The entry is no newer than an entry of the key that it reads as, and would be dropped without a
/// trace.
#[test]
fn a_key_that_flips_into_a_newer_one_is_found() {
    for is_one_memtable in [true, false] {
        let mut tree = tree();
        write_flipped(&mut tree, Kind::Put, ("a1", "lost"), EntryPart::Key);
        if !is_one_memtable {
            tree.tree.seal(tree.last);
        }
        tree.put("a0", "newer");
        tree.put("a0", "newest");
        refused(try_flush(&mut tree), "a0");
    }
}

#[test]
fn a_key_that_flips_out_of_its_order_is_found() {
    let mut tree = tree();
    // `c` reads as `b`, after `b`.
    tree.put("b", "1");
    write_flipped(&mut tree, Kind::Put, ("c", "2"), EntryPart::Key);
    tree.put("d", "3");
    refused(try_flush(&mut tree), "b");
}

/// The flush drops an older version, but the entry may only seem to be one because its key changed.
#[test]
fn a_version_that_flips_is_found_though_it_is_left_out() {
    let mut tree = tree();
    write_flipped(&mut tree, Kind::Put, ("k", "older"), EntryPart::Value);
    tree.put("k", "newer");
    refused(try_flush(&mut tree), "k");
}

#[test]
fn a_tombstone_and_a_deleted_range_that_flip_are_found() {
    let mut tree = tree();
    tree.put("k", "1");
    write_flipped(&mut tree, Kind::Delete, ("k", ""), EntryPart::Key);
    refused(try_flush(&mut tree), "j");
    for part in BOTH {
        let mut tree = self::tree();
        tree.write(Kind::RangeDelete, b"a", b"b");
        write_flipped(&mut tree, Kind::RangeDelete, ("c", "x"), part);
        tree.write(Kind::RangeDelete, b"y", b"z");
        refused(try_flush(&mut tree), "one of 3 deleted ranges");
    }
}

/// Operands are combined next to their chain, and the flush may use the combined operand in their
/// place.
#[test]
fn an_operand_that_flips_is_found_wherever_it_is_in_a_chain() {
    let apart = || {
        let fold = Some(Arc::new(AppendApart) as Arc<dyn flagstone_tree::Fold>);
        BenchTree::new(TreeOptions { fold, ..small_options() })
    };
    for at in [0, 3, 7, 8, 40, 63, 64, 70] {
        for (mut tree, notes) in [(tree(), false), (apart(), true)] {
            tree.put("k", "base");
            for n in 0..80 {
                if n == at {
                    write_flipped(&mut tree, Kind::Merge, ("k", "x"), EntryPart::Value);
                } else {
                    tree.write(Kind::Merge, b"k", b"o");
                }
                if notes && n % 32 == 31 {
                    let value = tree.get(b"k", tree.last);
                    tree.tree.note_folded(b"k", tree.hash(b"k"), tree.last, value.as_deref());
                }
            }
            refused(try_flush(&mut tree), "k");
        }
    }
}

#[test]
fn shortcuts_and_states_carry_checks_that_fit() {
    let mut tree = tree();
    tree.put("k", "base");
    for n in 0..1000 {
        tree.write(Kind::Merge, b"k", b"o");
        if n % 100 == 99 {
            let value = tree.get(b"k", tree.last);
            tree.tree.note_folded(b"k", tree.hash(b"k"), tree.last, value.as_deref());
        }
    }
    let before = tree.text("k");
    tree.flush();
    assert_eq!(tree.text("k"), before);
}

#[test]
fn a_bit_that_flips_on_the_way_into_a_table_is_found_and_the_next_attempt_succeeds() {
    for part in BOTH {
        let mut tree = tree();
        (0..300).for_each(|n| _ = tree.put(&format!("k{n:03}"), &format!("first {n}")));
        flip_next(Site::Output, part, b"k150");
        refused(try_flush(&mut tree), "k15");
        assert!(flipped());
        try_flush(&mut tree).unwrap();
        (0..300).step_by(2).for_each(|n| _ = tree.put(&format!("k{n:03}"), "second"));
        try_flush(&mut tree).unwrap();
        let before = tree.dump();
        flip_next(Site::Output, part, b"k151");
        refused(try_compact(&mut tree), "k15");
        assert!(flipped());
        assert_eq!(tree.dump(), before, "the inputs stay");
        try_compact(&mut tree).unwrap();
        for n in 0..300 {
            let expected = if n % 2 == 0 { "second".to_owned() } else { format!("first {n}") };
            assert_eq!(tree.text(&format!("k{n:03}")), Some(expected));
        }
        tree.tree.verify().unwrap();
    }
}

/// Found by the simulator: what a flush or compaction made of operands had no check yet when it was
/// passed on.
#[test]
fn a_bit_that_flips_in_what_a_fold_has_made_is_found() {
    for (part, has_base) in
        [(EntryPart::Key, true), (EntryPart::Value, true), (EntryPart::Value, false)]
    {
        let mut tree = tree();
        if has_base {
            tree.put("k", "base");
        }
        tree.write(Kind::Merge, b"k", b"x");
        tree.write(Kind::Merge, b"k", b"y");
        flip_next(Site::Output, part, b"k");
        refused(try_flush(&mut tree), "memory has changed");
        assert!(flipped());
        try_flush(&mut tree).unwrap();
        assert_eq!(tree.text("k").unwrap(), if has_base { "basexy" } else { "_xy" });
    }
}

/// The block that is damaged in the file was cached before, so a reader does not notice. But a
/// compaction does not trust memory for what it can read from a disk.
#[test]
fn a_compaction_takes_no_block_from_the_cache() {
    for (mut tree, is_checked) in [(tree(), true), (unchecked(small_options()), false)] {
        tree.put("a", "1");
        tree.put("b", "2");
        tree.flush();
        assert_eq!(tree.text("a").as_deref(), Some("1"));
        let meta = tree.tree.view().version().tables().next().unwrap().1.meta().clone();
        let path = tree.tree.context().table_path(meta.number);
        let mut content = tree.disk.content(&path).unwrap();
        // The first block begins after the header.
        content[64 + 5] ^= 1;
        tree.disk.put_content(&path, &content);
        tree.put("b", "3");
        tree.flush();
        let done = try_compact(&mut tree);
        assert_eq!(done.is_err(), is_checked, "{done:?}");
        assert_eq!(tree.text("a").as_deref(), Some("1"));
    }
}

/// A table that lost entries between its blocks and the manifest, or a walk that skips some.
#[test]
fn a_compaction_that_meets_fewer_entries_than_there_are_is_refused() {
    let mut tree = tree();
    tree.put("a", "1");
    tree.put("b", "2");
    tree.flush();
    let mut edit = TreeEdit::decode(&tree.edits[0]).unwrap();
    edit.added[0].1.entries += 1;
    let context = context(&tree.disk, 100, true);
    let version = Version::empty().apply(&context, &edit).unwrap();
    tree.tree = Tree::new(TreeId(3), context, small_options(), version);
    tree.put("c", "3");
    tree.flush();
    refused(try_compact(&mut tree), "3 entries were met, expected 4");
}

#[test]
fn an_entry_inserted_twice_counts_once() {
    let mut tree = tree();
    tree.put("a", "1");
    let memtable = tree.tree.reserve(tree.last);
    let again = EntryRef::new(b"a", tree.last, Kind::Put, b"1");
    memtable.insert(again, tree.hash(b"a")).unwrap();
    drop(memtable);
    tree.flush();
    assert_eq!(tree.get(b"a", SeqNo::MAX).as_deref(), Some(&b"1"[..]));
}
