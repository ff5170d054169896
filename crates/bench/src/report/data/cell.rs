//! Cells: groups of trials that repeat each other, and the choice of those that a figure compares.

use crate::record::{Latency, OpKind, Summary, Trial};
use crate::report::chart::Unit;
use crate::stats::median;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The mixes of keys and values, in the order of a report.
const MIXES: [&str; 4] = ["put-heavy", "balanced", "delete-heavy", "get-heavy"];

/// Options that do not change the work of a trial: its input, or the number of the repetition.
const WHERE: [&str; 4] = ["seed", "input", "keys", "rounds"];

/// The option in which an engine describes itself: too long for a table.
pub(crate) const TUNING: &str = "tuning";

/// Options that are the axes of figures.
const AXES: [&str; 5] = ["partitions", "threads", "readers", "parsers", "writers"];

/// The threads of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lanes {
    pub(crate) threads: u64,
    /// The readers and parsers of a load.
    pub(crate) load: Option<(u64, u64)>,
}

impl Lanes {
    /// `8 threads`, `1 + 4 readers + parsers`.
    pub(crate) fn told(&self) -> String {
        match self.load {
            Some(_) => format!("{self} readers + parsers"),
            None => plural(self.threads, "thread"),
        }
    }
}

impl std::fmt::Display for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.load {
            Some((readers, parsers)) => write!(f, "{readers} + {parsers}"),
            None => write!(f, "{}", self.threads),
        }
    }
}

/// Trials of one engine, workload, number of partitions and threads: repetitions of each other.
#[derive(Clone, Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) engine: &'a str,
    pub(crate) workload: String,
    pub(crate) partitions: u64,
    pub(crate) lanes: Lanes,
    /// Not empty.
    pub(crate) trials: Vec<&'a Trial>,
}

impl<'a> Cell<'a> {
    /// The median of a figure of the trials.
    pub(crate) fn median(&self, of: impl Fn(&Summary) -> f64) -> f64 {
        median(self.trials.iter().map(|trial| of(&trial.summary))).unwrap_or(0.0)
    }

    pub(crate) fn rate(&self) -> f64 {
        self.median(|summary| summary.ops_per_s)
    }

    /// The lowest and the highest rate, if there are several.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        spread(&self.trials)
    }

    /// The trial whose rate is nearest to the median.
    pub(crate) fn middle(&self) -> &'a Trial {
        let middle = self.rate();
        let off = |trial: &Trial| (trial.summary.ops_per_s - middle).abs();
        let nearest = |a: &'a Trial, b: &'a Trial| if off(b) < off(a) { b } else { a };
        self.trials[1..].iter().fold(self.trials[0], |a, b| nearest(a, b))
    }

    /// Latencies of a kind, each the median over the trials.
    pub(crate) fn latency(&self, kind: OpKind) -> Option<Latency> {
        let all: Vec<_> =
            self.trials.iter().filter_map(|trial| trial.summary.latency.get(&kind)).collect();
        let of = |part: fn(&Latency) -> f64| median(all.iter().map(|latency| part(latency)));
        Some(Latency {
            count: of(|l| l.count as f64)? as u64,
            mean: of(|l| l.mean)?,
            p50: of(|l| l.p50)?,
            p99: of(|l| l.p99)?,
            p999: of(|l| l.p999)?,
            max: of(|l| l.max)?,
        })
    }

    /// `16 partitions, 8 threads`.
    pub(crate) fn place(&self) -> String {
        format!("{}, {}", plural(self.partitions, "partition"), self.lanes.told())
    }
}

/// The lowest and the highest rate, if there are several.
pub(crate) fn spread(trials: &[&Trial]) -> Option<(f64, f64)> {
    let rates = || trials.iter().map(|trial| trial.summary.ops_per_s);
    let low = rates().fold(f64::INFINITY, f64::min);
    (trials.len() > 1).then(|| (low, rates().fold(0.0, f64::max)))
}

/// `1 thread`, `2 threads`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Cells that can be compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells<'a> {
    /// By workload, partitions and threads.
    pub(crate) cells: Vec<Cell<'a>>,
    /// Trials with other options, or at other commits.
    pub(crate) left_out: usize,
}

