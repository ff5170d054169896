//! Stories: single facts about a tree, some of them bugs that other stores had.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::{ErrorKind, KeyRange, Kind, SeqNo};
use flagstone_tree::{
    Compaction, Direction, Flush, JobReason, Policy, ScanOptions, TreeOptions, pick_hidden,
};
use std::ops::Bound;

fn keys(tree: &BenchTree, direction: Direction) -> Vec<String> {
    let mut scan = tree.tree.scan(KeyRange::ALL, tree.last, direction, ScanOptions::default());
    let mut keys = Vec::new();
    while scan.advance().unwrap() {
        keys.push(String::from_utf8(scan.key().to_vec()).unwrap());
    }
    keys
}

#[test]
fn a_value_is_read_from_memory_and_from_tables() {
    let mut tree = BenchTree::new(small_options());
    tree.put("a", "1");
    assert_eq!(tree.text("a").as_deref(), Some("1"));
    assert_eq!(tree.tree.oldest_unflushed(), Some(SeqNo::new(1)));
    tree.flush();
    assert_eq!(tree.text("a").as_deref(), Some("1"));
    assert_eq!(tree.tree.oldest_unflushed(), None);
    tree.put("a", "2");
    tree.flush();
    tree.compact_full();
    assert_eq!(tree.text("a").as_deref(), Some("2"));
    assert_eq!(tree.text("b"), None);
}

/// The origin installed flushes in the order in which they finished, so an old value could
/// permanently be above a newer one. Here the order of L0 follows from the SeqNos in the tables.
#[test]
fn the_order_of_l0_does_not_depend_on_the_order_of_installation() {
    let mut donor = BenchTree::new(small_options());
    donor.put("k", "old");
    donor.flush();
    donor.put("k", "new");
    donor.flush();
    let expected = donor.dump();
    donor.edits.reverse();
    donor.reopen();
    assert_eq!(donor.dump(), expected);
    assert_eq!(donor.text("k").as_deref(), Some("new"));
    donor.compact_full();
    assert_eq!(donor.text("k").as_deref(), Some("new"));
}

#[test]
fn the_second_flush_waits_until_the_first_is_installed() {
    let mut tree = BenchTree::new(small_options());
    tree.put("k", "old");
    tree.tree.seal(tree.last);
    let mut first = tree.start_flush().unwrap();
    tree.put("k", "new");
    tree.tree.seal(tree.last);
    let edit = loop {
        if let Some(edit) = first.step().unwrap() {
            break edit;
        }
    };
    drop(first);
    assert!(tree.start_flush().is_none());
    assert!(!tree.tree.flushable());
    tree.install(&edit);
    assert!(tree.tree.flushable());
    tree.flush();
    assert_eq!(tree.text("k").as_deref(), Some("new"));
}

/// A Go store lost every live key when it compacted a table that also had tombstones.
#[test]
fn live_keys_next_to_tombstones_survive_a_compaction() {
    let mut tree = BenchTree::new(small_options());
    for i in 0..100 {
        tree.put(&format!("k{i:03}"), "value");
    }
    tree.flush();
    for i in (0..100).step_by(2) {
        tree.write(Kind::Delete, format!("k{i:03}").as_bytes(), b"");
    }
    tree.flush();
    tree.compact_full();
    tree.reopen();
    let expected: Vec<String> = (1..100).step_by(2).map(|i| format!("k{i:03}")).collect();
    assert_eq!(keys(&tree, Direction::Forward), expected);
    let stats = tree.tree.stats();
    assert_eq!(stats.levels[6].entries, 50);
    assert_eq!(stats.levels[6].deletes, 0);
}

/// The same store panicked when it was opened again and then compacted.
#[test]
fn a_tree_opened_again_compacts() {
    let mut tree = BenchTree::new(small_options());
    for round in 0..6 {
        for i in 0..60 {
            tree.put(&format!("k{i:03}"), &format!("{round}-{}", "x".repeat(50)));
        }
        tree.flush();
        tree.reopen();
        while tree.compact_once() {}
        tree.reopen();
        tree.compact_full();
    }
    assert!(tree.text("k059").unwrap().starts_with("5-"));
    assert_eq!(keys(&tree, Direction::Reverse).len(), 60);
    tree.tree.verify().unwrap();
}

