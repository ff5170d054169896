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
    let mixes = trials.iter().filter(|trial| Cells::is_mix(&trial.header.workload));
    let groups = grouped(&mixes.collect::<Vec<_>>(), |trial| {
        let header = &trial.header;
        let mut options = header.options.clone();
        options.retain(|name, _| name != "durability" && name != "seed");
        format!("{} {} {options:?}", header.engine, header.workload)
    });
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

/// A group for each workload, engine and number of partitions, and of threads if these do not vary.
fn durability_figure(trials: &[&Trial]) -> Vec<Part> {
    let with: Vec<&Trial> = trials
        .iter()
        .copied()
        .filter(|trial| trial.header.options.contains_key("durability"))
        .collect();
    let together = grouped(&with, |trial| {
        let header = &trial.header;
        // Writers that wait for the device are compared by their number.
        let fixed = match header.workload.as_str() {
            WRITERS => shown(trial, "durability"),
            _ => plural(number(trial, "threads"), "thread"),
        };
        (format!("{}, {}", header.workload, header.engine), number(trial, "partitions"), fixed)
    });
    let group = |((name, partitions, fixed), trials): ((String, u64, String), Vec<&Trial>)| {
        let title = format!("{name}: {}, {fixed}", plural(partitions, "partition"));
        let is_writers = trials[0].header.workload == WRITERS;
        Group {
            title,
            bars: if is_writers { writer_bars(&trials) } else { durability_bars(&trials) },
        }
    };
    let groups = together.into_iter().map(group).collect();
    bars("durability", "Operations a second by durability", groups)
}

fn number(trial: &Trial, option: &str) -> u64 {
    trial.header.options.get(option).and_then(|value| value.as_u64()).unwrap_or(1)
}

/// The bar of trials that repeat each other: their median and their spread.
fn bar(label: String, trials: &[&Trial], note: String, color: &'static str) -> Bar {
    let rates = || trials.iter().map(|trial| trial.summary.ops_per_s);
    let low = rates().fold(f64::INFINITY, f64::min);
    let spread = (trials.len() > 1).then(|| (low, rates().fold(0.0, f64::max)));
    Bar { label, value: median(rates()).unwrap_or(0.0), spread, note, color }
}

/// Trials with the same key, in the order of keys.
fn grouped<'a, K: Ord>(
    trials: &[&'a Trial],
    key: impl Fn(&'a Trial) -> K,
) -> BTreeMap<K, Vec<&'a Trial>> {
    let mut groups: BTreeMap<K, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        groups.entry(key(trial)).or_default().push(trial);
    }
    groups
}

fn durability_bars(trials: &[&Trial]) -> Vec<Bar> {
    let cells = grouped(trials, |trial| shown(trial, "durability"));
    let mut bars: Vec<Bar> = cells
        .into_iter()
        .map(|(name, trials)| {
            let color = step(usize::from(durability_order(&name).0), 5);
            bar(name, &trials, String::new(), color)
        })
        .collect();
    bars.sort_by(|a, b| {
        let (a, b) = (durability_order(&a.label), durability_order(&b.label));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let none = bars.iter().find(|bar| bar.label == "none" && bar.value > 0.0).map(|bar| bar.value);
    for bar in bars.iter_mut().filter(|bar| bar.label != "none") {
        let against = |none: f64| format!("{} against none", change(bar.value / none - 1.0));
        bar.note = none.map(against).unwrap_or_default();
    }
    bars
}

fn writer_bars(trials: &[&Trial]) -> Vec<Bar> {
    let one = |(threads, trials): (u64, Vec<&Trial>)| {
        let shared = trials.iter().filter_map(|t| t.summary.figures.get("commits_per_sync"));
        let note = |shared: f64| format!("{} put for each sync", Unit::Count.show(shared));
        let note = median(shared.copied()).map(note).unwrap_or_default();
        bar(plural(threads, "thread"), &trials, note, hue(0))
    };
    grouped(trials, |trial| number(trial, "threads")).into_iter().map(one).collect()
}

/// A group for each workload when there are several engines, else one with a bar for each workload.
fn ycsb_figure(trials: &[&Trial]) -> Vec<Part> {
    let engines = distinct(trials.iter().map(|trial| trial.header.engine.as_str()));
    let cells = grouped(trials, |trial| {
        let (engine, workload) = (trial.header.engine.clone(), trial.header.workload.clone());
        let (group, bar) = if engines.len() > 1 { (workload, engine) } else { (engine, workload) };
        (format!("{group}, {}", plural(number(trial, "threads"), "thread")), bar)
    });
    let mut groups: Vec<Group> = Vec::new();
    for ((title, label), trials) in cells {
        let color = hue(engines.iter().position(|engine| *engine == label).unwrap_or(0));
        let bar = bar(label, &trials, String::new(), color);
        match groups.last_mut() {
            Some(group) if group.title == title => group.bars.push(bar),
            _ => groups.push(Group { title, bars: vec![bar] }),
        }
    }
    bars("ycsb", "YCSB: operations a second", groups)
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
