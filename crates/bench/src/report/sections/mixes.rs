//! The mixes: the best number of threads, rates by threads and by partitions, size against rate.

use crate::report::chart::{
    Across, Bar, BarChart, Curve, CurveChart, CurvePanel, Figure, Group, Point, ScatterChart,
    Style, Swatch, Unit, hue, step,
};
use crate::report::data::{Cell, mix_order, plural};
use crate::report::model::{Material, Part, Section, Table, distinct, workloads};

/// The best cell of a number of partitions, and its rate against one partition.
struct Best<'c, 'a> {
    cell: &'c Cell<'a>,
    rate: f64,
    gain: Option<f64>,
}

pub(super) fn best(material: &Material<'_>) -> Section {
    let cells = material.mixes();
    let mut parts = Vec::new();
    if !cells.is_empty() {
        parts.push(Part::Figure(best_figure(material.engine, &cells)));
        parts.push(Part::Table(best_table(&cells)));
    }
    Section::new("best", "Best rate by partitions", parts, MISSING)
}

fn bests<'c, 'a>(cells: &[&'c Cell<'a>], workload: &str) -> Vec<Best<'c, 'a>> {
    let cells = || cells.iter().copied().filter(|cell| cell.workload == workload);
    let mut out: Vec<Best<'c, 'a>> = Vec::new();
    for partitions in distinct(cells().map(|cell| cell.partitions)) {
        let of = cells().filter(|cell| cell.partitions == partitions);
        let Some(cell) = of.max_by(|a, b| a.rate().total_cmp(&b.rate())) else { continue };
        let rate = cell.rate();
        let gain = out.first().filter(|first| first.cell.partitions == 1 && first.rate > 0.0);
        let gain = gain.map(|first| rate / first.rate - 1.0);
        out.push(Best { cell, rate, gain });
    }
    out
}

fn best_figure(engine: &str, cells: &[&Cell<'_>]) -> Figure {
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let mut groups = Vec::new();
    for workload in workloads(cells) {
        let bar = |best: &Best<'_, '_>| {
            let Cell { partitions, lanes, .. } = best.cell;
            let at = counts.iter().position(|count| count == partitions).unwrap_or(0);
            let mut note = format!("with {}", plural(lanes.threads, "thread"));
            if let Some(gain) = best.gain {
                note = format!("{note}, {} against 1 partition", change(gain));
            }
            Bar {
                label: plural(*partitions, "partition"),
                value: best.rate,
                spread: best.cell.spread(),
                note,
                color: step(at, counts.len()),
            }
        };
        let bars = bests(cells, workload).iter().map(bar).collect();
        groups.push(Group { title: workload.to_owned(), bars });
    }
    let title = "Operations a second at the best number of threads".to_owned();
    let highest = cells.iter().max_by(|a, b| a.rate().total_cmp(&b.rate()));
    let highest = highest.map_or(String::new(), |cell| {
        format!("; the highest: {}, {}", cell.workload, Unit::Rate.show(cell.rate()))
    });
    let subtitle = format!("{engine}; of all numbers of threads that were measured{highest}");
    BarChart { title, subtitle, unit: Unit::Rate, groups, own_scales: false }.figure("best")
}

fn best_table(cells: &[&Cell<'_>]) -> Table {
    let mut table = Table::default();
    for workload in workloads(cells) {
        for best in bests(cells, workload) {
            table.row([
                ("Workload", workload.to_owned()),
                ("#Partitions", best.cell.partitions.to_string()),
                ("#Best threads", best.cell.lanes.to_string()),
                ("#Operations/s", Unit::Rate.show(best.rate)),
                ("#Lowest to highest", spread(best.cell)),
                ("#Against 1 partition", best.gain.map(change).unwrap_or_default()),
            ]);
        }
    }
    table
}

/// The spread of a cell, empty when it was measured once.
pub(super) fn spread(cell: &Cell<'_>) -> String {
    let show = |(low, high): (f64, f64)| {
        format!(
            "{} \u{2013} {} ({} trials)",
            Unit::Count.show(low),
            Unit::Count.show(high),
            cell.trials.len()
        )
    };
    cell.spread().map(show).unwrap_or_default()
}

/// A change as a signed percentage.
pub(super) fn change(gain: f64) -> String {
    let percent = (gain * 100.0).round();
    if percent < 0.0 { format!("\u{2212}{}%", -percent) } else { format!("+{}%", percent + 0.0) }
}

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
    let parts = scaling("by-threads", material.engine, &cells, ("Threads", &held), |cell| {
        cell.lanes.threads
    });
    Section::new("threads", "Rate by threads", parts, MISSING)
}

pub(super) fn by_partitions(material: &Material<'_>) -> Section {
    let mut cells = material.mixes();
    let fixed = prefer(THREADS, cells.iter().map(|cell| cell.lanes.threads));
    cells.retain(|cell| cell.lanes.threads == fixed);
    let held = format!("with {}", plural(fixed, "thread"));
    let parts = scaling("by-partitions", material.engine, &cells, ("Partitions", &held), |cell| {
        cell.partitions
    });
    Section::new("partitions", "Rate by partitions", parts, MISSING)
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

fn scaling(
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
    vec![Part::Figure(chart.figure(id))]
}

pub(super) fn size_rate(material: &Material<'_>) -> Section {
    let cells = material.mixes();
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let shape = |partitions: u64| counts.iter().position(|count| *count == partitions).unwrap_or(0);
    let mut points = Vec::new();
    for cell in &cells {
        let (rate, bytes) = (cell.rate(), cell.median(|summary| summary.disk_bytes as f64));
        let (workload, place) = (&cell.workload, cell.place());
        points.push(Point {
            at: (rate, bytes),
            color: hue(mix_order(workload)),
            shape: shape(cell.partitions),
            tip: format!(
                "{workload}, {place}: {}, {}",
                Unit::Rate.show(rate),
                Unit::Bytes.show(bytes)
            ),
        });
    }
    let mut colors = vec![(Swatch::Heading, "Workload".to_owned())];
    colors.extend(
        workloads(&cells)
            .into_iter()
            .map(|name| (Swatch::Color(hue(mix_order(name))), name.to_owned())),
    );
    let mut shapes = vec![(Swatch::Heading, "Partitions".to_owned())];
    shapes.extend(counts.iter().map(|count| (Swatch::Shape(shape(*count)), count.to_string())));
    let chart = ScatterChart {
        title: "Size on disk against operations a second".to_owned(),
        subtitle: format!(
            "{}; each mark is a cell of the matrix; size: the maximum of the last sixth of the run",
            material.engine
        ),
        x: (Unit::Count, "Operations a second".to_owned()),
        y: (Unit::Bytes, "Size on disk".to_owned()),
        points,
        legend: vec![colors, shapes],
    };
    let mut parts = Vec::new();
    if !chart.points.is_empty() {
        parts.push(Part::Figure(chart.figure("size-rate")));
    }
    Section::new("size-rate", "Size against rate", parts, MISSING)
}
