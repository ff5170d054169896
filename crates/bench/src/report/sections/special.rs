//! Workloads with figures of their own, as tables: durability, sequential, device, YCSB, and any
//! other.

use super::mixes::change;
use super::trials;
use crate::record::Trial;
use crate::report::chart::{Bar, Group, Scales, Unit, draw_bars, hue, step};
use crate::report::data::{is_mix, plural, shown, spread};
use crate::report::model::{Material, distinct, grouped};
use crate::report::page::Page;
use crate::stats::median;
use flagstone::Durability;

/// Threads that put and wait for the device.
const WRITERS: &str = "durable-writers";

/// Prefixes of the names of workloads that have a section each.
const OWN: [&str; 4] = ["durab", "ycsb", "sequential", "device"];

/// Returns the trials of workloads whose names begin with `start`.
fn starting<'a>(material: &Material<'a>, start: &str) -> Vec<&'a Trial> {
    let trials = material.trials.iter();
    trials.filter(|trial| trial.header.workload.starts_with(start)).collect()
}

fn table(page: &mut Page, trials: &[&Trial]) {
    if !trials.is_empty() {
        page.table(&trials::table(trials));
    }
}

pub(super) fn sequential(material: &Material<'_>, page: &mut Page) {
    table(page, &starting(material, "sequential"));
}

pub(super) fn device(material: &Material<'_>, page: &mut Page) {
    table(page, &starting(material, "device"));
}

/// Workloads that have figures in no other section.
pub(super) fn other(material: &Material<'_>, page: &mut Page) {
    let is_other = |workload: &str| {
        let elsewhere = ["load", "get", "update"].contains(&workload) || is_mix(workload);
        !elsewhere && !OWN.iter().any(|start| workload.starts_with(start))
    };
    let others = material.trials.iter().filter(|trial| is_other(&trial.header.workload));
    table(page, &others.collect::<Vec<_>>());
}

/// A group for each workload, engine and number of partitions, and of threads if these do not vary.
pub(super) fn durability(material: &Material<'_>, page: &mut Page) {
    let mut trials = starting(material, "durab");
    trials.extend(mixes_with_durabilities(material.trials));
    let with = trials.iter().filter(|trial| trial.header.options.contains_key("durability"));
    let together = grouped(with.copied(), |trial| {
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
        let bars = if is_writers { writer_bars(&trials) } else { durability_bars(&trials) };
        Group { title, bars }
    };
    let groups: Vec<Group> = together.into_iter().map(group).collect();
    bars(page, "durability", "Operations a second by durability", &groups);
    table(page, &trials);
}

/// Trials of mixes that differ in nothing but their durability from others.
fn mixes_with_durabilities(trials: &[Trial]) -> Vec<&Trial> {
    let mixes = trials.iter().filter(|trial| is_mix(&trial.header.workload));
    let groups = grouped(mixes, |trial| {
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
    match name.parse() {
        Ok(Durability::None) => (0, 0.0),
        Ok(Durability::Buffered) => (1, 0.0),
        Ok(Durability::Interval(time)) => (2, -time.as_secs_f64()),
        Ok(Durability::Group) => (3, 0.0),
        Ok(Durability::Each) => (4, 0.0),
        Err(_other) => (5, 0.0),
    }
}

fn number(trial: &Trial, option: &str) -> u64 {
    trial.number(option).unwrap_or(1)
}

/// The bar of trials that repeat each other: their median and their spread.
fn bar(label: String, trials: &[&Trial], note: String, color: &'static str) -> Bar {
    let value = median(trials.iter().map(|trial| trial.summary.ops_per_s)).unwrap_or(0.0);
    Bar { label, value, spread: spread(trials), note, color }
}

fn durability_bars(trials: &[&Trial]) -> Vec<Bar> {
    let cells = grouped(trials.iter().copied(), |trial| shown(trial, "durability"));
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
    let groups = grouped(trials.iter().copied(), |trial| number(trial, "threads"));
    groups.into_iter().map(one).collect()
}

/// A group for each workload when there are several engines, else one with a bar for each workload.
pub(super) fn ycsb(material: &Material<'_>, page: &mut Page) {
    let trials = starting(material, "ycsb");
    let engines = distinct(trials.iter().map(|trial| trial.header.engine.as_str()));
    let cells = grouped(trials.iter().copied(), |trial| {
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
    bars(page, "ycsb", "YCSB: operations a second", &groups);
    table(page, &trials);
}

fn bars(page: &mut Page, id: &str, title: &str, groups: &[Group]) {
    if !groups.is_empty() {
        let subtitle = "Medians; thin lines: lowest to highest of repeated trials";
        page.figure(draw_bars(id, title, subtitle, groups, Scales::Shared));
    }
}
