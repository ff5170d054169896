//! The core workloads of YCSB (Cooper, Silberstein, Tam, Ramakrishnan, Sears, "Benchmarking cloud
//! serving systems with YCSB", SoCC 2010), over one value a record.
//!
//! | | operations | which records |
//! |---|---|---|
//! | A | 50 reads, 50 updates | zipfian |
//! | B | 95 reads, 5 updates | zipfian |
//! | C | 100 reads | zipfian |
//! | D | 95 reads, 5 inserts | the latest, zipfian by age |
//! | E | 95 scans of 1 to 100 records, 5 inserts | zipfian |
//! | F | 50 reads, 50 read-modify-writes | zipfian |
//!
//! Popular records are scattered over the keys. An update replaces the whole value by a new one; a
//! read-modify-write reads it, makes the new one and writes it, timed as one, and is not atomic. The
//! latest records of a thread are those that it inserted itself, then those loaded.

use super::{DataOptions, Keys, Random, Stage, StoreOptions, Values, Zipf};
use crate::engine::{Engine, Outcome};
use crate::record::{OpKind, Summary};
use crate::run::{Length, Meter, Pace, Tally, Worker, work};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// One of the six.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ycsb {
    /// Update heavy.
    A,
    /// Read mostly.
    B,
    /// Read only.
    C,
    /// Read latest.
    D,
    /// Short ranges.
    E,
    /// Read-modify-write.
    F,
}

impl Ycsb {
    /// All six.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// `ycsb-a` to `ycsb-f`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "ycsb-a",
            Self::B => "ycsb-b",
            Self::C => "ycsb-c",
            Self::D => "ycsb-d",
            Self::E => "ycsb-e",
            Self::F => "ycsb-f",
        }
    }

    /// The one with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    fn draw(self, random: &mut Random) -> Act {
        let (first, share, second) = match self {
            Self::A => (Act::Read, 50, Act::Update),
            Self::B => (Act::Read, 95, Act::Update),
            Self::C => (Act::Read, 100, Act::Read),
            Self::D => (Act::Read, 95, Act::Insert),
            Self::E => (Act::Scan, 95, Act::Insert),
            Self::F => (Act::Read, 50, Act::Modify),
        };
        if random.below(100) < share { first } else { second }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Read,
    Update,
    Insert,
    Scan,
    Modify,
}

/// What a trial of YCSB is.
#[derive(Clone, Debug, PartialEq)]
pub struct YcsbOptions {
    /// Which of the six.
    pub workload: Ycsb,
    /// How the store is opened.
    pub store: StoreOptions,
    /// Which keys and values; the key space does not matter here.
    pub data: DataOptions,
    /// How long, on how many threads.
    pub pace: Pace,
    /// Records loaded before the clock starts.
    pub records: u64,
}

/// The longest scan of E.
const SCAN_MAX: u64 = 100;

