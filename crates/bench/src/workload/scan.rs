//! Scans: of a whole store of small entries, and of 50 entries while others are inserted.

use super::caller::{Caller, head};
use super::fill::{FilledStore, unwatched};
use super::options::{check_filled, describe_filled};
use super::{DataOptions, Keys, Random, Stage, StoreOptions};
use crate::engine::{Engine, Outcome};
use crate::record::{Described, OpKind, Summary};
use crate::run::{Meter, Pace, Tally, Worker};
use std::collections::BTreeMap;

/// What a trial of whole scans is.
#[derive(Clone, Debug, PartialEq)]
pub struct FullScanOptions {
    /// How the store is opened.
    pub store: StoreOptions,
    /// Which keys and values; the key space does not matter here.
    pub data: DataOptions,
    /// On how many threads, each of which scans everything; the length does not matter.
    pub pace: Pace,
    /// Entries in the store.
    pub records: u64,
    /// Scans of each thread.
    pub rounds: u64,
}

impl Default for FullScanOptions {
    /// 3 scans of 10 million entries of 16 + 16 bytes, by one thread.
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            data: DataOptions { value_bytes: 16, ..DataOptions::default() },
            pace: Pace { threads: 1, ..Pace::default() },
            records: 10_000_000,
            rounds: 3,
        }
    }
}

impl FullScanOptions {
    /// All options by their long names.
    pub fn describe(&self) -> Described {
        let mut options = describe_filled(&self.store, &self.data, &self.pace, self.records);
        for other in ["seconds", "operations"] {
            options.remove(other);
        }
        options.insert("rounds".into(), self.rounds.into());
        options
    }
}

/// Entries of a scan that are timed as one.
const PIECE: u64 = 1 << 16;

/// Fills a store with small entries, compacts it, and scans all of it again and again, workload
/// `full-scan`: an operation is an entry, a latency that of 65,536 of them. Order, number and a
/// checksum of the keys are checked.
///
/// # Errors
/// What the engine says; or a wrong answer.
pub fn run_full_scan(stage: &Stage<'_>, options: &FullScanOptions) -> Outcome<Summary> {
    let FullScanOptions { store, data, pace, records, rounds } = options;
    check_filled(data, *records)?;
    let filled = FilledStore::compacted(stage, store, data, *records)?;
    let state = filled.state("compacted");
    let expected = sum_of_keys(&data.keys(), *records);
    let mut recorder = stage.record("full-scan", &filled.opened, &options.describe(), &state)?;
    let engine = &*filled.opened.engine;
    let worker = || FullScan { engine, records: *records, expected, rounds: *rounds };
    let workers = (0..pace.threads).map(|_| Box::new(worker()) as Box<dyn Worker>).collect();
    let unwatched = Pace { interval: pace.interval, ..unwatched(pace.threads) };
    let worked = recorder.run(engine, &unwatched, workers)?;
    recorder.figure("entries_per_s", worked.ops_per_s());
    stage.close(filled.opened, &mut recorder)?;
    recorder.finish()
}

fn sum_of_keys(keys: &Keys, records: u64) -> u64 {
    let mut key = Vec::new();
    (0..records).fold(0, |sum: u64, number| {
        keys.write(number, &mut key);
        sum.wrapping_add(head(&key))
    })
}

struct FullScan<'e> {
    engine: &'e dyn Engine,
    records: u64,
    expected: u64,
    rounds: u64,
}

impl Worker for FullScan<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        if self.rounds == 0 {
            return Ok(false);
        }
        self.rounds -= 1;
        let (mut sum, mut last, mut count, mut is_ordered) = (0_u64, 0, 0_u64, true);
        let tell = |meter: &mut Meter<'_>, entries: u64| {
            let tally = Tally { ops: entries, scanned: entries, ..Tally::ONE };
            meter.end(OpKind::Scan, tally);
            meter.begin();
        };
        meter.begin();
        self.engine.scan(&[], usize::MAX, &mut |key, _value| {
            let head = head(key);
            is_ordered &= head >= last;
            last = head;
            sum = sum.wrapping_add(head);
            count += 1;
            if count.is_multiple_of(PIECE) {
                tell(meter, PIECE);
            }
        })?;
        tell(meter, count % PIECE);
        if (count, sum, is_ordered) != (self.records, self.expected, true) {
            return Err(format!(
                "wrong scan: {count} entries of {}, {}, keys {}",
                self.records,
                if is_ordered { "in order" } else { "out of order" },
                if sum == self.expected { "right" } else { "wrong" },
            )
            .into());
        }
        Ok(true)
    }
}

