//! Workloads with figures of their own, as tables: durability, sequential, device, YCSB, and any
//! other.

use super::mixes::change;
use super::trials;
use crate::record::Trial;
use crate::report::chart::{Bar, BarChart, Group, Unit, hue, step};
use crate::report::data::{Cells, plural, shown};
use crate::report::model::{Material, Part, Section, distinct};
use crate::stats::median;
use std::collections::BTreeMap;

/// Threads that put and wait for the device.
const WRITERS: &str = "durable-writers";

/// The kinds of sections here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Durability,
    Ycsb,
    Sequential,
    Device,
    Other,
}

/// Where a trial is shown; `None` if it has figures elsewhere.
fn kind(trial: &Trial) -> Option<Kind> {
    let workload = trial.header.workload.as_str();
    let shown = ["load", "get", "update"].contains(&workload);
    let starts = |start: &str| workload.starts_with(start);
    Some(match workload {
        _ if starts("durab") => Kind::Durability,
        _ if starts("ycsb") => Kind::Ycsb,
        _ if starts("sequential") => Kind::Sequential,
        _ if starts("device") => Kind::Device,
        _ if shown || Cells::is_mix(workload) => return None,
        _ => Kind::Other,
    })
}

pub(super) fn sections(material: &Material<'_>) -> Vec<Section> {
    let of = |wanted: Kind| -> Vec<&Trial> {
        material.trials.iter().filter(|trial| kind(trial) == Some(wanted)).collect()
    };
    let mut durability = of(Kind::Durability);
    durability.extend(mixes_with_durabilities(material.trials));
    let table = |trials: &[&Trial]| -> Vec<Part> {
        if trials.is_empty() { Vec::new() } else { vec![Part::Table(trials::table(trials))] }
    };
    let mut durability_parts = durability_figure(&durability);
    durability_parts.extend(table(&durability));
    let mut ycsb_parts = ycsb_figure(&of(Kind::Ycsb));
    ycsb_parts.extend(table(&of(Kind::Ycsb)));
    vec![
        Section::new(
            "durability",
            "Durability",
            durability_parts,
            "flagstone-bench durability --out DIR",
        ),
        Section::new("ycsb", "YCSB", ycsb_parts, "flagstone-bench ycsb-a (to ycsb-f) --out DIR"),
        Section::new(
            "sequential",
            "Sequential",
            table(&of(Kind::Sequential)),
            "flagstone-bench sequential --out DIR",
        ),
        Section::new(
            "device",
            "Device",
            table(&of(Kind::Device)),
            "flagstone-bench device --out DIR",
        ),
        Section::new(
            "other",
            "Other workloads",
            table(&of(Kind::Other)),
            "flagstone-bench larger, full-scan, cached-get, ... --out DIR",
        ),
    ]
}

/// Trials of mixes that differ in nothing but their durability from others.
fn mixes_with_durabilities(trials: &[Trial]) -> Vec<&Trial> {
    let mut groups: BTreeMap<String, Vec<&Trial>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| Cells::is_mix(&trial.header.workload)) {
        let header = &trial.header;
        let mut options = header.options.clone();
        for name in ["durability", "seed", "dir", "out"] {
            options.remove(name);
        }
        let key = format!("{} {} {options:?}", header.engine, header.workload);
        groups.entry(key).or_default().push(trial);
    }
    let differ = |trials: &Vec<&Trial>| {
        trials.iter().any(|trial| shown(trial, "durability") != shown(trials[0], "durability"))
    };
    groups.into_values().filter(differ).flatten().collect()
}

/// Weakest first, as they are listed in the documentation; intervals by length.
fn durability_order(name: &str) -> (u8, f64) {
    let length = name.strip_prefix("interval").map(|rest| {
        let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
        let second = if rest.ends_with("ms") { 1.0 } else { 1000.0 };
        -digits.parse::<f64>().unwrap_or(0.0) * second
    });
    match (name, length) {
        (_, Some(length)) => (2, length),
        ("none", _) => (0, 0.0),
        ("buffered", _) => (1, 0.0),
        ("group", _) => (3, 0.0),
        ("each", _) => (4, 0.0),
        _ => (5, 0.0),
    }
}

/// Trials of one workload, engine and number of partitions, and of threads if these do not vary.
type Together<'a> = BTreeMap<(String, u64, String), Vec<&'a Trial>>;

