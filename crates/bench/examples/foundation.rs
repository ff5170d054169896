//! The figures of `docs/bench/foundation.md`: puts, durable puts, cached gets, reopening.
//!
//! `cargo run --release -p flagstone-bench --example foundation -- DIR [puts|durable|gets|load|reopen]`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use flagstone::{Database, Durability, KeyspaceOptions, Routing};
use flagstone_bench::Comments;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(dir) = arguments.next() else {
        eprintln!("usage: foundation DIR [puts|durable|gets|load|reopen]");
        std::process::exit(2);
    };
    let only = arguments.next();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let dir = Path::new(&dir);
    if wanted("puts") {
        puts(dir);
    }
    if wanted("durable") {
        durable(dir);
    }
    if wanted("gets") {
        gets(dir);
    }
    if wanted("load") {
        load(dir);
    }
    if wanted("reopen") {
        reopen(dir);
    }
}

fn fresh(dir: &Path, durability: Durability) -> Database {
    if dir.exists() {
        std::fs::remove_dir_all(dir).unwrap();
    }
    Database::builder(dir).memory_budget(512 << 20).durability(durability).open().unwrap()
}

fn hash_partitions(partitions: u16) -> KeyspaceOptions {
    KeyspaceOptions { routing: Routing::Hash(partitions), ..KeyspaceOptions::default() }
}

