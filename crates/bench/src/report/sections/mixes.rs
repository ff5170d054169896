//! The mixes: the best number of threads, rates by threads and by partitions, size against rate.

use crate::report::chart::{
    Across, Bar, Curve, CurvePanel, Group, Point, Scales, Style, Swatch, Unit, draw_bars,
    draw_curves, draw_points, hue, step,
};
use crate::report::data::{Cell, mix_order, plural};
use crate::report::model::{Material, Table, by_workload, distinct, fastest};
use crate::report::page::Page;

/// The best cell of each number of partitions, and its gain against one partition.
fn bests<'c, 'a>(cells: &[&'c Cell<'a>]) -> Vec<(&'c Cell<'a>, Option<f64>)> {
    let mut out: Vec<(&Cell<'a>, Option<f64>)> = Vec::new();
    for partitions in distinct(cells.iter().map(|cell| cell.partitions)) {
        let of = cells.iter().copied().filter(|cell| cell.partitions == partitions);
        let Some(cell) = fastest(of) else { continue };
        let one = out.first().filter(|(first, _)| first.partitions == 1 && first.rate() > 0.0);
        let gain = one.map(|(first, _)| cell.rate() / first.rate() - 1.0);
        out.push((cell, gain));
    }
    out
}

pub(super) fn best(material: &Material<'_>, page: &mut Page) {
    let cells = material.mixes();
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let (mut groups, mut table) = (Vec::new(), Table::default());
    for (workload, of) in by_workload(&cells) {
        let mut bars = Vec::new();
        for (cell, gain) in bests(&of) {
            let at = counts.iter().position(|count| *count == cell.partitions).unwrap_or(0);
            let mut note = format!("with {}", plural(cell.lanes.threads, "thread"));
            if let Some(gain) = gain {
                note = format!("{note}, {} against 1 partition", change(gain));
            }
            bars.push(Bar {
                label: plural(cell.partitions, "partition"),
                value: cell.rate(),
                spread: cell.spread(),
                note,
                color: step(at, counts.len()),
            });
            table.row([
                ("Workload", workload.to_owned()),
                ("#Partitions", cell.partitions.to_string()),
                ("#Best threads", cell.lanes.to_string()),
                ("#Operations/s", Unit::Rate.show(cell.rate())),
                ("#Lowest to highest", spread(cell)),
                ("#Against 1 partition", gain.map(change).unwrap_or_default()),
            ]);
        }
        groups.push(Group { title: workload.to_owned(), bars });
    }
    let Some(highest) = fastest(cells) else { return };
    let (engine, rate) = (material.engine, Unit::Rate.show(highest.rate()));
    let subtitle = format!(
        "{engine}; of all numbers of threads that were measured; the highest: {}, {rate}",
        highest.workload
    );
    let title = "Operations a second at the best number of threads";
    page.figure(draw_bars("best", title, &subtitle, &groups, Scales::Shared));
    page.table(&table);
}

/// The spread of a cell, empty when it was measured once.
pub(super) fn spread(cell: &Cell<'_>) -> String {
    let trials = cell.trials.len();
    let show = |(low, high): (f64, f64)| {
        let (low, high) = (Unit::Count.show(low), Unit::Count.show(high));
        format!("{low} \u{2013} {high} ({trials} trials)")
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

/// The count of a cell that a figure varies or holds fixed: partitions or threads.
type CountOf = fn(&Cell<'_>) -> u64;

pub(super) fn by_threads(material: &Material<'_>, page: &mut Page) {
    let threads: CountOf = |cell| cell.lanes.threads;
    scaling(material, page, "Threads", threads, "partition", PARTITIONS, |cell| cell.partitions);
}

pub(super) fn by_partitions(material: &Material<'_>, page: &mut Page) {
    let threads: CountOf = |cell| cell.lanes.threads;
    scaling(material, page, "Partitions", |cell| cell.partitions, "thread", THREADS, threads);
}

/// Returns `wanted` if it was measured, else the largest value that was.
pub(super) fn prefer(wanted: u64, values: impl Iterator<Item = u64> + Clone) -> u64 {
    if values.clone().any(|value| value == wanted) { wanted } else { values.max().unwrap_or(0) }
}

/// A curve through cells, with their spread.
pub(super) fn curve(
    label: &str,
    color: &'static str,
    shape: usize,
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
        ..Curve::default()
    }
}

/// Draws the cells in which `held` has its preferred count.
fn scaling(
    material: &Material<'_>,
    page: &mut Page,
    axis: &str,
    across: CountOf,
    held: &str,
    preferred: u64,
    held_of: CountOf,
) {
    let mut cells = material.mixes();
    let fixed = prefer(preferred, cells.iter().map(|cell| held_of(cell)));
    cells.retain(|cell| held_of(cell) == fixed);
    if cells.is_empty() {
        return;
    }
    let of = |(workload, cells): (&str, Vec<&Cell<'_>>)| {
        let order = mix_order(workload);
        curve(workload, hue(order), order, &cells, |cell| across(cell) as f64)
    };
    let curves = by_workload(&cells).into_iter().map(of).collect();
    let up = "Operations a second";
    let panel = CurvePanel::new(Across::Measured, axis, Unit::Count, up, curves);
    let (id, axis) = (format!("by-{}", axis.to_lowercase()), axis.to_lowercase());
    let title = format!("Operations a second by {axis}, with {}", plural(fixed, held));
    let engine = material.engine;
    let subtitle = format!("{engine}; bars at the marks: lowest to highest of repeated trials");
    page.figure(draw_curves(&id, &title, &subtitle, 1, 320.0, &[panel]));
}

pub(super) fn size_rate(material: &Material<'_>, page: &mut Page) {
    let cells = material.mixes();
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let shape = |partitions: u64| counts.iter().position(|count| *count == partitions).unwrap_or(0);
    let mut points = Vec::new();
    for cell in &cells {
        let (rate, bytes) = (cell.rate(), cell.median(|summary| summary.disk_bytes as f64));
        let (workload, place) = (&cell.workload, cell.place());
        let shown = format!("{}, {}", Unit::Rate.show(rate), Unit::Bytes.show(bytes));
        points.push(Point {
            at: (rate, bytes),
            color: hue(mix_order(workload)),
            shape: shape(cell.partitions),
            tip: format!("{workload}, {place}: {shown}"),
        });
    }
    if points.is_empty() {
        return;
    }
    let mut colors = vec![(Swatch::Heading, "Workload".to_owned())];
    let color = |name: &str| (Swatch::Color(hue(mix_order(name))), name.to_owned());
    colors.extend(by_workload(&cells).into_iter().map(|(name, _)| color(name)));
    let mut shapes = vec![(Swatch::Heading, "Partitions".to_owned())];
    shapes.extend(counts.iter().map(|count| (Swatch::Shape(shape(*count)), count.to_string())));
    let title = "Size on disk against operations a second";
    let subtitle = format!(
        "{}; each mark is a cell of the matrix; size: the maximum of the last sixth of the run",
        material.engine
    );
    page.figure(draw_points("size-rate", title, &subtitle, &points, &[colors, shapes]));
}
