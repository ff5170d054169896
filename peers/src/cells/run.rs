//! Runs one cell over one engine: in a process of its own, so that its memory is its own.

use super::cold::PageCacheGuard;
use super::filled::{Filled, fill};
use super::list::{Cell, Scale, Work};
use flagstone::Durability;
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::Summary;
use flagstone_bench::run::{Length, Pace, Probe};
use flagstone_bench::workload::{DataOptions, Mix, MixOptions, Stage, StoreOptions, run_mix};
use std::time::Duration;

/// One cell over one engine.
pub(crate) struct Trial<'a> {
    /// The cell.
    pub(crate) cell: &'a Cell,
    /// Engine, directory, result file.
    pub(crate) stage: Stage<'a>,
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

/// Runs it.
///
/// # Errors
/// What the engine says; or a wrong value, or a count that cannot be.
pub(crate) fn run(trial: &Trial<'_>) -> Outcome<Summary> {
    match trial.cell.work {
        Work::Mix { mix, sustained } => {
            let mut options = trial.mix(mix);
            if sustained {
                options.pace.length = Length::Time(Duration::from_secs_f64(trial.seconds * 6.0));
                options.pace.closing_sync = true;
            }
            run_mix(&trial.stage, &options)
        }
        Work::Fill => {
            let mut options = trial.mix(Mix::PUTS);
            options.pace.length = Length::Operations(trial.scale.entries);
            run_mix(&trial.stage, &options)
        }
        Work::Durable => {
            let mut options = trial.mix(Mix::PUTS);
            options.store.durability = Durability::Group;
            options.data.value_bytes = 128;
            run_mix(&trial.stage, &options)
        }
        Work::CachedGet | Work::AbsentGet | Work::ShortScans => {
            trial.over_filled(trial.scale.entries, 1024)
        }
        Work::FullScan => trial.over_filled(trial.scale.small_entries, 16),
        Work::ColdGet => {
            trial.over_filled(trial.memory_bytes * trial.scale.cold_times / 1040, 1024)
        }
    }
}

impl Trial<'_> {
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

    /// Fills a store, flushes and compacts it, and lets the cell's workers work on it. Filling
    /// belongs neither to the time nor to the operations.
    fn over_filled(&self, entries: u64, value_bytes: usize) -> Outcome<Summary> {
        let data = DataOptions {
            key_space: entries,
            value_bytes,
            seed: self.seed,
            ..DataOptions::default()
        };
        let (store, pace, values) = (self.store(), self.pace(), data.make_values());
        let opened = self.stage.open_fresh(&store)?;
        let engine = &*opened.engine;
        let filled = Filled::new(engine, data.keys(), &values, self.cell.work);
        let filled_in = fill(&filled)?;
        engine.flush()?;
        engine.compact()?;

        let mut options = std::collections::BTreeMap::new();
        store.describe(&mut options);
        data.describe(&mut options);
        pace.describe(&mut options);
        options.insert("entries".into(), entries.into());
        let state = format!("{entries} entries of {value_bytes} bytes, flushed and compacted");
        let mut recorder = self.stage.record(&self.cell.name, &opened, &options, &state)?;
        let cold = self.cell.work == Work::ColdGet;
        let guard = cold.then(|| PageCacheGuard::start(opened.place.data())).transpose()?;
        if !cold && self.cell.work != Work::FullScan {
            // Every page once, so that the first seconds do not measure the device.
            recorder.aside("warm", &Probe::NONE, |_| filled.read_all())?;
        }
        recorder.run(engine, &pace, filled.workers(self.cell.threads, self.seed))?;
        drop(guard);
        recorder.figure("fill_s", filled_in.as_secs_f64());
        self.stage.close(opened, &mut recorder)?;
        recorder.finish()
    }
}
