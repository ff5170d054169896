//! Loading documents: rate by threads and partitions, and over time.

use super::overlay::{self, What};
use super::scaling::curve;
use crate::report::chart::{Across, CurveChart, CurvePanel, Unit, step};
use crate::report::data::{Cell, Lanes, plural};
use crate::report::model::{Figure, Material, Part, Section, Table, distinct};

const MISSING: &str = "flagstone-bench document-matrix --workload load --out DIR";

fn is_load(workload: &str) -> bool {
    workload == "load" || workload.starts_with("load ")
}

pub(super) fn section(material: &Material<'_>) -> Section {
    let cells = material.of(is_load);
    let mut parts = Vec::new();
    if !cells.is_empty() {
        parts.push(Part::Figure(by_threads(material.engine, &cells)));
        parts.push(Part::Table(table(&cells)));
    }
    Section::new("load", "Loading documents", parts, MISSING)
}

fn by_threads(engine: &str, cells: &[&Cell<'_>]) -> Figure {
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
    Figure { id: "load".to_owned(), svg: chart.draw(), title: chart.title }
}

fn table(cells: &[&Cell<'_>]) -> Table {
    let mut table = Table::new(&[
        "#Partitions",
        "#Threads",
        "#Documents/s",
        "#JSON/s",
        "#Size / JSON",
        "#Largest RSS",
        "#CPU",
        "#Lowest to highest",
    ]);
    for cell in cells {
        let json = cell.median(|s| s.user_bytes as f64 / s.seconds.max(1e-9));
        let ratio = cell.median(|s| s.disk_bytes as f64 / (s.user_bytes as f64).max(1.0));
        table.rows.push(vec![
            cell.partitions.to_string(),
            cell.lanes.to_string(),
            Unit::Rate.show(cell.rate()),
            Unit::BytesRate.show(json),
            format!("{ratio:.3}"),
            Unit::Bytes.show(cell.median(|s| s.rss_max_bytes as f64)),
            Unit::Seconds.show(cell.median(|s| s.cpu_s)),
            super::best::spread(cell),
        ]);
    }
    table
}

pub(super) fn over_time(material: &Material<'_>) -> Section {
    let mut cells = material.of(is_load);
    cells.retain(|cell| overlay::has_rows(cell));
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
            panels: vec![
                overlay::panel("", What::Rate, &named),
                overlay::panel("", What::Size, &named),
            ],
            columns: 1,
            height: 200.0,
        };
        let svg = chart.draw();
        parts.push(Part::Figure(Figure { id: "load-time".to_owned(), title: chart.title, svg }));
    }
    Section::new(
        "load-time",
        "Loading over time",
        parts,
        "flagstone-bench load with at least five intervals",
    )
}
