//! The medians of a cell's trials, by engine.

use flagstone_bench::record::{OpKind, Trial};
use flagstone_bench::stats::median;
use std::collections::BTreeMap;

/// The figure of the tries of a transaction after the first.
const RETRIES: &str = "retries_per_transaction";

/// The medians of one engine in one cell, over its rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    /// The name of the engine, with its variant.
    pub(crate) engine: String,
    /// The number of rounds.
    pub(crate) rounds: usize,
    /// Operations a second; for a full scan, entries a second.
    pub(crate) ops_per_s: f64,
    /// The least and the greatest rate of the rounds.
    pub(crate) range: (f64, f64),
    /// The rate in the worst second.
    pub(crate) worst: f64,
    /// The 99.9th percentile of scans, transactions, writes or gets: the first that the cell has.
    /// For writes, that of puts or of deletes, whichever is longer.
    pub(crate) p999_ms: f64,
    /// The kind of operation that `p999_ms` is of.
    pub(crate) kind: Option<OpKind>,
    /// The 99.9th percentile of gets, where the cell has other operations, too.
    pub(crate) get_p999_ms: Option<f64>,
    /// The peak of resident memory.
    pub(crate) rss_bytes: f64,
    /// Bytes written per byte put, where enough were put.
    pub(crate) write_amplification: Option<f64>,
    /// The figures with the background work that was left when the clock stopped, where the trial
    /// waited for it.
    pub(crate) settled: Option<Settled>,
    /// The space of garbage, where the cell measures that.
    pub(crate) space: Option<Space>,
    /// The bytes on disk near the end.
    pub(crate) disk_bytes: f64,
    /// Bytes on disk per byte put, where those were counted.
    pub(crate) disk_per_put: Option<f64>,
    /// The tries of a transaction after the first, on average, where the cell has transactions.
    pub(crate) retries: Option<f64>,
}

/// The figures of a cell with the background work that its operations left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settled {
    /// The seconds that this work took.
    pub(crate) seconds: f64,
    /// Operations a second, counting that time.
    pub(crate) ops_per_s: f64,
    /// Bytes written per byte put, counting those.
    pub(crate) write_amplification: f64,
}

/// Bytes on disk without the log, per byte alive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Space {
    /// The mean of all seconds.
    pub(crate) mean: f64,
    /// The largest value of any second.
    pub(crate) max: f64,
    /// Seconds from the last write until the value was 1.3, or until the trial ended.
    pub(crate) rest_s: f64,
    /// The value at that time.
    pub(crate) rested: f64,
}

/// Returns the cell of a trial: the name of the folder of its result file.
pub(crate) fn cell_of(trial: &Trial) -> String {
    let folder = trial.path.parent().and_then(|folder| folder.file_name());
    folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Groups trials by cell and engine.
pub(crate) fn by_cell(trials: &[Trial]) -> BTreeMap<String, Vec<Measured>> {
    let mut cells: BTreeMap<String, BTreeMap<&str, Vec<&Trial>>> = BTreeMap::new();
    for trial in trials {
        let engines = cells.entry(cell_of(trial)).or_default();
        engines.entry(&trial.header.engine).or_default().push(trial);
    }
    let measured = |engines: BTreeMap<&str, Vec<&Trial>>| {
        engines.into_iter().map(|(engine, trials)| measure(engine, &trials)).collect()
    };
    cells.into_iter().map(|(cell, engines)| (cell, measured(engines))).collect()
}

fn measure(engine: &str, trials: &[&Trial]) -> Measured {
    let of = |value: &dyn Fn(&Trial) -> f64| {
        let values: Vec<f64> = trials.iter().map(|trial| value(trial)).collect();
        median(values.iter().copied()).unwrap_or(f64::NAN)
    };
    let rates = trials.iter().map(|trial| trial.summary.ops_per_s);
    let first = trials.first().map(|trial| &trial.summary.latency);
    let kinds = [OpKind::Scan, OpKind::Transaction, OpKind::Put, OpKind::Get];
    let kind = kinds.into_iter().find(|kind| first.is_some_and(|kinds| kinds.contains_key(kind)));
    let p999 = |trial: &Trial| {
        let of = |kind| trial.summary.latency.get(&kind).map(|latency| latency.p999 / 1000.0);
        let deletes = of(OpKind::Delete).filter(|_| kind == Some(OpKind::Put));
        kind.and_then(of).map_or(f64::NAN, |first| deletes.map_or(first, |also| first.max(also)))
    };
    let figure = |trial: &Trial, name: &str| trial.summary.figures.get(name).copied();
    let is_space = trials.iter().all(|trial| figure(trial, "space_mean").is_some());
    let is_settled = trials.iter().all(|trial| figure(trial, "settle_s").is_some());
    let all_of = |name: &'static str| of(&move |trial| figure(trial, name).unwrap_or(f64::NAN));
    let gets = |trial: &Trial| trial.summary.latency.get(&OpKind::Get).map(|get| get.p999 / 1000.0);
    let has_gets = kind != Some(OpKind::Get) && trials.iter().all(|trial| gets(trial).is_some());
    // Less than a second's worth of puts tells nothing about writing.
    let puts = trials.iter().all(|trial| trial.summary.write_amplification.is_some());
    Measured {
        engine: engine.to_owned(),
        rounds: trials.len(),
        ops_per_s: of(&|trial| trial.summary.ops_per_s),
        range: (rates.clone().fold(f64::MAX, f64::min), rates.fold(0.0, f64::max)),
        worst: of(&|trial| trial.summary.row_worst),
        p999_ms: of(&p999),
        kind,
        get_p999_ms: has_gets.then(|| of(&|trial| gets(trial).unwrap_or(f64::NAN))),
        settled: is_settled.then(|| Settled {
            seconds: all_of("settle_s"),
            ops_per_s: of(&|trial| {
                let summary = &trial.summary;
                summary.ops as f64 / (summary.seconds + figure(trial, "settle_s").unwrap_or(0.0))
            }),
            write_amplification: all_of("write_amplification_settled"),
        }),
        space: is_space.then(|| Space {
            mean: all_of("space_mean"),
            max: all_of("space_max"),
            rest_s: all_of("rest_s"),
            rested: all_of("space_rested"),
        }),
        retries: trials
            .iter()
            .all(|trial| figure(trial, RETRIES).is_some())
            .then(|| all_of(RETRIES)),
        rss_bytes: of(&|trial| trial.summary.rss_max_bytes as f64),
        write_amplification: puts
            .then(|| of(&|trial| trial.summary.write_amplification.unwrap_or(f64::NAN))),
        disk_bytes: of(&|trial| trial.summary.disk_bytes as f64),
        disk_per_put: puts.then(|| {
            of(&|trial| trial.summary.disk_bytes as f64 / trial.summary.user_bytes as f64)
        }),
    }
}
