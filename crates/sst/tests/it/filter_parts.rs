//! Tests of filters that do not fit into memory: their parts are read as needed.

use crate::tools::{Entry, Folder, IDENT, get, plain};
use flagstone_base::ErrorKind;
use flagstone_base::hash::{key_hash, remix};
use flagstone_env::Disk;
use flagstone_sst::{BlockCache, Table, TableBuilder, TableMeta};
use std::sync::Arc;

const KEYS: u32 = 200_000;
/// Less than two filters take, but a part fits into each of the cache's shards.
const SMALL: u64 = 450 << 10;

fn key(number: u32) -> String {
    format!("key{number:08}")
}

/// A table with a filter of 250 KB.
fn written() -> (Folder, TableMeta) {
    let folder = Folder::new();
    let fill = |builder: &mut TableBuilder| {
        (0..KEYS).try_for_each(|n| builder.add(Entry::put(key(n * 2), 1, "v").as_ref()))
    };
    let meta = folder.write(plain(), fill).unwrap();
    (folder, meta)
}

fn open(folder: &Folder, meta: &TableMeta, cache: &Arc<BlockCache>) -> Arc<Table> {
    let file = folder.disk.open(&folder.path()).unwrap();
    Table::open(file, IDENT, Some(meta), cache).unwrap()
}

fn absent_let_through(table: &Table) -> u32 {
    let asked = |n: &u32| table.may_contain(remix(key_hash(key(n * 2 + 1).as_bytes(), 0))).unwrap();
    (0..KEYS).filter(asked).count() as u32
}

#[test]
fn a_filter_is_pinned_while_there_is_room_and_else_comes_in_parts() {
    let (folder, meta) = written();
    let (large, small) = (BlockCache::new(64 << 20), BlockCache::new(SMALL));
    let (pinned, parts) = (open(&folder, &meta, &large), open(&folder, &meta, &small));
    let filter = u64::from(KEYS) * 10 / 8;
    assert!(pinned.resident_bytes() > parts.resident_bytes() + filter / 10 * 9);
    for table in [&pinned, &parts] {
        table.verify().unwrap();
        for n in (0..KEYS).step_by(97) {
            let found = get(table, key(n * 2).as_bytes(), 9).unwrap();
            assert_eq!(found, [Entry::put(key(n * 2), 1, "v")]);
            assert_eq!(get(table, key(n * 2 + 1).as_bytes(), 9).unwrap(), []);
        }
    }
    let passed = absent_let_through(&pinned);
    assert_eq!(passed, absent_let_through(&parts));
    assert!(passed < KEYS / 50, "{passed} of {KEYS}");
}

#[test]
fn parts_are_kept_in_the_cache() {
    let (folder, meta) = written();
    let cache = BlockCache::new(SMALL);
    let table = open(&folder, &meta, &cache);
    let passed = absent_let_through(&table);
    // What is read from the file from now on is damaged.
    let mut bytes = std::fs::read(folder.path()).unwrap();
    let tail = (meta.bytes - meta.tail_bytes) as usize;
    bytes[tail - 200_000..tail].fill(0);
    std::fs::write(folder.path(), &bytes).unwrap();
    assert_eq!(absent_let_through(&table), passed);
    table.forget_blocks();
    assert_eq!(cache.used_bytes(), 0);
}

#[test]
fn a_damaged_part_is_corruption_with_its_place() {
    let (folder, meta) = written();
    let cache = BlockCache::new(SMALL);
    let mut bytes = std::fs::read(folder.path()).unwrap();
    let tail = (meta.bytes - meta.tail_bytes) as usize;
    // The parts of the index, some kilobytes, are between the filter and the tail.
    bytes[tail - 50_000] ^= 1;
    std::fs::write(folder.path(), &bytes).unwrap();
    let table = open(&folder, &meta, &cache);
    let asked = |n: u32| table.may_contain(remix(key_hash(key(n).as_bytes(), 0)));
    let error = (0..KEYS).find_map(|n| asked(n).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("offset"), "{error}");
    assert!(table.verify().is_err() && table.verify_stored().is_err());
    let roomy = BlockCache::new(64 << 20);
    let file = folder.disk.open(&folder.path()).unwrap();
    let opened = Table::open(file, IDENT, Some(&meta), &roomy);
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::Corruption);
}
