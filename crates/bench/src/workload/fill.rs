//! A store filled with records before anything is measured: numbers from 0 up, each put once.

use super::{DataOptions, Keys, Values};
use crate::engine::{Engine, Gauges, Outcome};
use crate::record::OpKind;
use crate::run::{Length, Meter, Pace, Tally, Worked, Worker, work};
use std::time::Duration;

/// Records to be put.
#[derive(Clone, Copy)]
pub(super) struct Fill<'e> {
    pub(super) engine: &'e dyn Engine,
    pub(super) data: &'e DataOptions,
    pub(super) values: &'e Values,
    /// Numbers `0..records`.
    pub(super) records: u64,
    pub(super) threads: usize,
}

/// What ends when everybody is done, and is not looked at before.
pub(super) fn unwatched(threads: usize) -> Pace {
    Pace {
        threads,
        length: Length::UntilDone,
        interval: Duration::from_secs(86_400),
        closing_sync: false,
    }
}

impl<'e> Fill<'e> {
    /// Puts them, by all threads, in no order of their keys.
    pub(super) fn run(&self) -> Outcome<Worked> {
        work(&unwatched(self.threads), self.workers(), &mut |_, _| Ok(()))
    }

    /// What puts them, a worker a thread.
    pub(super) fn workers(&self) -> Vec<Box<dyn Worker + 'e>> {
        let threads = self.threads.max(1) as u64;
        let worker = |thread| Filler {
            engine: self.engine,
            values: self.values,
            keys: self.data.keys(),
            next: thread,
            step: threads,
            end: self.records,
            key: Vec::new(),
            value: Vec::new(),
        };
        (0..threads).map(|t| Box::new(worker(t)) as Box<dyn Worker>).collect()
    }
}

/// `123 records, compacted; level bytes 0/0/5000`.
pub(super) fn state(records: u64, what: &str, gauges: &Gauges) -> String {
    let levels: Vec<String> = gauges.level_bytes.iter().map(u64::to_string).collect();
    let levels = if levels.is_empty() { "not told".into() } else { levels.join(" / ") };
    format!("{records} records, {what}; bytes by level: {levels}")
}

struct Filler<'e> {
    engine: &'e dyn Engine,
    values: &'e Values,
    keys: Keys,
    next: u64,
    step: u64,
    end: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Worker for Filler<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        if self.next >= self.end {
            return Ok(false);
        }
        self.keys.write(self.next, &mut self.key);
        self.values.write(self.next, 0, &mut self.value);
        meter.begin();
        self.engine.put(&self.key, &self.value)?;
        meter.end(OpKind::Put, Tally::put(self.key.len() + self.value.len()));
        self.next += self.step;
        Ok(true)
    }
}
