//! What gets, scans, builds and checks of one table cost while memory holds all its blocks.
//!
//! `cargo bench -p flagstone-sst [-- FILTER]`. An iteration of `get`, `get_absent` and `seek` is
//! one call; one of the others goes through all the entries, whose rate is then the figure to read.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{Compression, DatabaseId, EntryRef, FileNumber, Kind, SeqNo};
use flagstone_env::{Disk, OsDisk};
use flagstone_sst::{
    BlockCache, CursorOptions, Table, TableBuilder, TableIdent, TableMeta, TableOptions,
};
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn main() {
    divan::main();
}

const ENTRIES: usize = 100_000;
const CALLS: u32 = 10_000;

/// The values of a table and the compression of its blocks.
#[derive(Clone, Copy)]
struct Case {
    value_bytes: usize,
    compression: Compression,
}

const CASES: [Case; 6] = [
    Case { value_bytes: 100, compression: Compression::None },
    Case { value_bytes: 100, compression: Compression::Lz4 },
    Case { value_bytes: 100, compression: Compression::Zstd(1) },
    Case { value_bytes: 1000, compression: Compression::None },
    Case { value_bytes: 1000, compression: Compression::Lz4 },
    Case { value_bytes: 1000, compression: Compression::Zstd(1) },
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B {}", self.value_bytes, self.compression)
    }
}

type Key = [u8; 16];

/// Returns the keys of a table in ascending order.
fn sorted_keys() -> Vec<Key> {
    let key = |i: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&remix(i).to_be_bytes());
        key[8..].copy_from_slice(&remix(!i).to_be_bytes());
        key
    };
    let mut keys: Vec<_> = (0..ENTRIES as u64).map(key).collect();
    keys.sort_unstable();
    keys
}

/// Returns the keys of a table in random order.
fn shuffled_keys() -> Vec<Key> {
    let keys = sorted_keys();
    (0..ENTRIES as u64).map(|i| keys[remix(i + 77) as usize % ENTRIES]).collect()
}

/// Returns text that compresses about as well as comments do.
fn text(len: usize) -> Vec<u8> {
    let words = ["the ", "of ", "comment ", "user", "reply\":", "1733", "a ", "thing ", "score\":"];
    let mut text = Vec::new();
    let mut state = 1;
    while text.len() < len {
        state = remix(state + 1);
        text.extend_from_slice(words[state as usize % words.len()].as_bytes());
        text.push(b'a' + (state >> 32) as u8 % 26);
    }
    text.truncate(len);
    text
}

const IDENT: TableIdent =
    TableIdent { database: DatabaseId([1; 16]), number: FileNumber(1), salt: 0 };

fn path() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("table.sst")
}

fn build_table(case: Case, keys: &[Key], text: &[u8]) -> TableMeta {
    let _leftover = OsDisk.remove(&path());
    let options = TableOptions { compression: case.compression, ..TableOptions::default() };
    let mut builder = TableBuilder::new(OsDisk.create(&path()).unwrap(), IDENT, options).unwrap();
    for (i, key) in keys.iter().enumerate() {
        let random = remix(i as u64);
        let value = &text[random as usize % 4096..][..case.value_bytes];
        let seqno = SeqNo::new(random % 1_000_000);
        builder.add(EntryRef::new(key, seqno, Kind::Put, value)).unwrap();
    }
    builder.finish().unwrap()
}

/// Returns an open table, all of whose blocks are in the cache.
fn cached_table(case: Case) -> Arc<Table> {
    let meta = build_table(case, &sorted_keys(), &text(case.value_bytes + 4096));
    let cache = BlockCache::new(4 << 30);
    let table = Table::open(OsDisk.open(&path()).unwrap(), IDENT, Some(&meta), &cache).unwrap();
    assert_eq!(scan_all(&table), ENTRIES);
    table
}

fn scan_all(table: &Arc<Table>) -> usize {
    let mut cursor = table.cursor(CursorOptions::SCAN);
    cursor.seek_first().unwrap();
    let mut count = 0;
    while cursor.valid() {
        black_box(cursor.entry());
        count += 1;
        cursor.next().unwrap();
    }
    count
}

fn each_key(bencher: Bencher<'_, '_>, keys: &[Key], mut call: impl FnMut(&Key)) {
    let mut keys = keys.iter().cycle();
    bencher.bench_local(|| keys.next().map(&mut call));
}

fn get_each(bencher: Bencher<'_, '_>, table: &Arc<Table>, keys: &[Key], is_present: bool) {
    each_key(bencher, keys, |key| {
        let mut found = false;
        let hash = remix(key_hash(key, 0));
        table
            .get(key, hash, SeqNo::MAX, &mut |_, value| {
                found = !black_box(value).is_empty();
                ControlFlow::Break(())
            })
            .unwrap();
        assert_eq!(found, is_present);
    });
}

#[divan::bench(args = CASES, sample_size = CALLS)]
fn get(bencher: Bencher<'_, '_>, case: Case) {
    get_each(bencher, &cached_table(case), &shuffled_keys(), true);
}

#[divan::bench(args = CASES, sample_size = CALLS)]
fn get_absent(bencher: Bencher<'_, '_>, case: Case) {
    let mut keys = shuffled_keys();
    keys.iter_mut().for_each(|key| key[15] ^= 0x55);
    get_each(bencher, &cached_table(case), &keys, false);
}

#[divan::bench(args = CASES, sample_size = CALLS)]
fn seek(bencher: Bencher<'_, '_>, case: Case) {
    let table = cached_table(case);
    let mut cursor = table.cursor(CursorOptions::SCAN);
    each_key(bencher, &shuffled_keys(), |key| {
        cursor.seek(key, SeqNo::MAX).unwrap();
        black_box(cursor.entry());
    });
}

#[divan::bench(args = CASES, sample_size = 1)]
fn scan(bencher: Bencher<'_, '_>, case: Case) {
    let table = cached_table(case);
    bencher.counter(ItemsCount::new(ENTRIES)).bench_local(|| scan_all(&table));
}

#[divan::bench(args = CASES, sample_size = 1, sample_count = 10)]
fn build(bencher: Bencher<'_, '_>, case: Case) {
    let (keys, text) = (sorted_keys(), text(case.value_bytes + 4096));
    bencher
        .counter(ItemsCount::new(ENTRIES))
        .counter(BytesCount::new(ENTRIES * (size_of::<Key>() + case.value_bytes)))
        .bench_local(|| build_table(case, &keys, &text));
}

/// Reads the file once and checks the bytes as they are stored.
#[divan::bench(args = CASES, sample_size = 1, sample_count = 20)]
fn verify_stored(bencher: Bencher<'_, '_>, case: Case) {
    let table = cached_table(case);
    bencher.counter(ItemsCount::new(ENTRIES)).bench_local(|| table.verify_stored().unwrap());
}

/// Decodes and checks every entry as well.
#[divan::bench(args = CASES, sample_size = 1, sample_count = 20)]
fn verify_entries(bencher: Bencher<'_, '_>, case: Case) {
    let table = cached_table(case);
    bencher.counter(ItemsCount::new(ENTRIES)).bench_local(|| table.verify().unwrap());
}
