//! A store filled with records before anything is measured: numbers from 0 up, each put once; and
//! gets of them.

use super::caller::Caller;
use super::options::{DataOptions, Setup};
use super::{Opened, Random, Stage, Values};
use crate::engine::{Engine, Outcome};
use crate::options::Pace;
use crate::run::{Crew, Meter, Worked, Worker, crew, work};
use std::path::Path;

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
    pub(super) fn compacted(stage: &Stage<'_>, setup: &Setup, records: u64) -> Outcome<Self> {
        let filled = Self::as_written(stage, setup, records)?;
        filled.opened.engine.flush()?;
        filled.opened.engine.compact()?;
        Ok(filled)
    }

    /// Opens an empty store and fills it. Returns it with the state it is in: compacted and each
    /// record read once, or as the puts left it.
    pub(super) fn ready(
        stage: &Stage<'_>,
        setup: &Setup,
        records: u64,
        as_written: bool,
    ) -> Outcome<(Self, String)> {
        if as_written {
            let filled = Self::as_written(stage, setup, records)?;
            let state = filled.state("as they were written a moment ago");
            return Ok((filled, state));
        }
        let filled = Self::compacted(stage, setup, records)?;
        let threads = setup.pace.threads;
        filled.gets(&setup.data).read_each(threads)?;
        let state = filled.state("compacted, each read once");
        Ok((filled, state))
    }

    fn as_written(stage: &Stage<'_>, setup: &Setup, records: u64) -> Outcome<Self> {
        let opened = stage.open_fresh(&setup.store)?;
        // A compaction holds most of it twice.
        let bytes = records.saturating_mul(setup.data.entry_bytes());
        check_free(&opened.place.data(), bytes.saturating_add(bytes / 2 * 3))?;
        let (data, values) = (&setup.data, setup.data.make_values());
        let fill =
            Fill { engine: &*opened.engine, data, values: &values, records, threads: FILLERS };
        let worked = fill.run()?;
        Ok(Self { opened, values, worked, records })
    }

    /// Gets of its records.
    pub(super) fn gets<'e>(&'e self, data: &'e DataOptions) -> Gets<'e> {
        let Self { opened, values, records, .. } = self;
        Gets { engine: &*opened.engine, data, values, records: *records }
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

impl<'e> Fill<'e> {
    /// Puts them, by all threads, in no order of their keys.
    pub(super) fn run(&self) -> Outcome<Worked> {
        work(&Pace::unwatched(self.threads), self.workers(), &mut |_, _| Ok(()))
    }

    /// The workers that put them, one a thread.
    pub(super) fn workers(&self) -> Crew<'e> {
        let (fill, step) = (*self, self.threads.max(1) as u64);
        crew(self.threads.max(1), |next| Filler {
            caller: Caller::new(fill.engine, fill.data, fill.values),
            next,
            step,
            end: fill.records,
        })
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

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Keys that are there.
    Present,
    /// Keys that never were.
    Absent,
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
    pub(super) fn random(&self, asked: Asked, threads: usize) -> Crew<'e> {
        self.workers(threads, |thread| Choice::Random(asked, Random::new(!self.data.seed, thread)))
    }

    /// Reads each record once, so that the caches hold what they can: not by a scan, which engines
    /// may keep out of their caches.
    pub(super) fn read_each(&self, threads: usize) -> Outcome<()> {
        let each = |thread| Choice::Each { next: thread, step: threads as u64 };
        work(&Pace::unwatched(threads), self.workers(threads, each), &mut |_, _| Ok(()))?;
        Ok(())
    }

    fn workers(&self, threads: usize, choice: impl Fn(u64) -> Choice) -> Crew<'e> {
        crew(threads, |thread| Getter {
            caller: Caller::new(self.engine, self.data, self.values),
            records: self.records,
            choice: choice(thread),
        })
    }
}

enum Choice {
    Random(Asked, Random),
    Each { next: u64, step: u64 },
}

struct Getter<'e> {
    caller: Caller<'e>,
    records: u64,
    choice: Choice,
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
        if number < ABSENT {
            self.caller.get_present(number, meter)?;
        } else if self.caller.get(number, meter)? {
            let text = format!("wrong answer: key {number} was never put and is found");
            return Err(text.into());
        }
        Ok(true)
    }
}