/// A number that looks drawn: SplitMix64.
fn mix(i: u64) -> u64 {
    let mut x = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn fill(value: &mut [u8], seed: u64) {
    for (i, part) in value.chunks_mut(8).enumerate() {
        part.copy_from_slice(&mix(seed.wrapping_add(i as u64)).to_le_bytes()[..part.len()]);
    }
}

/// 4 threads put 1 KiB under random 16-byte keys for 10 seconds from empty.
fn puts(dir: &Path) {
    let db = fresh(dir, Durability::Buffered);
    let kv = db.keyspace_with("puts", hash_partitions(4)).unwrap();
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut seconds = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (kv, done, stop) = (&kv, &done, &stop);
            scope.spawn(move || {
                let mut values = vec![0; 1 << 20];
                fill(&mut values, thread);
                for i in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = mix(thread << 40 | i);
                    let key = [key.to_be_bytes(), mix(key).to_be_bytes()].concat();
                    let at = mix(i) as usize % (values.len() - 1024);
                    kv.put(&key, &values[at..at + 1024]).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut before = 0;
        for _ in 0..10 {
            std::thread::sleep(Duration::from_secs(1));
            let now = done.load(Ordering::Relaxed);
            seconds.push(now - before);
            before = now;
        }
        stop.store(true, Ordering::Relaxed);
    });
    let total: u64 = seconds.iter().sum();
    println!(
        "puts, 4 threads, 1 KiB, 4 partitions, Buffered: {} /s; by second {seconds:?}",
        total / 10
    );
    let stats = db.stats();
    println!("  stalls {}, stalled for {:?}", stats.stalls, stats.stalled_for);
    db.close().unwrap();
}

/// 128-byte puts: one writer with Each, one and 32 writers with Group, 3 seconds each.
fn durable(dir: &Path) {
    let mut rates = Vec::new();
    for (durability, threads) in
        [(Durability::Each, 1), (Durability::Group, 1), (Durability::Group, 32)]
    {
        let db = fresh(dir, durability);
        let kv = db.keyspace_with("durable", hash_partitions(4)).unwrap();
        let (done, barrier) = (AtomicU64::new(0), Barrier::new(threads));
        std::thread::scope(|scope| {
            for thread in 0..threads as u64 {
                let (kv, done, barrier) = (&kv, &done, &barrier);
                scope.spawn(move || {
                    let value = [thread as u8; 128];
                    barrier.wait();
                    let started = Instant::now();
                    let mut i = 0;
                    while started.elapsed() < Duration::from_secs(3) {
                        kv.put(mix(thread << 40 | i).to_be_bytes(), value).unwrap();
                        i += 1;
                    }
                    done.fetch_add(i, Ordering::Relaxed);
                });
            }
        });
        let rate = done.load(Ordering::Relaxed) / 3;
        let syncs = db.stats().wal_syncs;
        println!("{durability:?}, {threads} writers: {rate} /s, {syncs} syncs");
        rates.push(rate);
        db.close().unwrap();
    }
    println!("  32 writers with Group / one with Each: {:.1}", rates[2] as f64 / rates[0] as f64);
}

/// One thread gets random comments that are all cached.
fn gets(dir: &Path) {
    const COUNT: u64 = 100_000;
    let db = fresh(dir, Durability::Buffered);
    let collection = db.collection_with("comments", hash_partitions(4)).unwrap();
    let comments = Comments::new(1);
    let (mut parser, mut json) = (collection.parser(flagstone::JsonOptions::default()), Vec::new());
    let mut batch = db.batch();
    for i in 0..COUNT {
        json.clear();
        comments.write(i, &mut json);
        parser.put(&mut batch, &json, "id").unwrap();
        if batch.len() == 1000 {
            db.commit(std::mem::take(&mut batch)).unwrap();
        }
    }
    db.commit(batch).unwrap();
    db.compact().unwrap();
    for round in 0..4 {
        let started = Instant::now();
        let mut scores = 0;
        for i in 0..COUNT {
            let number = mix(i) % COUNT;
            let key = comments.key(number);
            scores += collection.get(key.as_str()).unwrap().unwrap().int("score");
        }
        let rate = COUNT as f64 / started.elapsed().as_secs_f64();
        println!("gets, round {round} of {COUNT} comments, 1 thread: {rate:.0} /s (sum {scores})");
    }
    db.close().unwrap();
}

/// Two threads generate, parse and commit a million comments; then bytes on disk after a compaction.
fn load(dir: &Path) {
    const COUNT: u64 = 1_000_000;
    let db = fresh(dir, Durability::Buffered);
    let collection = db.collection_with("comments", hash_partitions(4)).unwrap();
    let (comments, json_bytes) = (Comments::new(1), AtomicU64::new(0));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (collection, db, json_bytes) = (&collection, &db, &json_bytes);
            scope.spawn(move || {
                let mut parser = collection.parser(flagstone::JsonOptions::default());
                let (mut batch, mut json) = (db.batch(), Vec::new());
                for i in (thread..COUNT).step_by(2) {
                    json.clear();
                    comments.write(i, &mut json);
                    json_bytes.fetch_add(json.len() as u64 + 1, Ordering::Relaxed);
                    parser.put(&mut batch, &json, "id").unwrap();
                    if batch.len() == 256 {
                        db.commit(std::mem::take(&mut batch)).unwrap();
                    }
                }
                db.commit(batch).unwrap();
            });
        }
    });
    db.flush().unwrap();
    let took = started.elapsed();
    println!("load, 2 threads: {:.0} documents/s in {took:.1?}", COUNT as f64 / took.as_secs_f64());
    println!("  peak RSS {} MiB", peak_rss_kib() / 1024);
    let before = db.stats().table_bytes();
    let started = Instant::now();
    db.compact().unwrap();
    let (bytes, json) = (db.stats().table_bytes(), json_bytes.load(Ordering::Relaxed));
    println!(
        "  on disk / JSON: {:.3} before, {:.3} after a compaction of {:.1?}; peak RSS {} MiB",
        before as f64 / json as f64,
        bytes as f64 / json as f64,
        started.elapsed(),
        peak_rss_kib() / 1024
    );
    println!("{}", db.verify().unwrap());
    db.close().unwrap();
}

fn peak_rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0)
}

/// Reopens a database of 1,000 tables after a clean close.
fn reopen(dir: &Path) {
    let db = fresh(dir, Durability::Buffered);
    let kv = db.keyspace_with("tables", hash_partitions(250)).unwrap();
    // Four flushes of 250 partitions, below the trigger that would merge them.
    for round in 0..4_u64 {
        for i in 0..5_000_u64 {
            kv.put(mix(round << 32 | i).to_be_bytes(), [1; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    let tables = db.stats().tables();
    db.close().unwrap();
    for round in 0..3 {
        let started = Instant::now();
        let db = Database::builder(dir).memory_budget(512 << 20).open().unwrap();
        let took = started.elapsed();
        println!(
            "reopen, round {round}: {tables} tables (now {}) in {took:?}",
            db.stats().tables()
        );
        db.close().unwrap();
    }
}
