//! Measures the commits per second of the log on the real disk: `commits [DIR] [SECONDS]`.
#![allow(clippy::print_stdout, reason = "a program for people")]

use flagstone_base::{DatabaseId, Result, SeqNo};
use flagstone_env::{Clock, OsDisk, SystemClock, SystemRandom};
use flagstone_wal::{Log, LogOptions, Lsn, RecordKind, Recovered, payload_checksum};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Finish = fn(&Log, Lsn) -> Result<()>;

struct Case {
    name: &'static str,
    threads: usize,
    payload_bytes: usize,
    finish: Finish,
}

fn run(dir: &Path, case: &Case, seconds: f64) -> Result<()> {
    let _fresh = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).map_err(|e| flagstone_base::Error::io("make", dir, e))?;
    let options = LogOptions { segment_bytes: 64 << 20, spares: 2 };
    let nothing = Recovered::default();
    let random = Arc::new(SystemRandom);
    let log = Log::create(Arc::new(OsDisk), dir, DatabaseId([1; 16]), random, options, &nothing)?
        .with_clock(Arc::new(SystemClock::default()));
    let list_more = || -> Result<()> {
        // The engine first lists them in the manifest, with one sync.
        if log.wants_files() {
            log.list_files(&log.make_files()?);
        }
        Ok(())
    };
    list_more()?;
    let (clock, is_over, commits) =
        (SystemClock::default(), AtomicBool::new(false), AtomicU64::new(0));
    let numbering = Mutex::new(0_u64);
    let commit = |payload: &[u8]| -> Result<()> {
        let checksum = payload_checksum(payload);
        let mut last = numbering.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *last += 1;
        let lsn = log.enqueue(RecordKind(1), SeqNo::new(*last), 1, payload, checksum)?;
        drop(last);
        (case.finish)(&log, lsn)
    };
    let work = || {
        let payload: Vec<u8> = (0..case.payload_bytes).map(|i| i as u8).collect();
        while !is_over.load(Ordering::Relaxed) {
            if let Err(error) = commit(&payload) {
                eprintln!("{error}");
                break;
            }
            commits.fetch_add(1, Ordering::Relaxed);
        }
    };
    let start = clock.monotonic();
    std::thread::scope(|scope| {
        (0..case.threads).for_each(|_| drop(scope.spawn(work)));
        // As the engine does in the background, prepares segments and releases old ones.
        while (clock.monotonic() - start).as_secs_f64() < seconds {
            std::thread::park_timeout(Duration::from_millis(20));
            while log.prepare().is_ok_and(|more| more) {}
            let _again = list_more();
            if log.bytes() > 256 << 20 {
                let keep = log.segments().len().saturating_sub(3);
                if let Some(from) = log.segments().get(keep).map(|segment| segment.number) {
                    let _released = log.release_before(from);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let passed = (clock.monotonic() - start).as_secs_f64();
    let (stats, commits) = (log.stats(), commits.into_inner() as f64);
    println!(
        "{:<14} {:>2} threads, {:>4} B: {:>9.0} commits/s, {:>6.1} MB/s, {:>6.1} a write, \
         {:>6.1} a sync",
        case.name,
        case.threads,
        case.payload_bytes,
        commits / passed,
        stats.bytes as f64 / passed / 1e6,
        stats.records as f64 / stats.appends.max(1) as f64,
        stats.records as f64 / stats.syncs.max(1) as f64,
    );
    println!("{:>18} syncs, {} segments", stats.syncs, stats.segments);
    let _gone = std::fs::remove_dir_all(dir);
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| "wal-commits".to_owned());
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let write: Finish = |log, lsn| log.write_through(lsn);
    let sync: Finish = |log, lsn| log.sync_through(lsn);
    let alone: Finish = |log, lsn| log.sync_alone(lsn);
    for (name, threads, payload_bytes, finish) in [
        ("sync_through", 1, 128, sync),
        ("sync_through", 32, 128, sync),
        ("sync_alone", 1, 128, alone),
        ("sync_alone", 32, 128, alone),
        ("write_through", 1, 1024, write),
        ("write_through", 4, 1024, write),
        ("write_through", 1, 128, write),
        ("write_through", 4, 128, write),
    ] {
        run(Path::new(&dir), &Case { name, threads, payload_bytes, finish }, seconds)?;
    }
    Ok(())
}
