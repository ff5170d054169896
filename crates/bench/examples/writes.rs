//! The write path under a stopwatch: mixes and durable puts, with what they cost besides time.
//!
//! `cargo run --release -p flagstone-bench --example writes -- DIR CASE [THREADS [SECONDS [PARTITIONS]]]`
//! where CASE is `puts`, `put-heavy`, `balanced`, `delete-heavy`, `small`, `durable` or `each`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a measuring program")]

use flagstone::{Database, Durability, Keyspace, KeyspaceOptions, Routing};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is done, in percent; the rest are gets.
struct Case {
    puts: u64,
    deletes: u64,
    value_bytes: usize,
    durability: Durability,
}

/// What one thread saw.
struct Seen {
    latencies: Vec<u32>,
    switches: [u64; 2],
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(dir), Some(name)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: writes DIR CASE [THREADS [SECONDS [PARTITIONS]]]");
        std::process::exit(2);
    };
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (threads, seconds, partitions) = (number(4), number(10), number(4));
    let case =
        |puts, deletes, value_bytes, durability| Case { puts, deletes, value_bytes, durability };
    let case = match name.as_str() {
        "puts" => case(100, 0, 1024, Durability::Buffered),
        "put-heavy" => case(90, 5, 1024, Durability::Buffered),
        "balanced" => case(33, 33, 1024, Durability::Buffered),
        "delete-heavy" => case(45, 45, 1024, Durability::Buffered),
        "small" => case(100, 0, 128, Durability::Buffered),
        "durable" => case(100, 0, 128, Durability::Group),
        "each" => case(100, 0, 128, Durability::Each),
        _ => panic!("unknown case {name}"),
    };
    run(Path::new(&dir), &name, &case, threads, seconds, partitions as u16);
}

/// A number that looks drawn: SplitMix64.
fn mix(i: u64) -> u64 {
    let mut x = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn run(dir: &Path, name: &str, case: &Case, threads: u64, seconds: u64, partitions: u16) {
    if dir.exists() {
        std::fs::remove_dir_all(dir).unwrap();
    }
    let budget = 512 << 20;
    let builder = Database::builder(dir).memory_budget(budget).durability(case.durability);
    let db = builder.open().unwrap();
    let options =
        KeyspaceOptions { routing: Routing::Hash(partitions), ..KeyspaceOptions::default() };
    let kv = db.keyspace_with("kv", options).unwrap();
    let (done, stop, seen) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(Vec::new()));
    let (cpu_before, disk_before, started) = (cpu(), disk(), Instant::now());
    let mut rates = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (kv, done, stop, seen) = (&kv, &done, &stop, &seen);
            scope.spawn(move || {
                let one = work(kv, case, thread, done, stop);
                seen.lock().unwrap().push(one);
            });
        }
        let mut before = 0;
        for _ in 0..seconds {
            std::thread::sleep(Duration::from_secs(1));
            let now = done.load(Ordering::Relaxed);
            rates.push((now - before) / 1000);
            before = now;
        }
        stop.store(true, Ordering::Relaxed);
    });
    let took = started.elapsed().as_secs_f64();
    let (total, cpu_after, disk_after) = (done.load(Ordering::Relaxed), cpu(), disk());
    let seen = seen.into_inner().unwrap();
    let mut latencies: Vec<u32> = seen.iter().flat_map(|s| s.latencies.iter().copied()).collect();
    latencies.sort_unstable();
    let at = |share: f64| {
        let i = (latencies.len() as f64 * share) as usize;
        f64::from(latencies.get(i.min(latencies.len() - 1)).copied().unwrap_or(0)) / 1000.0
    };
    let switches = |kind: usize| seen.iter().map(|s| s.switches[kind]).sum::<u64>() as f64;
    let stats = db.stats();
    println!(
        "{name} {threads}x{partitions}: {:.0} /s; cpu {:.2} + {:.2} us an op; switches {:.2} + {:.2} an op; \
         write p50 {:.1} p99 {:.0} p99.9 {:.0} max {:.0} us; stalls {} of {:.1?}; \
         {:.1} writes a sync; device {:.0} MB/s written, {:.2} busy; flushes {} compactions {}; RSS {} MiB; by second {rates:?}",
        total as f64 / took,
        (cpu_after.0 - cpu_before.0) * 1e6 / total as f64,
        (cpu_after.1 - cpu_before.1) * 1e6 / total as f64,
        switches(0) / total as f64,
        switches(1) / total as f64,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        stats.stalls,
        stats.stalled_for,
        total as f64 / stats.wal_syncs.max(1) as f64,
        (disk_after.0 - disk_before.0) / 1e6 / took,
        (disk_after.1 - disk_before.1) / took,
        stats.flushes,
        stats.compactions,
        peak_rss_kib() / 1024,
    );
    db.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

fn work(kv: &Keyspace, case: &Case, thread: u64, done: &AtomicU64, stop: &AtomicBool) -> Seen {
    let mut pool = vec![0_u8; 1 << 20];
    for (i, part) in pool.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&mix(thread << 32 | i as u64).to_le_bytes());
    }
    let mut value = vec![0; case.value_bytes];
    let mut latencies = Vec::with_capacity(8 << 20);
    let mut put = 0;
    for i in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let draw = mix(thread << 48 | i);
        let what = draw % 100;
        // Half of the deletes and gets meet a key that was put.
        let number = if what < case.puts {
            put += 1;
            put
        } else if draw & 1 << 20 != 0 {
            mix(draw) % (put + 1)
        } else {
            1 << 40 | i
        };
        let key = mix(thread << 44 | number);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&key.to_be_bytes());
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        let at = draw as usize % (pool.len() - case.value_bytes);
        value.copy_from_slice(&pool[at..at + case.value_bytes]);
        let started = Instant::now();
        if what < case.puts {
            kv.put(bytes, &value).unwrap();
        } else if what < case.puts + case.deletes {
            kv.delete(bytes).unwrap();
        } else {
            let _found = kv.get(bytes).unwrap();
        }
        if what < case.puts + case.deletes {
            latencies.push(u32::try_from(started.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
    };
    let switches = [number("voluntary_ctxt_switches:"), number("nonvoluntary_ctxt_switches:")];
    Seen { latencies, switches }
}

/// Seconds of this process in user and in kernel mode.
fn cpu() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let field = |i: usize| rest.split_whitespace().nth(i).and_then(|t| t.parse::<f64>().ok());
    (field(11).unwrap_or(0.0) / 100.0, field(12).unwrap_or(0.0) / 100.0)
}

/// Bytes that all devices have written and seconds that the busiest was busy, whoever asked.
fn disk() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let devices = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| fields.get(i).and_then(|text| text.parse::<f64>().ok());
        Some((number(9)? * 512.0, number(12)? / 1000.0))
    });
    devices.fold((0.0, 0.0), |sum, one| (f64::max(sum.0, one.0), f64::max(sum.1, one.1)))
}

fn peak_rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0)
}
