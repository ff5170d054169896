//! Documents: loading, getting and updating them, by threads and over time; how large they are.

use super::mixes::{curve, prefer, spread};
use crate::report::chart::{
    Across, Curve, CurveChart, CurvePanel, Figure, Style, Unit, grouped, hue, step,
};
use crate::report::data::{Cell, DocumentSizes, Lanes, plural, rates, sizes_over_time, thin};
use crate::report::model::{Material, Part, Section, Table, distinct, slug, workloads};
use crate::stats::smooth;

/// A cell and its name in the panel.
type Named<'c, 'a> = (&'c Cell<'a>, String);

/// What a panel draws of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Rates: dots, and a smoothed line.
    Rate,
    /// Bytes on disk: a line.
    Size,
}

/// A panel of the middle trial of each cell.
fn panel(title: &str, what: What, cells: &[Named<'_, '_>]) -> CurvePanel {
    let draw = |(at, (cell, name)): (usize, &Named<'_, '_>)| {
        let rows = &cell.middle().rows;
        let (points, dots) = match what {
            What::Rate => {
                let dots = rates(rows);
                let length = dots.last().map_or(0.0, |last| last.0);
                let gap = length / dots.len().max(1) as f64;
                // A twentieth to each side, and two neighbours at least.
                (smooth(&dots, (length / 20.0).max(gap * 2.5)), dots)
            }
            What::Size => (sizes_over_time(rows), Vec::new()),
        };
        Curve {
            label: name.clone(),
            color: step(at, cells.len()),
            shape: at,
            style: Style::Plain,
            points: thin(&points, 800),
            spread: Vec::new(),
            dots: thin(&dots, 800),
        }
    };
    let up = match what {
        What::Rate => (Unit::Count, "Documents a second".to_owned()),
        What::Size => (Unit::Bytes, "Size on disk".to_owned()),
    };
    let ends = cells.iter().filter_map(|(cell, _)| cell.middle().rows.last()).map(|row| row.t);
    let end = ends.fold(0.0, f64::max);
    CurvePanel {
        title: title.to_owned(),
        across: (Across::Seconds(end), "Time".to_owned()),
        up,
        curves: cells.iter().enumerate().map(draw).collect(),
        notes: Vec::new(),
    }
}

/// Returns whether the cell has enough rows for a curve.
fn has_rows(cell: &Cell<'_>) -> bool {
    cell.middle().rows.len() >= 5
}

const MISSING: &str = "flagstone-bench document-matrix --workload get (update) --out DIR";

/// The largest number of curves in one panel over time.
const SERIES_MAX: usize = 6;

fn is_document(workload: &str) -> bool {
    let base = workload.split(' ').next().unwrap_or_default();
    matches!(base, "get" | "update")
}

pub(super) fn documents(material: &Material<'_>) -> Section {
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
        parts.push(Part::Figure(chart.figure("documents")));
        parts.extend(starting_states(&cells).into_iter().map(Part::Note));
    }
    Section::new("documents", "Getting and updating documents", parts, MISSING)
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

pub(super) fn documents_over_time(material: &Material<'_>) -> Section {
    let mut cells = material.of(is_document);
    cells.retain(|cell| has_rows(cell));
    let mut parts = Vec::new();
    for workload in workloads(&cells) {
        let cells: Vec<_> =
            cells.iter().copied().filter(|cell| cell.workload == workload).collect();
        parts.push(Part::Figure(time_figure(material.engine, workload, &cells)));
    }
    Section::new(
        "documents-time",
        "Documents over time",
        parts,
        "flagstone-bench get (update) with at least five intervals",
    )
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
        panel(&format!("Rate {threads_title}"), What::Rate, &by_threads),
        panel(&format!("Rate {partitions_title}"), What::Rate, &by_partitions),
    ];
    // Reading does not change the size.
    if workload.starts_with("update") {
        panels.push(panel(&format!("Size {threads_title}"), What::Size, &by_threads));
        panels.push(panel(&format!("Size {partitions_title}"), What::Size, &by_partitions));
    }
    let chart = CurveChart {
        title: format!("{workload} over time, by threads and by partitions"),
        subtitle: format!("{engine}; dots: intervals, lines: smoothed"),
        panels,
        columns: 2,
        height: 190.0,
    };
    chart.figure(&slug(&format!("time-{workload}")))
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

const LOAD_MISSING: &str = "flagstone-bench document-matrix --workload load --out DIR";

fn is_load(workload: &str) -> bool {
    workload == "load" || workload.starts_with("load ")
}

pub(super) fn load(material: &Material<'_>) -> Section {
    let cells = material.of(is_load);
    let mut parts = Vec::new();
    if !cells.is_empty() {
        parts.push(Part::Figure(load_by_threads(material.engine, &cells)));
        parts.push(Part::Table(load_table(&cells)));
    }
    Section::new("load", "Loading documents", parts, LOAD_MISSING)
}

