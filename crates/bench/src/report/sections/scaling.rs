//! Rates of the mixes by threads and by partitions.

use crate::report::chart::{Across, Curve, CurveChart, CurvePanel, Style, Unit, hue};
use crate::report::data::{Cell, mix_order, plural};
use crate::report::model::{Figure, Material, Part, Section, workloads};

/// Partitions and threads that figures prefer to hold fixed, as the origin did.
const PARTITIONS: u64 = 16;
const THREADS: u64 = 32;

const MISSING: &str =
    "flagstone-bench matrix --workload put-heavy (balanced, delete-heavy, get-heavy) --out DIR";

pub(super) fn by_threads(material: &Material<'_>) -> Section {
    let mut cells = material.mixes();
    let fixed = prefer(PARTITIONS, cells.iter().map(|cell| cell.partitions));
    cells.retain(|cell| cell.partitions == fixed);
    let held = format!("with {}", plural(fixed, "partition"));
    let figure = figure("by-threads", material.engine, &cells, ("Threads", &held), |cell| {
        cell.lanes.threads
    });
    Section::new("threads", "Rate by threads", figure, MISSING)
}

pub(super) fn by_partitions(material: &Material<'_>) -> Section {
    let mut cells = material.mixes();
    let fixed = prefer(THREADS, cells.iter().map(|cell| cell.lanes.threads));
    cells.retain(|cell| cell.lanes.threads == fixed);
    let held = format!("with {}", plural(fixed, "thread"));
    let figure = figure("by-partitions", material.engine, &cells, ("Partitions", &held), |cell| {
        cell.partitions
    });
    Section::new("partitions", "Rate by partitions", figure, MISSING)
}

/// `wanted` if it was measured, else the most that was.
pub(super) fn prefer(wanted: u64, mut values: impl Iterator<Item = u64> + Clone) -> u64 {
    if values.clone().any(|value| value == wanted) {
        wanted
    } else {
        values.by_ref().max().unwrap_or(0)
    }
}

/// A curve through cells, with their spread.
pub(super) fn curve(
    label: &str,
    (color, shape): (&'static str, usize),
    cells: &[&Cell<'_>],
    across: impl Fn(&Cell<'_>) -> f64,
) -> Curve {
    let mut cells = cells.to_vec();
    cells.sort_by(|a, b| across(a).total_cmp(&across(b)));
    let spread = |cell: &&Cell<'_>| cell.spread().unwrap_or((cell.rate(), cell.rate()));
    Curve {
        label: label.to_owned(),
        color,
        shape,
        style: Style::Marked,
        points: cells.iter().map(|cell| (across(cell), cell.rate())).collect(),
        spread: cells.iter().map(spread).collect(),
        dots: Vec::new(),
    }
}

fn figure(
    id: &str,
    engine: &str,
    cells: &[&Cell<'_>],
    (axis, held): (&str, &str),
    across: impl Fn(&Cell<'_>) -> u64,
) -> Vec<Part> {
    if cells.is_empty() {
        return Vec::new();
    }
    let of = |workload: &str| {
        let cells: Vec<_> =
            cells.iter().copied().filter(|cell| cell.workload == workload).collect();
        let order = mix_order(workload);
        curve(workload, (hue(order), order), &cells, |cell| across(cell) as f64)
    };
    let panel = CurvePanel {
        title: String::new(),
        across: (Across::Measured, axis.to_owned()),
        up: (Unit::Count, "Operations a second".to_owned()),
        curves: workloads(cells).into_iter().map(of).collect(),
        notes: Vec::new(),
    };
    let chart = CurveChart {
        title: format!("Operations a second by {}, {held}", axis.to_lowercase()),
        subtitle: format!("{engine}; bars at the marks: lowest to highest of repeated trials"),
        panels: vec![panel],
        columns: 1,
        height: 320.0,
    };
    let svg = chart.draw();
    vec![Part::Figure(Figure { id: id.to_owned(), title: chart.title, svg })]
}