#[test]
fn input_in_key_order_is_written_once() {
    let mut tree = BenchTree::new(small_options());
    let value = "x".repeat(100);
    for i in 0..3000 {
        tree.put(&format!("k{i:08}"), &value);
        if i % 200 == 199 {
            tree.flush();
            while tree.compact_once() {}
        }
    }
    let counters = tree.tree.stats().counters;
    assert!(counters.tables_moved > 0);
    assert_eq!(counters.compaction_bytes_written, 0);
    assert_eq!(keys(&tree, Direction::Forward).len(), 3000);
}

#[test]
fn input_nearly_in_key_order_is_written_little_more_than_once() {
    let mut tree = BenchTree::new(TreeOptions { table_bytes: 16 << 10, ..small_options() });
    let value = "x".repeat(100);
    for i in 0..6000_u64 {
        // Ids rise with time, but arrive up to eleven places late.
        let id = i ^ (i * 7 % 11);
        tree.put(&format!("k{id:08}"), &value);
        if i % 400 == 399 {
            tree.flush();
            while tree.compact_once() {}
        }
    }
    let counters = tree.tree.stats().counters;
    let written = counters.flush_bytes_written + counters.compaction_bytes_written;
    assert!(written * 10 <= counters.flush_bytes_written * 15, "{counters:?}\n{}", tree.dump());
    tree.tree.verify().unwrap();
}

#[test]
fn random_input_keeps_its_shape() {
    let mut tree = BenchTree::new(small_options());
    let value = "x".repeat(60);
    for i in 0..12_000_u64 {
        let id = flagstone_base::hash::remix(i) % 5000;
        tree.put(&format!("k{id:08}"), &value);
        if i % 150 == 149 {
            tree.flush();
            while tree.compact_once() {}
        }
    }
    let pressure = tree.tree.pressure(Policy::Leveling);
    assert!(pressure.score < 1.0 && pressure.l0_runs < 2, "{pressure:?}\n{}", tree.dump());
    let stats = tree.tree.stats();
    let bytes: u64 = stats.levels.iter().map(|level| level.bytes).sum();
    assert!(stats.levels[6].bytes * 3 > bytes * 2, "{stats:?}");
    tree.tree.verify().unwrap();
}

#[test]
fn operands_are_not_folded_across_a_snapshot() {
    let mut tree = BenchTree::new(small_options());
    tree.write(Kind::Merge, b"k", b"1");
    let snapshot = tree.write(Kind::Merge, b"k", b"2");
    tree.snapshots.push(snapshot);
    tree.write(Kind::Merge, b"k", b"3");
    tree.flush();
    tree.compact_full();
    assert_eq!(tree.get(b"k", snapshot).as_deref(), Some(&b"_12"[..]));
    assert_eq!(tree.text("k").as_deref(), Some("_123"));
    tree.snapshots.clear();
    tree.compact_full();
    assert_eq!(tree.text("k").as_deref(), Some("_123"));
    assert_eq!(tree.tree.stats().levels[6].entries, 1);
}

