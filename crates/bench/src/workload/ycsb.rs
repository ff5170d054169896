//! The core workloads of YCSB (Cooper, Silberstein, Tam, Ramakrishnan, Sears, "Benchmarking cloud
//! serving systems with YCSB", SoCC 2010), over one value a record.
//!
//! | | operations | which records |
//! |---|---|---|
//! | A | 50 reads, 50 updates | zipfian |
//! | B | 95 reads, 5 updates | zipfian |
//! | C | 100 reads | zipfian |
//! | D | 95 reads, 5 inserts | the latest, zipfian by age |
//! | E | 95 scans of 1 to 100 records, 5 inserts | zipfian among those loaded |
//! | F | 50 reads, 50 read-modify-writes | zipfian |
//!
//! Popular records are scattered over the keys. An update replaces the whole value by a new one; a
//! read-modify-write reads it, makes the new one and writes it, timed as one, and is not atomic.
//! Threads insert the next record each; the latest record is the last one before which no insert is
//! still running.

use super::caller::Caller;
use super::fill::Records;
use super::{Case, Zipf, random};
use crate::engine::Outcome;
use crate::options::Pace;
use crate::record::Summary;
use crate::run::{Meter, crew, work};
use flagstone_comments::Random;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ycsb {
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

/// The longest scan of E.
const SCAN_MAX: u64 = 100;

/// Loads the records and runs the operations, without a wait between them. Figure:
/// `load_ops_per_s`.
pub(super) fn run_ycsb(case: &Case<'_>, workload: Ycsb) -> Outcome<Summary> {
    let (data, pace) = (&case.options.data, &case.options.pace);
    let (records, threads) = (case.options.records, pace.threads);
    let (opened, values) = (case.stage.open_fresh(&case.options.store)?, data.make_values());
    let engine = &*opened.engine;
    let all = Records { engine, data, values: &values, records };
    let loaded = work(&Pace::unwatched(threads), all.puts(threads), &mut |_, _| Ok(()))?;
    let zipf = Zipf::new(records);
    let state = format!("{records} records loaded, in no order, not compacted");
    let mut recorder = case.record(&opened, &state)?;
    let inserted = Inserted::after(records);
    let clients = crew(threads, |thread| {
        let mut caller = Caller::new(engine, data, &values);
        let (mut random, inserted) = (random(data.seed, thread), &inserted);
        move |meter: &mut Meter<'_>| {
            let act = workload.draw(&mut random);
            if act == Act::Insert {
                let number = inserted.take();
                caller.put(number, random.bits(), meter)?;
                inserted.add(number);
                return Ok(true);
            }
            let rank = zipf.draw(&mut random);
            let number = if workload == Ycsb::D { inserted.end() - 1 - rank } else { rank };
            match act {
                Act::Scan => {
                    let limit = 1 + random.below(SCAN_MAX) as usize;
                    caller.scan(number, limit, meter)
                }
                Act::Modify => caller.modify(number, random.bits(), meter),
                Act::Update => caller.put(number, random.bits(), meter),
                Act::Read | Act::Insert => caller.get_present(number, meter),
            }?;
            Ok(true)
        }
    });
    recorder.run(engine, pace, clients)?;
    recorder.figure("load_ops_per_s", loaded.ops_per_s());
    case.stage.finish(opened, recorder)
}

/// The records of the store, loaded or inserted by any thread: all below a number, and some above
/// it.
struct Inserted {
    next: AtomicU64,
    end: AtomicU64,
    beyond: Mutex<BTreeSet<u64>>,
}

impl Inserted {
    /// All below `records` are there.
    fn after(records: u64) -> Self {
        Self { next: records.into(), end: records.into(), beyond: Mutex::default() }
    }

    /// The number of the next record to be inserted.
    fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that record `number` is there.
    fn add(&self, number: u64) {
        let mut beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        beyond.insert(number);
        let mut end = self.end.load(Ordering::Relaxed);
        while beyond.remove(&end) {
            end += 1;
        }
        self.end.store(end, Ordering::Release);
    }

    /// The number below which all records are there.
    fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_record_is_the_last_before_which_all_are_there() {
        let inserted = Inserted::after(10);
        let taken: Vec<u64> = (0..3).map(|_| inserted.take()).collect();
        assert_eq!((&taken[..], inserted.end()), (&[10, 11, 12][..], 10));
        inserted.add(12);
        inserted.add(11);
        assert_eq!(inserted.end(), 10);
        inserted.add(10);
        assert_eq!(inserted.end(), 13);
    }

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
            let mut random = random(1, 0);
            let drawn = (0..100_000).filter(|_| workload.draw(&mut random) == first).count();
            assert!((drawn as f64 / 1000.0 - share).abs() < 1.0, "{workload:?}: {drawn}");
        }
    }
}