fn durability_figure(trials: &[&Trial]) -> Vec<Part> {
    let mut together: Together<'_> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.header.options.contains_key("durability")) {
        let header = &trial.header;
        // Writers that wait for the device are compared by their number.
        let fixed = match header.workload.as_str() {
            WRITERS => shown(trial, "durability"),
            _ => plural(number(trial, "threads"), "thread"),
        };
        let name = format!("{}, {}", header.workload, header.engine);
        together.entry((name, number(trial, "partitions"), fixed)).or_default().push(trial);
    }
    let mut groups = Vec::new();
    for ((name, partitions, fixed), trials) in together {
        let title = format!("{name}: {}, {fixed}", plural(partitions, "partition"));
        let bars = if trials[0].header.workload == WRITERS {
            writer_bars(&trials)
        } else {
            durability_bars(&trials)
        };
        groups.push(Group { title, bars });
    }
    bars("durability", "Operations a second by durability", groups)
}

fn number(trial: &Trial, option: &str) -> u64 {
    trial.header.options.get(option).and_then(|value| value.as_u64()).unwrap_or(1)
}

fn rates(trials: &[&Trial]) -> Vec<f64> {
    trials.iter().map(|trial| trial.summary.ops_per_s).collect()
}

fn durability_bars(trials: &[&Trial]) -> Vec<Bar> {
    let mut cells: BTreeMap<String, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        cells.entry(shown(trial, "durability")).or_default().push(trial);
    }
    let mut cells: Vec<(String, Vec<f64>)> =
        cells.into_iter().map(|(name, trials)| (name, rates(&trials))).collect();
    cells.sort_by(|a, b| {
        let (a, b) = (durability_order(&a.0), durability_order(&b.0));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let none = cells.iter().find(|(name, _)| name == "none");
    let none = none.and_then(|(_, rates)| median(rates.iter().copied())).filter(|rate| *rate > 0.0);
    let bar = |(durability, rates): &(String, Vec<f64>)| {
        let value = median(rates.iter().copied()).unwrap_or(0.0);
        let against = none.filter(|_| durability != "none");
        let change = |none: f64| format!("{} against none", change(value / none - 1.0));
        Bar {
            label: durability.clone(),
            value,
            spread: spread(rates),
            note: against.map(change).unwrap_or_default(),
            color: step(usize::from(durability_order(durability).0), 5),
        }
    };
    cells.iter().map(bar).collect()
}

fn writer_bars(trials: &[&Trial]) -> Vec<Bar> {
    let mut cells: BTreeMap<u64, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        cells.entry(number(trial, "threads")).or_default().push(trial);
    }
    let bar = |(threads, trials): (u64, Vec<&Trial>)| {
        let rates = rates(&trials);
        let shared = trials.iter().filter_map(|t| t.summary.figures.get("commits_per_sync"));
        let shared = median(shared.copied());
        let note = |shared: f64| format!("{} put for each sync", Unit::Count.show(shared));
        Bar {
            label: plural(threads, "thread"),
            value: median(rates.iter().copied()).unwrap_or(0.0),
            spread: spread(&rates),
            note: shared.map(note).unwrap_or_default(),
            color: hue(0),
        }
    };
    cells.into_iter().map(bar).collect()
}

/// A group for each workload when there are several engines, else one with a bar for each workload.
fn ycsb_figure(trials: &[&Trial]) -> Vec<Part> {
    let engines = distinct(trials.iter().map(|trial| trial.header.engine.as_str()));
    let mut cells: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for trial in trials {
        let header = &trial.header;
        let threads = number(trial, "threads");
        let (engine, workload) = (header.engine.as_str(), header.workload.as_str());
        let (group, bar) = if engines.len() > 1 { (workload, engine) } else { (engine, workload) };
        let group = format!("{group}, {}", plural(threads, "thread"));
        cells.entry((group, bar.to_owned())).or_default().push(trial.summary.ops_per_s);
    }
    let mut groups: Vec<Group> = Vec::new();
    for ((title, label), rates) in cells {
        let color = hue(engines.iter().position(|engine| *engine == label).unwrap_or(0));
        let value = median(rates.iter().copied()).unwrap_or(0.0);
        let bar = Bar { label, value, spread: spread(&rates), note: String::new(), color };
        match groups.last_mut() {
            Some(group) if group.title == title => group.bars.push(bar),
            _ => groups.push(Group { title, bars: vec![bar] }),
        }
    }
    bars("ycsb", "YCSB: operations a second", groups)
}

/// The lowest and the highest, where there are several.
fn spread(rates: &[f64]) -> Option<(f64, f64)> {
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (rates.len() > 1).then(|| (low, rates.iter().copied().fold(0.0, f64::max)))
}

fn bars(id: &str, title: &str, groups: Vec<Group>) -> Vec<Part> {
    if groups.is_empty() {
        return Vec::new();
    }
    let chart = BarChart {
        title: title.to_owned(),
        subtitle: "Medians; thin lines: lowest to highest of repeated trials".to_owned(),
        unit: Unit::Rate,
        groups,
        own_scales: false,
    };
    vec![Part::Figure(chart.figure(id))]
}