/// Groups trials into cells. For each engine and workload this keeps the trials with the most
/// frequent combination of other options (in a tie, the newest), and in each cell those at the
/// commit of the newest trial.
pub(crate) fn cells<'a>(trials: impl Iterator<Item = &'a Trial>) -> Cells<'a> {
    let mut kinds: BTreeMap<(usize, String, &str), BTreeMap<String, Vec<&Trial>>> = BTreeMap::new();
    let mut count = 0;
    for trial in trials {
        let name = name(trial);
        let key = (mix_order(&name), name, trial.header.engine.as_str());
        kinds.entry(key).or_default().entry(variant(trial)).or_default().push(trial);
        count += 1;
    }
    let mut out = Vec::new();
    for ((_, workload, engine), variants) in kinds {
        let newest = |trials: &[&Trial]| trials.iter().map(|t| t.header.started.clone()).max();
        let usual = variants.into_values().max_by_key(|trials| (trials.len(), newest(trials)));
        let mut found: BTreeMap<(u64, Lanes), Vec<&Trial>> = BTreeMap::new();
        for trial in usual.unwrap_or_default() {
            let partitions = trial.number("partitions").unwrap_or(1);
            found.entry((partitions, lanes(trial))).or_default().push(trial);
        }
        for ((partitions, lanes), mut trials) in found {
            let newest = trials.iter().max_by_key(|trial| &trial.header.started);
            let commit = newest.map(|trial| trial.header.commit.as_str()).unwrap_or_default();
            trials.retain(|trial| trial.header.commit == commit);
            out.push(Cell { engine, workload: workload.clone(), partitions, lanes, trials });
        }
    }
    let kept: usize = out.iter().map(|cell| cell.trials.len()).sum();
    Cells { cells: out, left_out: count - kept }
}

/// The position of a workload among the mixes; after them if it is none.
pub(crate) fn mix_order(workload: &str) -> usize {
    MIXES.iter().position(|mix| *mix == workload).unwrap_or(MIXES.len())
}

/// flagstone first, the no-op store last, others by name.
pub(crate) fn engine_order(engine: &str) -> (u8, &str) {
    let rank = match engine {
        "flagstone" => 0,
        "noop" => 2,
        _ => 1,
    };
    (rank, engine)
}

pub(crate) fn is_mix(workload: &str) -> bool {
    MIXES.contains(&workload)
}

/// Options that a workload compares, by the beginning of its name.
const COMPARED: [(&str, &str); 3] =
    [("durab", "durability"), ("larger", "block-bytes"), ("sizes", "size")];

/// `4 KiB`, `1.5 GB`.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1024) => format!("{} KiB", bytes / 1024),
        bytes => Unit::Bytes.show(bytes as f64),
    }
}

/// The workload, and the options that tell it from others of that name.
pub(crate) fn name(trial: &Trial) -> String {
    let mut name = trial.header.workload.clone();
    let compared = COMPARED.iter().find(|(start, _)| name.starts_with(start));
    let options = ["how"].into_iter().chain(compared.map(|(_, option)| *option));
    let details: Vec<String> = options
        .filter_map(|option| match trial.header.options.get(option)? {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(bytes) => Some(size(bytes.as_u64()?)),
            _ => None,
        })
        .collect();
    if !details.is_empty() {
        name = format!("{name} ({})", details.join(", "));
    }
    name
}

/// The options that are no axis of a figure: the same in all trials of a cell.
pub(crate) fn variant(trial: &Trial) -> String {
    let kept = trial.header.options.iter().filter(|(name, _)| {
        let name = name.as_str();
        !AXES.contains(&name) && !WHERE.contains(&name) && name != TUNING
    });
    kept.map(|(name, value)| format!("{name}={value};")).collect()
}

fn lanes(trial: &Trial) -> Lanes {
    let load = trial.number("readers").zip(trial.number("parsers"));
    let sum = load.map(|(readers, parsers)| readers + parsers);
    Lanes { threads: trial.number("threads").or(sum).unwrap_or(1), load }
}