#[test]
fn an_operand_without_its_fold_is_an_error_and_is_kept() {
    let mut tree = BenchTree::new(TreeOptions { fold: None, ..small_options() });
    tree.put("k", "a");
    tree.write(Kind::Merge, b"k", b"1");
    tree.flush();
    tree.compact_full();
    let error = tree.found_in(&tree.tree.view(), b"k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(tree.tree.stats().levels[6].entries, 2);
}

#[test]
fn a_get_returns_the_seqno_of_the_newest_entry_even_of_a_tombstone() {
    let mut tree = BenchTree::new(small_options());
    tree.put("k", "a");
    let deleted = tree.write(Kind::Delete, b"k", b"");
    let covered = tree.write(Kind::RangeDelete, b"m", b"n");
    for _ in 0..2 {
        let view = tree.tree.view();
        let get = |key: &[u8]| tree.found_in(&view, key).unwrap();
        assert_eq!(get(b"k").seqno, Some(deleted));
        assert_eq!(get(b"mm").seqno, Some(covered));
        assert_eq!(get(b"x").seqno, None);
        tree.flush();
    }
}

#[test]
fn an_unregistered_reader_is_warned_by_the_watermark() {
    let mut tree = BenchTree::new(small_options());
    let old = tree.put("k", "old");
    tree.put("k", "new");
    assert_eq!(tree.tree.view().watermark(), SeqNo::ZERO);
    tree.flush();
    assert!(tree.tree.view().watermark() > old);
}

/// Of two deleted ranges a flush keeps the newer. A reader between the two, which is not
/// registered, must start again.
#[test]
fn an_unregistered_reader_is_warned_of_merged_range_deletes() {
    let mut tree = BenchTree::new(small_options());
    tree.put("k", "old");
    tree.flush();
    let old = tree.write(Kind::RangeDelete, b"k", b"l");
    tree.write(Kind::RangeDelete, b"k", b"l");
    tree.flush();
    assert!(tree.tree.view().watermark() > old);
}

#[test]
fn a_table_hidden_by_a_deleted_range_is_dropped_unread() {
    let mut tree = BenchTree::new(small_options());
    for i in 0..400_u32 {
        let part = |j: u32| format!("{:08x}", (i * 25 + j).wrapping_mul(0x9E37_79B9));
        tree.put(&format!("k{i:05}"), &(0..25).map(part).collect::<String>());
    }
    tree.flush();
    while tree.compact_once() {}
    tree.write(Kind::RangeDelete, b"k", b"l");
    tree.put("z", "1");
    tree.flush();
    let bytes: u64 = tree.tree.stats().levels.iter().map(|level| level.bytes).sum();
    let before = tree.disk.counts().bytes_read;
    tree.compact_full();
    let read = tree.disk.counts().bytes_read - before;
    assert!(bytes > 40_000 && read < bytes / 2, "{read} of {bytes}");
    assert_eq!(keys(&tree, Direction::Forward), ["z"]);
    assert_eq!(tree.tree.stats().levels[6].tables, 1);
    assert!(!tree.tree.context().obsolete.take().is_empty());
}

/// Otherwise a disk stayed full of deleted data until something else was written.
#[test]
fn a_range_that_deletes_whole_tables_goes_down_to_them_when_no_reader_is_before_it() {
    let mut tree = BenchTree::new(small_options());
    for i in 0..400 {
        tree.put(&format!("k{i:05}"), &"x".repeat(100));
    }
    tree.flush();
    tree.compact_full();
    let before = tree.last;
    let hidden = |tree: &BenchTree, oldest| {
        pick_hidden(tree.tree.view().version(), tree.tree.options(), oldest)
    };
    // Less than a table.
    tree.write(Kind::RangeDelete, b"k00100", b"k00103");
    tree.flush();
    assert!(hidden(&tree, tree.last).is_none());
    tree.write(Kind::RangeDelete, b"k00100", b"k00300");
    tree.put("k00200", "later");
    tree.flush();
    assert!(hidden(&tree, before).is_none(), "a snapshot reads what was deleted");
    let tables = tree.tree.stats().levels[6].tables;
    let mut jobs = 0;
    while let Some(job) = hidden(&tree, tree.last) {
        assert_eq!(job.reason, JobReason::Tombstones);
        tree.run(job);
        jobs += 1;
    }
    assert!((1..8).contains(&jobs), "{jobs}");
    assert!(tree.tree.stats().levels[6].tables < tables);
    let mut expected: Vec<String> = (0..100).chain(300..400).map(|i| format!("k{i:05}")).collect();
    expected.insert(100, "k00200".into());
    assert_eq!(keys(&tree, Direction::Forward), expected);
}

#[test]
fn a_scan_leaves_a_deleted_range_in_one_jump() {
    let mut tree = BenchTree::new(small_options());
    for i in 0..4000 {
        tree.put(&format!("k{i:05}"), &"x".repeat(100));
    }
    tree.put("z", "1");
    tree.put("a", "1");
    tree.flush();
    tree.write(Kind::RangeDelete, b"k", b"l");
    for direction in [Direction::Forward, Direction::Reverse] {
        let cache = &tree.tree.context().cache;
        let before = cache.stats();
        let mut expected = vec!["a", "z"];
        if direction == Direction::Reverse {
            expected.reverse();
        }
        assert_eq!(keys(&tree, direction), expected);
        let after = cache.stats();
        let blocks = after.hits + after.misses - before.hits - before.misses;
        assert!(blocks < 40, "{blocks} blocks read");
    }
}

#[test]
fn files_are_obsolete_only_when_no_reader_holds_them() {
    let mut tree = BenchTree::new(small_options());
    tree.put("k", "1");
    tree.flush();
    tree.put("k", "2");
    tree.flush();
    let view = tree.tree.view();
    tree.compact_full();
    let context = std::sync::Arc::clone(tree.tree.context());
    assert!(context.obsolete.take().is_empty());
    let found = tree.found_in(&view, b"k").unwrap();
    assert_eq!(found.value.as_deref(), Some(&b"2"[..]));
    drop(view);
    assert_eq!(context.obsolete.take().len(), 2);
}

#[test]
fn a_scan_outlives_flushes_and_compactions_without_holding_them() {
    let mut tree = BenchTree::new(small_options());
    for i in 0..2000 {
        tree.put(&format!("k{i:05}"), "old");
    }
    let at = tree.last;
    tree.snapshots.push(at);
    let mut scan = tree.tree.scan(KeyRange::ALL, at, Direction::Forward, ScanOptions::default());
    for i in 0..2000 {
        assert!(scan.advance().unwrap());
        assert_eq!(scan.key(), format!("k{i:05}").as_bytes());
        assert_eq!(scan.value(), b"old");
        if i % 400 == 10 {
            for j in 0..2000 {
                tree.put(&format!("k{j:05}"), "new");
            }
            tree.flush();
            while tree.compact_once() {}
        }
        if i % 400 == 390 {
            let flushed = tree.tree.active_bytes();
            let held = tree.tree.context().memtable_bytes.load(std::sync::atomic::Ordering::SeqCst);
            assert_eq!(held, flushed, "the scan holds a flushed memtable");
        }
    }
    assert!(!scan.advance().unwrap());
}

#[test]
fn a_memtable_with_a_reference_is_not_flushed() {
    let mut tree = BenchTree::new(small_options());
    tree.put("a", "1");
    let reference = tree.tree.reserve(SeqNo::new(2));
    assert!(tree.tree.seal(SeqNo::new(2)));
    assert!(!tree.tree.seal(SeqNo::new(2)));
    assert!(tree.start_flush().is_none());
    assert!(reference.release());
    assert!(tree.tree.flushable());
    drop(tree.start_flush().unwrap());
    tree.last = SeqNo::new(2);
    tree.flush();
    assert_eq!(tree.tree.view().version().flushed_through(), SeqNo::new(2));
}

#[test]
fn work_that_is_given_up_leaves_no_files_and_can_start_again() {
    let mut tree = BenchTree::new(small_options());
    for i in 0..20_000 {
        tree.put(&format!("k{i:05}"), &"x".repeat(100));
    }
    tree.tree.seal(tree.last);
    let mut flush = tree.start_flush().unwrap();
    assert!(flush.step().unwrap().is_none());
    assert!(tree.start_flush().is_none());
    drop(flush);
    let obsolete = tree.tree.context().obsolete.take();
    assert!(!obsolete.is_empty());
    let mut flush: Flush = tree.start_flush().unwrap();
    let edit = loop {
        if let Some(edit) = flush.step().unwrap() {
            break edit;
        }
    };
    tree.tree.abandon(&edit);
    assert_eq!(tree.tree.context().obsolete.take().len(), edit.added.len());
    tree.flush();
    assert_eq!(tree.text("k19999").unwrap().len(), 100);
    let job =
        flagstone_tree::pick(tree.tree.view().version(), tree.tree.options(), Policy::Leveling)
            .unwrap();
    let compaction = Compaction::start(&tree.tree, job.clone(), &[], tree.last).unwrap();
    assert!(Compaction::start(&tree.tree, job.clone(), &[], tree.last).is_none());
    drop(compaction);
    tree.run(job);
}

#[test]
fn a_job_that_was_picked_too_early_is_not_started() {
    let mut tree = BenchTree::new(small_options());
    for _ in 0..2 {
        tree.put("a", "1");
        tree.put("z", "1");
        tree.flush();
    }
    let early =
        flagstone_tree::pick(tree.tree.view().version(), tree.tree.options(), Policy::Leveling)
            .unwrap();
    tree.run(early.clone());
    assert!(Compaction::start(&tree.tree, early, &[], tree.last).is_none());
    tree.put("m", "2");
    tree.flush();
    let mut stale = tree.first_full().unwrap();
    stale.inputs.retain(|(level, _)| *level == 0);
    assert!(Compaction::start(&tree.tree, stale, &[], tree.last).is_none());
    assert!(tree.compact_full());
}

#[test]
fn tombstones_stay_while_an_index_is_built() {
    let mut tree = BenchTree::new(small_options());
    tree.tree.set_keep_tombstones(true);
    tree.write(Kind::Delete, b"k", b"");
    tree.flush();
    tree.compact_full();
    assert_eq!(tree.tree.stats().levels[6].deletes, 1);
    tree.tree.set_keep_tombstones(false);
    tree.compact_full();
    assert_eq!(tree.tree.stats().levels[6].tables, 0);
}

/// Inside a partition the high bits of the hash are constant. A filter that used them would pass
/// nearly every key.
#[test]
fn filters_work_in_a_tree_that_is_one_of_256() {
    let mut tree = BenchTree::new(TreeOptions { table_bytes: 4 << 20, ..small_options() });
    let is_ours = |tree: &BenchTree, key: &[u8]| tree.hash(key) >> 56 == 0xAB;
    for i in 0..400_000_u32 {
        let key = i.to_be_bytes();
        if is_ours(&tree, &key) {
            tree.write(Kind::Put, &key, b"value");
        }
    }
    tree.flush();
    let (_, table) =
        tree.tree.view().version().tables().next().map(|(l, t)| (l, t.clone())).unwrap();
    let table = table.open().unwrap();
    let (mut asked, mut passed) = (0, 0);
    for i in 400_000..1_200_000_u32 {
        let hash = tree.hash(&i.to_be_bytes());
        if hash >> 56 == 0xAB {
            asked += 1;
            passed += u32::from(table.may_contain(flagstone_base::hash::remix(hash)).unwrap());
        }
    }
    assert!(asked > 2000 && passed * 25 < asked, "{passed} of {asked} passed");
}

/// A block has several entries here, so most keys are visited. What is no live key of its own ends
/// a visit: an older version, a deletion, a key of another source.
#[test]
fn a_visit_goes_through_a_block_and_stops_at_what_needs_more() {
    let mut tree = BenchTree::new(small_options());
    for n in 0..100 {
        tree.put(&format!("k{n:03}"), "old");
    }
    tree.snapshots.push(tree.last);
    for n in (0..100).step_by(10) {
        tree.put(&format!("k{n:03}"), "new");
    }
    tree.write(Kind::Delete, b"k055", b"");
    tree.flush();
    tree.compact_full();
    tree.put("k033", "newer");
    let scanned = |start: Bound<Vec<u8>>, direction| {
        let range = KeyRange { start, end: Bound::Excluded(b"k090".to_vec()) };
        let mut scan = tree.tree.scan(range, tree.last, direction, ScanOptions::default());
        let (mut found, mut visited) = (Vec::new(), 0);
        while scan.advance().unwrap() {
            found.push((scan.key().to_vec(), scan.value().to_vec()));
            visited += scan.visit_near(usize::MAX, |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                true
            });
        }
        (found, visited)
    };
    let value = |n: usize| match n {
        33 => b"newer".to_vec(),
        n if n.is_multiple_of(10) => b"new".to_vec(),
        _ => b"old".to_vec(),
    };
    let expected = |n: usize| (format!("k{n:03}").into_bytes(), value(n));
    let all: Vec<_> = (0..90).filter(|n| *n != 55).map(expected).collect();
    let (found, visited) = scanned(Bound::Unbounded, Direction::Forward);
    assert_eq!(found, all);
    assert!(visited > 40, "{visited} keys were visited");
    let (found, _) = scanned(Bound::Excluded(b"k030".to_vec()), Direction::Forward);
    assert_eq!(found, all[31..]);
    let (found, visited) = scanned(Bound::Unbounded, Direction::Reverse);
    assert_eq!(found, all.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(visited, 0);
}
