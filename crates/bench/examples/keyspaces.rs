//! What idle keyspaces cost: memory, time of an open and a close, and writes to one keyspace beside all the others.
//!
//! `cargo run --release -p flagstone-bench --example keyspaces -- DIR [KEYSPACES] [PARTITIONS] [SECONDS] [filled]`
//!
//! Creates the given number of keyspaces, then puts into the first of them alone: four threads, 100 bytes a value, memtables of
//! 256 KiB, so that flushes are many. With `filled` every keyspace holds a key in a table before that. To be compared
//! with KEYSPACES 1. Linux: memory is RssAnon of /proc/self/status, CPU time utime and stime of /proc/self/stat.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use flagstone::{Database, Event, Keyspace, KeyspaceOptions, Options, Routing};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone)]
struct Case {
    dir: PathBuf,
    keyspaces: u64,
    partitions: u16,
    run: Duration,
    is_filled: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(dir) = arguments.first() else {
        eprintln!("usage: keyspaces DIR [KEYSPACES] [PARTITIONS] [SECONDS] [filled]");
        std::process::exit(2);
    };
    let number = |at: usize, unless: u64| arguments.get(at).map_or(unless, |n| n.parse().unwrap());
    let case = Case {
        dir: PathBuf::from(dir),
        keyspaces: number(1, 10_000),
        partitions: number(2, 1) as u16,
        run: Duration::from_secs(number(3, 10)),
        is_filled: arguments.get(4).is_some_and(|word| word == "filled"),
    };
    if arguments.last().is_some_and(|word| word == "make") {
        return make(&case);
    }
    for dir in [case.dir.clone(), case.copy()] {
        if dir.exists() {
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
    let flushes: Arc<Mutex<Vec<Duration>>> = Arc::default();
    // In a process of its own: what it leaves in the allocator is none of the open's memory.
    let maker = std::env::current_exe().unwrap();
    let made = std::process::Command::new(maker).args(&arguments).arg("make").status().unwrap();
    assert!(made.success());
    let db = open(&case, &flushes);
    idle(&case, &db);
    put(&case, &db, &flushes);
    timed("close after puts", || db.close().unwrap());
    for dir in [case.dir.clone(), case.copy()] {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

impl Case {
    fn copy(&self) -> PathBuf {
        self.dir.with_extension("copy")
    }

    fn keyspace(&self, db: &Database, n: u64) -> Keyspace {
        let routing = Routing::Hash(self.partitions);
        let options = KeyspaceOptions { routing, ..KeyspaceOptions::default() };
        db.keyspace_with(&format!("keyspace-{n:06}"), options).unwrap()
    }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (begun, cpu) = (Instant::now(), cpu_ms());
    let made = work();
    println!("{what:<28} {:>10.2?}, {} ms of CPU", begun.elapsed(), cpu_ms() - cpu);
    made
}

fn open(case: &Case, flushes: &Arc<Mutex<Vec<Duration>>>) -> Database {
    let options = Options { memory_budget: 64 << 20, ..Options::default() };
    let heard = Arc::clone(flushes);
    let listener = move |event: &Event| {
        if let Event::FlushFinished { took, .. } = event {
            heard.lock().unwrap().push(*took);
        }
    };
    let builder = Database::builder(&case.dir).options(options).memtable_bytes(256 << 10);
    let builder = builder.listener(listener);
    timed("open", || builder.open().unwrap())
}

fn make(case: &Case) {
    let db = open(case, &Arc::default());
    let before = rss_kib();
    let mut begun = Instant::now();
    let mut last = 0;
    for n in 0..case.keyspaces {
        let keyspace = case.keyspace(&db, n);
        if case.is_filled {
            keyspace.put("key", [7; 100]).unwrap();
        }
        let made = n + 1;
        if [100, 900, 1000, 9000, 10_000].contains(&made) || made == case.keyspaces {
            let each = begun.elapsed() / (made - last) as u32;
            println!("{last:>6} to {made:<6} made in      {each:>10.2?} each");
            (begun, last) = (Instant::now(), made);
        }
    }
    if case.is_filled {
        timed("flush of all", || db.flush().unwrap());
    }
    let taken = rss_kib().saturating_sub(before);
    let trees = case.keyspaces * u64::from(case.partitions);
    println!("memory                       {taken} KiB, {} bytes a tree", taken * 1024 / trees);
    timed("close", || db.close().unwrap());
    println!("manifest                     {} bytes", manifest_bytes(&case.dir));
}

fn idle(case: &Case, db: &Database) {
    // What the open has begun is done by then.
    std::thread::sleep(Duration::from_secs(3));
    println!("memory after the open        {} KiB", rss_kib());
    let cpu = cpu_ms();
    std::thread::sleep(Duration::from_secs(5));
    println!("idle for 5 s                 {} ms of CPU", cpu_ms() - cpu);
    timed("1000 snapshots", || (0..1000).for_each(|_| drop(db.snapshot())));
    timed("stats", || db.stats());
    timed("checkpoint", || db.checkpoint(case.copy()).unwrap());
}

fn put(case: &Case, db: &Database, flushes: &Arc<Mutex<Vec<Duration>>>) {
    let keyspace = case.keyspace(db, 0);
    let (done, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (manifest, cpu, begun) = (manifest_bytes(&case.dir), cpu_ms(), Instant::now());
    flushes.lock().unwrap().clear();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (keyspace, done, count) = (&keyspace, &done, &count);
            scope.spawn(move || {
                let mut n = 0;
                while !done.load(Ordering::Relaxed) {
                    let key = (thread << 56 | n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    keyspace.put(key.to_be_bytes(), [thread as u8; 100]).unwrap();
                    n += 1;
                }
                count.fetch_add(n, Ordering::Relaxed);
            });
        }
        std::thread::sleep(case.run);
        done.store(true, Ordering::Relaxed);
    });
    let count = count.into_inner();
    let cpu_each = (cpu_ms() - cpu) as f64 * 1e6 / count as f64;
    println!(
        "puts                         {:.0} /s, {cpu_each:.0} ns of CPU each",
        count as f64 / begun.elapsed().as_secs_f64()
    );
    let mut took = std::mem::take(&mut *flushes.lock().unwrap());
    took.sort_unstable();
    let part = |thousandths: usize| took.get(took.len() * thousandths / 1000);
    println!(
        "flushes                      {}, {:.1?}, p99 {:.1?}",
        took.len(),
        part(500),
        part(990)
    );
    let grown = manifest_bytes(&case.dir).saturating_sub(manifest);
    println!("manifest grown by            {grown} bytes");
    println!("memory after puts            {} KiB", rss_kib());
}

fn manifest_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let is_manifest = |path: &Path| path.extension().is_some_and(|end| end == "manifest");
    files.filter(|file| is_manifest(&file.path())).map(|file| file.metadata().unwrap().len()).sum()
}

fn rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Ticks of the system are 10 ms.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}
