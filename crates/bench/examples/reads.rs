//! What reads cost: gets, absent gets, full scans and short scans, in operations and CPU time.
//!
//! `cargo run --release -p flagstone-bench --example reads -- DIR WHAT [THREADS] [SECONDS]`
//!
//! WHAT is one of the names in `RUNS`. A database that a run needs is made in DIR when it is missing,
//! and stays: two builds can be compared on the same files, by turns. One line a run; CPU time is
//! that of the threads that read, which other programs on the machine disturb least.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use flagstone::{Database, Durability, Keyspace, KeyspaceOptions, Routing};
use flagstone_bench::Comments;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Entries of 1 KiB: 100 MB, within the cache of the budget below; 1 GB, far beyond it.
const FEW: u64 = 100_000;
const MANY: u64 = 1_000_000;
/// Entries of 16 + 16 bytes.
const SMALL: u64 = 10_000_000;
const COMMENTS: u64 = 300_000;
const BUDGET: u64 = 512 << 20;

struct Trial {
    dir: PathBuf,
    threads: u64,
    time: Duration,
}

type Run = (&'static str, fn(&Trial));

const RUNS: [Run; 18] = [
    ("cached", |t| gets(t, "cached", FEW, 16 << 10, 0)),
    ("paged", |t| gets(t, "paged", MANY, 16 << 10, 0)),
    ("absent", |t| gets(t, "absent", MANY, 16 << 10, 1 << 50)),
    ("comments", comments),
    ("scan1", |t| full_scan(t, "scan1", 1, Way::Forward)),
    ("scan4", |t| full_scan(t, "scan4", 4, Way::Forward)),
    ("rev1", |t| full_scan(t, "rev1", 1, Way::Reverse)),
    ("rev4", |t| full_scan(t, "rev4", 4, Way::Reverse)),
    ("unordered4", |t| full_scan(t, "unordered4", 4, Way::Unordered)),
    ("layers1", |t| layers(t, 1)),
    ("layers4", |t| layers(t, 4)),
    ("short", |t| short_scans(t, "short", 0, 16 << 10)),
    ("short_inserts", |t| short_scans(t, "short_inserts", 1, 16 << 10)),
    ("uncached", |t| uncached(t, 16 << 10)),
    ("memory", memory),
    ("paged4k", |t| gets(t, "paged4k", MANY, 4 << 10, 0)),
    ("uncached4k", |t| uncached(t, 4 << 10)),
    ("short4k", |t| short_scans(t, "short4k", 0, 4 << 10)),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let run = arguments.get(1).and_then(|what| RUNS.iter().find(|(name, _)| name == what));
    let Some((_, run)) = run else {
        eprintln!("usage: reads DIR WHAT [THREADS] [SECONDS]");
        eprintln!("WHAT: {}", RUNS.map(|(name, _)| name).join(" "));
        std::process::exit(2);
    };
    let number = |at: usize, or: u64| arguments.get(at).map_or(or, |text| text.parse().unwrap());
    let trial = Trial {
        dir: PathBuf::from(&arguments[0]),
        threads: number(2, 2),
        time: Duration::from_secs(number(3, 3)),
    };
    run(&trial);
}

/// A number that looks drawn: SplitMix64.
fn mix(i: u64) -> u64 {
    let mut x = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(i).to_be_bytes());
    key[8..].copy_from_slice(&mix(i ^ 0x5555).to_be_bytes());
    key
}

/// What this thread has spent on a processor.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn open(dir: &Path) -> Database {
    Database::builder(dir).memory_budget(BUDGET).open().unwrap()
}

fn hash_partitions(partitions: u16) -> KeyspaceOptions {
    KeyspaceOptions { routing: Routing::Hash(partitions), ..KeyspaceOptions::default() }
}

/// The database `name`, made by `fill` and compacted if it is not there.
fn prepared(trial: &Trial, name: &str, fill: impl FnOnce(&Database)) -> PathBuf {
    let dir = trial.dir.join(name);
    if !dir.exists() {
        let made = trial.dir.join(format!("{name}.part"));
        let _leftover = std::fs::remove_dir_all(&made);
        let builder = Database::builder(&made).memory_budget(BUDGET);
        let db = builder.durability(Durability::None).open().unwrap();
        fill(&db);
        db.flush().unwrap();
        db.close().unwrap();
        std::fs::rename(made, &dir).unwrap();
    }
    dir
}

fn put_all(db: &Database, kv: &Keyspace, numbers: impl Iterator<Item = u64>, value_bytes: usize) {
    let mut noise = vec![0; 1 << 20];
    for (i, part) in noise.chunks_mut(8).enumerate() {
        part.copy_from_slice(&mix(i as u64).to_le_bytes());
    }
    let mut batch = db.batch();
    for i in numbers {
        let at = mix(i) as usize % (noise.len() - value_bytes);
        batch.put(kv, key(i), &noise[at..at + value_bytes]).unwrap();
        if batch.len() == 256 {
            db.commit(std::mem::take(&mut batch)).unwrap();
        }
    }
    db.commit(batch).unwrap();
}

