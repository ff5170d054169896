//! One key merged again and again: what a get of it costs meanwhile, and what memory the process takes.
//!
//! `cargo run --release -p flagstone-bench --example counter -- DIR [MILLIONS] [SNAPSHOTS] [add|append|texts|patch]`
//!
//! A database of 64 MiB. One thread merges; every millisecond another one gets the key, and a snapshot's if
//! there are any, the oldest and the newest by turns. Snapshots are taken at even steps from the beginning on
//! and kept to the end; then the database is flushed and compacted beside them. `append` and `texts` merge one
//! byte into a growing value, which is put empty after every 100,000; the fold of `texts` cannot combine operands.
//! `patch` counts up a field of a document of about 600 bytes.
//! Linux: memory is VmHWM of /proc/self/status.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use flagstone::fold::Append;
use flagstone::{Collection, Database, Fold, Keyspace, KeyspaceOptions, Patch, Routing, Snapshot};
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
        eprintln!("usage: counter DIR [MILLIONS] [SNAPSHOTS] [add|append|texts|patch]");
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
    let key = Key::new(&db, &what);
    run(&db, &key, (millions * 1_000_000, snapshots));
    db.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

/// The one key.
enum Key {
    Number(Keyspace),
    Text(Keyspace),
    Document(Collection, Patch),
}

impl Key {
    fn new(db: &Database, what: &str) -> Self {
        let folding = |fold: Option<&str>| KeyspaceOptions {
            routing: Routing::Hash(1),
            fold: fold.map(str::to_owned),
            ..KeyspaceOptions::default()
        };
        let keyspace = |fold| db.keyspace_with("kv", folding(Some(fold))).unwrap();
        match what {
            "add" => Self::Number(keyspace("add-i64/1")),
            "append" => Self::Text(keyspace("append/1")),
            "texts" => Self::Text(keyspace("texts/1")),
            _ => {
                let documents = db.collection_with("documents", folding(None)).unwrap();
                let json = format!(r#"{{"body":"{}","score":0}}"#, "text ".repeat(120));
                documents.put_json("counter", json).unwrap();
                Self::Document(documents, Patch::new().inc("score", 1))
            }
        }
    }

    fn merge(&self, n: u64) {
        match self {
            Self::Number(kv) => kv.merge("counter", 1_i64.to_le_bytes()).unwrap(),
            Self::Text(kv) => {
                if n.is_multiple_of(TEXT_BYTES) {
                    kv.put("counter", b"").unwrap();
                }
                kv.merge("counter", "x").unwrap();
            }
            Self::Document(documents, patch) => documents.patch("counter", patch).unwrap(),
        }
    }

    /// How long a get takes, and the number that it finds.
    fn get(&self, at: Option<&Snapshot>) -> (Duration, u64) {
        let begun = Instant::now();
        let found = match (self, at) {
            (Self::Number(kv) | Self::Text(kv), None) => kv.get("counter").unwrap(),
            (Self::Number(kv) | Self::Text(kv), Some(at)) => at.get(kv, "counter").unwrap(),
            (Self::Document(documents, _), at) => {
                let document = match at {
                    None => documents.get("counter"),
                    Some(at) => at.get_document(documents, "counter"),
                };
                return (begun.elapsed(), document.unwrap().unwrap().int("score") as u64);
            }
        };
        let took = begun.elapsed();
        let number = |value: &[u8]| value.try_into().map_or(0, u64::from_le_bytes);
        (took, found.map_or(0, |value| number(&value)))
    }
}

fn run(db: &Database, key: &Key, (merges, snapshots): (u64, u64)) {
    let held: Mutex<Vec<Snapshot>> = Mutex::default();
    let done = AtomicBool::new(false);
    let started = Instant::now();
    let (mut gets, mut old) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut gets, mut old) = (Vec::new(), Vec::new());
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                gets.push(key.get(None).0);
                let held = held.lock().unwrap();
                let some = if gets.len().is_multiple_of(2) { held.first() } else { held.last() };
                old.extend(some.map(|snapshot| key.get(Some(snapshot)).0));
            }
            (gets, old)
        });
        for n in 0..merges {
            if snapshots > 0 && n % (merges / snapshots) == 1 {
                held.lock().unwrap().push(db.snapshot());
            }
            key.merge(n);
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    let rate = merges as f64 / started.elapsed().as_secs_f64();
    println!("{merges} merges, {rate:.0} /s, {snapshots} snapshots, peak {} MiB", peak_mib());
    show("get while merging", &mut gets);
    show("get of a snapshot", &mut old);
    finish(db, key, merges);
}

fn finish(db: &Database, key: &Key, merges: u64) {
    let gets = |what: &str| {
        let get = |_| {
            let (took, number) = key.get(None);
            assert!(matches!(key, Key::Text(_)) || number == merges, "{number}");
            took
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
