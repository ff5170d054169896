//! Runs one cell over one engine, in a process of its own, so that trials share no memory.

use super::list::{Cell, Scale, Work};
use flagstone::Durability;
use flagstone_bench::engine::Outcome;
use flagstone_bench::options::{Length, Pace, StoreOptions};
use flagstone_bench::record::{Described, Summary};
use flagstone_bench::workload::{
    Asked, DataOptions, DurableWriters, FullScanOptions, GetsOptions, LargerOptions, Mix,
    MixOptions, OverwriteOptions, Setup as Options, ShortScanOptions, Stage, ValueKind, Workload,
};
use std::path::Path;
use std::time::Duration;

/// A cell with its options.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// The cell to run.
    pub(crate) cell: &'a Cell,
    /// The seconds to measure.
    pub(crate) seconds: f64,
    /// The bytes of memory for memtables and caches.
    pub(crate) memory_bytes: u64,
    /// The sizes of filled stores.
    pub(crate) scale: Scale,
    /// The number of hash partitions, for engines that have them.
    pub(crate) partitions: u16,
    /// The seed of keys and values.
    pub(crate) seed: u64,
}

/// The trial of one cell over one engine.
pub(crate) struct Trial<'a> {
    /// The cell with its options.
    pub(crate) setup: Setup<'a>,
    /// The engine, the directory of its store, and the result file.
    pub(crate) stage: Stage<'a>,
}

/// The workload of a trial, of crate `bench`.
enum Plan {
    /// A mix of operations from an empty store.
    Mix(MixOptions),
    /// Synced puts.
    Durable(DurableWriters),
    /// Gets from the caches.
    Gets(GetsOptions),
    /// Gets beyond the caches, for one block size and one number of threads.
    Larger(LargerOptions),
    /// Scans and puts.
    ShortScan(ShortScanOptions),
    /// Scans of whole stores.
    FullScan(FullScanOptions),
    /// Overwrites and queues, which leave garbage.
    Overwrite(OverwriteOptions),
}

/// Runs the trial.
///
/// # Errors
/// Errors of the engine; a wrong value, or an impossible count.
pub(crate) fn run(trial: &Trial<'_>) -> Outcome<Summary> {
    let (stage, work) = (&trial.stage, trial.setup.cell.work);
    let out = |_: &str| stage.out.map(Path::to_owned);
    match trial.setup.plan() {
        Plan::Mix(options) => {
            let settles = matches!(work, Work::Mix { sustained: true, .. });
            options.run_as(stage, &work.workload(), |recorder, engine, _| {
                if settles {
                    recorder.settle(engine)?;
                }
                Ok(())
            })
        }
        Plan::Durable(what) => Ok(what.run(stage, &out)?.pop().ok_or("no trial")?.1),
        Plan::Larger(what) => Ok(what.run(stage, &out)?.pop().ok_or("no trial")?.summary),
        Plan::Gets(options) => options.run(stage),
        Plan::ShortScan(options) => options.run(stage),
        Plan::FullScan(options) => options.run(stage),
        Plan::Overwrite(options) => options.run(stage),
    }
}

impl Setup<'_> {
    /// Returns the options for the header of a result file.
    pub(crate) fn describe(&self) -> Described {
        match self.plan() {
            Plan::Mix(options) => options.describe(),
            Plan::Durable(what) => what.base.describe(),
            Plan::Gets(options) => options.describe(),
            Plan::Larger(what) => what.describe(what.blocks[0], self.cell.threads),
            Plan::ShortScan(options) => options.describe(),
            Plan::FullScan(options) => options.describe(),
            Plan::Overwrite(options) => options.describe(),
        }
    }

    fn plan(&self) -> Plan {
        let (setup, records) = (self.options(), self.scale.entries);
        let gets = |asked, values, records| {
            let mut setup = setup.clone();
            setup.data.values = values;
            GetsOptions { asked, setup, records, as_written: false }
        };
        let scans = |records, as_written| ShortScanOptions {
            setup: setup.clone(),
            records,
            limit: 50,
            as_written,
        };
        let written = self.scale.written_entries;
        let times = |factor: f64| Length::Time(Duration::from_secs_f64(self.seconds * factor));
        match self.cell.work {
            Work::Mix { mix, sustained } => {
                let mut options = self.mix(mix);
                if sustained {
                    options.setup.pace.length = times(6.0);
                    options.setup.pace.closing_sync = true;
                }
                Plan::Mix(options)
            }
            Work::Fill => {
                let mut options = self.mix(Mix::PUTS);
                options.setup.pace.length = Length::Operations(records);
                Plan::Mix(options)
            }
            Work::Durable => {
                let mut base = self.mix(Mix::PUTS);
                base.setup.store.durability = Durability::Group;
                base.setup.data.value_bytes = 128;
                Plan::Durable(DurableWriters { base, writers: vec![self.cell.threads] })
            }
            Work::CachedGet { values } => {
                Plan::Gets(gets(Asked::Present, values, self.scale.cached_entries))
            }
            Work::PagedGet => Plan::Gets(gets(Asked::Present, ValueKind::Random, records)),
            Work::AbsentGet => Plan::Gets(gets(Asked::Absent, ValueKind::Random, records)),
            Work::WrittenGet => {
                let after = gets(Asked::Present, ValueKind::Random, written);
                Plan::Gets(GetsOptions { as_written: true, ..after })
            }
            Work::ShortScans => Plan::ShortScan(scans(records, false)),
            Work::WrittenScans => Plan::ShortScan(scans(written, true)),
            Work::FullScan => {
                let mut setup = setup;
                setup.data.value_bytes = 16;
                let records = self.scale.small_entries;
                Plan::FullScan(FullScanOptions { setup, records, rounds: 3 })
            }
            Work::Overwrite { pattern } => {
                let mut setup = setup;
                setup.pace.length = times(3.0);
                let records = self.scale.overwritten_entries;
                Plan::Overwrite(OverwriteOptions { setup, records, pattern })
            }
            Work::ColdGet { block_bytes } => {
                let mut setup = setup;
                setup.store.direct_reads = true;
                Plan::Larger(LargerOptions {
                    setup,
                    times: self.scale.cold_times as f64,
                    blocks: vec![block_bytes.unwrap_or(0)],
                    threads: vec![self.cell.threads],
                    device_seconds: Duration::from_secs_f64(self.seconds.min(5.0)),
                })
            }
        }
    }

    fn options(&self) -> Options {
        let store = StoreOptions {
            partitions: self.partitions,
            memory_bytes: self.memory_bytes,
            ..StoreOptions::default()
        };
        let data = DataOptions { seed: self.seed, ..DataOptions::default() };
        let length = Length::Time(Duration::from_secs_f64(self.seconds));
        let pace = Pace { threads: self.cell.threads, length, ..Pace::default() };
        Options { store, data, pace }
    }

    fn mix(&self, mix: Mix) -> MixOptions {
        MixOptions { setup: self.options(), ..MixOptions::new(mix) }
    }
}
