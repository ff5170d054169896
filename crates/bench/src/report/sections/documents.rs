//! Documents: loading, getting and updating them, by threads and over time; how large they are.

use super::mixes::{curve, prefer, spread};
use crate::report::chart::{
    Across, Curve, CurvePanel, Figure, Style, Unit, draw_curves, grouped, hue, step,
};
use crate::report::data::{Cell, Lanes, plural, rates, sizes_over_time, thin};
use crate::report::model::{Material, Table, by_workload, distinct, fastest, slug};
use crate::report::page::Page;
use crate::stats::smooth;

/// A cell and its name in the panel.
type Named<'c, 'a> = (&'c Cell<'a>, String);

const RATE: &str = "Documents a second";

/// Rates over time of the middle trial of each cell: dots, and a smoothed line.
fn rates_panel(title: &str, cells: &[Named<'_, '_>]) -> CurvePanel {
    time_panel(title, Unit::Count, RATE, cells, |cell| {
        let dots = rates(&cell.middle().rows);
        let length = dots.last().map_or(0.0, |last| last.0);
        let gap = length / dots.len().max(1) as f64;
        // A twentieth to each side, and two neighbours at least.
        (smooth(&dots, (length / 20.0).max(gap * 2.5)), dots)
    })
}

/// Bytes on disk over time of the middle trial of each cell.
fn sizes_panel(title: &str, cells: &[Named<'_, '_>]) -> CurvePanel {
    time_panel(title, Unit::Bytes, "Size on disk", cells, |cell| {
        (sizes_over_time(&cell.middle().rows), Vec::new())
    })
}

