//! Scans: of a whole store of small entries, and of 50 entries while others are inserted.

use super::fill::{Fill, state, unwatched};
use super::{DataOptions, Keys, Random, Stage, StoreOptions, Values};
use crate::engine::{Engine, EngineError, Outcome};
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Pace, Tally, Worker};
use serde_json::Value;
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
    pub fn describe(&self) -> BTreeMap<String, Value> {
        let mut options = BTreeMap::new();
        self.store.describe(&mut options);
        self.data.describe(&mut options);
        self.pace.describe(&mut options);
        for other in ["key-space", "seconds", "operations"] {
            options.remove(other);
        }
        options.insert("records".into(), self.records.into());
        options.insert("rounds".into(), self.rounds.into());
        options
    }
}

/// Threads that fill a store before it is scanned.
const FILLERS: usize = 4;
/// Entries of a scan that are timed as one.
const PIECE: u64 = 1 << 16;

/// Fills a store with small entries, compacts it, and scans all of it again and again, workload
/// `full-scan`: an operation is an entry, a latency that of 65,536 of them. Order, number and a
/// checksum of the keys are checked.
///
/// # Errors
/// What the engine says; or a wrong answer.
pub fn run_full_scan(stage: &Stage<'_>, options: &FullScanOptions) -> Outcome<Summary> {
    options.data.check()?;
    let opened = stage.open_fresh(&options.store)?;
    let values = options.data.make_values();
    let engine = &*opened.engine;
    let (data, records) = (&options.data, options.records);
    Fill { engine, data, values: &values, records, threads: FILLERS }.run()?;
    engine.flush()?;
    engine.compact()?;
    let state = state(records, "compacted", &engine.gauges());
    let expected = sum_of_keys(&data.keys(), records);
    let mut recorder = stage.record("full-scan", &opened, &options.describe(), &state)?;
    let worker = || FullScan { engine, records, expected, rounds: options.rounds };
    let threads = options.pace.threads;
    let workers = (0..threads).map(|_| Box::new(worker()) as Box<dyn Worker>).collect();
    let pace = Pace { interval: options.pace.interval, ..unwatched(threads) };
    let worked = recorder.run(engine, &pace, workers)?;
    recorder.figure("entries_per_s", worked.ops_per_s());
    stage.close(opened, &mut recorder)?;
    recorder.finish()
}

/// The first 8 bytes of a key as a number, in the order of keys.
fn head(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
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
        }
    }
}

impl ShortScanOptions {
    /// All options by their long names.
    pub fn describe(&self) -> BTreeMap<String, Value> {
        let mut options = BTreeMap::new();
        self.store.describe(&mut options);
        self.data.describe(&mut options);
        self.pace.describe(&mut options);
        options.remove("key-space");
        options.insert("records".into(), self.records.into());
        options.insert("limit".into(), self.limit.into());
        options
    }
}

/// Fills a store, then each thread scans from a random record and inserts a new one, half and half,
/// workload `short-scan`. Figures: `scans_per_s`, `inserts_per_s`.
///
/// # Errors
/// What the engine says; or a wrong answer.
pub fn run_short_scan(stage: &Stage<'_>, options: &ShortScanOptions) -> Outcome<Summary> {
    options.data.check()?;
    if options.records == 0 || options.limit == 0 {
        return Err("0 records, or scans of 0: expected at least 1".into());
    }
    let opened = stage.open_fresh(&options.store)?;
    let values = options.data.make_values();
    let engine = &*opened.engine;
    let (data, records, threads) = (&options.data, options.records, options.pace.threads);
    Fill { engine, data, values: &values, records, threads: FILLERS }.run()?;
    engine.flush()?;
    engine.compact()?;
    let state = state(records, "compacted", &engine.gauges());
    let mut recorder = stage.record("short-scan", &opened, &options.describe(), &state)?;
    let worker = |thread| ShortScan {
        engine,
        values: &values,
        keys: data.keys(),
        random: Random::new(data.seed, thread),
        options,
        next: records + thread,
        key: Vec::new(),
        value: Vec::new(),
    };
    let workers = (0..threads as u64).map(|t| Box::new(worker(t)) as Box<dyn Worker>).collect();
    let worked = recorder.run(engine, &options.pace, workers)?;
    let counts: BTreeMap<OpKind, u64> =
        recorder.totals().latencies().map(|(kind, latency)| (kind, latency.count)).collect();
    for (kind, name) in [(OpKind::Scan, "scans_per_s"), (OpKind::Put, "inserts_per_s")] {
        let count = counts.get(&kind).copied().unwrap_or(0);
        recorder.figure(name, count as f64 / worked.seconds.max(1e-9));
    }
    stage.close(opened, &mut recorder)?;
    recorder.finish()
}

struct ShortScan<'e> {
    engine: &'e dyn Engine,
    values: &'e Values,
    keys: Keys,
    random: Random,
    options: &'e ShortScanOptions,
    /// The record that this thread inserts next.
    next: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl ShortScan<'_> {
    fn insert(&mut self, meter: &mut Meter<'_>) -> Outcome<()> {
        self.keys.write(self.next, &mut self.key);
        self.values.write(self.next, 0, &mut self.value);
        self.next += self.options.pace.threads as u64;
        meter.begin();
        let put = self.engine.put(&self.key, &self.value);
        meter.end(OpKind::Put, Tally::put(self.key.len() + self.value.len()));
        put
    }

    fn scan(&mut self, meter: &mut Meter<'_>) -> Outcome<()> {
        let number = self.random.below(self.options.records);
        self.keys.write(number, &mut self.key);
        let (first, value) = (&self.key, &mut self.value);
        let (mut bytes, mut is_right, mut last) = (0, true, 0);
        meter.begin();
        let scanned = self.engine.scan(first, self.options.limit, &mut |key, found| {
            if bytes == 0 {
                is_right = key == first.as_slice();
                value.clear();
                value.extend_from_slice(found);
            }
            let head = head(key);
            is_right &= head >= last;
            last = head;
            bytes += key.len() + found.len();
        });
        meter.end(OpKind::Scan, Tally::scanned(*scanned.as_ref().unwrap_or(&0)));
        let entry = self.keys.key_bytes() + self.values.value_bytes();
        if !is_right || bytes != scanned? * entry {
            return Err(wrong_scan(number));
        }
        Ok(self.values.check(number, &self.value)?)
    }
}

#[cold]
fn wrong_scan(number: u64) -> EngineError {
    format!("wrong scan: from key {number}, which was put, entries that cannot be").into()
}

impl Worker for ShortScan<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        if self.random.below(2) == 0 { self.scan(meter) } else { self.insert(meter) }?;
        Ok(true)
    }
}
