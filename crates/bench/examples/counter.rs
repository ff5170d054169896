//! One key merged again and again: what a get of it costs meanwhile, and what memory the process takes.
//!
//! `cargo run --release -p flagstone-bench --example counter -- DIR [MILLIONS] [SNAPSHOTS] [add|append|texts]`
//!
//! A database of 64 MiB. One thread merges; every millisecond another one gets the key, and a snapshot's if
//! there are any, the oldest and the newest by turns. Snapshots are taken at even steps from the beginning on
//! and kept to the end; then the database is flushed and compacted beside them. `append` and `texts` merge one
//! byte into a growing value, which is put empty after every 100,000; the fold of `texts` cannot combine operands.
//! Linux: memory is VmHWM of /proc/self/status.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use flagstone::fold::Append;
use flagstone::{Database, Fold, Keyspace, KeyspaceOptions, Routing, Snapshot};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Appends, as [`Append`], but operands stay apart.
struct Texts;

impl Fold for Texts {
    fn name(&self) -> &'static str {
        "texts/1"
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Append.fold(key, base, operands)
    }
}

/// The length at which a text is put empty again.
const TEXT_BYTES: u64 = 100_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(dir) = arguments.next() else {
        eprintln!("usage: counter DIR [MILLIONS] [SNAPSHOTS] [add|append|texts]");
        std::process::exit(2);
    };
    let millions: u64 = arguments.next().map_or(100, |millions| millions.parse().unwrap());
    let snapshots: u64 = arguments.next().map_or(0, |snapshots| snapshots.parse().unwrap());
    let what = arguments.next().unwrap_or_else(|| "add".to_owned());
    let dir = Path::new(&dir);
    if dir.exists() {
        std::fs::remove_dir_all(dir).unwrap();
    }
    let db = Database::builder(dir).memory_budget(64 << 20).fold(Texts).open().unwrap();
    let fold = match what.as_str() {
        "add" => "add-i64/1",
        "append" => "append/1",
        _ => "texts/1",
    };
    let options = KeyspaceOptions {
        routing: Routing::Hash(1),
        fold: Some(fold.to_owned()),
        ..KeyspaceOptions::default()
    };
    let kv = db.keyspace_with("kv", options).unwrap();
    run(&db, &kv, what == "add", (millions * 1_000_000, snapshots));
    db.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

fn run(db: &Database, kv: &Keyspace, is_counter: bool, (merges, snapshots): (u64, u64)) {
    let one = 1_i64.to_le_bytes();
    let operand: &[u8] = if is_counter { &one } else { b"x" };
    let held: Mutex<Vec<Snapshot>> = Mutex::default();
    let done = AtomicBool::new(false);
    let started = Instant::now();
    let (mut gets, mut old) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut gets, mut old) = (Vec::new(), Vec::new());
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                let begun = Instant::now();
                let _value = kv.get("counter").unwrap();
                gets.push(begun.elapsed());
                let held = held.lock().unwrap();
                let some = if gets.len().is_multiple_of(2) { held.first() } else { held.last() };
                if let Some(snapshot) = some {
                    let begun = Instant::now();
                    let _value = snapshot.get(kv, "counter").unwrap();
                    old.push(begun.elapsed());
                }
            }
            (gets, old)
        });
        for n in 0..merges {
            if snapshots > 0 && n % (merges / snapshots) == 1 {
                held.lock().unwrap().push(db.snapshot());
            }
            if !is_counter && n % TEXT_BYTES == 0 {
                kv.put("counter", b"").unwrap();
            }
            kv.merge("counter", operand).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    let rate = merges as f64 / started.elapsed().as_secs_f64();
    println!("{merges} merges, {rate:.0} /s, {snapshots} snapshots, peak {} MiB", peak_mib());
    show("get while merging", &mut gets);
    show("get of a snapshot", &mut old);
    finish(db, kv, is_counter.then_some(merges));
}

fn finish(db: &Database, kv: &Keyspace, expected: Option<u64>) {
    let gets = |what: &str| {
        let get = |_| {
            let begun = Instant::now();
            let value = kv.get("counter").unwrap().unwrap();
            let number = || u64::from_le_bytes(value[..].try_into().unwrap());
            assert!(expected.is_none_or(|expected| number() == expected));
            begun.elapsed()
        };
        show(what, &mut (0..1000).map(get).collect::<Vec<_>>());
    };
    gets("get at the end");
    db.flush().unwrap();
    gets("get after flush");
    let begun = Instant::now();
    db.compact().unwrap();
    println!("compact took {:.1?}, peak {} MiB", begun.elapsed(), peak_mib());
    gets("get after compact");
    let stats = &db.stats().keyspaces[0];
    let levels = stats.levels.iter();
    let (tables, entries) =
        levels.fold((0, 0), |(tables, entries), l| (tables + l.tables, entries + l.entries));
    println!("{entries} entries in {tables} tables, {} bytes flushed", stats.flush_bytes_written);
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let Some(last) = times.last() else { return };
    let part = |thousandths: usize| times[times.len() * thousandths / 1000];
    println!(
        "{what:<20} median {:.1?}, p99 {:.1?}, longest {last:.1?} of {}",
        part(500),
        part(990),
        times.len()
    );
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}
