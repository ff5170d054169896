//! The benchmark of the origin's last article: a million small puts in the order of a counter, and
//! random gets before and after a compaction, by one thread.

use super::{Random, Stage};
use crate::engine::{Engine, EngineError, Outcome};
use crate::options::{
    Length, Pace, StoreOptions, as_seconds, defaults, describe, name_of, positive, seconds, size,
};
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Probe, Tally, Worker};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::Write;
use std::time::Duration;

/// What the values are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bytes {
    /// Zeros, as there
    Zero,
    /// Bytes that do not compress
    Random,
}

/// What a trial is.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(mut_arg("memtable_bytes", |arg| arg.default_value("4MiB")))]
#[serde(rename_all = "kebab-case")]
pub struct SequentialOptions {
    /// Puts, under key_0, key_1, ...
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = positive())]
    pub puts: u64,
    /// Random gets, before the compaction and again after it
    #[arg(long, value_name = "N", default_value_t = 250_000, value_parser = positive())]
    pub gets: u64,
    /// Bytes of a value
    #[arg(long = "value-size", value_name = "BYTES", default_value = "128", value_parser = size)]
    #[serde(rename = "value-size")]
    pub value_bytes: usize,
    #[arg(skip = Bytes::Zero)]
    pub values: Bytes,
    /// The same seed gives the same values and gets
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Seconds of a row
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    #[serde(serialize_with = "as_seconds")]
    pub interval: Duration,
    #[command(flatten)]
    #[serde(flatten)]
    pub store: StoreOptions,
}

/// The phases, in order: the names of the figures that tell their seconds, without `_s`.
pub const SEQUENTIAL_PHASES: [&str; 6] =
    ["put", "close_after_puts", "reopen", "get", "compact", "get_compacted"];

impl SequentialOptions {
    /// The defaults, with one partition.
    pub fn new(values: Bytes) -> Self {
        let defaults: Self = defaults();
        let store = StoreOptions { partitions: 1, ..defaults.store };
        Self { values, store, ..defaults }
    }

    /// Puts, closes, reopens, gets, compacts, gets again; every value is checked. Figures: the
    /// seconds of each of [`SEQUENTIAL_PHASES`].
    pub fn run(&self, stage: &Stage<'_>) -> Outcome<Summary> {
        let mut opened = stage.open_fresh(&self.store)?;
        let mut options = describe(self);
        options.insert("threads".into(), 1.into());
        let mut recorder = stage.record("sequential", &opened, options, "an empty store")?;
        let pace = Pace { interval: self.interval, ..Pace::unwatched(1) };
        let puts = Puts { engine: &*opened.engine, options: self, next: 0, text: Text::new(self) };
        let worked = recorder.run(&*opened.engine, &pace, vec![Box::new(puts)])?;
        recorder.figure("put_s", worked.seconds);

        let dir = opened.place.data();
        let engine = opened.engine;
        recorder.aside("close_after_puts", &Probe::NONE, |_| engine.close())?;
        let mut reopened = None;
        recorder.aside("reopen", &Probe::NONE, |_| {
            reopened = Some((stage.open)(&StoreOptions { dir, ..self.store.clone() })?);
            Ok(())
        })?;
        opened.engine = reopened.ok_or("the store was not opened again")?;

        let engine = &*opened.engine;
        let gets = |seed| {
            let (random, text) = (Random::new(seed, 0), Text::new(self));
            vec![Box::new(Gets { engine, options: self, random, text }) as Box<dyn Worker>]
        };
        let pace = Pace { length: Length::Operations(self.gets), ..pace };
        let worked = recorder.run(engine, &pace, gets(self.seed))?;
        recorder.figure("get_s", worked.seconds);
        recorder.aside("compact", &Probe::NONE, |_| engine.compact())?;
        let worked = recorder.run(engine, &pace, gets(self.seed + 1))?;
        recorder.figure("get_compacted_s", worked.seconds);
        stage.finish(opened, recorder)
    }

    /// A line a phase of a trial.
    pub fn table(&self, summary: &Summary) -> String {
        let (mut text, values) = (String::new(), name_of(&self.values));
        for phase in SEQUENTIAL_PHASES {
            let seconds = summary.figure(&format!("{phase}_s"));
            let ops = match phase {
                "put" => self.puts,
                "get" | "get_compacted" => self.gets,
                _ => 0,
            };
            text += &format!("{values:<8}{phase:<20}");
            text += &match ops {
                0 => format!("{:>12}{seconds:>10.3}\n", ""),
                ops => format!("{ops:>12}{seconds:>10.3}{:>14.0}\n", ops as f64 / seconds),
            };
        }
        text
    }

    /// The line above those of [`Self::table`].
    pub fn table_head() -> String {
        format!("{:<8}{:<20}{:>12}{:>10}{:>14}\n", "values", "phase", "ops", "s", "ops/s")
    }
}

/// Keys and values by their number.
struct Text {
    value_bytes: usize,
    bytes: Bytes,
    seed: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Text {
    const fn new(options: &SequentialOptions) -> Self {
        let SequentialOptions { value_bytes, values, seed, .. } = *options;
        Self { value_bytes, bytes: values, seed, key: Vec::new(), value: Vec::new() }
    }

    fn make(&mut self, number: u64) -> Outcome<()> {
        self.key.clear();
        write!(self.key, "key_{number}")?;
        self.value.clear();
        self.value.resize(self.value_bytes, 0);
        if self.bytes == Bytes::Random {
            let mut random = Random::new(self.seed, number);
            for word in self.value.chunks_mut(8) {
                word.copy_from_slice(&random.bits().to_le_bytes()[..word.len()]);
            }
        }
        Ok(())
    }
}

struct Puts<'e> {
    engine: &'e dyn Engine,
    options: &'e SequentialOptions,
    next: u64,
    text: Text,
}

impl Worker for Puts<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        if self.next >= self.options.puts {
            return Ok(false);
        }
        self.text.make(self.next)?;
        self.next += 1;
        meter.begin();
        self.engine.put(&self.text.key, &self.text.value)?;
        meter.end(OpKind::Put, Tally::put(self.text.key.len() + self.text.value.len()));
        Ok(true)
    }
}

struct Gets<'e> {
    engine: &'e dyn Engine,
    options: &'e SequentialOptions,
    random: Random,
    text: Text,
}

impl Worker for Gets<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let number = self.random.below(self.options.puts);
        self.text.make(number)?;
        let (expected, mut is_right) = (&self.text.value, false);
        meter.begin();
        let found = self
            .engine
            .get(&self.text.key, &mut |value| is_right = value == expected.as_slice())?;
        meter.end(OpKind::Get, Tally::found(found));
        if found && is_right { Ok(true) } else { Err(wrong(number, found)) }
    }
}

#[cold]
fn wrong(number: u64, found: bool) -> EngineError {
    let what = if found { "has another value than was put" } else { "was put and is not found" };
    format!("wrong answer: key_{number} {what}").into()
}
