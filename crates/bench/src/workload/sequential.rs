//! The benchmark of the origin's last article: a million small puts in the order of a counter, and
//! random gets before and after a compaction, by one thread.

use super::{Case, DataOptions, Options, ValueKind, random};
use crate::engine::{EngineError, Outcome};
use crate::options::{Pace, StoreOptions};
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Probe, Tally};
use std::io::Write;

/// The phases, in order: the names of the figures that tell their seconds, without `_s`.
pub const SEQUENTIAL_PHASES: [&str; 6] =
    ["put", "close_after_puts", "reopen", "get", "compact", "get_compacted"];

/// Puts, closes, reopens, gets, compacts, gets again; every value is checked. Figures: the seconds
/// of each of [`SEQUENTIAL_PHASES`], and the operations a second of puts and gets.
pub(super) fn run_sequential(case: &Case<'_>) -> Outcome<Summary> {
    let (stage, options) = (&case.stage, case.options);
    let mut opened = stage.open_fresh(&options.store)?;
    let mut recorder = case.record(&opened, "an empty store")?;
    let pace = Pace { interval: options.pace.interval, ..Pace::unwatched(1) };
    let (engine, mut next, mut text) = (&*opened.engine, 0, Text::new(options));
    let puts = move |meter: &mut Meter<'_>| -> Outcome<bool> {
        if next >= options.puts {
            return Ok(false);
        }
        text.make(next)?;
        next += 1;
        meter.begin();
        engine.put(&text.key, &text.value)?;
        meter.end(OpKind::Put, Tally::put(text.key.len() + text.value.len()));
        Ok(true)
    };
    let worked = recorder.run(engine, &pace, vec![Box::new(puts)])?;
    recorder.figure("put_s", worked.seconds);
    recorder.figure("put_per_s", worked.ops_per_s());

    let dir = opened.place.data();
    let engine = opened.engine;
    recorder.aside("close_after_puts", &Probe::NONE, |_| engine.close())?;
    let mut reopened = None;
    recorder.aside("reopen", &Probe::NONE, |_| {
        reopened = Some((stage.open)(&StoreOptions { dir, ..options.store.clone() })?);
        Ok(())
    })?;
    opened.engine = reopened.ok_or("the store was not opened again")?;

    let engine = &*opened.engine;
    let pace = Pace { operations: Some(options.gets), until_done: false, ..pace };
    for (name, seed) in [("get", options.data.seed), ("get_compacted", options.data.seed + 1)] {
        if name == "get_compacted" {
            recorder.aside("compact", &Probe::NONE, |_| engine.compact())?;
        }
        let (mut random, mut text) = (random(seed, 0), Text::new(options));
        let gets = move |meter: &mut Meter<'_>| -> Outcome<bool> {
            let number = random.below(options.puts);
            text.make(number)?;
            let (expected, mut is_right) = (&text.value, false);
            meter.begin();
            let found =
                engine.get(&text.key, &mut |value| is_right = value == expected.as_slice())?;
            meter.end(OpKind::Get, Tally::found(found));
            if found && is_right { Ok(true) } else { Err(wrong(number, found)) }
        };
        let worked = recorder.run(engine, &pace, vec![Box::new(gets)])?;
        recorder.figure(&format!("{name}_s"), worked.seconds);
        recorder.figure(&format!("{name}_per_s"), worked.ops_per_s());
    }
    stage.finish(opened, recorder)
}

/// Keys and values by their number.
struct Text {
    value_bytes: usize,
    values: ValueKind,
    seed: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Text {
    const fn new(options: &Options) -> Self {
        let DataOptions { value_bytes, values, seed, .. } = options.data;
        Self { value_bytes, values, seed, key: Vec::new(), value: Vec::new() }
    }

    fn make(&mut self, number: u64) -> Outcome<()> {
        self.key.clear();
        write!(self.key, "key_{number}")?;
        self.value.clear();
        self.value.resize(self.value_bytes, 0);
        if self.values != ValueKind::Zeros {
            let mut random = random(self.seed, number);
            for word in self.value.chunks_mut(8) {
                word.copy_from_slice(&random.bits().to_le_bytes()[..word.len()]);
            }
        }
        Ok(())
    }
}

#[cold]
fn wrong(number: u64, found: bool) -> EngineError {
    let what = if found { "has another value than was put" } else { "was put and is not found" };
    format!("wrong answer: key_{number} {what}").into()
}
