//! Tests of indexes in parts: what a table keeps in memory, and what it reads if the whole index
//! does not fit.

use crate::tools::{Entry, Folder, IDENT, get, plain};
use flagstone_base::{ErrorKind, SeqNo};
use flagstone_env::{Disk, MemDisk, Op};
use flagstone_sst::{
    BlockCache, BuilderOptions, CursorOptions, InspectOptions, Table, TableBuilder, TableMeta,
    TableOptions, inspect,
};
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/000042.sst";
const KEYS: u32 = 10_000;
/// The data blocks of the table below.
const BLOCKS: u64 = 10_000;
const PARTS: u64 = 40;
/// Enough for some parts and blocks, but not for half of the index.
const SMALL: u64 = 256 << 10;

fn key(number: u32) -> String {
    format!("key{number:08}")
}

fn options(index_part_blocks: usize) -> BuilderOptions {
    let tables = TableOptions { block_bytes: 64, filter_bits: 0, ..plain() };
    BuilderOptions { tables, index_part_blocks, ..BuilderOptions::default() }
}

/// Writes a table of 10,000 small blocks of one entry each, without a filter.
fn written(disk: &MemDisk, index_part_blocks: usize) -> TableMeta {
    let _was_there = disk.remove(Path::new(PATH));
    let file = disk.create(Path::new(PATH)).unwrap();
    let mut builder = TableBuilder::new(file, IDENT, options(index_part_blocks)).unwrap();
    for n in 0..KEYS {
        builder.add(Entry::put(key(n), 1, "a value").as_ref()).unwrap();
    }
    builder.finish().unwrap()
}

fn open(disk: &MemDisk, meta: &TableMeta, cache: &Arc<BlockCache>) -> Arc<Table> {
    Table::open(disk.open(Path::new(PATH)).unwrap(), IDENT, Some(meta), cache).unwrap()
}

fn found(table: &Table, number: u32) -> bool {
    let found = get(table, key(number).as_bytes(), 9).unwrap();
    found == [Entry::put(key(number), 1, "a value")]
}

/// Returns the number of reads of `work`, and their bytes.
fn reads(disk: &MemDisk, work: impl FnOnce()) -> (u64, u64) {
    let before = disk.counts();
    work();
    let now = disk.counts();
    (now.of(Op::Read) - before.of(Op::Read), now.bytes_read - before.bytes_read)
}