impl YcsbOptions {
    /// A million records of 1,000 bytes, 20 seconds.
    pub fn new(workload: Ycsb) -> Self {
        Self {
            workload,
            store: StoreOptions::default(),
            data: DataOptions { value_bytes: 1000, ..DataOptions::default() },
            pace: Pace::default(),
            records: 1_000_000,
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
        if self.data.value_bytes < 16 {
            return Err("values of less than 16 bytes have no room for a version".into());
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

/// Loads the records, waits for nothing, and runs the operations.
///
/// # Errors
/// What the engine says; or a wrong value.
pub fn run_ycsb(stage: &Stage<'_>, options: &YcsbOptions) -> Outcome<Summary> {
    options.check()?;
    let opened = stage.open_fresh(&options.store)?;
    let values = options.data.make_values();
    let engine = &*opened.engine;
    let rate = load(engine, &values, options)?;
    let zipf = Zipf::new(options.records);
    let name = options.workload.name();
    let state = format!("{} records loaded, in no order, not compacted", options.records);
    let mut recorder = stage.record(name, &opened, &options.describe(), &state)?;
    let worker = |thread| Client {
        engine,
        values: &values,
        keys: options.data.keys(),
        random: Random::new(options.data.seed, thread),
        zipf,
        options,
        thread,
        inserts: 0,
        key: Vec::new(),
        value: Vec::new(),
        read: Vec::new(),
    };
    let threads = options.pace.threads as u64;
    let workers = (0..threads).map(|t| Box::new(worker(t)) as Box<dyn Worker>).collect();
    recorder.run(engine, &options.pace, workers)?;
    recorder.figure("load_ops_per_s", rate);
    stage.close(opened, &mut recorder)?;
    recorder.finish()
}

/// Puts records `0..records`; answers how many a second.
fn load(engine: &dyn Engine, values: &Values, options: &YcsbOptions) -> Outcome<f64> {
    let threads = options.pace.threads.max(1) as u64;
    let pace = Pace {
        length: Length::UntilDone,
        interval: Duration::from_secs(3600),
        closing_sync: false,
        ..options.pace
    };
    let loader = |thread| Loader {
        engine,
        values,
        keys: options.data.keys(),
        next: thread,
        step: threads,
        end: options.records,
        key: Vec::new(),
        value: Vec::new(),
    };
    let workers = (0..threads).map(|t| Box::new(loader(t)) as Box<dyn Worker>).collect();
    Ok(work(&pace, workers, &mut |_, _| Ok(()))?.ops_per_s())
}

struct Loader<'e> {
    engine: &'e dyn Engine,
    values: &'e Values,
    keys: Keys,
    next: u64,
    step: u64,
    end: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Worker for Loader<'_> {
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

struct Client<'e> {
    engine: &'e dyn Engine,
    values: &'e Values,
    keys: Keys,
    random: Random,
    zipf: Zipf,
    options: &'e YcsbOptions,
    thread: u64,
    /// Records that this thread has inserted.
    inserts: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    read: Vec<u8>,
}

impl Client<'_> {
    /// The record that this thread inserts, or has inserted, as its `i`-th.
    const fn inserted(&self, i: u64) -> u64 {
        self.options.records + self.thread + i * self.options.pace.threads as u64
    }

    fn draw_record(&mut self) -> u64 {
        let rank = self.zipf.draw(&mut self.random);
        if self.options.workload != Ycsb::D {
            return rank;
        }
        match self.inserts.checked_sub(rank + 1) {
            Some(i) => self.inserted(i),
            None => self.options.records - 1 - (rank - self.inserts),
        }
    }

    fn read(&mut self, meter: &mut Meter<'_>) -> Outcome<()> {
        let number = self.draw_record();
        self.keys.write(number, &mut self.key);
        let read = &mut self.read;
        meter.begin();
        let found = self.engine.get(&self.key, &mut |value| {
            read.clear();
            read.extend_from_slice(value);
        });
        meter.end(OpKind::Get, Tally::found(matches!(found, Ok(true))));
        if found? { Ok(self.values.check(number, &self.read)?) } else { Err(missing(number)) }
    }

    fn put(&mut self, number: u64, meter: &mut Meter<'_>) -> Outcome<()> {
        self.keys.write(number, &mut self.key);
        self.values.write(number, self.random.bits(), &mut self.value);
        meter.begin();
        let put = self.engine.put(&self.key, &self.value);
        meter.end(OpKind::Put, Tally::put(self.key.len() + self.value.len()));
        put
    }

    fn modify(&mut self, meter: &mut Meter<'_>) -> Outcome<()> {
        let number = self.draw_record();
        self.keys.write(number, &mut self.key);
        let version = self.random.bits();
        let read = &mut self.read;
        meter.begin();
        let found = self.engine.get(&self.key, &mut |value| {
            read.clear();
            read.extend_from_slice(value);
        });
        // The new value is made from the old: that belongs to the operation.
        self.values.write(number, version, &mut self.value);
        let put = self.engine.put(&self.key, &self.value);
        let bytes = self.key.len() + self.value.len();
        meter.end(OpKind::Update, Tally::put(bytes));
        put?;
        if found? { Ok(self.values.check(number, &self.read)?) } else { Err(missing(number)) }
    }

    fn scan(&mut self, meter: &mut Meter<'_>) -> Outcome<()> {
        let number = self.draw_record();
        let limit = 1 + self.random.below(SCAN_MAX) as usize;
        self.keys.write(number, &mut self.key);
        let mut bytes = 0;
        meter.begin();
        let count = self.engine.scan(&self.key, limit, &mut |key, value| {
            bytes += key.len() + value.len();
        });
        meter.end(OpKind::Scan, Tally::scanned(*count.as_ref().unwrap_or(&0)));
        let (count, entry) = (count?, self.keys.key_bytes() + self.values.value_bytes());
        if count == 0 || bytes != count * entry {
            let text = format!("wrong scan: {count} entries of {bytes} bytes from key {number}");
            return Err(text.into());
        }
        Ok(())
    }
}

fn missing(number: u64) -> crate::engine::EngineError {
    format!("wrong answer: key {number} was put and is not found").into()
}

impl Worker for Client<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        match self.options.workload.draw(&mut self.random) {
            Act::Read => self.read(meter),
            Act::Scan => self.scan(meter),
            Act::Modify => self.modify(meter),
            Act::Update => {
                let number = self.draw_record();
                self.put(number, meter)
            }
            Act::Insert => {
                let number = self.inserted(self.inserts);
                self.inserts += 1;
                self.put(number, meter)
            }
        }?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_in_the_shares_of_the_paper() {
        for (workload, first, share) in [
            (Ycsb::A, Act::Read, 50.0),
            (Ycsb::B, Act::Read, 95.0),
            (Ycsb::C, Act::Read, 100.0),
            (Ycsb::D, Act::Read, 95.0),
            (Ycsb::E, Act::Scan, 95.0),
            (Ycsb::F, Act::Read, 50.0),
        ] {
            let mut random = Random::new(1, 0);
            let drawn = (0..100_000).filter(|_| workload.draw(&mut random) == first).count();
            assert!((drawn as f64 / 1000.0 - share).abs() < 1.0, "{workload:?}: {drawn}");
        }
    }
}
