//! The benchmark of the origin's last article: a million small puts in the order of a counter, and
//! random gets before and after a compaction, by one thread.

use super::{Random, Stage, StoreOptions};
use crate::engine::{Engine, EngineError, Outcome};
use crate::record::{OpKind, Summary};
use crate::run::{Length, Meter, Pace, Probe, Tally, Worker};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// What the values are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// Zeros, as there.
    Zero,
    /// Bytes that do not compress.
    Random,
}

impl Bytes {
    /// `zero` or `random`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Random => "random",
        }
    }
}

/// What a trial is.
#[derive(Clone, Debug, PartialEq)]
pub struct SequentialOptions {
    /// How the store is opened.
    pub store: StoreOptions,
    /// Puts, under `key_0`, `key_1`, ...
    pub puts: u64,
    /// Random gets, before the compaction and again behind it.
    pub gets: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// What the values are made of.
    pub bytes: Bytes,
    /// The same seed gives the same values and gets.
    pub seed: u64,
    /// The time of a row.
    pub interval: Duration,
}

impl SequentialOptions {
    /// 1,000,000 puts of 128 bytes, 250,000 gets, memtables of 4 MiB, one partition.
    pub fn new(bytes: Bytes) -> Self {
        Self {
            store: StoreOptions {
                partitions: 1,
                memtable_bytes: Some(4 << 20),
                ..StoreOptions::default()
            },
            puts: 1_000_000,
            gets: 250_000,
            value_bytes: 128,
            bytes,
            seed: 1,
            interval: Duration::from_secs(1),
        }
    }

    /// All options by their long names.
    pub fn describe(&self) -> BTreeMap<String, Value> {
        let mut options = BTreeMap::new();
        self.store.describe(&mut options);
        let pairs: [(&str, Value); 7] = [
            ("puts", self.puts.into()),
            ("gets", self.gets.into()),
            ("value-size", self.value_bytes.into()),
            ("values", self.bytes.name().into()),
            ("seed", self.seed.into()),
            ("threads", 1.into()),
            ("interval", self.interval.as_secs_f64().into()),
        ];
        options.extend(pairs.map(|(name, value)| (name.to_owned(), value)));
        options
    }
}

/// The phases, in order: the names of the figures that tell their seconds, without `_s`.
pub const SEQUENTIAL_PHASES: [&str; 6] =
    ["put", "close_after_puts", "reopen", "get", "compact", "get_compacted"];

/// Puts, closes, reopens, gets, compacts, gets again; every value is checked. Figures: the seconds of
/// each of [`SEQUENTIAL_PHASES`].
///
/// # Errors
/// What the engine says; or a wrong value.
pub fn run_sequential(stage: &Stage<'_>, options: &SequentialOptions) -> Outcome<Summary> {
    let mut opened = stage.open_fresh(&options.store)?;
    let mut recorder =
        stage.record("sequential", &opened, &options.describe(), "an empty store")?;
    let pace = Pace { threads: 1, interval: options.interval, ..super::fill::unwatched(1) };
    let puts = Puts { engine: &*opened.engine, options, next: 0, text: Text::new(options) };
    let worked = recorder.run(&*opened.engine, &pace, vec![Box::new(puts)])?;
    recorder.figure("put_s", worked.seconds);

    let data = opened.place.data();
    let engine = opened.engine;
    recorder.aside("close_after_puts", &Probe::NONE, |_| engine.close())?;
    let mut reopened = None;
    recorder.aside("reopen", &Probe::NONE, |_| {
        reopened = Some((stage.open)(&options.store.engine_options(data))?);
        Ok(())
    })?;
    opened.engine = reopened.ok_or("the store was not opened again")?;

    let engine = &*opened.engine;
    let gets =
        |seed| Gets { engine, options, random: Random::new(seed, 0), text: Text::new(options) };
    let pace = Pace { length: Length::Operations(options.gets), ..pace };
    let worked = recorder.run(engine, &pace, vec![Box::new(gets(options.seed))])?;
    recorder.figure("get_s", worked.seconds);
    recorder.aside("compact", &Probe::NONE, |_| engine.compact())?;
    let worked = recorder.run(engine, &pace, vec![Box::new(gets(options.seed + 1))])?;
    recorder.figure("get_compacted_s", worked.seconds);
    stage.close(opened, &mut recorder)?;
    recorder.finish()
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
        let SequentialOptions { value_bytes, bytes, seed, .. } = *options;
        Self { value_bytes, bytes, seed, key: Vec::new(), value: Vec::new() }
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
