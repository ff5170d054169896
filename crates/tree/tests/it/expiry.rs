//! Stories of entries that expire.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::hash::{HashedKey, remix};
use flagstone_base::{KeyRange, Kind, Moment, SeqNo};
use flagstone_env::Disk;
use flagstone_tree::{Compaction, Direction, Policy, ScanOptions, TreeOptions, pick_expired};
use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

const fn at(millis: u64) -> Moment {
    Moment::from_millis(millis)
}

/// The keys that a scan in `direction` finds.
fn scanned(tree: &BenchTree, direction: Direction, moment: Moment) -> Vec<String> {
    let options = ScanOptions { moment, ..ScanOptions::default() };
    let mut scan = tree.tree.scan(KeyRange::ALL, tree.last, direction, options);
    let mut keys = Vec::new();
    while scan.advance().unwrap() {
        keys.push(String::from_utf8(scan.key().to_vec()).unwrap());
    }
    keys
}

/// Brings everything into the last level.
fn sink(tree: &mut BenchTree) {
    tree.flush();
    tree.compact_full();
}

/// The number of entries, tombstones and entries with an expiry in tables.
fn counts(tree: &BenchTree) -> (u64, u64, u64) {
    let view = tree.tree.view();
    let metas = view.version().tables().map(|(_, table)| table.meta().clone());
    metas.fold((0, 0, 0), |(entries, deletes, expiring), meta| {
        (entries + meta.entries, deletes + meta.deletes, expiring + meta.expiries.count)
    })
}

#[test]
fn an_expired_put_is_absent_and_hides_what_is_older_wherever_it_lies() {
    let places: [fn(&mut BenchTree); 3] = [|_memtable| {}, BenchTree::flush, sink];
    for to_place in places {
        let mut tree = BenchTree::new(small_options());
        tree.put("a", "1");
        tree.put("b", "old");
        tree.put_until(b"b", b"new", at(100));
        tree.put("c", "3");
        to_place(&mut tree);
        for (millis, expected) in [(99, Some(b"new".to_vec())), (100, None), (101, None)] {
            assert_eq!(tree.look_by(b"b", tree.last, at(millis)), expected, "at {millis}");
            let mut keys = if millis < 100 { vec!["a", "b", "c"] } else { vec!["a", "c"] };
            assert_eq!(scanned(&tree, Direction::Forward, at(millis)), keys);
            keys.reverse();
            assert_eq!(scanned(&tree, Direction::Reverse, at(millis)), keys);
        }
        let found = tree.found_in(&tree.tree.view(), b"b").unwrap();
        assert_eq!((found.seqno, found.expiry), (Some(SeqNo::new(3)), Some(at(100))));
        let key = HashedKey { key: b"b", hash: tree.hash(b"b") };
        let view = tree.tree.view();
        let lives_until =
            |millis| tree.tree.get(&view, key, tree.last, &|| at(millis)).unwrap().lives_until();
        assert_eq!((lives_until(99), lives_until(100)), (Some(at(100)), None));
    }
}

#[test]
fn a_get_asks_for_the_moment_only_when_it_meets_an_expiry() {
    let mut tree = BenchTree::new(small_options());
    tree.put("plain", "1");
    tree.put_until(b"expiring", b"2", at(100));
    tree.write(Kind::Delete, b"deleted", b"");
    let asked = Cell::new(0);
    let now = || {
        asked.set(asked.get() + 1);
        at(1)
    };
    for _ in 0..2 {
        asked.set(0);
        for (key, expected) in [(&b"plain"[..], 0), (b"deleted", 0), (b"none", 0), (b"expiring", 1)]
        {
            let view = tree.tree.view();
            tree.tree.get(&view, HashedKey { key, hash: tree.hash(key) }, tree.last, &now).unwrap();
            assert_eq!(asked.get(), expected);
        }
        tree.flush();
    }
}