/// What a trial of short scans is.
#[derive(Clone, Debug, PartialEq)]
pub struct ShortScanOptions {
    /// How the store is opened.
    pub store: StoreOptions,
    /// Which keys and values; the key space does not matter here.
    pub data: DataOptions,
    /// How long, on how many threads.
    pub pace: Pace,
    /// Entries in the store when the clock starts.
    pub records: u64,
    /// Entries of a scan.
    pub limit: usize,
    /// The clock starts when the last record is put: nothing is flushed, compacted or read before.
    pub as_written: bool,
}

impl Default for ShortScanOptions {
    /// Scans of 50 entries of a million of 1,024 bytes, and as many inserts.
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            data: DataOptions::default(),
            pace: Pace::default(),
            records: 1_000_000,
            limit: 50,
            as_written: false,
        }
    }
}

impl ShortScanOptions {
    /// All options by their long names.
    pub fn describe(&self) -> Described {
        let mut options = describe_filled(&self.store, &self.data, &self.pace, self.records);
        options.insert("limit".into(), self.limit.into());
        options.insert("as-written".into(), self.as_written.into());
        options
    }
}

/// Fills a store, then each thread scans from a random record and inserts a new one, half and half,
/// workload `short-scan`. Figures: `scans_per_s`, `inserts_per_s`.
///
/// # Errors
/// What the engine says; or a wrong answer.
pub fn run_short_scan(stage: &Stage<'_>, options: &ShortScanOptions) -> Outcome<Summary> {
    let ShortScanOptions { store, data, pace, records, limit, as_written } = options;
    check_filled(data, *records)?;
    if *limit == 0 {
        return Err("scans of 0 entries: expected at least 1".into());
    }
    let what = (store, data, *records);
    let (filled, state) = FilledStore::ready(stage, what, *as_written, pace.threads)?;
    let mut recorder = stage.record("short-scan", &filled.opened, &options.describe(), &state)?;
    let engine = &*filled.opened.engine;
    let worker = |thread| ShortScan {
        caller: Caller::new(engine, data, &filled.values),
        random: Random::new(data.seed, thread),
        options,
        next: records + thread,
    };
    let threads = pace.threads as u64;
    let workers = (0..threads).map(|t| Box::new(worker(t)) as Box<dyn Worker>).collect();
    let worked = recorder.run(engine, pace, workers)?;
    let counts: BTreeMap<OpKind, u64> =
        recorder.totals().latencies().map(|(kind, latency)| (kind, latency.count)).collect();
    for (kind, name) in [(OpKind::Scan, "scans_per_s"), (OpKind::Put, "inserts_per_s")] {
        let count = counts.get(&kind).copied().unwrap_or(0);
        recorder.figure(name, count as f64 / worked.seconds.max(1e-9));
    }
    stage.close(filled.opened, &mut recorder)?;
    recorder.finish()
}

struct ShortScan<'e> {
    caller: Caller<'e>,
    random: Random,
    options: &'e ShortScanOptions,
    /// The record that this thread inserts next.
    next: u64,
}

impl Worker for ShortScan<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let ShortScanOptions { records, limit, ref pace, .. } = *self.options;
        if self.random.below(2) == 0 {
            let number = self.random.below(records);
            self.caller.scan(number, limit, meter)?;
        } else {
            self.caller.put(self.next, 0, meter)?;
            self.next += pace.threads as u64;
        }
        Ok(true)
    }
}