fn load_by_threads(engine: &str, cells: &[&Cell<'_>]) -> Figure {
    let lanes: Vec<Lanes> = distinct(cells.iter().map(|cell| cell.lanes));
    let counts = distinct(cells.iter().map(|cell| cell.partitions));
    let place = |cell: &Cell<'_>| lanes.iter().position(|at| *at == cell.lanes).unwrap_or(0) as f64;
    let mut curves = Vec::new();
    for (at, partitions) in counts.iter().enumerate() {
        let cells: Vec<_> =
            cells.iter().copied().filter(|cell| cell.partitions == *partitions).collect();
        curves.push(curve(
            &plural(*partitions, "partition"),
            (step(at, counts.len()), at),
            &cells,
            place,
        ));
    }
    let split = lanes.iter().any(|lanes| lanes.load.is_some());
    let axis = if split { "Readers + parsers" } else { "Threads" };
    let best = cells.iter().max_by(|a, b| a.rate().total_cmp(&b.rate()));
    let best =
        best.map(|cell| format!("; best {} with {}", Unit::Rate.show(cell.rate()), cell.place()));
    let chart = CurveChart {
        title: "Documents loaded a second, by threads and partitions".to_owned(),
        subtitle: format!("{engine}{}", best.unwrap_or_default()),
        panels: vec![CurvePanel {
            title: String::new(),
            across: (Across::Names(lanes.iter().map(Lanes::to_string).collect()), axis.to_owned()),
            up: (Unit::Count, "Documents a second".to_owned()),
            curves,
            notes: Vec::new(),
        }],
        columns: 1,
        height: 300.0,
    };
    chart.figure("load")
}

fn load_table(cells: &[&Cell<'_>]) -> Table {
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
    table
}

pub(super) fn load_over_time(material: &Material<'_>) -> Section {
    let mut cells = material.of(is_load);
    cells.retain(|cell| has_rows(cell));
    let mut named = Vec::new();
    for partitions in distinct(cells.iter().map(|cell| cell.partitions)) {
        let of = cells.iter().filter(|cell| cell.partitions == partitions);
        if let Some(best) = of.max_by(|a, b| a.rate().total_cmp(&b.rate())) {
            named.push((*best, format!("{}, {}", plural(partitions, "partition"), best.lanes)));
        }
    }
    let mut parts = Vec::new();
    if !named.is_empty() {
        let chart = CurveChart {
            title: "Loading over time".to_owned(),
            subtitle: format!(
                "{}; of each number of partitions its fastest threads; dots: intervals, lines: smoothed",
                material.engine
            ),
            panels: vec![panel("", What::Rate, &named), panel("", What::Size, &named)],
            columns: 1,
            height: 200.0,
        };
        parts.push(Part::Figure(chart.figure("load-time")));
    }
    Section::new(
        "load-time",
        "Loading over time",
        parts,
        "flagstone-bench load with at least five intervals",
    )
}

pub(super) fn document_sizes(material: &Material<'_>) -> Section {
    let found = material.sizes.filter(|sizes| sizes.count() > 0);
    let missing = "flagstone-bench report DIR --documents FILE.jsonl";
    Section::new("document-sizes", "Document sizes", found.map_or(Vec::new(), size_parts), missing)
}

fn size_parts(sizes: &DocumentSizes) -> Vec<Part> {
    let (percentiles, count) = (sizes.percentiles(), sizes.count());
    let mean = sizes.bytes() as f64 / count as f64;
    let mut subtitle = format!("{} documents, mean {}", grouped(count), bytes(mean));
    if let Some((_, median)) = percentiles.iter().find(|(share, _)| *share == 0.5) {
        subtitle += &format!(", median {}", bytes(*median));
    }
    let curve = Curve {
        label: String::new(),
        color: hue(0),
        shape: 0,
        style: Style::Steps,
        points: sizes.curve(),
        spread: Vec::new(),
        dots: Vec::new(),
    };
    let noted = percentiles.iter().filter(|(share, _)| [0.5, 0.9, 0.99, 0.999].contains(share));
    let note = |(share, value): &(f64, f64)| {
        ((*value, *share), format!("{}: {}", percentile_name(*share), bytes(*value)))
    };
    let notes = noted.map(note).collect();
    let chart = CurveChart {
        title: "Share of documents up to a size".to_owned(),
        subtitle,
        panels: vec![CurvePanel {
            title: String::new(),
            across: (Across::Bytes, "Bytes of a document as JSON".to_owned()),
            up: (Unit::Share, "Share of documents".to_owned()),
            curves: vec![curve],
            notes,
        }],
        columns: 1,
        height: 280.0,
    };
    let mut table = Table::default();
    for (share, value) in &percentiles {
        let (name, bytes) = (percentile_name(*share), grouped(*value as u64));
        table.row([("Percentile", name), ("#Bytes", bytes)]);
    }
    vec![Part::Figure(chart.figure("document-sizes")), Part::Table(table)]
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
