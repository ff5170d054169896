//! Runs one cell over one engine: in a process of its own, so that its memory is its own.

use super::list::{Cell, Scale, Work};
use flagstone::Durability;
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::{Described, Summary};
use flagstone_bench::run::{Length, Pace};
use flagstone_bench::workload::{
    Asked, DataOptions, DurableWriters, FullScanOptions, GetsOptions, LargerOptions, Mix,
    MixOptions, OverwriteOptions, ShortScanOptions, Stage, StoreOptions, ValueKind,
    run_durable_writers, run_full_scan, run_gets, run_larger, run_mix_as, run_overwrite,
    run_short_scan,
};
use std::path::Path;
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
    /// Operations from an empty store.
    Mix(MixOptions),
    /// Synced puts.
    Durable(DurableWriters),
    /// Gets in the caches.
    Gets(GetsOptions),
    /// Gets out of them, one size of blocks, one number of threads.
    Larger(LargerOptions),
    /// Scans and puts.
    ShortScan(ShortScanOptions),
    /// Scans of everything.
    FullScan(FullScanOptions),
    /// Garbage.
    Overwrite(OverwriteOptions),
}

/// Runs it.
///
/// # Errors
/// What the engine says; or a wrong value, or a count that cannot be.
pub(crate) fn run(trial: &Trial<'_>) -> Outcome<Summary> {
    let (stage, work) = (&trial.stage, trial.setup.cell.work);
    let out = |_: &str| stage.out.map(Path::to_owned);
    match trial.setup.plan() {
        Plan::Mix(options) => {
            let settles = matches!(work, Work::Mix { sustained: true, .. });
            run_mix_as(stage, &work.workload(), &options, |recorder, engine, _| {
                if settles {
                    recorder.settle(engine)?;
                }
                Ok(())
            })
        }
        Plan::Durable(what) => {
            let done = run_durable_writers(stage, &what, &out)?.pop();
            Ok(done.ok_or("no trial")?.1)
        }
        Plan::Larger(what) => Ok(run_larger(stage, &what, &out)?.pop().ok_or("no trial")?.summary),
        Plan::Gets(options) => run_gets(stage, &options),
        Plan::ShortScan(options) => run_short_scan(stage, &options),
        Plan::FullScan(options) => run_full_scan(stage, &options),
        Plan::Overwrite(options) => run_overwrite(stage, &options),
    }
}

impl Setup<'_> {
    /// The options that the header of a result file shows.
    pub(crate) fn describe(&self) -> Described {
        match self.plan() {
            Plan::Mix(options) => options.describe(),
            Plan::Durable(what) => what.base.describe(),
            Plan::Gets(options) => options.describe(),
            Plan::Larger(what) => what.describe(what.blocks[0], &self.pace()),
            Plan::ShortScan(options) => options.describe(),
            Plan::FullScan(options) => options.describe(),
            Plan::Overwrite(options) => options.describe(),
        }
    }

    fn plan(&self) -> Plan {
        let (store, pace, records) = (self.store(), self.pace(), self.scale.entries);
        let data = DataOptions { seed: self.seed, ..DataOptions::default() };
        let gets = |asked, values, records| {
            let (store, data) = (store.clone(), DataOptions { values, ..data.clone() });
            GetsOptions { store, data, pace, records, ..GetsOptions::new(asked) }
        };
        let scans = |records| ShortScanOptions {
            store: store.clone(),
            data: data.clone(),
            pace,
            records,
            ..ShortScanOptions::default()
        };
        let written = self.scale.written_entries;
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
                options.pace.length = Length::Operations(records);
                Plan::Mix(options)
            }
            Work::Durable => {
                let mut base = self.mix(Mix::PUTS);
                base.store.durability = Durability::Group;
                base.data.value_bytes = 128;
                Plan::Durable(DurableWriters { base, writers: vec![self.cell.threads] })
            }
            Work::CachedGet { values } => {
                Plan::Gets(gets(Asked::Present, values, self.scale.cached_entries))
            }
            Work::PagedGet => Plan::Gets(gets(Asked::Present, ValueKind::Random, records)),
            Work::AbsentGet => Plan::Gets(gets(Asked::Absent, ValueKind::Random, records)),
            Work::WrittenGet => {
                let behind = gets(Asked::Present, ValueKind::Random, written);
                Plan::Gets(GetsOptions { as_written: true, ..behind })
            }
            Work::ShortScans => Plan::ShortScan(scans(records)),
            Work::WrittenScans => {
                Plan::ShortScan(ShortScanOptions { as_written: true, ..scans(written) })
            }
            Work::FullScan => Plan::FullScan(FullScanOptions {
                store,
                data: DataOptions { value_bytes: 16, ..data },
                pace,
                records: self.scale.small_entries,
                ..FullScanOptions::default()
            }),
            Work::Overwrite { pattern } => Plan::Overwrite(OverwriteOptions {
                store,
                data,
                pace: Pace {
                    length: Length::Time(Duration::from_secs_f64(self.seconds * 3.0)),
                    ..pace
                },
                records: self.scale.overwritten_entries,
                pattern,
            }),
            Work::ColdGet { block_bytes } => Plan::Larger(LargerOptions {
                store: StoreOptions { direct_reads: true, ..store },
                data,
                pace,
                times: self.scale.cold_times as f64,
                blocks: vec![block_bytes],
                threads: vec![self.cell.threads],
                device_time: Duration::from_secs_f64(self.seconds.min(5.0)),
            }),
        }
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
