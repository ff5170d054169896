//! How long a commit takes in the log on the real disk.
//!
//! `cargo bench -p flagstone-wal [-- FILTER]`. Times are those of one thread: with 32 threads, 32
//! commits return in the time shown.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::Bencher;
use flagstone_base::{DatabaseId, SeqNo};
use flagstone_env::{OsDisk, SystemClock, SystemRandom};
use flagstone_wal::{Log, LogOptions, Lsn, RecordKind, Recovered, payload_checksum};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn main() {
    divan::main();
}

/// Returns a log in an empty directory.
fn create_log() -> Log {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("log");
    let _leftover = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let options = LogOptions { segment_bytes: 64 << 20, spares: 2, keep: None };
    let (random, nothing) = (Arc::new(SystemRandom), Recovered::default());
    let database = DatabaseId([1; 16]);
    let log = Log::create(Arc::new(OsDisk), &dir, database, random, options, &nothing).unwrap();
    log.with_clock(Arc::new(SystemClock::default()))
}

/// Does what the engine does in the background: prepares segments and releases old ones.
fn maintain(log: &Log) {
    while log.prepare().unwrap() {}
    if log.wants_files() {
        // The engine first lists them in the manifest, with one sync.
        log.list_files(&log.make_files().unwrap());
    }
    if log.bytes() > 256 << 20 {
        let segments = log.segments();
        log.release_before(segments[segments.len().saturating_sub(3)].number).unwrap();
    }
}

fn commit_each(bencher: Bencher<'_, '_>, payload_bytes: usize, finish: impl Fn(&Log, Lsn) + Sync) {
    let log = create_log();
    maintain(&log);
    let payload: Vec<u8> = (0..payload_bytes).map(|i| i as u8).collect();
    let (numbering, is_over) = (Mutex::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                maintain(&log);
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        bencher.bench(|| {
            let checksum = payload_checksum(&payload);
            let mut last = numbering.lock().unwrap();
            *last += 1;
            let lsn = log.enqueue(RecordKind(1), SeqNo::new(*last), 1, &payload, checksum).unwrap();
            drop(last);
            finish(&log, lsn);
        });
        is_over.store(true, Ordering::Relaxed);
    });
}

/// `Durability::Buffered`.
#[divan::bench(args = [128, 1024], threads = [1, 4], sample_size = 2_000)]
fn write_through(bencher: Bencher<'_, '_>, payload_bytes: usize) {
    commit_each(bencher, payload_bytes, |log, lsn| log.write_through(lsn).unwrap());
}

/// `Durability::Group`.
#[divan::bench(threads = [1, 32], sample_size = 10)]
fn sync_through(bencher: Bencher<'_, '_>) {
    commit_each(bencher, 128, |log, lsn| log.sync_through(lsn).unwrap());
}

/// `Durability::Each`.
#[divan::bench(threads = [1, 32], sample_size = 10)]
fn sync_alone(bencher: Bencher<'_, '_>) {
    commit_each(bencher, 128, |log, lsn| log.sync_alone(lsn).unwrap());
}
