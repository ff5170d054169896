//! Records that are replaced again and again, or put at one end of a queue and deleted at the
//! other: how much room the store takes for what is alive, second by second.

use super::caller::Caller;
use super::fill::FilledStore;
use super::options::{Setup, Workload, check_filled};
use super::{Random, Stage};
use crate::engine::Outcome;
use crate::options::records;
use crate::record::Summary;
use crate::run::{Meter, Recorder, Worker, crew};
use crate::sample::DirectoryBytes;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::time::{Duration, Instant};

/// What becomes garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Records drawn at random are replaced
    Random,
    /// Each thread puts a new record and deletes its oldest one, by turns
    Queue,
}

/// What a trial of overwrites is.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OverwriteOptions {
    /// Records put and compacted before the clock starts, and alive all the time
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = records())]
    pub records: u64,
    /// What becomes garbage
    #[arg(long, value_name = "HOW", value_enum, default_value = "random")]
    pub pattern: Pattern,
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
}

/// The space amplification that the store is to come down to after the last write.
const RESTED: f64 = 1.3;
/// The time between two samples of it.
const REST_STEP: Duration = Duration::from_millis(200);

impl Workload for OverwriteOptions {
    const THREADS: &'static str = "4";

    fn name(&self) -> &'static str {
        "overwrite"
    }

    fn setup(&mut self) -> &mut Setup {
        &mut self.setup
    }

    fn check(&self) -> Result<(), String> {
        check_filled(&self.setup.data, self.records)
    }

    /// Fills a store, compacts it, whose bytes are then what is alive, and replaces records until
    /// the time is over. Figures: `live_bytes`; `space_mean` and `space_max`, bytes without the log
    /// by those alive, over the rows; `rest_s`, seconds after the last write until that is 1.3;
    /// `space_rested`, what it is when these or 10 s and one more a 100 MB alive have passed.
    fn run(&self, stage: &Stage<'_>) -> Outcome<Summary> {
        self.check()?;
        let Setup { data, pace, .. } = &self.setup;
        let filled = FilledStore::compacted(stage, &self.setup, self.records)?;
        let state = filled.state("compacted");
        let mut recorder = stage.record(self.name(), &filled.opened, self.describe(), &state)?;
        let live = DirectoryBytes::of(recorder.dir()).data().max(1);
        recorder.figure("live_bytes", live as f64);
        let engine = &*filled.opened.engine;
        let workers = crew(pace.threads, |thread| Overwriter {
            caller: Caller::new(engine, data, &filled.values),
            random: Random::new(data.seed, thread),
            options: self,
            oldest: thread,
            next: self.records.next_multiple_of(pace.threads as u64) + thread,
            version: 1,
        });
        recorder.run(engine, pace, workers)?;
        let ratios = recorder.data_sizes().iter().map(|bytes| *bytes as f64 / live as f64);
        let ratios: Vec<f64> = ratios.collect();
        recorder.figure("space_mean", ratios.iter().sum::<f64>() / ratios.len().max(1) as f64);
        recorder.figure("space_max", ratios.iter().copied().fold(0.0, f64::max));
        rest(&mut recorder, live);
        stage.finish(filled.opened, recorder)
    }
}

/// Waits while the store removes its garbage.
fn rest(recorder: &mut Recorder<'_>, live: u64) {
    let began = Instant::now();
    let most = Duration::from_secs_f64(10.0 + live as f64 / 1e8);
    let space =
        |recorder: &Recorder<'_>| DirectoryBytes::of(recorder.dir()).data() as f64 / live as f64;
    while space(recorder) > RESTED && began.elapsed() < most {
        std::thread::sleep(REST_STEP);
    }
    recorder.figure("rest_s", began.elapsed().as_secs_f64());
    let rested = space(recorder);
    recorder.figure("space_rested", rested);
}

struct Overwriter<'e> {
    caller: Caller<'e>,
    random: Random,
    options: &'e OverwriteOptions,
    /// Of a queue: the thread's oldest record, and the one it puts next.
    oldest: u64,
    next: u64,
    version: u64,
}

impl Worker for Overwriter<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let OverwriteOptions { records, pattern, ref setup } = *self.options;
        let threads = setup.pace.threads as u64;
        self.version += 1;
        match pattern {
            Pattern::Random => {
                self.caller.put(self.random.below(records), self.version, meter)?;
            }
            Pattern::Queue if self.version.is_multiple_of(2) => {
                self.caller.put(self.next, 0, meter)?;
                self.next += threads;
            }
            Pattern::Queue => {
                self.caller.delete(self.oldest, false, meter)?;
                self.oldest += threads;
            }
        }
        Ok(true)
    }
}
