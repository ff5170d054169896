//! What gets and scans of bytes cost while the block cache holds everything.
//!
//! `cargo bench -p flagstone --bench reads [-- FILTER]`. An iteration of `get`, `get_absent` and
//! `scan_50` is one call over 100,000 entries of 1 KiB; one of the others passes over a million
//! entries of 16 + 16 bytes, whose rate is then the figure to read.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use flagstone::{Database, Durability, Keyspace, KeyspaceOptions, Options, Routing, Scan, Space};
use std::path::Path;

fn main() {
    divan::main();
}

const FEW: u64 = 100_000;
const MANY: u64 = 1_000_000;
const CALLS: u32 = 10_000;

/// Returns a number without a pattern; different numbers give different results.
fn scattered(i: u64) -> u64 {
    let i = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (i ^ (i >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&scattered(i).to_be_bytes());
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

/// Returns a new database with `count` entries in hash partitions, compacted.
fn create(count: u64, value_bytes: usize, partitions: u16) -> (Database, Keyspace) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reads");
    let _leftover = std::fs::remove_dir_all(&dir);
    let builder = Database::builder(dir)
        .options(Options::new().memory_budget(512 << 20).durability(Durability::None));
    let db = builder.open().unwrap();
    let options = KeyspaceOptions::new().routing(Routing::Hash(partitions));
    let kv = db.space("kv").options(options).keyspace().unwrap();
    for first in (0..count).step_by(256) {
        let mut batch = db.batch();
        for i in first..count.min(first + 256) {
            let value = scattered(!i).to_le_bytes().repeat(value_bytes / 8);
            batch.put(&kv, key(i), value).unwrap();
        }
        db.commit(batch).unwrap();
    }
    db.compact().unwrap();
    (db, kv)
}

/// Calls `work` with random numbers below `FEW`, after a pass that fills the cache.
fn each(bencher: Bencher<'_, '_>, mut work: impl FnMut(u64)) {
    (0..FEW).for_each(&mut work);
    let mut turn = 0;
    bencher.bench_local(|| {
        turn += 1;
        work(scattered(turn) % FEW);
    });
}

#[divan::bench(sample_size = CALLS)]
fn get(bencher: Bencher<'_, '_>) {
    let (_db, kv) = create(FEW, 1024, 4);
    each(bencher, |i| assert!(kv.get(key(i)).unwrap().is_some()));
}

#[divan::bench(sample_size = CALLS)]
fn get_absent(bencher: Bencher<'_, '_>) {
    let (_db, kv) = create(FEW, 1024, 4);
    each(bencher, |i| assert!(kv.get(key(FEW + i)).unwrap().is_none()));
}

#[divan::bench(args = [1, 4], sample_size = 1_000)]
fn scan_50(bencher: Bencher<'_, '_>, partitions: u16) {
    let (_db, kv) = create(FEW, 1024, partitions);
    each(bencher, |i| {
        let mut scan = kv.scan(key(i)..);
        let mut left = 50;
        while left > 0 && scan.advance().unwrap() {
            black_box(scan.value_bytes());
            left -= 1;
        }
    });
}

fn pass(
    bencher: Bencher<'_, '_>,
    partitions: u16,
    scan: impl Fn(&Keyspace) -> Scan<'static, Keyspace>,
) {
    let (_db, kv) = create(MANY, 16, partitions);
    bencher.counter(ItemsCount::new(MANY)).bench_local(|| {
        let (mut scan, mut count) = (scan(&kv), 0);
        while scan.advance().unwrap() {
            black_box((scan.key(), scan.value_bytes()));
            count += 1;
        }
        assert_eq!(count, MANY);
    });
}

#[divan::bench(args = [1, 4], sample_size = 1, sample_count = 10)]
fn scan_all(bencher: Bencher<'_, '_>, partitions: u16) {
    pass(bencher, partitions, |kv| kv.scan(..));
}

#[divan::bench(args = [1, 4], sample_size = 1, sample_count = 10)]
fn scan_all_backwards(bencher: Bencher<'_, '_>, partitions: u16) {
    pass(bencher, partitions, |kv| kv.scan(..).rev());
}

#[divan::bench(args = [4], sample_size = 1, sample_count = 10)]
fn scan_unordered(bencher: Bencher<'_, '_>, partitions: u16) {
    pass(bencher, partitions, |kv| kv.scan(..).unordered());
}
