//! Cells that begin with a filled store: gets, and scans.

use super::list::Work;
use flagstone_bench::engine::{Engine, Outcome};
use flagstone_bench::record::OpKind;
use flagstone_bench::run::{Meter, Tally, Worker};
use flagstone_bench::workload::{Keys, Random, Values};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Entries that one step of a full scan reads: a row a second needs steps shorter than that.
const SCAN_STEP: usize = 100_000;

/// What is done with a number.
type Each<'a> = &'a (dyn Fn(u64, &mut Vec<u8>, &mut Vec<u8>) -> Outcome<()> + Sync);

/// A store that holds the keys of all numbers below the key space, each with its value.
pub(super) struct Filled<'e> {
    engine: &'e dyn Engine,
    keys: Keys,
    values: &'e Values,
    work: Work,
    /// The number of the next key that is put anew.
    fresh: AtomicU64,
}

impl<'e> Filled<'e> {
    pub(super) fn new(engine: &'e dyn Engine, keys: Keys, values: &'e Values, work: Work) -> Self {
        Self { engine, keys, values, work, fresh: AtomicU64::new(keys.space()) }
    }

    /// One worker a thread.
    pub(super) fn workers(&self, threads: usize, seed: u64) -> Vec<Box<dyn Worker + '_>> {
        let worker = |thread| FilledWorker {
            filled: self,
            random: Random::new(seed, thread),
            key: Vec::new(),
            value: Vec::new(),
            scans_next: false,
        };
        (0..threads as u64).map(|thread| Box::new(worker(thread)) as Box<dyn Worker>).collect()
    }

    /// Gets everything once from two threads, as the cells do, and checks it: not by a scan, which
    /// engines may keep out of their caches.
    pub(super) fn get_all(&self) -> Outcome<()> {
        self.each(&|number, key, value| {
            self.keys.write(number, key);
            let found = self.engine.get(key, &mut |found| {
                value.clear();
                value.extend_from_slice(found);
            })?;
            if !found {
                return Err(format!("key {number} is not there").into());
            }
            Ok(self.values.check(number, value)?)
        })
    }

    /// Calls `each` with the numbers of all keys, from two threads, and with room for a key and a value.
    fn each(&self, each: Each<'_>) -> Outcome<()> {
        let next = AtomicU64::new(0);
        let work = || -> Outcome<()> {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.keys.space() {
                    return Ok(());
                }
                each(number, &mut key, &mut value)?;
            }
        };
        std::thread::scope(|scope| {
            for thread in [(); 2].map(|()| scope.spawn(work)) {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            Ok(())
        })
    }
}

/// Puts everything from two threads, in no order; answers how long it took.
pub(super) fn fill(filled: &Filled<'_>) -> Outcome<Duration> {
    let began = Instant::now();
    filled.each(&|number, key, value| {
        filled.keys.write(number, key);
        filled.values.write(number, 0, value);
        filled.engine.put(key, value)
    })?;
    Ok(began.elapsed())
}

struct FilledWorker<'f> {
    filled: &'f Filled<'f>,
    random: Random,
    key: Vec<u8>,
    value: Vec<u8>,
    scans_next: bool,
}

impl Worker for FilledWorker<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        match self.filled.work {
            Work::AbsentGet => self.get(meter, self.filled.keys.space()),
            Work::FullScan => self.full_scan(meter),
            Work::ShortScans => {
                self.scans_next = !self.scans_next;
                if self.scans_next { self.short_scan(meter) } else { self.put(meter) }
            }
            _ => self.get(meter, 0),
        }?;
        Ok(true)
    }
}

impl FilledWorker<'_> {
    /// Gets a key of a number in `first..first + space`: those from the space on are absent.
    fn get(&mut self, meter: &mut Meter<'_>, first: u64) -> Outcome<()> {
        let Filled { engine, keys, values, .. } = self.filled;
        let number = first + self.random.below(keys.space());
        keys.write(number, &mut self.key);
        let value = &mut self.value;
        meter.begin();
        let found = engine.get(&self.key, &mut |found| {
            value.clear();
            value.extend_from_slice(found);
        });
        meter.end(OpKind::Get, Tally::found(matches!(found, Ok(true))));
        match (found?, first == 0) {
            (true, true) => Ok(values.check(number, value)?),
            (false, false) => Ok(()),
            (false, true) => Err(format!("key {number} is not there").into()),
            (true, false) => Err(format!("key {number} is there").into()),
        }
    }

    fn put(&mut self, meter: &mut Meter<'_>) -> Outcome<()> {
        let Filled { engine, keys, values, fresh, .. } = self.filled;
        let number = fresh.fetch_add(1, Ordering::Relaxed);
        keys.write(number, &mut self.key);
        values.write(number, 0, &mut self.value);
        meter.begin();
        let put = engine.put(&self.key, &self.value);
        meter.end(OpKind::Put, Tally::put(self.key.len() + self.value.len()));
        put
    }

    fn short_scan(&mut self, meter: &mut Meter<'_>) -> Outcome<()> {
        let keys = self.filled.keys;
        keys.write(self.random.below(keys.space()), &mut self.key);
        let mut bytes = 0;
        meter.begin();
        let count = self.filled.engine.scan(&self.key, 50, &mut |key, value| {
            bytes += key.len() + value.len();
        })?;
        meter.end(OpKind::Scan, Tally::scanned(count));
        // Less than 50 only behind one of the last keys.
        if count == 0 || bytes != count * (keys.key_bytes() + self.filled.values.value_bytes()) {
            return Err(format!("a scan of {count} entries returned {bytes} bytes").into());
        }
        Ok(())
    }

    /// The next piece of a scan of everything, which begins again at its end: its operations are
    /// entries.
    fn full_scan(&mut self, meter: &mut Meter<'_>) -> Outcome<()> {
        let mut last = std::mem::take(&mut self.value);
        last.clear();
        meter.begin();
        let count = self.filled.engine.scan(&self.key, SCAN_STEP, &mut |key, _| {
            last.clear();
            last.extend_from_slice(key);
        })?;
        meter.end(OpKind::Scan, Tally { ops: count as u64, ..Tally::scanned(count) });
        self.value = std::mem::take(&mut self.key);
        self.value.clear();
        if count == SCAN_STEP {
            // The least key behind the last one.
            last.push(0);
            self.key = last;
        }
        Ok(())
    }
}
