//! Runs one cell over one engine, in a process of its own, so that trials share no memory.

use super::list::{Cell, Scale, Work};
use flagstone::Durability;
use flagstone_bench::engine::Outcome;
use flagstone_bench::options::Routed;
use flagstone_bench::record::{Described, Summary};
use flagstone_bench::workload::{Case, Mix, Options, Stage, Workload, run_mix};
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
    /// The number of hash partitions, for engines that have them; if not set, ranges of keys that
    /// split.
    pub(crate) partitions: Option<u16>,
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

/// Runs the trial.
///
/// # Errors
/// Errors of the engine; a wrong value, or an impossible count.
pub(crate) fn run(trial: &Trial<'_>) -> Outcome<Summary> {
    let Trial { setup, stage } = trial;
    let (work, options) = (setup.cell.work, setup.options());
    let (mix, sustained) = match work {
        Work::Mix { mix, sustained } => (mix, sustained),
        Work::Fill => (Mix::PUTS, false),
        _ => return setup.workload()?.run(&options, *stage),
    };
    let name = work.workload();
    let case = Case { workload: &name, ..setup.workload()?.case(&options, *stage)? };
    run_mix(mix, &case, |recorder, engine, _| {
        if sustained {
            recorder.settle(engine)?;
        }
        Ok(())
    })
}

impl Setup<'_> {
    /// The workload of `flagstone-bench` whose options the cell has.
    fn workload(&self) -> Outcome<&'static Workload> {
        let name = match self.cell.work {
            Work::Mix { mix, .. } => mix.name.to_owned(),
            Work::Fill => Mix::PUT_HEAVY.name.to_owned(),
            work => work.workload(),
        };
        Ok(Workload::by_name(&name).ok_or_else(|| format!("no workload {name}"))?)
    }

    /// The options that the header of a result file shows.
    pub(crate) fn describe(&self) -> Described {
        self.workload().map(|workload| workload.describe(&self.options())).unwrap_or_default()
    }

    fn options(&self) -> Options {
        let mut options = Options { records: self.scale.entries, limit: 50, ..Options::default() };
        if let Some(partitions) = self.partitions {
            (options.store.routing, options.store.partitions) = (Routed::Hash, partitions);
        }
        options.store.memory_bytes = self.memory_bytes;
        options.data.seed = self.seed;
        options.pace.threads = self.cell.threads;
        let times = |factor: f64| Duration::from_secs_f64(self.seconds * factor);
        options.pace.seconds = times(1.0);
        match self.cell.work {
            Work::Mix { sustained: false, .. } | Work::PagedGet | Work::AbsentGet => {}
            Work::ShortScans(scans) => {
                (options.limit, options.distribution) = (scans.limit, scans.distribution);
                options.as_written = scans.written;
                if scans.written {
                    options.records = self.scale.written_entries;
                }
                if scans.small {
                    options.data.value_bytes = 100;
                    options.records *= 4;
                }
            }
            Work::YcsbE => options.data.value_bytes = 1000,
            Work::Mix { sustained: true, .. } => {
                options.pace.seconds = times(6.0);
                options.pace.closing_sync = true;
            }
            Work::Fill => options.pace.operations = Some(self.scale.entries),
            Work::Durable => {
                options.store.durability = Durability::Group;
                options.data.value_bytes = 128;
            }
            Work::CachedGet { values } => {
                options.data.values = values;
                options.records = self.scale.cached_entries;
            }
            Work::Transactions { isolation, distribution } => {
                (options.isolation, options.distribution) = (isolation, distribution);
                options.records = self.scale.cached_entries;
            }
            Work::WrittenGet => {
                options.as_written = true;
                options.records = self.scale.written_entries;
            }
            Work::FullScan => {
                (options.data.value_bytes, options.rounds) = (16, 3);
                options.records = self.scale.small_entries;
            }
            Work::Dequeue => {
                options.data.value_bytes = 100;
                options.records = self.scale.queued_entries;
            }
            Work::Overwrite { pattern } => {
                (options.pattern, options.pace.seconds) = (pattern, times(3.0));
                options.records = self.scale.overwritten_entries;
            }
            Work::Ask { question } => {
                options.documents.question = question;
                options.documents.comments = self.scale.comments;
            }
            Work::IndexWrite { indexes, replace } => {
                (options.documents.indexes, options.documents.replace) = (indexes, replace);
                options.documents.comments = self.scale.comments / 30;
            }
            Work::IndexBuild => options.documents.comments = self.scale.comments,
            Work::ColdGet { block_bytes } => {
                options.store.direct_reads = true;
                options.store.block_bytes = block_bytes;
                options.times = self.scale.cold_times as f64;
                options.device_seconds = Duration::from_secs_f64(self.seconds.min(5.0));
            }
        }
        options
    }
}
