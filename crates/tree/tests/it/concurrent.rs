//! Tests of readers concurrent with writers: published entries are always visible, in order.

use crate::bench_tree::{BenchTree, small_options};
use flagstone_base::{Compression, EntryRef, KeyRange, Kind, SeqNo};
use flagstone_tree::{Direction, Flush, ScanOptions, TreeScan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn readers_see_everything_published_in_order_while_writers_insert() {
    let tree = Arc::new(BenchTree::new(small_options()));
    let (visible, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let key = |n: u64| format!("k{:06}", (n * 7919) % 9973);
    let next = AtomicU64::new(0);
    let (next, key, shown, held) = (&next, &key, &visible, &tree);
    let insert = move || loop {
        let n = next.fetch_add(1, Ordering::SeqCst) + 1;
        if n > 9000 {
            return;
        }
        let memtable = held.tree.reserve(SeqNo::new(n));
        let (name, value) = (key(n), n.to_string());
        let entry = EntryRef::new(name.as_bytes(), SeqNo::new(n), Kind::Put, value.as_bytes());
        memtable.insert(entry, held.hash(name.as_bytes())).unwrap();
        while shown.compare_exchange(n - 1, n, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (tree, visible, done) = (&tree, &visible, &done);
            scope.spawn(move || {
                let mut n = reader;
                while !done.load(Ordering::Acquire) {
                    let at = visible.load(Ordering::Acquire);
                    if at == 0 {
                        continue;
                    }
                    n = flagstone_base::hash::remix(n) % at + 1;
                    let found = tree.get(key(n).as_bytes(), SeqNo::new(at)).unwrap();
                    assert_eq!(found, n.to_string().into_bytes(), "at {at}");
                    let way = [Direction::Forward, Direction::Reverse][(n % 2) as usize];
                    let mut scan =
                        tree.tree.scan(KeyRange::ALL, SeqNo::new(at), way, ScanOptions::default());
                    let (mut count, mut last) = (0, Vec::new());
                    while scan.advance().unwrap() {
                        let in_order = (scan.key() > &last[..]) == (way == Direction::Forward);
                        assert!(count == 0 || in_order);
                        last = scan.key().to_vec();
                        count += 1;
                    }
                    assert_eq!(count, at);
                }
            });
        }
        let writers = [scope.spawn(insert), scope.spawn(insert)];
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
    });
}

/// A round in which no writer finds the lock taken says nothing, so there are many.
#[test]
fn writers_that_wait_for_one_another_are_counted() {
    for _ in 0..1000 {
        let (tree, next) = (BenchTree::new(small_options()), AtomicU64::new(1));
        let insert = || {
            for _ in 0..200 {
                let seqno = SeqNo::new(next.fetch_add(1, Ordering::SeqCst));
                let memtable = tree.tree.reserve(seqno);
                let entry = EntryRef::new(b"key", seqno, Kind::Put, &[7; 2000]);
                memtable.insert(entry, tree.hash(b"key")).unwrap();
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(insert)));
        });
        let last = SeqNo::new(next.load(Ordering::SeqCst));
        tree.tree.seal(last);
        let flush = Flush::start(&tree.tree, SeqNo::MAX, &[], last, &[]).unwrap();
        if flush.load().waits() > 0 {
            return;
        }
    }
    panic!("no writer waited");
}