/// A panel of curves over time: of each cell the points of its line, and dots.
fn time_panel(
    title: &str,
    up: Unit,
    up_title: &str,
    cells: &[Named<'_, '_>],
    of: impl Fn(&Cell<'_>) -> (Vec<(f64, f64)>, Vec<(f64, f64)>),
) -> CurvePanel {
    let draw = |(at, (cell, name)): (usize, &Named<'_, '_>)| {
        let (points, dots) = of(cell);
        Curve {
            label: name.clone(),
            color: step(at, cells.len()),
            shape: at,
            points: thin(&points, 800),
            dots: thin(&dots, 800),
            ..Curve::default()
        }
    };
    let ends = cells.iter().filter_map(|(cell, _)| cell.middle().rows.last()).map(|row| row.t);
    let across = Across::Seconds(ends.fold(0.0, f64::max));
    let curves = cells.iter().enumerate().map(draw).collect();
    let panel = CurvePanel::new(across, "Time", up, up_title, curves);
    CurvePanel { title: title.to_owned(), ..panel }
}

/// Returns whether the cell has enough rows for a curve.
fn has_rows(cell: &Cell<'_>) -> bool {
    cell.middle().rows.len() >= 5
}

/// The largest number of curves in one panel over time.
const SERIES_MAX: usize = 6;

fn is_document(workload: &str) -> bool {
    let base = workload.split(' ').next().unwrap_or_default();
    matches!(base, "get" | "update")
}

/// A curve for each number of partitions that there are cells of.
fn partition_curves(
    counts: &[u64],
    cells: &[&Cell<'_>],
    across: impl Fn(&Cell<'_>) -> f64,
) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (at, partitions) in counts.iter().enumerate() {
        let here = cells.iter().copied().filter(|cell| cell.partitions == *partitions);
        let here: Vec<_> = here.collect();
        if !here.is_empty() {
            let (label, color) = (plural(*partitions, "partition"), step(at, counts.len()));
            curves.push(curve(&label, color, at, &here, &across));
        }
    }
    curves
}

pub(super) fn documents(material: &Material<'_>, page: &mut Page) {
    let cells = material.of(is_document);
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let panel = |(workload, cells): (&str, Vec<&Cell<'_>>)| {
        let curves = partition_curves(&counts, &cells, |cell| cell.lanes.threads as f64);
        let panel = CurvePanel::new(Across::Measured, "Threads", Unit::Count, RATE, curves);
        CurvePanel { title: workload.to_owned(), ..panel }
    };
    let panels: Vec<_> = by_workload(&cells).into_iter().map(panel).collect();
    if panels.is_empty() {
        return;
    }
    let title = "Documents got and updated a second, by threads";
    let subtitle = format!("{}; a line for each number of partitions", material.engine);
    let columns = panels.len().min(2);
    page.figure(draw_curves("documents", title, &subtitle, columns, 250.0, &panels));
    for line in starting_states(&cells) {
        page.note(&line);
    }
}

/// A line for each state of a store at the start, with the cells that began with it.
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

pub(super) fn documents_over_time(material: &Material<'_>, page: &mut Page) {
    let mut cells = material.of(is_document);
    cells.retain(|cell| has_rows(cell));
    for (workload, cells) in by_workload(&cells) {
        page.figure(time_figure(material.engine, workload, &cells));
    }
}

fn time_figure(engine: &str, workload: &str, cells: &[&Cell<'_>]) -> Figure {
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
        rates_panel(&format!("Rate {threads_title}"), &by_threads),
        rates_panel(&format!("Rate {partitions_title}"), &by_partitions),
    ];
    // Reading does not change the size.
    if workload.starts_with("update") {
        panels.push(sizes_panel(&format!("Size {threads_title}"), &by_threads));
        panels.push(sizes_panel(&format!("Size {partitions_title}"), &by_partitions));
    }
    let title = format!("{workload} over time, by threads and by partitions");
    let subtitle = format!("{engine}; dots: intervals, lines: smoothed");
    let id = slug(&format!("time-{workload}"));
    draw_curves(&id, &title, &subtitle, 2, 190.0, &panels)
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

fn is_load(workload: &str) -> bool {
    workload == "load" || workload.starts_with("load ")
}

pub(super) fn load(material: &Material<'_>, page: &mut Page) {
    let cells = material.of(is_load);
    let Some(best) = fastest(cells.iter().copied()) else { return };
    let lanes: Vec<Lanes> = distinct(cells.iter().map(|cell| cell.lanes));
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let place = |cell: &Cell<'_>| lanes.iter().position(|at| *at == cell.lanes).unwrap_or(0) as f64;
    let split = lanes.iter().any(|lanes| lanes.load.is_some());
    let axis = if split { "Readers + parsers" } else { "Threads" };
    let across = Across::Names(lanes.iter().map(Lanes::to_string).collect());
    let curves = partition_curves(&counts, &cells, place);
    let panel = CurvePanel::new(across, axis, Unit::Count, RATE, curves);
    let (rate, place) = (Unit::Rate.show(best.rate()), best.place());
    let title = "Documents loaded a second, by threads and partitions";
    let subtitle = format!("{}; best {rate} with {place}", material.engine);
    page.figure(draw_curves("load", title, &subtitle, 1, 300.0, &[panel]));
    let mut table = Table::default();
    for cell in cells {
        let json = cell.median(|s| s.user_bytes as f64 / s.seconds.max(1e-9));
        let ratio = cell.median(|s| s.disk_bytes as f64 / (s.user_bytes as f64).max(1.0));
        table.row([
            ("#Partitions", cell.partitions.to_string()),
            ("#Threads", cell.lanes.to_string()),
            ("#Documents/s", Unit::Rate.show(cell.rate())),
            ("#JSON/s", Unit::BytesRate.show(json)),
            ("#Size / JSON", format!("{ratio:.3}")),
            ("#Largest RSS", Unit::Bytes.show(cell.median(|s| s.rss_max_bytes as f64))),
            ("#CPU", Unit::Seconds.show(cell.median(|s| s.cpu_s))),
            ("#Lowest to highest", spread(cell)),
        ]);
    }
    page.table(&table);
}

pub(super) fn load_over_time(material: &Material<'_>, page: &mut Page) {
    let mut cells = material.of(is_load);
    cells.retain(|cell| has_rows(cell));
    let mut named = Vec::new();
    for partitions in distinct(cells.iter().map(|cell| cell.partitions)) {
        let of = cells.iter().copied().filter(|cell| cell.partitions == partitions);
        if let Some(best) = fastest(of) {
            named.push((best, format!("{}, {}", plural(partitions, "partition"), best.lanes)));
        }
    }
    if !named.is_empty() {
        let subtitle = format!(
            "{}; of each number of partitions its fastest threads; dots: intervals, lines: \
             smoothed",
            material.engine
        );
        let panels = [rates_panel("", &named), sizes_panel("", &named)];
        let title = "Loading over time";
        page.figure(draw_curves("load-time", title, &subtitle, 1, 200.0, &panels));
    }
}

pub(super) fn document_sizes(material: &Material<'_>, page: &mut Page) {
    let Some(sizes) = material.sizes.filter(|sizes| sizes.count() > 0) else { return };
    let (percentiles, count) = (sizes.percentiles(), sizes.count());
    let mean = sizes.bytes() as f64 / count as f64;
    let mut subtitle = format!("{} documents, mean {}", grouped(count), bytes(mean));
    if let Some((_, median)) = percentiles.iter().find(|(share, _)| *share == 0.5) {
        subtitle += &format!(", median {}", bytes(*median));
    }
    let (color, points) = (hue(0), sizes.curve());
    let curve = Curve { color, style: Style::Steps, points, ..Curve::default() };
    let (across, up) = ("Bytes of a document as JSON", "Share of documents");
    let mut panel = CurvePanel::new(Across::Bytes, across, Unit::Share, up, vec![curve]);
    let mut table = Table::default();
    for (share, value) in &percentiles {
        let name = percentile_name(*share);
        if [0.5, 0.9, 0.99, 0.999].contains(share) {
            panel.notes.push(((*value, *share), format!("{name}: {}", bytes(*value))));
        }
        table.row([("Percentile", name), ("#Bytes", grouped(*value as u64))]);
    }
    let title = "Share of documents up to a size";
    page.figure(draw_curves("document-sizes", title, &subtitle, 1, 280.0, &[panel]));
    page.table(&table);
}

fn percentile_name(share: f64) -> String {
    match share {
        0.0 => "smallest".to_owned(),
        0.5 => "median".to_owned(),
        1.0 => "largest".to_owned(),
        share => format!("p{}", (share * 1e6).round() / 1e4),
    }
}

fn bytes(value: f64) -> String {
    format!("{} bytes", grouped(value.round() as u64))
}
