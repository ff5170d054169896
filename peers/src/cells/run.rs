//! Runs one cell over one engine: in a process of its own, so that its memory is its own.

use super::cold::PageCacheGuard;
use super::filled::{Filled, fill};
use super::list::{Cell, Scale, Work};
use flagstone::Durability;
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::{Described, Summary};
use flagstone_bench::run::{Length, Pace, Probe};
use flagstone_bench::workload::{DataOptions, Mix, MixOptions, Stage, StoreOptions, run_mix_as};
use std::time::Duration;

/// A cell and how it is run.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// The cell.
    pub(crate) cell: &'a Cell,
    /// Seconds measured.
    pub(crate) seconds: f64,
    /// Bytes of memtables and caches.
    pub(crate) memory_bytes: u64,
    /// Entries of filled stores.
    pub(crate) scale: Scale,
    /// Hash partitions, for engines that have them.
    pub(crate) partitions: u16,
    /// Seed of keys and values.
    pub(crate) seed: u64,
}

/// One cell over one engine.
pub(crate) struct Trial<'a> {
    /// The cell and how it is run.
    pub(crate) setup: Setup<'a>,
    /// Engine, directory, result file.
    pub(crate) stage: Stage<'a>,
}

/// What a cell runs.
enum Plan {
    /// A mix from an empty store.
    Mix(MixOptions),
    /// Workers over a store with these entries.
    Filled(StoreOptions, DataOptions, Pace),
}

/// Runs it, a workload of the name of the cell.
///
/// # Errors
/// What the engine says; or a wrong value, or a count that cannot be.
pub(crate) fn run(trial: &Trial<'_>) -> Outcome<Summary> {
    let cell = trial.setup.cell;
    match trial.setup.plan() {
        Plan::Mix(options) => {
            let settles = matches!(cell.work, Work::Mix { sustained: true, .. });
            run_mix_as(&trial.stage, &cell.name, &options, |recorder, engine, _| {
                if settles {
                    recorder.settle(engine)?;
                }
                Ok(())
            })
        }
        Plan::Filled(store, data, pace) => trial.over_filled(&store, &data, &pace),
    }
}

impl Setup<'_> {
    /// The options that the header of a result file shows.
    pub(crate) fn describe(&self) -> Described {
        match self.plan() {
            Plan::Mix(options) => options.describe(),
            Plan::Filled(store, data, pace) => {
                let mut options = Described::new();
                store.describe(&mut options);
                data.describe(&mut options);
                pace.describe(&mut options);
                options.insert("entries".into(), data.key_space.into());
                options
            }
        }
    }

    fn plan(&self) -> Plan {
        match self.cell.work {
            Work::Mix { mix, sustained } => {
                let mut options = self.mix(mix);
                if sustained {
                    options.pace.length = Length::Time(Duration::from_secs_f64(self.seconds * 6.0));
                    options.pace.closing_sync = true;
                }
                Plan::Mix(options)
            }
            Work::Fill => {
                let mut options = self.mix(Mix::PUTS);
                options.pace.length = Length::Operations(self.scale.entries);
                Plan::Mix(options)
            }
            Work::Durable => {
                let mut options = self.mix(Mix::PUTS);
                options.store.durability = Durability::Group;
                options.data.value_bytes = 128;
                Plan::Mix(options)
            }
            Work::CachedGet | Work::AbsentGet | Work::ShortScans => {
                self.filled(self.scale.entries, 1024)
            }
            Work::FullScan => self.filled(self.scale.small_entries, 16),
            Work::ColdGet => self.filled(self.memory_bytes * self.scale.cold_times / 1040, 1024),
        }
    }

    fn filled(&self, entries: u64, value_bytes: usize) -> Plan {
        let data = DataOptions {
            key_space: entries,
            value_bytes,
            seed: self.seed,
            ..DataOptions::default()
        };
        Plan::Filled(self.store(), data, self.pace())
    }

    fn store(&self) -> StoreOptions {
        StoreOptions {
            partitions: self.partitions,
            memory_bytes: self.memory_bytes,
            ..StoreOptions::default()
        }
    }

    fn pace(&self) -> Pace {
        Pace {
            threads: self.cell.threads,
            length: Length::Time(Duration::from_secs_f64(self.seconds)),
            ..Pace::default()
        }
    }

    fn mix(&self, mix: Mix) -> MixOptions {
        let data = DataOptions { seed: self.seed, ..DataOptions::default() };
        MixOptions { store: self.store(), pace: self.pace(), data, ..MixOptions::new(mix) }
    }
}

impl Trial<'_> {
    /// Fills a store, flushes and compacts it, and lets the cell's workers work on it. Filling
    /// belongs neither to the time nor to the operations.
    fn over_filled(
        &self,
        store: &StoreOptions,
        data: &DataOptions,
        pace: &Pace,
    ) -> Outcome<Summary> {
        let (cell, values) = (self.setup.cell, data.make_values());
        let opened = self.stage.open_fresh(store)?;
        let engine = &*opened.engine;
        let filled = Filled::new(engine, data.keys(), &values, cell.work);
        let filled_in = fill(&filled)?;
        engine.flush()?;
        engine.compact()?;

        let (entries, bytes) = (data.key_space, data.value_bytes);
        let state = format!("{entries} entries of {bytes} bytes, flushed and compacted");
        let options = self.setup.describe();
        let mut recorder = self.stage.record(&cell.name, &opened, &options, &state)?;
        let cold = cell.work == Work::ColdGet;
        let guard = cold.then(|| PageCacheGuard::start(opened.place.data())).transpose()?;
        if !cold && cell.work != Work::FullScan {
            // Every entry once, so that the first seconds do not measure the device.
            recorder.aside("warm", &Probe::NONE, |_| filled.get_all())?;
        }
        recorder.run(engine, pace, filled.workers(cell.threads, self.setup.seed))?;
        drop(guard);
        recorder.figure("fill_s", filled_in.as_secs_f64());
        self.stage.close(opened, &mut recorder)?;
        recorder.finish()
    }
}
