//! Gets of records that are all there, or of keys that are not, over a filled store: compacted and warm, or as it was
//! written.

use super::caller::Caller;
use super::fill::FilledStore;
use super::options::{check_filled, describe_filled};
use super::{DataOptions, Random, Stage, StoreOptions, Values};
use crate::engine::{Engine, Outcome};
use crate::record::{Described, Summary};
use crate::run::{Meter, Pace, Worker};

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Keys that are there.
    Present,
    /// Keys that never were.
    Absent,
}

/// What a trial of gets is.
#[derive(Clone, Debug, PartialEq)]
pub struct GetsOptions {
    /// Which keys are asked for.
    pub asked: Asked,
    /// How the store is opened.
    pub store: StoreOptions,
    /// Which keys and values; the key space does not matter here.
    pub data: DataOptions,
    /// How long, on how many threads.
    pub pace: Pace,
    /// Records in the store.
    pub records: u64,
    /// The clock starts when the last record is put: nothing is flushed, compacted or read before.
    pub as_written: bool,
}

impl GetsOptions {
    /// A million records of 1,024 bytes, 20 seconds.
    pub fn new(asked: Asked) -> Self {
        Self {
            asked,
            store: StoreOptions::default(),
            data: DataOptions::default(),
            pace: Pace::default(),
            records: 1_000_000,
            as_written: false,
        }
    }

    /// `cached-get` or `absent-get`.
    pub const fn name(&self) -> &'static str {
        match self.asked {
            Asked::Present => "cached-get",
            Asked::Absent => "absent-get",
        }
    }

    /// All options by their long names.
    pub fn describe(&self) -> Described {
        let mut options = describe_filled(&self.store, &self.data, &self.pace, self.records);
        options.insert("as-written".into(), self.as_written.into());
        options
    }
}

/// Fills a store, compacts it and reads every record once unless it is to stay as written, and then measures random gets.
///
/// # Errors
/// What the engine says; or a wrong answer.
pub fn run_gets(stage: &Stage<'_>, options: &GetsOptions) -> Outcome<Summary> {
    let GetsOptions { asked, store, data, pace, records, as_written } = options;
    check_filled(data, *records)?;
    let what = (store, data, *records);
    let (filled, state) = FilledStore::ready(stage, what, *as_written, pace.threads)?;
    let opened = &filled.opened;
    let mut recorder = stage.record(options.name(), opened, &options.describe(), &state)?;
    let workers = filled.gets(data).random(*asked, pace.threads);
    recorder.run(&*opened.engine, pace, workers)?;
    recorder.figure("fill_ops_per_s", filled.worked.ops_per_s());
    stage.close(filled.opened, &mut recorder)?;
    recorder.finish()
}

/// Gets over a store of records `0..records`.
#[derive(Clone, Copy)]
pub(super) struct Gets<'e> {
    pub(super) engine: &'e dyn Engine,
    pub(super) data: &'e DataOptions,
    pub(super) values: &'e Values,
    pub(super) records: u64,
}

/// Numbers from here on are never put.
const ABSENT: u64 = 1 << 50;

impl<'e> Gets<'e> {
    /// Random gets, a worker a thread.
    pub(super) fn random(&self, asked: Asked, threads: usize) -> Vec<Box<dyn Worker + 'e>> {
        self.workers(threads, |thread| Choice::Random(asked, Random::new(!self.data.seed, thread)))
    }

    /// Every record once.
    pub(super) fn of_each(&self, threads: usize) -> Vec<Box<dyn Worker + 'e>> {
        self.workers(threads, |thread| Choice::Each { next: thread, step: threads as u64 })
    }

    fn workers(&self, threads: usize, choice: impl Fn(u64) -> Choice) -> Vec<Box<dyn Worker + 'e>> {
        let worker = |thread| Getter {
            caller: Caller::new(self.engine, self.data, self.values),
            records: self.records,
            choice: choice(thread),
        };
        (0..threads as u64).map(|t| Box::new(worker(t)) as Box<dyn Worker>).collect()
    }
}

enum Choice {
    Random(Asked, Random),
    Each { next: u64, step: u64 },
}

struct Getter<'e> {
    caller: Caller<'e>,
    records: u64,
    choice: Choice,
}

impl Getter<'_> {
    fn choose(&mut self) -> Option<u64> {
        match &mut self.choice {
            Choice::Random(Asked::Present, random) => Some(random.below(self.records)),
            Choice::Random(Asked::Absent, random) => Some(ABSENT + random.below(ABSENT)),
            Choice::Each { next, step } => {
                let chosen = *next;
                *next += *step;
                (chosen < self.records).then_some(chosen)
            }
        }
    }
}

impl Worker for Getter<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let Some(number) = self.choose() else { return Ok(false) };
        if number < ABSENT {
            self.caller.get_present(number, meter)?;
        } else if self.caller.get(number, meter)? {
            let text = format!("wrong answer: key {number} was never put and is found");
            return Err(text.into());
        }
        Ok(true)
    }
}
