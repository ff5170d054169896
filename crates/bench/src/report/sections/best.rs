//! The best number of threads for each workload and number of partitions.

use crate::report::chart::{Bar, BarChart, Group, Unit, step};
use crate::report::data::{Cell, plural};
use crate::report::model::{Figure, Material, Part, Section, Table, distinct, workloads};

/// The best cell of a number of partitions, and its rate against one partition.
struct Best<'c, 'a> {
    cell: &'c Cell<'a>,
    rate: f64,
    gain: Option<f64>,
}

pub(super) fn section(material: &Material<'_>) -> Section {
    let cells = material.mixes();
    let mut parts = Vec::new();
    if !cells.is_empty() {
        parts.push(Part::Figure(figure(material.engine, &cells)));
        parts.push(Part::Table(table(&cells)));
    }
    Section::new(
        "best",
        "Best rate by partitions",
        parts,
        "flagstone-bench matrix --workload put-heavy (balanced, delete-heavy, get-heavy) --out DIR",
    )
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

fn figure(engine: &str, cells: &[&Cell<'_>]) -> Figure {
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
    let chart = BarChart { title, subtitle, unit: Unit::Rate, groups, own_scales: false };
    Figure { id: "best".to_owned(), title: chart.title.clone(), svg: chart.draw() }
}

fn table(cells: &[&Cell<'_>]) -> Table {
    let mut table = Table::new(&[
        "Workload",
        "#Partitions",
        "#Best threads",
        "#Operations/s",
        "#Lowest to highest",
        "#Against 1 partition",
    ]);
    for workload in workloads(cells) {
        for best in bests(cells, workload) {
            table.rows.push(vec![
                workload.to_owned(),
                best.cell.partitions.to_string(),
                best.cell.lanes.to_string(),
                Unit::Rate.show(best.rate),
                spread(best.cell),
                best.gain.map(change).unwrap_or_default(),
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
