//! How often a cursor reads from the file.

use crate::tools::{Entry, IDENT};
use flagstone_env::{Disk, MemDisk, Op};
use flagstone_sst::{BlockCache, CursorOptions, Table, TableBuilder, TableOptions};
use std::path::Path;
use std::sync::Arc;

const ENTRIES: u64 = 400;

/// A table of 100 blocks of 4 KiB on a disk that counts.
fn table(disk: &MemDisk, cache: &Arc<BlockCache>) -> Arc<Table> {
    let path = Path::new("/000042.sst");
    let options = TableOptions { block_bytes: 4 << 10, ..TableOptions::default() };
    let mut builder = TableBuilder::new(disk.create(path).unwrap(), IDENT, options).unwrap();
    for n in 0..ENTRIES {
        builder.add(Entry::put(key(n), 1, [7; 990]).as_ref()).unwrap();
    }
    builder.finish().unwrap();
    let table = Table::open(disk.open(path).unwrap(), IDENT, None, cache).unwrap();
    assert_eq!(table.properties().data_blocks, 100);
    table
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// How often the file is read while a cursor goes from entry `first` over `count` entries.
fn reads(
    disk: &MemDisk,
    table: &Arc<Table>,
    options: CursorOptions,
    first: u64,
    count: u64,
) -> u64 {
    let before = disk.counts().of(Op::Read);
    let mut cursor = table.cursor(options);
    cursor.seek(&key(first), flagstone_base::SeqNo::MAX).unwrap();
    for n in first..first + count {
        assert!(cursor.valid());
        assert_eq!(cursor.key(), key(n));
        cursor.next().unwrap();
    }
    disk.counts().of(Op::Read) - before
}

#[test]
fn a_cursor_reads_more_at_once_the_longer_it_goes() {
    let disk = MemDisk::default();
    // Without a cache.
    let table = table(&disk, &BlockCache::new(0));
    let scan = CursorOptions::SCAN;
    assert_eq!(reads(&disk, &table, scan, 0, 3), 1);
    assert_eq!(reads(&disk, &table, scan, 201, 2), 1);
    // A block, the next 3 of 16 KiB, then 4, 8, 16, ..
    assert_eq!(reads(&disk, &table, scan, 0, 4 * (1 + 3) - 1), 2);
    assert_eq!(reads(&disk, &table, scan, 0, 4 * (1 + 3 + 4) - 1), 3);
    assert_eq!(reads(&disk, &table, scan, 0, 4 * (1 + 3 + 4 + 8) - 1), 4);
    assert_eq!(reads(&disk, &table, scan, 0, ENTRIES), 7);
    // 256 KiB from the start.
    assert_eq!(reads(&disk, &table, CursorOptions::COMPACTION, 0, ENTRIES), 2);
}

#[test]
fn blocks_in_the_cache_are_not_read_and_do_not_end_a_row() {
    let disk = MemDisk::default();
    let table = table(&disk, &BlockCache::new(4 << 20));
    for n in (8..ENTRIES).step_by(8) {
        assert_eq!(reads(&disk, &table, CursorOptions::SCAN, n, 1), 1);
        assert_eq!(reads(&disk, &table, CursorOptions::SCAN, n, 1), 0);
    }
    // Every second block is there, and is read again with those around it.
    assert!(reads(&disk, &table, CursorOptions::SCAN, 0, ENTRIES) <= 7);
    assert_eq!(reads(&disk, &table, CursorOptions::SCAN, 0, ENTRIES), 0);
}