/// Returns the place of the parts of the index.
fn place(disk: &MemDisk) -> (u64, u64) {
    let mut text = String::new();
    inspect(disk, Path::new(PATH), InspectOptions::default(), &mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with("index    ")).unwrap();
    let (offset, len) = line["index    ".len()..].split_once('+').unwrap();
    (offset.parse().unwrap(), len.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_table_keeps_its_index_while_there_is_room_and_else_some_bytes_a_part() {
    let (disk, large, small) =
        (MemDisk::default(), BlockCache::new(64 << 20), BlockCache::new(SMALL));
    let meta = written(&disk, 256);
    let (whole, parted) = (open(&disk, &meta, &large), open(&disk, &meta, &small));
    assert_eq!(whole.properties().data_blocks, BLOCKS);
    assert_eq!(large.pinned_bytes(), whole.resident_bytes());
    assert_eq!(small.pinned_bytes(), parted.resident_bytes());
    let (whole, parted) = (whole.resident_bytes(), parted.resident_bytes());
    assert!((BLOCKS * 24..BLOCKS * 40).contains(&whole), "{whole}");
    assert!(parted < 1_200 + PARTS * 60, "{parted}");
    // Half as many parts for as many blocks take less memory.
    let meta = written(&disk, 512);
    let halved = open(&disk, &meta, &small).resident_bytes();
    assert!(halved < parted - PARTS / 2 * 30, "{halved}, {parted} of twice as many parts");
}

#[test]
fn parts_are_kept_in_the_cache_at_what_they_take_in_memory() {
    let (disk, small) = (MemDisk::default(), BlockCache::new(SMALL));
    let meta = written(&disk, 256);
    let table = open(&disk, &meta, &small);
    assert_eq!(small.used_bytes(), 0);
    let (count, bytes) = reads(&disk, || assert!(found(&table, 5_000)));
    assert!(count == 2 && bytes < 5 << 10, "a part and a block: {count} reads of {bytes} bytes");
    let used = small.used_bytes();
    assert!((256 * 24..256 * 48).contains(&used), "{used}");
    assert_eq!(reads(&disk, || assert!(found(&table, 5_000))).0, 0);
    // One read for the next block, none for the index.
    assert_eq!(reads(&disk, || assert!(found(&table, 5_001))).0, 1);
    assert_eq!(small.stats().misses, 2, "parts are not counted");
    table.forget_blocks();
    assert_eq!(small.used_bytes(), 0);
}

#[test]
fn the_whole_index_in_memory_is_read_once_and_parts_by_each_get_that_misses() {
    let disk = MemDisk::default();
    let meta = written(&disk, 256);
    let large = BlockCache::new(64 << 20);
    let mut table = None;
    let (count, _) = reads(&disk, || table = Some(open(&disk, &meta, &large)));
    assert_eq!(count, 2, "the tail and all parts");
    let table = table.unwrap();
    assert_eq!(reads(&disk, || assert!(found(&table, 77))).0, 1);
    // A cache that holds nothing.
    let none = BlockCache::new(0);
    let table = open(&disk, &meta, &none);
    for _ in 0..2 {
        assert_eq!(reads(&disk, || assert!(found(&table, 77))).0, 2);
    }
    assert!((0..KEYS).step_by(501).all(|number| found(&table, number)));
}

#[test]
fn a_cursor_reads_each_part_once_and_that_of_a_compaction_leaves_the_cache_alone() {
    let disk = MemDisk::default();
    let meta = written(&disk, 256);
    for (cache_bytes, options) in [
        (SMALL, CursorOptions::COMPACTION),
        (0, CursorOptions::COMPACTION),
        (0, CursorOptions::SCAN),
    ] {
        let cache = BlockCache::new(cache_bytes);
        let table = open(&disk, &meta, &cache);
        let mut cursor = table.cursor(options);
        for is_back in [false, true] {
            let mut seen = 0;
            let (count, bytes) = reads(&disk, || {
                if is_back {
                    cursor.seek_last().unwrap()
                } else {
                    cursor.seek_first().unwrap()
                }
                while cursor.valid() {
                    seen += 1;
                    if is_back { cursor.prev().unwrap() } else { cursor.next().unwrap() }
                }
            });
            assert_eq!(seen, KEYS);
            assert_eq!(cache.used_bytes(), 0);
            assert!(bytes < meta.bytes + meta.bytes / 8, "{bytes} of {}", meta.bytes);
            assert!(count < 4 * PARTS, "{count} reads");
        }
    }
}

#[test]
fn what_all_tables_pin_has_a_limit_and_comes_back_when_they_are_dropped() {
    let (disk, cache) = (MemDisk::default(), BlockCache::new(2 << 20));
    let meta = written(&disk, 256);
    let mut tables: Vec<_> = (0..30).map(|_| open(&disk, &meta, &cache)).collect();
    let is_whole = |table: &Arc<Table>| table.resident_bytes() > BLOCKS * 24;
    let whole = tables.iter().filter(|table| is_whole(table)).count();
    assert!((2..5).contains(&whole), "{whole} of 30 whole");
    let tops = 30 * (1_200 + PARTS * 60);
    assert!(cache.pinned_bytes() <= (1 << 20) + tops, "{}", cache.pinned_bytes());
    assert!(tables.iter().all(|table| found(table, 2_345)));
    // The first tables had whole indexes. A table that is opened after they are closed gets their
    // memory.
    tables.drain(..whole);
    assert!(is_whole(&open(&disk, &meta, &cache)));
    drop(tables);
    assert_eq!(cache.pinned_bytes(), 0);
}

#[test]
fn a_small_table_without_room_for_its_index_reads_it_too() {
    let disk = MemDisk::default();
    let file = disk.create(Path::new(PATH)).unwrap();
    let mut builder = TableBuilder::new(file, IDENT, options(256)).unwrap();
    (0..300).for_each(|n| builder.add(Entry::put(key(n), 1, "a value").as_ref()).unwrap());
    let meta = builder.finish().unwrap();
    let (none, some) = (BlockCache::new(0), BlockCache::new(1 << 20));
    let (parted, whole) = (open(&disk, &meta, &none), open(&disk, &meta, &some));
    assert!(parted.resident_bytes() + 150 * 20 < whole.resident_bytes());
    for table in [parted, whole] {
        assert!((0..300).all(|number| found(&table, number)));
        assert_eq!(get(&table, b"a", 9).unwrap(), []);
        table.verify().unwrap();
        table.verify_stored().unwrap();
    }
}

#[test]
fn a_flipped_byte_in_a_part_is_corruption_with_the_place_of_the_part() {
    let disk = MemDisk::default();
    let meta = written(&disk, 256);
    let good = disk.content(Path::new(PATH)).unwrap();
    let (offset, len) = place(&disk);
    assert_eq!(offset + len, meta.bytes - meta.tail_bytes);
    let mut damaged = good.clone();
    damaged[offset as usize + 10] ^= 4;
    disk.put_content(Path::new(PATH), &damaged);
    let is_told = |error: flagstone_base::Error| {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        let text = error.to_string();
        assert!(text.contains(PATH) && text.contains(&format!("offset {offset}")), "{text}");
    };
    let large = BlockCache::new(64 << 20);
    is_told(
        Table::open(disk.open(Path::new(PATH)).unwrap(), IDENT, Some(&meta), &large).unwrap_err(),
    );
    assert_eq!(large.pinned_bytes(), 0);
    let table = open(&disk, &meta, &BlockCache::new(SMALL));
    is_told(get(&table, key(0).as_bytes(), 9).unwrap_err());
    is_told(table.cursor(CursorOptions::SCAN).seek_first().unwrap_err());
    is_told(table.cursor(CursorOptions::SCAN).seek(key(100).as_bytes(), SeqNo::MAX).unwrap_err());
    is_told(table.cursor(CursorOptions::COMPACTION).seek_before(key(9).as_bytes()).unwrap_err());
    is_told(table.verify().unwrap_err());
    is_told(table.verify_stored().unwrap_err());
    // The other parts can be read.
    assert!((256..KEYS).step_by(97).all(|number| found(&table, number)));
    let mut cursor = table.cursor(CursorOptions::SCAN);
    cursor.seek_last().unwrap();
    let mut seen = 0;
    while cursor.valid() {
        seen += 1;
        if let Err(error) = cursor.prev() {
            is_told(error);
        }
    }
    assert_eq!(seen, KEYS - 256);
    // An inspection skips these blocks.
    let mut text = String::new();
    inspect(&disk, Path::new(PATH), InspectOptions::default(), &mut text).unwrap();
    assert!(text.contains("blocks   0 to 255 DAMAGED"), "{text}");
    assert!(text.contains("block    256 ") && text.contains("block    9999 "));
}

#[test]
fn a_part_in_the_place_of_another_is_corruption() {
    // Two parts of the same length are swapped. The checksum of a part covers its offset, so both
    // are found.
    let folder = Folder::new();
    let fill = |builder: &mut TableBuilder| {
        (0..2_000).try_for_each(|n| builder.add(Entry::put(key(n), 1, "a value").as_ref()))
    };
    let meta = folder.write(options(250), fill).unwrap();
    let disk = MemDisk::default();
    let mut bytes = std::fs::read(folder.path()).unwrap();
    disk.put_content(Path::new(PATH), &bytes);
    let (offset, len) = place(&disk);
    let (offset, half) = (offset as usize, len as usize / 4);
    let (first, second) = bytes[offset..].split_at_mut(half);
    first.swap_with_slice(&mut second[..half]);
    std::fs::write(folder.path(), &bytes).unwrap();
    for cache_bytes in [0, 1 << 20] {
        let opened = folder.open_in(Some(&meta), &BlockCache::new(cache_bytes));
        let error = opened.and_then(|table| table.verify_stored()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }
}
