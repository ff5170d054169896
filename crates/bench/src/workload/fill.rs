//! A store filled with records before anything is measured: numbers from 0 up, each put once; and
//! gets of them.

use super::caller::Caller;
use super::{Case, DataOptions, Opened, Options, Values, random};
use crate::engine::{Engine, Outcome};
use crate::options::Pace;
use crate::run::{Crew, Meter, Worked, crew, work};
use std::path::Path;

/// Threads that fill a store before anything is measured.
const FILLERS: usize = 4;

/// A store that holds records `0..records`.
pub(super) struct FilledStore {
    pub(super) opened: Opened,
    pub(super) values: Values,
    /// The counts and the time of the puts.
    pub(super) worked: Worked,
    records: u64,
}

impl FilledStore {
    /// Opens an empty store, fills, flushes and compacts it.
    pub(super) fn compacted(case: &Case<'_>, records: u64) -> Outcome<Self> {
        let filled = Self::as_written(case, records)?;
        filled.opened.engine.flush()?;
        filled.opened.engine.compact()?;
        Ok(filled)
    }

    /// Opens an empty store and fills it. Returns it with the state it is in: compacted and each
    /// record read once, or as the puts left it.
    pub(super) fn ready(case: &Case<'_>) -> Outcome<(Self, String)> {
        let Options { records, as_written, .. } = *case.options;
        if as_written {
            let filled = Self::as_written(case, records)?;
            let state = filled.state("as they were written a moment ago");
            return Ok((filled, state));
        }
        let filled = Self::compacted(case, records)?;
        filled.records(&case.options.data).read_each(case.options.pace.threads)?;
        let state = filled.state("compacted, each read once");
        Ok((filled, state))
    }

    /// Opens an empty store and fills it.
    pub(super) fn as_written(case: &Case<'_>, records: u64) -> Outcome<Self> {
        let opened = case.stage.open_fresh(&case.options.store)?;
        let data = &case.options.data;
        // During a compaction most of the store exists twice.
        let bytes = records.saturating_mul(data.entry_bytes());
        check_free(&opened.place.data(), bytes.saturating_add(bytes / 2 * 3))?;
        let values = data.make_values();
        let puts = Records { engine: &*opened.engine, data, values: &values, records };
        let worked = work(&Pace::unwatched(FILLERS), puts.puts(FILLERS), &mut |_, _| Ok(()))?;
        Ok(Self { opened, values, worked, records })
    }

    /// Its records.
    pub(super) fn records<'e>(&'e self, data: &'e DataOptions) -> Records<'e> {
        let Self { opened, values, records, .. } = self;
        Records { engine: &*opened.engine, data, values, records: *records }
    }

    /// `123 records, compacted; bytes by level: 0 / 0 / 5000`.
    pub(super) fn state(&self, what: &str) -> String {
        state(&*self.opened.engine, self.records, what)
    }
}

/// The state of a store of `records`.
pub(super) fn state(engine: &dyn Engine, records: u64, what: &str) -> String {
    let levels: Vec<String> = engine.gauges().level_bytes.iter().map(u64::to_string).collect();
    let levels = if levels.is_empty() { "not told".into() } else { levels.join(" / ") };
    format!("{records} records, {what}; bytes by level: {levels}")
}

/// Refuses a directory on a disk with less than `wanted` bytes free.
pub(super) fn check_free(dir: &Path, wanted: u64) -> Outcome<()> {
    let found = rustix::fs::statvfs(dir).map_err(std::io::Error::from)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free < wanted {
        let dir = dir.display();
        return Err(format!("{free} bytes are free below {dir}: expected {wanted}").into());
    }
    Ok(())
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Keys that are there.
    Present,
    /// Keys that were never put.
    Absent,
}

/// Records `0..records`, to be put and got.
#[derive(Clone, Copy)]
pub(super) struct Records<'e> {
    pub(super) engine: &'e dyn Engine,
    pub(super) data: &'e DataOptions,
    pub(super) values: &'e Values,
    pub(super) records: u64,
}

/// Numbers from here on are never put.
const ABSENT: u64 = 1 << 50;

impl<'e> Records<'e> {
    fn caller(&self) -> Caller<'e> {
        Caller::new(self.engine, self.data, self.values)
    }

    /// Workers that call `call` with each number once.
    fn each_once(
        &self,
        threads: usize,
        call: impl Fn(&mut Caller<'e>, u64, &mut Meter<'_>) -> Outcome<()> + Copy + Send + 'e,
    ) -> Crew<'e> {
        let (records, step) = (self.records, threads as u64);
        crew(threads, |thread| {
            let (mut caller, mut next) = (self.caller(), thread);
            move |meter: &mut Meter<'_>| {
                if next >= records {
                    return Ok(false);
                }
                call(&mut caller, next, meter)?;
                next += step;
                Ok(true)
            }
        })
    }

    /// Workers that put each once, in no order of the keys.
    pub(super) fn puts(&self, threads: usize) -> Crew<'e> {
        self.each_once(threads, |caller, number, meter| caller.put(number, 0, meter))
    }

    /// Workers that get at random.
    pub(super) fn random_gets(&self, asked: Asked, threads: usize) -> Crew<'e> {
        let records = self.records;
        crew(threads, |thread| {
            let (mut caller, mut random) = (self.caller(), random(!self.data.seed, thread));
            move |meter: &mut Meter<'_>| {
                if asked == Asked::Present {
                    caller.get_present(random.below(records), meter)?;
                    return Ok(true);
                }
                let number = ABSENT + random.below(ABSENT);
                if caller.get(number, meter)? {
                    let text = format!("wrong answer: key {number} was never put and is found");
                    return Err(text.into());
                }
                Ok(true)
            }
        })
    }

    /// Reads each record once, so that the caches hold what they can: not by a scan, which engines
    /// may keep out of their caches.
    pub(super) fn read_each(&self, threads: usize) -> Outcome<()> {
        let gets = self.each_once(threads, Caller::get_present);
        work(&Pace::unwatched(threads), gets, &mut |_, _| Ok(()))?;
        Ok(())
    }
}
