//! Every run over time, by workload.

use super::run;
use crate::record::Trial;
use crate::report::chart::Unit;
use crate::report::data::{median, plural, shown};
use crate::report::model::{Figure, Material, Part, Section, slug};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer rows are no curve.
const ROWS_MIN: usize = 5;

pub(super) fn section(material: &Material<'_>) -> Section {
    let mut groups: BTreeMap<(&str, &str), Vec<&Trial>> = BTreeMap::new();
    for trial in material.trials.iter().filter(|trial| trial.rows.len() >= ROWS_MIN) {
        let header = &trial.header;
        groups.entry((&header.workload, &header.engine)).or_default().push(trial);
    }
    let mut ids = BTreeSet::new();
    let mut parts = Vec::new();
    for ((workload, engine), mut trials) in groups {
        let order = |trial: &Trial| {
            let number = |name: &str| trial.header.options.get(name).and_then(|v| v.as_u64());
            (number("partitions"), number("threads"), trial.header.started.clone())
        };
        trials.sort_by_key(|trial| order(trial));
        let figures: Vec<Part> =
            trials.iter().map(|trial| Part::Figure(figure(trial, &mut ids))).collect();
        let runs = if figures.len() == 1 { "run" } else { "runs" };
        let rate = median(trials.iter().map(|trial| trial.summary.ops_per_s)).unwrap_or(0.0);
        let title = format!(
            "{workload}, {engine}: {} {runs}, median {}",
            figures.len(),
            Unit::Rate.show(rate)
        );
        parts.push(Part::Folded(title, figures));
    }
    Section::new(
        "runs",
        "Runs over time",
        parts,
        "any workload of flagstone-bench with at least five intervals",
    )
}

fn figure(trial: &Trial, ids: &mut BTreeSet<String>) -> Figure {
    let header = &trial.header;
    let mut place = Vec::new();
    for (option, name) in [("partitions", "partition"), ("threads", "thread")] {
        if let Some(count) = header.options.get(option).and_then(|value| value.as_u64()) {
            place.push(plural(count, name));
        }
    }
    for option in ["durability", "how"] {
        if header.options.contains_key(option) {
            place.push(shown(trial, option));
        }
    }
    let title = format!("{}, {}: {}", header.workload, header.engine, place.join(", "));
    let summary = &trial.summary;
    let subtitle = format!(
        "{} over {}; median interval {}, slowest {}; started {}",
        Unit::Rate.show(summary.ops_per_s),
        Unit::Seconds.show(summary.seconds),
        Unit::Rate.show(summary.row_median),
        Unit::Rate.show(summary.row_worst),
        header.started,
    );
    let base = slug(&format!("run-{}-{}-{}", header.workload, header.engine, place.join("-")));
    let mut id = base.clone();
    let mut repetition = 2;
    while !ids.insert(id.clone()) {
        id = format!("{base}-{repetition}");
        repetition += 1;
    }
    Figure { id, svg: run::draw(trial, &title, &subtitle), title }
}
