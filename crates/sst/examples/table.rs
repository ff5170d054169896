//! Measures a table with a warm cache: build, gets of present and absent keys, scan.
//!
//! `cargo run --release -p flagstone-sst --example table [KEYS] [get|scan|build]`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for people")]

use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{Compression, DatabaseId, EntryRef, FileNumber, Kind, SeqNo};
use flagstone_env::{Clock, Disk, OsDisk, SystemClock};
use flagstone_sst::{
    BlockCache, CursorOptions, Table, TableBuilder, TableIdent, TableMeta, TableOptions,
};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const IDENT: TableIdent =
    TableIdent { database: DatabaseId([1; 16]), number: FileNumber(1), salt: 0 };

fn keys(count: usize) -> Vec<[u8; 16]> {
    let key = |i: usize| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&remix(i as u64).to_be_bytes());
        key[8..].copy_from_slice(&remix(!(i as u64)).to_be_bytes());
        key
    };
    let mut keys: Vec<_> = (0..count).map(key).collect();
    keys.sort_unstable();
    keys
}

/// Returns a text of words, which compresses about as well as comments do.
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

fn seconds(run: impl FnOnce()) -> f64 {
    let clock = SystemClock::default();
    let start = clock.monotonic();
    run();
    clock.monotonic().saturating_sub(start).max(Duration::from_nanos(1)).as_secs_f64()
}

fn build(path: &Path, keys: &[[u8; 16]], value: usize, compression: Compression) -> TableMeta {
    let _ = OsDisk.remove(path);
    let source = text(value + 4096);
    let options = TableOptions { compression, ..TableOptions::default() };
    let mut builder = TableBuilder::new(OsDisk.create(path).unwrap(), IDENT, options).unwrap();
    for (i, key) in keys.iter().enumerate() {
        let from = remix(i as u64) as usize % 4096;
        let seqno = SeqNo::new(remix(i as u64) % 1_000_000);
        builder.add(EntryRef::new(key, seqno, Kind::Put, &source[from..from + value])).unwrap();
    }
    builder.finish().unwrap()
}

fn gets(table: &Arc<Table>, keys: &[[u8; 16]], order: &[u32], flip: u8) -> f64 {
    let mut found = 0_usize;
    let took = seconds(|| {
        for &i in order {
            let mut key = keys[i as usize];
            key[15] ^= flip;
            let hash = remix(key_hash(&key, 0));
            table
                .get(&key, hash, SeqNo::MAX, &mut |_, value| {
                    found += black_box(value).len();
                    ControlFlow::Break(())
                })
                .unwrap();
        }
    });
    assert_eq!(found == 0, flip != 0);
    took * 1e9 / order.len() as f64
}

fn measure(path: &Path, keys: &[[u8; 16]], value: usize, compression: Compression, only: &str) {
    let mut meta = TableMeta::default();
    let took = seconds(|| meta = build(path, keys, value, compression));
    let raw = (meta.key_bytes_raw + meta.value_bytes_raw) as f64 / 1e6;
    println!("{value} B values, {compression}: {meta}");
    println!("  build     {:8.0} MB/s raw", raw / took);
    let cache = BlockCache::new(4 << 30);
    let mut table = None;
    let took = seconds(|| {
        table = Some(Table::open(OsDisk.open(path).unwrap(), IDENT, Some(&meta), &cache).unwrap());
    });
    let table = table.unwrap();
    println!("  open      {:8.0} us, {} bytes resident", took * 1e6, table.resident_bytes());
    let best = |run: &dyn Fn()| (0..7).map(|_| seconds(run)).fold(f64::MAX, f64::min);
    let entry = 1e9 / keys.len() as f64;
    let stored = best(&|| table.verify_stored().unwrap()) * entry;
    let entries = best(&|| {
        let _ = table.verify().unwrap();
    }) * entry;
    println!("  verify    {stored:8.1} ns an entry the stored bytes, {entries:.1} everything");
    let scan = || {
        let mut bytes = 0;
        let mut cursor = table.cursor(CursorOptions::SCAN);
        let took = seconds(|| {
            cursor.seek_first().unwrap();
            while cursor.valid() {
                let entry = cursor.entry();
                bytes += entry.key.len() + entry.value.len();
                cursor.next().unwrap();
            }
        });
        assert_eq!(bytes as u64, meta.key_bytes_raw + meta.value_bytes_raw);
        took * 1e9 / keys.len() as f64
    };
    println!("  scan cold {:8.1} ns an entry (page cache warm)", scan());
    println!("  scan warm {:8.1} ns an entry", scan());
    let order: Vec<u32> =
        (0..1_000_000_u64).map(|i| (remix(i + 77) % keys.len() as u64) as u32).collect();
    let rounds = if only == "get" { 10 } else { 1 };
    for _ in 0..rounds {
        println!("  get hit   {:8.0} ns", gets(&table, keys, &order, 0));
    }
    println!("  get miss  {:8.0} ns", gets(&table, keys, &order, 0x55));
    let mut cursor = table.cursor(CursorOptions::SCAN);
    let took = seconds(|| {
        for &i in &order[..200_000] {
            cursor.seek(&keys[i as usize], SeqNo::MAX).unwrap();
            black_box(cursor.entry().value.len());
        }
    });
    println!("  seek      {:8.0} ns", took * 1e9 / 200_000.0);
    println!("  {cache:?}");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let only = arguments.next().unwrap_or_default();
    let keys = keys(count);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.sst");
    for value in [100, 1000] {
        let all = [Compression::None, Compression::Lz4, Compression::Zstd(1)];
        for compression in all.into_iter().take(if only.is_empty() { 3 } else { 1 }) {
            measure(&path, &keys, value, compression, &only);
        }
    }
}