/// The names of options whose values differ among `trials`, as headers have them.
pub(crate) fn options_that_vary(trials: &[&Trial]) -> Vec<String> {
    let names: BTreeSet<&String> =
        trials.iter().flat_map(|trial| trial.header.options.keys()).collect();
    let order = |name: &str| AXES.iter().position(|axis| *axis == name).unwrap_or(AXES.len());
    let mut names: Vec<String> = names
        .into_iter()
        .filter(|name| !WHERE.contains(&name.as_str()) && *name != TUNING)
        .filter(|name| {
            let value = |trial: &Trial| trial.header.options.get(*name).cloned();
            trials.iter().any(|trial| value(trial) != value(trials[0]))
        })
        .cloned()
        .collect();
    names.sort_by_key(|name| order(name));
    names
}

/// An option of a trial, for people.
pub(crate) fn shown(trial: &Trial, option: &str) -> String {
    match trial.header.options.get(option) {
        Some(Value::Null) | None => "\u{2013}".to_owned(),
        Some(value) => crate::record::shown(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(partitions: u64, seed: u64, durability: &str, rate: f64) -> Trial {
        let mut trial = Trial::default();
        trial.summary.ops_per_s = rate;
        trial.header.workload = "balanced".to_owned();
        let options = &mut trial.header.options;
        options.insert("partitions".to_owned(), partitions.into());
        options.insert("seed".to_owned(), seed.into());
        options.insert("durability".to_owned(), durability.into());
        trial
    }

    #[test]
    fn repetitions_make_one_cell_with_its_median_and_spread() {
        let trials =
            [trial(1, 1, "none", 10.0), trial(1, 2, "none", 40.0), trial(1, 3, "none", 20.0)];
        let found = cells(trials.iter());
        assert_eq!((found.cells.len(), found.left_out), (1, 0));
        let cell = &found.cells[0];
        assert_eq!((cell.rate(), cell.spread()), (20.0, Some((10.0, 40.0))));
        assert_eq!(cell.middle().summary.ops_per_s, 20.0);
    }

    #[test]
    fn trials_with_unusual_options_are_not_mixed_in() {
        let trials =
            [trial(1, 1, "none", 10.0), trial(4, 1, "none", 20.0), trial(1, 1, "each", 1.0)];
        let found = cells(trials.iter());
        assert_eq!((found.cells.len(), found.left_out), (2, 1));
        assert!(found.cells.iter().all(|cell| cell.rate() >= 10.0));
        let all: Vec<_> = trials.iter().collect();
        assert_eq!(options_that_vary(&all), ["partitions", "durability"]);
    }

    #[test]
    fn mixes_of_peers_are_mixes_and_sustained_ones_stand_by_themselves() {
        let of = |engine: &str, workload: &str, threads: u64| {
            let mut trial = trial(4, 1, "buffered", 10.0);
            trial.header.engine = engine.to_owned();
            trial.header.workload = workload.to_owned();
            trial.header.options.insert("threads".to_owned(), threads.into());
            trial
        };
        let mut trials = Vec::new();
        for engine in ["flagstone", "rocksdb"] {
            for threads in [4, 16] {
                trials.push(of(engine, "balanced", threads));
                trials.push(of(engine, "balanced-sustained", threads));
            }
        }
        let found = cells(trials.iter());
        assert_eq!((found.cells.len(), found.left_out), (8, 0));
        let mixes = found.cells.iter().filter(|cell| is_mix(&cell.workload));
        let places: Vec<_> = mixes.map(|cell| (cell.engine, cell.lanes.threads)).collect();
        let expected = [("flagstone", 4), ("flagstone", 16), ("rocksdb", 4), ("rocksdb", 16)];
        assert_eq!(places, expected);
    }

    #[test]
    fn a_cell_measured_again_at_a_newer_commit_is_new() {
        let (mut old, mut new) = (trial(1, 1, "none", 10.0), trial(1, 2, "none", 30.0));
        old.header.started = "2026-01-01T00:00:00Z".to_owned();
        new.header.started = "2026-01-02T00:00:00Z".to_owned();
        new.header.commit = "b".to_owned();
        let found = [old, new];
        let found = cells(found.iter());
        assert_eq!((found.cells[0].rate(), found.left_out), (30.0, 1));
    }
}
