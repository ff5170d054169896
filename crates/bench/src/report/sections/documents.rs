//! Getting and updating documents: rates by threads, and over time.

use super::overlay::{self, Named, What};
use super::scaling::{curve, prefer};
use crate::report::chart::{Across, CurveChart, CurvePanel, Unit, step};
use crate::report::data::{Cell, plural};
use crate::report::model::{Figure, Material, Part, Section, distinct, slug, workloads};

const MISSING: &str = "flagstone-bench document-matrix --workload get (update) --out DIR";

/// Series in one panel over time at most: more are a knot.
const SERIES_MAX: usize = 6;

fn is_document(workload: &str) -> bool {
    let base = workload.split(' ').next().unwrap_or_default();
    matches!(base, "get" | "update" | "partial-get")
}

pub(super) fn section(material: &Material<'_>) -> Section {
    let cells = material.of(is_document);
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let panel = |workload: &str| {
        let mut curves = Vec::new();
        for (at, partitions) in counts.iter().enumerate() {
            let here =
                |cell: &&Cell<'_>| cell.workload == workload && cell.partitions == *partitions;
            let cells: Vec<_> = cells.iter().copied().filter(here).collect();
            if !cells.is_empty() {
                let style = (step(at, counts.len()), at);
                curves.push(curve(&plural(*partitions, "partition"), style, &cells, |c| {
                    c.lanes.threads as f64
                }));
            }
        }
        CurvePanel {
            title: workload.to_owned(),
            across: (Across::Measured, "Threads".to_owned()),
            up: (Unit::Count, "Documents a second".to_owned()),
            curves,
            notes: Vec::new(),
        }
    };
    let panels: Vec<_> = workloads(&cells).into_iter().map(panel).collect();
    let mut parts = Vec::new();
    if !panels.is_empty() {
        let chart = CurveChart {
            title: "Documents got and updated a second, by threads".to_owned(),
            subtitle: format!("{}; a line for each number of partitions", material.engine),
            columns: panels.len().min(2),
            panels,
            height: 250.0,
        };
        let svg = chart.draw();
        parts.push(Part::Figure(Figure { id: "documents".to_owned(), title: chart.title, svg }));
        for note in starting_states(&cells) {
            parts.push(Part::Note(note));
        }
    }
    Section::new("documents", "Getting and updating documents", parts, MISSING)
}

/// What the store held when the clock started: a line for each state, with the cells that began so.
fn starting_states(cells: &[&Cell<'_>]) -> Vec<String> {
    let state_of = |cell: &Cell<'_>| cell.middle().header.starting_state.clone();
    let states = distinct(cells.iter().map(|cell| state_of(cell)));
    let line = |state: String| {
        let of_state = cells.iter().filter(|cell| state_of(cell) == state);
        let name = |cell: &&Cell<'_>| {
            format!("{}, {}", cell.workload, plural(cell.partitions, "partition"))
        };
        let names = distinct(of_state.map(name)).join("; ");
        format!("State at the start ({names}): {state}")
    };
    states.into_iter().filter(|state| !state.is_empty()).map(line).collect()
}

pub(super) fn over_time(material: &Material<'_>) -> Section {
    let mut cells = material.of(is_document);
    cells.retain(|cell| overlay::has_rows(cell));
    let mut parts = Vec::new();
    for workload in workloads(&cells) {
        let cells: Vec<_> =
            cells.iter().copied().filter(|cell| cell.workload == workload).collect();
        parts.push(Part::Figure(figure(material.engine, workload, &cells)));
    }
    Section::new(
        "documents-time",
        "Documents over time",
        parts,
        "flagstone-bench get (update) with at least five intervals",
    )
}

fn figure(engine: &str, workload: &str, cells: &[&Cell<'_>]) -> Figure {
    let partitions = prefer(u64::MAX, cells.iter().map(|cell| cell.partitions));
    let threads = prefer(u64::MAX, cells.iter().map(|cell| cell.lanes.threads));
    let by_threads: Vec<Named<'_, '_>> = few(cells.iter().filter(|c| c.partitions == partitions))
        .map(|cell| (cell, plural(cell.lanes.threads, "thread")))
        .collect();
    let by_partitions: Vec<Named<'_, '_>> =
        few(cells.iter().filter(|cell| cell.lanes.threads == threads))
            .map(|cell| (cell, plural(cell.partitions, "partition")))
            .collect();
    let threads_title = format!("by threads, {}", plural(partitions, "partition"));
    let partitions_title = format!("by partitions, {}", plural(threads, "thread"));
    let mut panels = vec![
        overlay::panel(&format!("Rate {threads_title}"), What::Rate, &by_threads),
        overlay::panel(&format!("Rate {partitions_title}"), What::Rate, &by_partitions),
    ];
    // Reading does not change the size.
    if workload.starts_with("update") {
        panels.push(overlay::panel(&format!("Size {threads_title}"), What::Size, &by_threads));
        panels.push(overlay::panel(
            &format!("Size {partitions_title}"),
            What::Size,
            &by_partitions,
        ));
    }
    let chart = CurveChart {
        title: format!("{workload} over time, by threads and by partitions"),
        subtitle: format!("{engine}; dots: intervals, lines: smoothed"),
        panels,
        columns: 2,
        height: 190.0,
    };
    let svg = chart.draw();
    Figure { id: slug(&format!("time-{workload}")), title: chart.title, svg }
}

/// Some of the cells, evenly, with the first and the last.
fn few<'c, 'a: 'c>(
    cells: impl Iterator<Item = &'c &'c Cell<'a>>,
) -> impl Iterator<Item = &'c Cell<'a>> {
    let cells: Vec<_> = cells.copied().collect();
    let count = cells.len().min(SERIES_MAX);
    let last = cells.len().saturating_sub(1);
    (0..count).map(move |at| cells[at * last / count.saturating_sub(1).max(1)])
}
