//! A store filled with records before anything is measured: numbers from 0 up, each put once.

use super::caller::Caller;
use super::reads::Gets;
use super::{DataOptions, Opened, Stage, StoreOptions, Values};
use crate::engine::{Engine, Outcome};
use crate::run::{Length, Meter, Pace, Worked, Worker, work};
use std::path::Path;
use std::time::Duration;

/// Threads that fill a store before anything is measured.
const FILLERS: usize = 4;

/// A store that holds records `0..records`.
pub(super) struct FilledStore {
    pub(super) opened: Opened,
    pub(super) values: Values,
    /// How the puts went.
    pub(super) worked: Worked,
    records: u64,
}

impl FilledStore {
    /// Opens an empty store, fills, flushes and compacts it.
    pub(super) fn compacted(
        stage: &Stage<'_>,
        store: &StoreOptions,
        data: &DataOptions,
        records: u64,
    ) -> Outcome<Self> {
        let filled = Self::as_written(stage, store, data, records)?;
        filled.opened.engine.flush()?;
        filled.opened.engine.compact()?;
        Ok(filled)
    }

    /// Opens an empty store and fills it, compacted and each record read once, or as the puts left it; also tells the
    /// state it is in.
    pub(super) fn ready(
        stage: &Stage<'_>,
        (store, data, records): (&StoreOptions, &DataOptions, u64),
        as_written: bool,
        threads: usize,
    ) -> Outcome<(Self, String)> {
        if as_written {
            let filled = Self::as_written(stage, store, data, records)?;
            let state = filled.state("as they were written a moment ago");
            return Ok((filled, state));
        }
        let filled = Self::compacted(stage, store, data, records)?;
        filled.warm(data, threads)?;
        let state = filled.state("compacted, each read once");
        Ok((filled, state))
    }

    fn as_written(
        stage: &Stage<'_>,
        store: &StoreOptions,
        data: &DataOptions,
        records: u64,
    ) -> Outcome<Self> {
        let opened = stage.open_fresh(store)?;
        // A compaction holds most of it twice.
        let bytes = records.saturating_mul((data.key_bytes + data.value_bytes) as u64);
        check_free(&opened.place.data(), bytes.saturating_add(bytes / 2 * 3))?;
        let values = data.make_values();
        let engine = &*opened.engine;
        let worked = Fill { engine, data, values: &values, records, threads: FILLERS }.run()?;
        Ok(Self { opened, values, worked, records })
    }

    /// Gets of its records.
    pub(super) fn gets<'e>(&'e self, data: &'e DataOptions) -> Gets<'e> {
        let Self { opened, values, records, .. } = self;
        Gets { engine: &*opened.engine, data, values, records: *records }
    }

    /// Reads each record once, by so many threads, so that what the caches can hold is in them: not by
    /// a scan, which engines may keep out of theirs.
    pub(super) fn warm(&self, data: &DataOptions, threads: usize) -> Outcome<()> {
        work(&unwatched(threads), self.gets(data).of_each(threads), &mut |_, _| Ok(()))?;
        Ok(())
    }

    /// `123 records, compacted; bytes by level: 0 / 0 / 5000`.
    pub(super) fn state(&self, what: &str) -> String {
        let levels: Vec<String> =
            self.opened.engine.gauges().level_bytes.iter().map(u64::to_string).collect();
        let levels = if levels.is_empty() { "not told".into() } else { levels.join(" / ") };
        format!("{} records, {what}; bytes by level: {levels}", self.records)
    }
}

/// Refuses a directory on a disk with less than `wanted` bytes free.
#[cfg(unix)]
pub(super) fn check_free(dir: &Path, wanted: u64) -> Outcome<()> {
    let found = rustix::fs::statvfs(dir).map_err(std::io::Error::from)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free < wanted {
        let dir = dir.display();
        return Err(format!("{free} bytes are free below {dir}: expected {wanted}").into());
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn check_free(_dir: &Path, _wanted: u64) -> Outcome<()> {
    Ok(())
}

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
        let step = self.threads.max(1) as u64;
        let worker = |next| Filler {
            caller: Caller::new(self.engine, self.data, self.values),
            next,
            step,
            end: self.records,
        };
        (0..step).map(|t| Box::new(worker(t)) as Box<dyn Worker>).collect()
    }
}

struct Filler<'e> {
    caller: Caller<'e>,
    next: u64,
    step: u64,
    end: u64,
}

impl Worker for Filler<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        if self.next >= self.end {
            return Ok(false);
        }
        self.caller.put(self.next, 0, meter)?;
        self.next += self.step;
        Ok(true)
    }
}
