//! Tests of how much a cursor reads from the file at once.

use crate::tools::{Entry, IDENT, plain};
use flagstone_base::SeqNo;
use flagstone_env::{Disk, MemDisk, Op};
use flagstone_sst::{BlockCache, CursorOptions, Table, TableBuilder, TableOptions};
use std::path::Path;
use std::sync::Arc;

const ENTRIES: u64 = 2400;
const BLOCK_MAX: u64 = 4 << 10;
const SCAN: CursorOptions = CursorOptions::SCAN;

/// A table of 2.4 MB in blocks of three and four kilobytes, on a disk that counts reads.
fn table(disk: &MemDisk, cache: &Arc<BlockCache>) -> Arc<Table> {
    let path = Path::new("/000042.sst");
    let options = TableOptions { block_bytes: BLOCK_MAX as usize, ..plain() };
    let mut builder = TableBuilder::new(disk.create(path).unwrap(), IDENT, options).unwrap();
    for n in 0..ENTRIES {
        let value = vec![7; 900 + (n * n * 37 % 200) as usize];
        builder.add(Entry::put(key(n), 1, value).as_ref()).unwrap();
    }
    builder.finish().unwrap();
    Table::open(disk.open(path).unwrap(), IDENT, None, cache).unwrap()
}

/// As [`table`], with its index in memory and no block in a cache.
fn uncached_table(disk: &MemDisk) -> Arc<Table> {
    let cache = BlockCache::new(1 << 20);
    let table = table(disk, &cache);
    cache.set_capacity(0);
    table
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Returns the lengths of all reads of a cursor that visits `count` entries from entry `first` on.
fn reads(
    disk: &MemDisk,
    table: &Arc<Table>,
    options: CursorOptions,
    first: u64,
    count: u64,
) -> Vec<u64> {
    let (mut reads, mut before) = (Vec::new(), disk.counts());
    let mut note = || {
        let now = disk.counts();
        match now.of(Op::Read) - before.of(Op::Read) {
            0 => {}
            1 => reads.push(now.bytes_read - before.bytes_read),
            more => panic!("{more} reads at once"),
        }
        before = now;
    };
    let mut cursor = table.cursor(options);
    cursor.seek(&key(first), SeqNo::MAX).unwrap();
    note();
    for n in first + 1..first + count {
        cursor.next().unwrap();
        assert!(cursor.valid());
        assert_eq!(cursor.entry().key, key(n));
        note();
    }
    reads
}

/// Returns whether `read` is about `wanted` bytes: only whole blocks are read.
fn is_about(wanted: u64, read: u64) -> bool {
    wanted.abs_diff(read) <= BLOCK_MAX * 2 / 3
}

#[test]
fn a_cursor_reads_more_at_once_the_longer_it_goes() {
    let disk = MemDisk::default();
    let table = uncached_table(&disk);
    let short = reads(&disk, &table, SCAN, 201, 1);
    assert!(short.len() == 1 && short[0] <= BLOCK_MAX, "{short:?}");

    let long = reads(&disk, &table, SCAN, 0, ENTRIES);
    let mut row = 0;
    for (i, &read) in long[..long.len() - 1].iter().enumerate() {
        match i {
            ..4 => assert!(read <= BLOCK_MAX, "{long:?}"),
            _ => assert!(is_about(row.clamp(16 << 10, 256 << 10), read), "read {i} of {long:?}"),
        }
        row += read;
    }
    assert!(long.iter().filter(|&&read| is_about(256 << 10, read)).count() > 5, "{long:?}");

    let compaction = reads(&disk, &table, CursorOptions::COMPACTION, 0, ENTRIES);
    let (_last, most) = compaction.split_last().unwrap();
    assert!(most.len() > 7 && most.iter().all(|&read| is_about(256 << 10, read)), "{most:?}");
}

#[test]
fn a_cursor_that_goes_back_reads_more_at_once_too() {
    let disk = MemDisk::default();
    let table = uncached_table(&disk);
    let before = disk.counts();
    let mut cursor = table.cursor(SCAN);
    cursor.seek_last().unwrap();
    for n in (0..ENTRIES).rev() {
        assert_eq!(cursor.entry().key, key(n));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    let now = disk.counts();
    let (reads, bytes) =
        (now.of(Op::Read) - before.of(Op::Read), now.bytes_read - before.bytes_read);
    assert!(reads < 20, "{reads}");
    assert!(bytes < ENTRIES * 1100, "no block twice: {bytes}");
}

#[test]
fn cursors_that_share_keep_less_each() {
    let disk = MemDisk::default();
    let table = uncached_table(&disk);
    for (cursors, most) in [(1, 256 << 10), (16, 256 << 10), (64, 64 << 10), (5000, 16 << 10)] {
        let all = reads(&disk, &table, SCAN.shared_by(cursors), 0, ENTRIES);
        let longest = *all.iter().max().unwrap();
        assert!(is_about(most, longest), "{cursors}: {longest}");
    }
}

#[test]
fn who_does_not_fill_the_cache_is_not_counted() {
    let disk = MemDisk::default();
    let cache = BlockCache::new(8 << 20);
    let table = table(&disk, &cache);
    reads(&disk, &table, SCAN, 0, ENTRIES);
    let before = cache.stats();
    assert_eq!(reads(&disk, &table, CursorOptions::COMPACTION, 0, ENTRIES), [], "all there");
    assert_eq!(cache.stats(), before);
}

#[test]
fn blocks_in_the_cache_are_not_read_and_do_not_end_a_row() {
    let disk = MemDisk::default();
    let table = table(&disk, &BlockCache::new(8 << 20));
    for n in (8..ENTRIES).step_by(8) {
        assert_eq!(reads(&disk, &table, SCAN, n, 1).len(), 1);
        assert_eq!(reads(&disk, &table, SCAN, n, 1), []);
    }
    // About every second block is cached, and is read again with its neighbours.
    let rest = reads(&disk, &table, SCAN, 0, ENTRIES);
    assert!(rest.len() < 20, "{rest:?}");
    assert_eq!(reads(&disk, &table, SCAN, 0, ENTRIES), []);
}

#[test]
fn a_row_ends_where_a_cursor_seeks_elsewhere() {
    let disk = MemDisk::default();
    let table = uncached_table(&disk);
    let mut cursor = table.cursor(SCAN);
    cursor.seek(&key(0), SeqNo::MAX).unwrap();
    (0..200).for_each(|_| cursor.next().unwrap());
    // Back into the read-ahead buffer, and on beyond it.
    cursor.seek(&key(150), SeqNo::MAX).unwrap();
    let before = disk.counts();
    (150..1000)
        .take_while(|_| disk.counts().of(Op::Read) == before.of(Op::Read))
        .for_each(|_| cursor.next().unwrap());
    assert!(is_about(16 << 10, disk.counts().bytes_read - before.bytes_read));
}

/// Without it, each of many parked cursors would hold a document of megabytes.
#[test]
fn a_cursor_releases_a_huge_block_and_reads_it_again() {
    let (disk, cache) = (MemDisk::default(), BlockCache::new(8 << 20));
    let path = Path::new("/000042.sst");
    let mut builder = TableBuilder::new(disk.create(path).unwrap(), IDENT, plain()).unwrap();
    let value = |n: u64| vec![n as u8; if n == 1 { 100 } else { 2 << 20 }];
    (0..4).for_each(|n| builder.add(Entry::put(key(n), 1, value(n)).as_ref()).unwrap());
    builder.finish().unwrap();
    let table = Table::open(disk.open(path).unwrap(), IDENT, None, &cache).unwrap();
    let mut cursor = table.cursor(SCAN);
    for back in [false, true] {
        if back { cursor.seek_last() } else { cursor.seek_first() }.unwrap();
        for n in 0..4 {
            let n = if back { 3 - n } else { n };
            let huge = cursor.release_block();
            assert_eq!((huge, cursor.block_bytes() > 0), (cursor.block_bytes() == 0, !huge));
            assert_eq!((cursor.valid(), cursor.entry().key), (true, &key(n)[..]));
            assert_eq!(cursor.entry().value.is_empty(), huge);
            cursor.reload_block().unwrap();
            assert_eq!(cursor.entry().value, value(n));
            assert!(n == 1 || huge, "entry {n}");
            if back { cursor.prev() } else { cursor.next() }.unwrap();
        }
        assert!(!cursor.valid() && !cursor.release_block());
        cursor.reload_block().unwrap();
        assert!(!cursor.valid());
    }
}

/// Read-ahead buffers of scans are counted over all of them, and released.
#[test]
fn scans_read_ahead_as_long_as_there_is_room_for_all() {
    let (disk, cache) = (MemDisk::default(), BlockCache::new(1 << 20));
    let table = table(&disk, &cache);
    let most = CursorOptions { fill_cache: false, ..SCAN };
    let max = cache.scans().max();
    // Compactions do not use the allowance.
    let compaction = {
        let mut cursor = table.cursor(CursorOptions::COMPACTION);
        cursor.seek_first().unwrap();
        cursor
    };
    assert_eq!(cache.scans().used(), 0);
    let mut held = Vec::new();
    for _ in 0..100 {
        let mut cursor = table.cursor(most);
        cursor.seek_first().unwrap();
        (0..ENTRIES / 2).for_each(|_| cursor.next().unwrap());
        assert_eq!(cursor.entry().key, key(ENTRIES / 2));
        held.push(cursor);
        assert!(cache.scans().used() <= max);
    }
    assert!(cache.scans().used() > max / 2 && cache.scans().is_short());
    drop((held, compaction));
    assert_eq!(cache.scans().used(), 0);
}