/// Readers at any moment while a counter is incremented: shortcuts are added next to what they
/// read.
#[test]
fn readers_of_one_hot_key_see_every_operand_once() {
    const OPERANDS: u64 = 20_000;
    let tree = Arc::new(BenchTree::new(small_options()));
    let (visible, reads) = (AtomicU64::new(0), AtomicU64::new(0));
    let read = |at: u64| tree.get(b"k", SeqNo::new(at)).map_or(0, |value| value.len() as u64 - 1);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (tree, visible, reads, read) = (&tree, &visible, &reads, &read);
            scope.spawn(move || {
                let mut n = reader;
                while visible.load(Ordering::Acquire) < OPERANDS {
                    let newest = visible.load(Ordering::Acquire);
                    let older = flagstone_base::hash::remix(n) % (newest + 1);
                    for at in [newest, older] {
                        assert_eq!(read(at), at, "at {at}");
                        let way = [Direction::Forward, Direction::Reverse][(n % 4 / 2) as usize];
                        let options = ScanOptions::default();
                        let mut scan = tree.tree.scan(KeyRange::ALL, SeqNo::new(at), way, options);
                        assert_eq!(scan.advance().unwrap(), at > 0);
                        assert_eq!(
                            scan.value_bytes().len() as u64,
                            if at > 0 { at + 1 } else { 0 }
                        );
                    }
                    n += 2;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for n in 1..=OPERANDS {
            // Readers are active meanwhile.
            while n % 200 == 0 && reads.load(Ordering::Relaxed) < n / 200 {
                std::thread::yield_now();
            }
            let memtable = tree.tree.reserve(SeqNo::new(n));
            let entry = EntryRef::new(b"k", SeqNo::new(n), Kind::Merge, b"x");
            memtable.insert(entry, tree.hash(b"k")).unwrap();
            visible.store(n, Ordering::Release);
            if n % 5000 == 1234 {
                let value = vec![b'_'; n as usize + 1];
                tree.tree.note_folded(b"k", tree.hash(b"k"), SeqNo::new(n), Some(&value));
            }
        }
    });
    assert_eq!(read(OPERANDS), OPERANDS);
}

/// What a cursor pins of a discarded tree must not stop writers of other trees.
#[test]
fn what_is_written_after_a_discard_is_not_charged() {
    let mut tree = BenchTree::new(small_options());
    tree.write(Kind::Put, b"a", &[7; 5000]);
    let (seqno, view) = (tree.last.plus(1), tree.tree.view());
    let memtable = tree.tree.reserve(seqno);
    let charged = || tree.tree.context().memtable_bytes.load(Ordering::SeqCst);
    assert!(charged() > 5000);
    tree.tree.discard();
    let entry = EntryRef::new(b"b", seqno, Kind::Put, &[7; 5000]);
    memtable.insert(entry, tree.hash(b"b")).unwrap();
    assert_eq!(charged(), 0);
    drop((memtable, view));
    assert_eq!(charged(), 0);
}

/// A regression test: memtables were released while a writer still used them, so their memory was
/// subtracted twice, and the sum of all memtables went below zero.
#[test]
fn a_tree_that_is_discarded_while_it_is_written_owes_no_memory() {
    for _ in 0..50 {
        let tree = BenchTree::new(small_options());
        let charged = Arc::clone(&tree.tree.context().memtable_bytes);
        let last = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let (tree, last) = (&tree, &last);
                scope.spawn(move || {
                    for n in 0..200 {
                        let key = (thread << 32 | n).to_be_bytes();
                        let seqno = SeqNo::new(last.fetch_add(1, Ordering::SeqCst) + 1);
                        let memtable = tree.tree.reserve(seqno);
                        let entry = EntryRef::new(&key, seqno, Kind::Put, &[7; 500]);
                        memtable.insert(entry, tree.hash(&key)).unwrap();
                    }
                });
            }
            while last.load(Ordering::SeqCst) < 400 {
                tree.tree.discard();
            }
        });
        drop(tree);
        assert_eq!(charged.load(Ordering::SeqCst), 0);
    }
}

/// Miri runs this: a scan lends a value out of memory of which other threads take the rest.
#[test]
fn a_value_in_place_outlives_what_another_thread_takes_of_its_scan() {
    let mut options = small_options();
    // Miri calls no C.
    options.tables.compression = Compression::None;
    options.tables.bottom_compression = Compression::None;
    let mut tree = BenchTree::new(options);
    tree.put("a", "in a table");
    tree.flush();
    tree.put("b", "in a memtable");
    let view = Arc::downgrade(&tree.tree.view());
    let scans = [1, 2].map(|keys| {
        let options = ScanOptions::default();
        let mut scan = tree.tree.scan(KeyRange::ALL, tree.last, Direction::Forward, options);
        (0..keys).for_each(|_| assert!(scan.advance().unwrap()));
        scan
    });
    let lent = scans.each_ref().map(TreeScan::value_bytes);
    std::thread::scope(|scope| drop(scope.spawn(|| tree.tree.discard())));
    assert!(view.upgrade().is_none(), "the scans keep nothing else");
    assert_eq!(lent, [&b"in a table"[..], b"in a memtable"]);
    assert_eq!(scans.each_ref().map(TreeScan::value_bytes), lent);
}