#[test]
fn a_flush_writes_an_expired_put_as_a_tombstone_at_its_seqno_and_says_so() {
    let mut tree = BenchTree::new(small_options());
    tree.put_until(b"a", b"gone", at(100));
    let seqno = tree.last;
    tree.put_until(b"b", b"lives", at(101));
    tree.moment = at(100);
    tree.flush();
    assert_eq!(counts(&tree), (2, 1, 1));
    assert_eq!(tree.tree.view().expired_through(), at(100));
    let found = tree.found_in(&tree.tree.view(), b"a").unwrap();
    assert_eq!((found.seqno, found.value, found.expiry), (Some(seqno), None, None));
    tree.reopen();
    assert_eq!(tree.tree.view().expired_through(), at(100));
}

#[test]
fn a_version_records_no_moment_if_nothing_has_expired() {
    let mut tree = BenchTree::new(small_options());
    tree.put_until(b"a", b"lives", at(101));
    tree.moment = at(100);
    sink(&mut tree);
    assert_eq!(tree.tree.view().expired_through(), Moment::ZERO);
}

#[test]
fn a_compaction_to_the_last_level_leaves_nothing_of_an_expired_put() {
    let mut tree = BenchTree::new(small_options());
    tree.put("a", "old");
    sink(&mut tree);
    tree.put_until(b"a", b"new", at(100));
    tree.put_until(b"b", b"other", at(100));
    tree.put("c", "3");
    tree.flush();
    tree.moment = at(100);
    tree.compact_full();
    assert_eq!(counts(&tree), (1, 0, 0));
    assert_eq!(scanned(&tree, Direction::Forward, at(100)), ["c"]);
    assert_eq!(tree.tree.view().watermark(), tree.last);
}

#[test]
fn what_a_snapshot_of_an_earlier_moment_sees_stays() {
    let mut tree = BenchTree::new(small_options());
    tree.put_until(b"a", b"1", at(100));
    tree.put("b", "2");
    tree.snapshots.push(tree.last);
    tree.moments.push(at(99));
    tree.moment = at(200);
    sink(&mut tree);
    assert_eq!(tree.get_by(b"a", tree.last, at(99)).as_deref(), Some(&b"1"[..]));
    assert!(!tree.expire_once());
    tree.moments[0] = at(100);
    assert!(tree.expire_once());
    assert_eq!(counts(&tree), (1, 0, 0));
}

/// Removes the files of all tables, so that every read of one fails.
fn remove_files(tree: &BenchTree) {
    for (_, table) in tree.tree.view().version().tables() {
        let path = tree.tree.context().table_path(table.meta().number);
        tree.disk.remove(&path).unwrap();
    }
}

#[test]
fn tables_that_have_expired_are_dropped_unread() {
    let mut tree = BenchTree::new(small_options());
    for (from, expiry) in [(0, 100), (50, 90), (150, 95)] {
        for n in from..from + 100 {
            tree.put_until(format!("{n:03}").as_bytes(), &[7; 100], at(expiry));
        }
        tree.flush();
    }
    tree.compact_once();
    tree.reopen();
    remove_files(&tree);
    tree.moment = at(100);
    assert!(tree.expire_once());
    assert_eq!(counts(&tree), (0, 0, 0));
    let (view, stats) = (tree.tree.view(), tree.tree.stats());
    assert_eq!((view.expired_through(), view.watermark()), (at(100), tree.last));
    assert!(stats.counters.tables_expired > 1 && stats.counters.compaction_bytes_read == 0);
    assert!(tree.tree.context().obsolete.take().len() > 1);
}

#[test]
fn a_table_that_is_not_wholly_published_or_no_longer_fits_is_not_dropped() {
    let mut tree = BenchTree::new(small_options());
    tree.put_until(b"a", b"1", at(100));
    tree.put_until(b"b", b"1", at(100));
    tree.flush();
    let version = Arc::clone(tree.tree.view().version());
    let options = tree.tree.options();
    let job = pick_expired(&version, options, Policy::Tiering, at(100)).unwrap();
    assert_eq!(job.to_string(), "expired: L0 000001 drop");
    let start = |visible| Compaction::start(&tree.tree, job.clone(), &[], SeqNo::new(visible));
    assert!(start(1).is_none(), "an entry is not published");
    tree.tree.set_keep_tombstones(true);
    assert!(start(2).is_none(), "every tombstone must stay");
    tree.tree.set_keep_tombstones(false);
    assert!(start(2).is_some());
    tree.moment = at(50);
    tree.compact_full();
    let start = |visible| Compaction::start(&tree.tree, job.clone(), &[], SeqNo::new(visible));
    assert!(start(2).is_none(), "the table is another one");
}

