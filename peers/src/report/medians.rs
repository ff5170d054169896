//! The medians of a cell's trials, by engine.

use flagstone_bench::record::{OpKind, Trial};
use flagstone_bench::stats::median;
use std::collections::BTreeMap;

/// One engine in one cell: medians over its rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    /// Its name, and variant.
    pub(crate) engine: String,
    /// Rounds.
    pub(crate) rounds: usize,
    /// Operations a second: for a full scan, entries.
    pub(crate) ops_per_s: f64,
    /// The least and the greatest of the rounds.
    pub(crate) range: (f64, f64),
    /// The worst second.
    pub(crate) worst: f64,
    /// The 99.9th percentile of scans, else of writes, else of gets: the first that the cell has. Of writes that
    /// of puts or of deletes, whichever is longer.
    pub(crate) p999_ms: f64,
    /// Which kind that is.
    pub(crate) kind: Option<OpKind>,
    /// The same of gets, where the cell has other operations, too.
    pub(crate) get_p999_ms: Option<f64>,
    /// The greatest resident memory.
    pub(crate) rss_bytes: f64,
    /// Bytes written over bytes put, where enough were put.
    pub(crate) write_amplification: Option<f64>,
    /// With the background work that was left when the clock stopped, where it was waited for.
    pub(crate) settled: Option<Settled>,
    /// What garbage took, where that is what the cell asks.
    pub(crate) space: Option<Space>,
    /// Bytes on disk towards the end.
    pub(crate) disk_bytes: f64,
    /// These over bytes put, where those were counted.
    pub(crate) disk_per_put: Option<f64>,
}

/// A cell with the background work that its operations left behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settled {
    /// How long that took.
    pub(crate) seconds: f64,
    /// Operations a second, with that time.
    pub(crate) ops_per_s: f64,
    /// Bytes written over bytes put, with those.
    pub(crate) write_amplification: f64,
}

/// Bytes without the log over those alive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Space {
    /// The mean of all seconds.
    pub(crate) mean: f64,
    /// The most in a second.
    pub(crate) max: f64,
    /// Seconds after the last write until it was 1.3, or until nobody looked any more.
    pub(crate) rest_s: f64,
    /// What it was then.
    pub(crate) rested: f64,
}

/// The cell of a trial: the folder that its result file is in.
pub(crate) fn cell_of(trial: &Trial) -> String {
    let folder = trial.path.parent().and_then(|folder| folder.file_name());
    folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// By cell, by engine.
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
    let kinds = [OpKind::Scan, OpKind::Put, OpKind::Get];
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
    // Bytes put of less than a second's worth tell nothing of writing.
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
        rss_bytes: of(&|trial| trial.summary.rss_max_bytes as f64),
        write_amplification: puts
            .then(|| of(&|trial| trial.summary.write_amplification.unwrap_or(f64::NAN))),
        disk_bytes: of(&|trial| trial.summary.disk_bytes as f64),
        disk_per_put: puts.then(|| {
            of(&|trial| trial.summary.disk_bytes as f64 / trial.summary.user_bytes as f64)
        }),
    }
}
