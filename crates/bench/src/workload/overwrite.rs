//! Records that are replaced again and again, or put at one end of a queue and deleted at the other: how much room the
//! store takes for what is alive, second by second.

use super::caller::Caller;
use super::fill::FilledStore;
use super::options::{check_filled, describe_filled};
use super::{DataOptions, Random, Stage, StoreOptions};
use crate::engine::Outcome;
use crate::record::{Described, Summary};
use crate::run::{Meter, Pace, Recorder, Worker};
use crate::sample::DirectoryBytes;
use std::time::{Duration, Instant};

/// What becomes garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Records drawn at random are replaced.
    Random,
    /// Each thread puts a new record and deletes its oldest one, by turns.
    Queue,
}

impl Pattern {
    /// `random` or `queue`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Queue => "queue",
        }
    }
}

/// What a trial of overwrites is.
#[derive(Clone, Debug, PartialEq)]
pub struct OverwriteOptions {
    /// How the store is opened.
    pub store: StoreOptions,
    /// Which keys and values; the key space does not matter here.
    pub data: DataOptions,
    /// How long, on how many threads.
    pub pace: Pace,
    /// Records that are alive all the time.
    pub records: u64,
    /// What becomes garbage.
    pub pattern: Pattern,
}

impl Default for OverwriteOptions {
    /// 500,000 records of 1,024 bytes, replaced at random.
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            data: DataOptions::default(),
            pace: Pace::default(),
            records: 500_000,
            pattern: Pattern::Random,
        }
    }
}

impl OverwriteOptions {
    /// All options by their long names.
    pub fn describe(&self) -> Described {
        let mut options = describe_filled(&self.store, &self.data, &self.pace, self.records);
        options.insert("pattern".into(), self.pattern.name().into());
        options
    }
}

/// After the last write the store is to be this many times what is alive.
const RESTED: f64 = 1.3;
/// How often it is looked at then.
const REST_STEP: Duration = Duration::from_millis(200);

/// Fills a store, compacts it, whose bytes are then what is alive, and replaces records until the time is over, workload
/// `overwrite`. Figures: `live_bytes`; `space_mean` and `space_max`, bytes without the log by those alive, over the
/// rows; `rest_s`, seconds after the last write until that is 1.3, `space_rested`, what it is when these or 10 s and
/// one more a 100 MB alive have passed.
///
/// # Errors
/// What the engine says.
pub fn run_overwrite(stage: &Stage<'_>, options: &OverwriteOptions) -> Outcome<Summary> {
    let OverwriteOptions { store, data, pace, records, .. } = options;
    check_filled(data, *records)?;
    let filled = FilledStore::compacted(stage, store, data, *records)?;
    let state = filled.state("compacted");
    let mut recorder = stage.record("overwrite", &filled.opened, &options.describe(), &state)?;
    let live = DirectoryBytes::of(recorder.dir()).data().max(1);
    recorder.figure("live_bytes", live as f64);
    let engine = &*filled.opened.engine;
    let threads = pace.threads as u64;
    let worker = |thread| Overwriter {
        caller: Caller::new(engine, data, &filled.values),
        random: Random::new(data.seed, thread),
        options,
        oldest: thread,
        next: records.next_multiple_of(threads) + thread,
        version: 1,
    };
    let workers = (0..threads).map(|t| Box::new(worker(t)) as Box<dyn Worker>).collect();
    recorder.run(engine, pace, workers)?;
    let ratios = recorder.data_sizes().iter().map(|bytes| *bytes as f64 / live as f64);
    let ratios: Vec<f64> = ratios.collect();
    recorder.figure("space_mean", ratios.iter().sum::<f64>() / ratios.len().max(1) as f64);
    recorder.figure("space_max", ratios.iter().copied().fold(0.0, f64::max));
    rest(&mut recorder, live);
    stage.close(filled.opened, &mut recorder)?;
    recorder.finish()
}

/// Looks on while the store tidies itself up.
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
        let OverwriteOptions { records, pattern, ref pace, .. } = *self.options;
        let threads = pace.threads as u64;
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
