//! Gets of records that are all there, or of keys that are not, over a filled, compacted, warm store.

use super::fill::{Fill, state, unwatched};
use super::{DataOptions, Keys, Random, Stage, StoreOptions, Values};
use crate::engine::{Engine, EngineError, Outcome};
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Pace, Tally, Worker, work};
use serde_json::Value;
use std::collections::BTreeMap;

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
        }
    }

    /// `cached-get` or `absent-get`.
    pub const fn name(&self) -> &'static str {
        match self.asked {
            Asked::Present => "cached-get",
            Asked::Absent => "absent-get",
        }
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn check(&self) -> Result<(), String> {
        self.data.check()?;
        if self.records == 0 {
            return Err("0 records: expected at least 1".into());
        }
        Ok(())
    }

    /// All options by their long names.
    pub fn describe(&self) -> BTreeMap<String, Value> {
        let mut options = BTreeMap::new();
        self.store.describe(&mut options);
        self.data.describe(&mut options);
        self.pace.describe(&mut options);
        options.remove("key-space");
        options.insert("records".into(), self.records.into());
        options
    }
}

/// Fills a store, compacts it, reads every record once, and then measures random gets.
///
/// # Errors
/// What the engine says; or a wrong answer.
pub fn run_gets(stage: &Stage<'_>, options: &GetsOptions) -> Outcome<Summary> {
    options.check()?;
    let opened = stage.open_fresh(&options.store)?;
    let values = options.data.make_values();
    let engine = &*opened.engine;
    let (data, records, threads) = (&options.data, options.records, options.pace.threads);
    let filled = Fill { engine, data, values: &values, records, threads }.run()?;
    engine.flush()?;
    engine.compact()?;
    let all = Gets { engine, data, values: &values, records };
    work(&unwatched(threads), all.of_each(threads), &mut |_, _| Ok(()))?;
    let state = state(records, "compacted, each read once", &engine.gauges());
    let mut recorder = stage.record(options.name(), &opened, &options.describe(), &state)?;
    let workers = all.random(options.asked, threads);
    recorder.run(engine, &options.pace, workers)?;
    recorder.figure("fill_ops_per_s", filled.ops_per_s());
    stage.close(opened, &mut recorder)?;
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
            engine: self.engine,
            values: self.values,
            keys: self.data.keys(),
            records: self.records,
            choice: choice(thread),
            key: Vec::new(),
            value: Vec::new(),
        };
        (0..threads as u64).map(|t| Box::new(worker(t)) as Box<dyn Worker>).collect()
    }
}

enum Choice {
    Random(Asked, Random),
    Each { next: u64, step: u64 },
}

struct Getter<'e> {
    engine: &'e dyn Engine,
    values: &'e Values,
    keys: Keys,
    records: u64,
    choice: Choice,
    key: Vec<u8>,
    value: Vec<u8>,
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
        self.keys.write(number, &mut self.key);
        let value = &mut self.value;
        meter.begin();
        let found = self.engine.get(&self.key, &mut |found| {
            value.clear();
            value.extend_from_slice(found);
        });
        meter.end(OpKind::Get, Tally::found(matches!(found, Ok(true))));
        match (found?, number < ABSENT) {
            (true, true) => self.values.check(number, &self.value)?,
            (false, false) => {}
            (is_found, _) => return Err(wrong(number, is_found)),
        }
        Ok(true)
    }
}

#[cold]
fn wrong(number: u64, is_found: bool) -> EngineError {
    let text = if is_found { "was never put and is found" } else { "was put and is not found" };
    format!("wrong answer: key {number} {text}").into()
}