fn kilobytes(trial: &Trial, count: u64, block_bytes: usize) -> PathBuf {
    prepared(trial, &format!("kilobytes{count}.{block_bytes}"), |db| {
        let options = KeyspaceOptions { block_bytes, ..hash_partitions(4) };
        let kv = db.keyspace_with("kv", options).unwrap();
        put_all(db, &kv, 0..count, 1024);
        db.compact().unwrap();
    })
}

/// Runs `step` (which does one operation and answers how much it came to) on every thread until the
/// time is over, `warm` times before that; prints what it came to.
fn measure<S: FnMut(u64) -> u64>(
    trial: &Trial,
    name: &str,
    unit: &str,
    warm: u64,
    make_step: impl Fn(u64) -> S + Sync,
) {
    let threads = trial.threads;
    let (ready, done, total, nanos) =
        (Barrier::new(threads as usize), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let wall = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (ready, done, total, nanos, wall) = (&ready, &done, &total, &nanos, &wall);
            let make_step = &make_step;
            scope.spawn(move || {
                let mut step = make_step(thread);
                for i in 0..warm / threads {
                    step(mix(i << 8 | thread));
                }
                ready.wait();
                let (started, before) = (Instant::now(), cpu());
                let (mut steps, mut sum) = (0, 0);
                while started.elapsed() < trial.time {
                    for _ in 0..64 {
                        sum += step(mix((steps << 8 | thread) ^ 1 << 62));
                        steps += 1;
                    }
                }
                done.fetch_add(steps, Ordering::Relaxed);
                total.fetch_add(sum, Ordering::Relaxed);
                nanos.fetch_add((cpu() - before).as_nanos() as u64, Ordering::Relaxed);
                wall.fetch_max(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
            });
        }
    });
    let [done, total, nanos, wall] =
        [done, total, nanos, wall].map(|number| number.into_inner() as f64);
    println!(
        "{name} threads={threads} {unit}/s={:.0} cpu_ns={:.0} sum/{unit}={:.2}",
        done * 1e9 / wall,
        nanos / done,
        total / done
    );
}

/// Gets of random keys among `count`, or of keys that are not there.
fn gets(trial: &Trial, name: &str, count: u64, block_bytes: usize, offset: u64) {
    let db = open(&kilobytes(trial, count, block_bytes));
    let kv = db.keyspace("kv").unwrap();
    measure(trial, name, "get", 2 * FEW.min(count) + count / 4, |_| {
        let kv = &kv;
        move |random| {
            let key = key(offset + random % count);
            kv.get(key).unwrap().map_or(0, |value| u64::from(value[0] != 0) + 1)
        }
    });
    let stats = db.stats().cache;
    println!("  {stats:?}");
}

/// Gets that the disk answers: the page cache is emptied first, where that is allowed.
fn uncached(trial: &Trial, block_bytes: usize) {
    let dir = kilobytes(trial, MANY, block_bytes);
    let db = Database::builder(dir).memory_budget(64 << 20).open().unwrap();
    let kv = db.keyspace("kv").unwrap();
    let dropped = std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok();
    let read_before = disk_bytes_read();
    measure(trial, "uncached", "get", 0, |_| {
        let kv = &kv;
        move |random| kv.get(key(random % MANY)).unwrap().map_or(0, |_| 1)
    });
    println!("  dropped={dropped} read {} MB", (disk_bytes_read() - read_before) / 1_000_000);
}

