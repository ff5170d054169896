//! How long single operations took.

use crate::record::{Latency, OpKind};
use crate::report::chart::{Dumbbell, DumbbellChart, Unit, grouped};
use crate::report::data::{Cell, engine_order, mix_order};
use crate::report::model::{Figure, Material, Part, Section, Table};
use std::collections::BTreeMap;

/// Rows of a chart at most: the others stand in the table.
const ROWS_MAX: usize = 48;
/// A longer table is folded.
const TABLE_MAX: usize = 24;

pub(super) fn section(material: &Material<'_>) -> Section {
    let cells = &material.cells.cells;
    let mut with: Vec<&Cell<'_>> =
        cells.iter().filter(|cell| kinds(cell).next().is_some()).collect();
    with.sort_by_key(|cell| {
        (mix_order(&cell.workload), cell.workload.as_str(), engine_order(cell.engine))
    });
    let mut parts = Vec::new();
    if !with.is_empty() {
        parts.push(Part::Figure(figure(&with)));
        let table = table(&with);
        if table.rows.len() > TABLE_MAX {
            let title = format!("All latencies: {} rows", table.rows.len());
            parts.push(Part::Folded(title, vec![Part::Table(table)]));
        } else {
            parts.push(Part::Table(table));
        }
    }
    Section::new(
        "latency",
        "Latency",
        parts,
        "any workload of flagstone-bench that times single operations",
    )
}

fn kinds<'c>(cell: &'c Cell<'_>) -> impl Iterator<Item = (OpKind, Latency)> + 'c {
    OpKind::ALL.into_iter().filter_map(|kind| Some((kind, cell.latency(kind)?)))
}

fn figure(cells: &[&Cell<'_>]) -> Figure {
    // Of each workload and engine the fastest cell.
    let mut best: BTreeMap<(&str, &str), &Cell<'_>> = BTreeMap::new();
    let mut order = Vec::new();
    for cell in cells {
        let key = (cell.workload.as_str(), cell.engine);
        let found = best.entry(key).or_insert_with(|| {
            order.push(key);
            cell
        });
        if cell.rate() > found.rate() {
            *found = cell;
        }
    }
    let mut rows = Vec::new();
    for cell in order.iter().filter_map(|key| best.get(key)) {
        for (kind, latency) in kinds(cell) {
            let group = format!("{}, {}: {}", cell.workload, cell.engine, cell.place());
            let values = vec![latency.p50, latency.p99, latency.p999, latency.max];
            rows.push(Dumbbell { group, label: name(kind).to_owned(), values });
        }
    }
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let more = if left_out > 0 { format!("; {left_out} more in the table") } else { String::new() };
    let chart = DumbbellChart {
        title: "Latency of single operations".to_owned(),
        subtitle: format!("Of each workload and engine the cell with the highest rate{more}"),
        unit: Unit::Micros,
        axis: "Latency, logarithmic".to_owned(),
        names: ["median", "p99", "p99.9", "slowest"].map(str::to_owned).into(),
        rows,
    };
    Figure { id: "latency".to_owned(), svg: chart.draw(), title: chart.title }
}

fn table(cells: &[&Cell<'_>]) -> Table {
    let mut table = Table::new(&[
        "Workload",
        "Engine",
        "#Partitions",
        "#Threads",
        "Operation",
        "#Count",
        "#Mean",
        "#p50",
        "#p99",
        "#p99.9",
        "#Slowest",
    ]);
    for cell in cells {
        for (kind, latency) in kinds(cell) {
            let time = |micros: f64| Unit::Micros.show(micros);
            table.rows.push(vec![
                cell.workload.clone(),
                cell.engine.to_owned(),
                cell.partitions.to_string(),
                cell.lanes.to_string(),
                name(kind).to_owned(),
                grouped(latency.count),
                time(latency.mean),
                time(latency.p50),
                time(latency.p99),
                time(latency.p999),
                time(latency.max),
            ]);
        }
    }
    table
}

const fn name(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Put => "put",
        OpKind::Delete => "delete",
        OpKind::Get => "get",
        OpKind::Scan => "scan",
        OpKind::Update => "update",
        OpKind::Merge => "merge",
        OpKind::Batch => "batch",
    }
}
