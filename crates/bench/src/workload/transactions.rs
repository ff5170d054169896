//! Transactions of 4 reads and 2 writes over a filled store.

use super::fill::FilledStore;
use super::{Case, Distribution, Keys, Options, Values, Zipf, random};
use crate::engine::{Engine, EngineError, Outcome, Transaction};
use crate::options::{Isolation, StoreOptions};
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Tally, crew};
use std::sync::atomic::{AtomicU64, Ordering};

/// The records that a transaction reads.
const READS: usize = 4;
/// The first of these are written, too.
const WRITES: usize = 2;

/// Fills a store, compacts it and reads every record once; then each thread runs transactions that
/// read four records and write two of them, again after each conflict: an operation is a
/// transaction, with all its tries. Figure: `retries_per_transaction`.
pub(super) fn transactions(case: &Case<'_>) -> Outcome<Summary> {
    let store = StoreOptions { transactions: true, ..case.options.store.clone() };
    let options = &Options { store, ..case.options.clone() };
    let case = &Case { workload: case.workload, options, told: case.told.clone(), ..*case };
    let records = options.records;
    if records < READS as u64 {
        return Err(format!("{records} records: expected at least {READS}").into());
    }
    let (filled, state) = FilledStore::ready(case)?;
    let mut recorder = case.record(&filled.opened, &state)?;
    let engine = &*filled.opened.engine;
    let zipf = (options.distribution == Distribution::Zipfian).then(|| Zipf::new(records));
    let retries = AtomicU64::new(0);
    let workers = crew(options.pace.threads, |thread| {
        let mut client = Client::new(engine, options, &filled.values);
        let mut random = random(options.data.seed, thread);
        let (zipf, retries) = (zipf.as_ref(), &retries);
        move |meter: &mut Meter<'_>| {
            client.draw(|| match zipf {
                Some(zipf) => zipf.draw(&mut random),
                None => random.below(records),
            });
            let more = client.run(options.isolation, meter)?;
            if more > 0 {
                retries.fetch_add(more, Ordering::Relaxed);
            }
            Ok(true)
        }
    });
    let worked = recorder.run(engine, &options.pace, workers)?;
    let retries = retries.load(Ordering::Relaxed) as f64;
    recorder.figure("retries_per_transaction", retries / worked.ops.max(1) as f64);
    case.stage.finish(filled.opened, recorder)
}

/// A record that a transaction reads.
#[derive(Default)]
struct Read {
    number: u64,
    key: Vec<u8>,
    found: Vec<u8>,
}

/// One thread.
struct Client<'e> {
    engine: &'e dyn Engine,
    keys: Keys,
    values: &'e Values,
    reads: [Read; READS],
    /// The new values of the first records.
    new: [Vec<u8>; WRITES],
    version: u64,
}

impl<'e> Client<'e> {
    fn new(engine: &'e dyn Engine, options: &Options, values: &'e Values) -> Self {
        let (reads, new) = Default::default();
        Self { engine, keys: options.data.keys(), values, reads, new, version: 0 }
    }

    /// Chooses the records of the next transaction, all different, and creates the new values.
    fn draw(&mut self, mut record: impl FnMut() -> u64) {
        self.version += 1;
        for at in 0..READS {
            let number = loop {
                let number = record();
                if self.reads[..at].iter().all(|read| read.number != number) {
                    break number;
                }
            };
            self.reads[at].number = number;
            self.keys.write(number, &mut self.reads[at].key);
        }
        for (read, value) in self.reads.iter().zip(&mut self.new) {
            self.values.write(read.number, self.version, value);
        }
    }

    /// Runs the transaction until it is committed. Returns the number of retries.
    fn run(&mut self, isolation: Isolation, meter: &mut Meter<'_>) -> Outcome<u64> {
        let (reads, new) = (&mut self.reads, &self.new);
        let bytes = reads.iter().zip(new).map(|(read, value)| read.key.len() + value.len()).sum();
        let body = &mut |transaction: &mut dyn Transaction| -> Outcome<()> {
            for Read { number, key, found } in &mut *reads {
                let is_there = transaction.get(key, &mut |value| {
                    found.clear();
                    found.extend_from_slice(value);
                })?;
                if !is_there {
                    return Err(missing(*number));
                }
            }
            let mut writes = reads.iter().zip(new);
            writes.try_for_each(|(read, value)| transaction.put(&read.key, value))
        };
        meter.begin();
        let tries = self.engine.transact(isolation, body);
        meter.end(OpKind::Transaction, Tally::put(bytes));
        let tries = tries?;
        for Read { number, found, .. } in &self.reads {
            self.values.check(*number, found)?;
        }
        Ok(tries.saturating_sub(1))
    }
}

#[cold]
fn missing(number: u64) -> EngineError {
    format!("wrong answer: key {number} was put and is not found").into()
}