/// Fills the cache by gets, then puts 2 GB beside gets: what is resident stays within the budget.
fn memory(trial: &Trial) {
    const PUTS: u64 = 1_000_000;
    let dir = copy(trial, &kilobytes(trial, MANY, 16 << 10));
    let db = open(&dir);
    let kv = db.keyspace("kv").unwrap();
    let get = |i: u64| assert!(kv.get(key(mix(i) % MANY)).unwrap().is_some());
    std::thread::scope(|scope| {
        for thread in 0..trial.threads {
            let get = &get;
            scope.spawn(move || (0..MANY / 4).for_each(|i| get(i << 8 | thread)));
        }
    });
    let filled = (resident("VmRSS:") >> 20, db.stats().cache.used_bytes >> 20);
    std::thread::scope(|scope| {
        for thread in 0..trial.threads {
            let (kv, get) = (&kv, &get);
            scope.spawn(move || {
                let mut value = vec![7; 2048];
                for i in (thread..PUTS).step_by(trial.threads as usize) {
                    value[..8].copy_from_slice(&mix(i).to_le_bytes());
                    kv.put(key(1 << 50 | i), &value).unwrap();
                    get(i);
                }
            });
        }
    });
    println!(
        "memory: {} MiB resident when filled (cache {}), {} at most, {} at the end; budget {}",
        filled.0,
        filled.1,
        resident("VmHWM:") >> 20,
        resident("VmRSS:") >> 20,
        BUDGET >> 20
    );
    println!("  {:?}", db.stats().cache);
    db.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

/// A line of the process's status, in bytes.
fn resident(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn disk_bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn comments(trial: &Trial) {
    let generator = Comments::new(1);
    let dir = prepared(trial, "comments", |db| {
        let collection = db.collection_with("comments", hash_partitions(4)).unwrap();
        let mut parser = collection.parser(flagstone::JsonOptions::default());
        let (mut batch, mut json) = (db.batch(), Vec::new());
        for i in 0..COMMENTS {
            json.clear();
            generator.write(i, &mut json);
            parser.put(&mut batch, &json, "id").unwrap();
            if batch.len() == 256 {
                db.commit(std::mem::take(&mut batch)).unwrap();
            }
        }
        db.commit(batch).unwrap();
        db.compact().unwrap();
    });
    let db = open(&dir);
    let collection = db.collection("comments").unwrap();
    let keys: Vec<String> = (0..COMMENTS).map(|i| generator.key(i).as_str().to_owned()).collect();
    measure(trial, "comments", "get", 4 * COMMENTS, |_| {
        let (collection, keys) = (&collection, &keys);
        move |random| {
            let key = &keys[random as usize % keys.len()];
            collection.get(key.as_str()).unwrap().map_or(0, |_| 1)
        }
    });
}

#[derive(Clone, Copy)]
enum Way {
    Forward,
    Reverse,
    Unordered,
}

fn small(trial: &Trial, partitions: u16) -> PathBuf {
    prepared(trial, &format!("small.{partitions}"), |db| {
        let kv = db.keyspace_with("kv", hash_partitions(partitions)).unwrap();
        put_all(db, &kv, 0..SMALL, 16);
        db.compact().unwrap();
    })
}

/// A pass over everything, twice; the second is shown.
fn full_scan(trial: &Trial, name: &str, partitions: u16, way: Way) {
    let db = open(&small(trial, partitions));
    scan_twice(name, &db, way);
}

/// As `full_scan`, over a table set of several layers: a tenth is overwritten and not compacted.
fn layers(trial: &Trial, partitions: u16) {
    let dir = prepared(trial, &format!("layers.{partitions}"), |db| {
        let kv = db.keyspace_with("kv", hash_partitions(partitions)).unwrap();
        put_all(db, &kv, 0..SMALL, 16);
        db.compact().unwrap();
        for round in 0..3 {
            put_all(db, &kv, (0..SMALL / 30).map(|i| mix(i << 2 | round) % SMALL), 16);
            db.flush().unwrap();
        }
    });
    scan_twice(&format!("layers{partitions}"), &open(&dir), Way::Forward);
}

fn scan_twice(name: &str, db: &Database, way: Way) {
    let kv = db.keyspace("kv").unwrap();
    for round in 0..2 {
        let (started, before) = (Instant::now(), cpu());
        let mut scan = match way {
            Way::Forward => kv.scan_all(),
            Way::Reverse => kv.scan_all().rev(),
            Way::Unordered => kv.scan_unordered(),
        };
        let (mut count, mut sum) = (0_u64, 0_u64);
        while scan.advance().unwrap() {
            sum += u64::from(scan.key()[15]) + scan.value_bytes().len() as u64;
            count += 1;
        }
        assert_eq!(count, SMALL);
        let (took, cpu) = (started.elapsed(), cpu() - before);
        if round == 1 {
            println!(
                "{name} entries/s={:.0} cpu_ns={:.1} sum={sum}",
                count as f64 / took.as_secs_f64(),
                cpu.as_nanos() as f64 / count as f64
            );
        }
    }
}

/// Scans of 50 entries of 1 KiB from random keys on, alone or while another thread inserts.
fn short_scans(trial: &Trial, name: &str, writers: u64, block_bytes: usize) {
    let dir = copy(trial, &kilobytes(trial, MANY, block_bytes));
    let db = open(&dir);
    let kv = db.keyspace("kv").unwrap();
    let (stop, put) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (kv, stop, put) = (&kv, &stop, &put);
            scope.spawn(move || {
                let value = [7; 1024];
                let mut i = 1 << 40 | writer << 32;
                while !stop.load(Ordering::Relaxed) {
                    kv.put(key(i), value).unwrap();
                    i += 1;
                    put.fetch_add(1, Ordering::Relaxed);
                    if i % 64 == 0 {
                        // About as many inserts as scans, as in YCSB E with half of each.
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            });
        }
        measure(trial, name, "scan", 4_000, |_| {
            let kv = &kv;
            move |random| {
                let mut scan = kv.scan(mix(random).to_be_bytes()..);
                let mut count = 0;
                while count < 50 && scan.advance().unwrap() {
                    count += u64::from(!scan.value_bytes().is_empty());
                }
                count
            }
        });
        stop.store(true, Ordering::Relaxed);
    });
    println!("  {} puts beside", put.into_inner());
    db.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

/// A copy that can be written to: tables never change, so they are linked.
fn copy(trial: &Trial, dir: &Path) -> PathBuf {
    let to = trial.dir.join(format!("copy.{}", std::process::id()));
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.extension().is_some_and(|extension| extension == "sst") {
            std::fs::hard_link(path, target).unwrap();
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
    to
}