#[test]
fn a_table_is_written_again_without_what_has_expired_when_its_median_has_passed() {
    let mut tree = BenchTree::new(small_options());
    for n in 0..10 {
        let expiry = if n < 5 { at(100) } else { at(1000) };
        tree.put_until(format!("{n}").as_bytes(), b"value", expiry);
    }
    sink(&mut tree);
    tree.moment = at(99);
    assert!(!tree.expire_once());
    tree.moment = at(100);
    assert!(tree.expire_once());
    assert_eq!(counts(&tree), (5, 0, 5));
    assert!(!tree.expire_once());
    let found = tree.found_in(&tree.tree.view(), b"7").unwrap();
    assert_eq!(found.expiry, Some(at(1000)));
}

/// Each time the tables of entries that had expired, or of the tombstones that became of them, were
/// brought down into the last level, which is written again for that.
#[test]
fn few_entries_that_expire_above_many_that_do_not_are_no_reason_to_write_those_again() {
    let options = TreeOptions { job_bytes_min: 64 << 10, table_bytes: 4 << 20, ..small_options() };
    let mut tree = BenchTree::new(options);
    for n in 0..10_000_u64 {
        let value: Vec<u8> = (0..100).map(|at| remix(n * 1000 + at) as u8).collect();
        tree.write(Kind::Put, format!("{n:05}").as_bytes(), &value);
    }
    sink(&mut tree);
    let read = |tree: &BenchTree| tree.tree.stats().counters.compaction_bytes_read;
    let (before, last) = (read(&tree), tree.tree.stats().levels[6]);
    assert!(last.bytes > 1 << 20, "{last:?}");
    for generation in 1..6 {
        let expiry = at(generation * 100);
        for n in (0..10_000).step_by(500) {
            tree.put_until(format!("{n:05}x").as_bytes(), b"value", expiry);
        }
        tree.flush();
        tree.moment = expiry;
        while tree.expire_once() || tree.compact_once() {}
        let stats = tree.tree.stats();
        assert_eq!(stats.levels.iter().map(|level| level.expiring).sum::<u64>(), 0);
    }
    let read = read(&tree) - before;
    assert!(read < last.bytes / 4, "{read} bytes were read, {last:?}");
}

#[test]
fn an_operand_over_a_base_that_expires_begins_with_an_absent_value_afterwards() {
    let mut tree = BenchTree::new(small_options());
    tree.put_until(b"k", b"base", at(100));
    tree.write(Kind::Merge, b"k", b"+1");
    let check = |tree: &BenchTree, moments: &[(u64, &[u8])]| {
        for (millis, expected) in moments {
            let found = tree.look_by(b"k", tree.last, at(*millis));
            assert_eq!(found.as_deref(), Some(*expected), "at {millis}");
            let options = ScanOptions { moment: at(*millis), ..ScanOptions::default() };
            for way in [Direction::Forward, Direction::Reverse] {
                let key = Bound::Included(&b"k"[..]);
                let mut scan = tree.tree.scan(KeyRange::of(key, key), tree.last, way, options);
                assert!(scan.advance().unwrap());
                assert_eq!(&*scan.value(), *expected, "at {millis}, {way:?}");
            }
        }
    };
    let both: [(u64, &[u8]); 2] = [(99, b"base+1"), (100, b"_+1")];
    check(&tree, &both);
    sink(&mut tree);
    check(&tree, &both);
    assert_eq!(counts(&tree), (2, 0, 1));
    tree.moment = at(100);
    tree.put("l", "rewrites the table");
    sink(&mut tree);
    check(&tree, &both[1..]);
    assert_eq!(counts(&tree), (2, 0, 0));
}
