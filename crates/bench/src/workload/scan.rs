//! Scans: of a whole store of small entries, and of 50 entries while others are inserted.

use super::caller::{Caller, head};
use super::fill::FilledStore;
use super::options::{Setup, Workload, check_filled, check_reads, describe_filled};
use super::{Keys, Random, Stage};
use crate::engine::{Engine, Outcome};
use crate::options::{Pace, positive, records, within};
use crate::record::{Described, OpKind, Summary};
use crate::run::{Meter, Tally, Worker, crew};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a trial of whole scans is.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(mut_arg("value_bytes", |arg| arg.default_value("16")))]
#[serde(rename_all = "kebab-case")]
pub struct FullScanOptions {
    /// Entries put and compacted before the clock starts
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = records())]
    pub records: u64,
    /// Scans of each thread, which is how long a trial takes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive())]
    pub rounds: u64,
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
}

/// Entries of a scan that are timed as one.
const PIECE: u64 = 1 << 16;

impl Workload for FullScanOptions {
    const THREADS: &'static str = "1";

    fn name(&self) -> &'static str {
        "full-scan"
    }

    fn setup(&mut self) -> &mut Setup {
        &mut self.setup
    }

    fn check(&self) -> Result<(), String> {
        check_reads(&self.setup.pace)?;
        check_filled(&self.setup.data, self.records)
    }

    fn describe(&self) -> Described {
        let mut options = describe_filled(self);
        options.retain(|name, _| name != "seconds" && name != "operations");
        options
    }

    /// Fills a store with small entries, compacts it, and lets each thread scan all of it again and
    /// again: an operation is an entry, a latency that of 65,536 of them. Order, number and a
    /// checksum of the keys are checked.
    fn run(&self, stage: &Stage<'_>) -> Outcome<Summary> {
        self.check()?;
        let (records, Setup { data, pace, .. }) = (self.records, &self.setup);
        let filled = FilledStore::compacted(stage, &self.setup, records)?;
        let state = filled.state("compacted");
        let expected = sum_of_keys(&data.keys(), records);
        let mut recorder = stage.record(self.name(), &filled.opened, self.describe(), &state)?;
        let engine = &*filled.opened.engine;
        let rounds = self.rounds;
        let workers = crew(pace.threads, |_| FullScan { engine, records, expected, rounds });
        let pace = Pace { interval: pace.interval, ..Pace::unwatched(pace.threads) };
        let worked = recorder.run(engine, &pace, workers)?;
        recorder.figure("entries_per_s", worked.ops_per_s());
        stage.finish(filled.opened, recorder)
    }
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
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShortScanOptions {
    /// Entries put and compacted before the clock starts
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = records())]
    pub records: u64,
    /// Entries of a scan
    #[arg(long, value_name = "N", default_value = "50", value_parser = within::<usize>(1, 1 << 32))]
    pub limit: usize,
    /// Starts the clock after the last put: nothing is flushed, compacted or read before
    #[arg(long)]
    pub as_written: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
}

impl Workload for ShortScanOptions {
    fn name(&self) -> &'static str {
        "short-scan"
    }

    fn setup(&mut self) -> &mut Setup {
        &mut self.setup
    }

    fn check(&self) -> Result<(), String> {
        if self.limit == 0 {
            return Err("scans of 0 entries: expected at least 1".into());
        }
        check_filled(&self.setup.data, self.records)
    }

    /// Fills a store; then each thread scans from a random record and inserts a new one, half and
    /// half. Figures: `scans_per_s`, `inserts_per_s`.
    fn run(&self, stage: &Stage<'_>) -> Outcome<Summary> {
        self.check()?;
        let Setup { data, pace, .. } = &self.setup;
        let (filled, state) =
            FilledStore::ready(stage, &self.setup, self.records, self.as_written)?;
        let mut recorder = stage.record(self.name(), &filled.opened, self.describe(), &state)?;
        let engine = &*filled.opened.engine;
        let workers = crew(pace.threads, |thread| ShortScan {
            caller: Caller::new(engine, data, &filled.values),
            random: Random::new(data.seed, thread),
            options: self,
            next: self.records + thread,
        });
        let worked = recorder.run(engine, pace, workers)?;
        let counts: BTreeMap<OpKind, u64> =
            recorder.totals().latencies().map(|(kind, latency)| (kind, latency.count)).collect();
        for (kind, name) in [(OpKind::Scan, "scans_per_s"), (OpKind::Put, "inserts_per_s")] {
            let count = counts.get(&kind).copied().unwrap_or(0);
            recorder.figure(name, count as f64 / worked.seconds.max(1e-9));
        }
        stage.finish(filled.opened, recorder)
    }
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
        let ShortScanOptions { records, limit, ref setup, .. } = *self.options;
        if self.random.below(2) == 0 {
            let number = self.random.below(records);
            self.caller.scan(number, limit, meter)?;
        } else {
            self.caller.put(self.next, 0, meter)?;
            self.next += setup.pace.threads as u64;
        }
        Ok(true)
    }
}
