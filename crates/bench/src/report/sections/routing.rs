//! The routings side by side: partitions by the hash of a key, by ranges of keys, and one range
//! that splits.

use super::mixes::{curve, prefer, spread};
use crate::report::chart::{Across, CurvePanel, Unit, draw_curves, hue};
use crate::report::data::{Cell, cells, plural};
use crate::report::model::{Material, Table, distinct};
use crate::report::page::Page;

/// The routings by their names in `--routing`, the one that others are compared with first.
const ROUTINGS: [&str; 3] = ["hash", "range", "auto"];
/// The partitions that the figure prefers, where several numbers were measured.
const PARTITIONS: u64 = 4;

/// The cells of one workload, those of each routing with one number of partitions.
struct Side<'a> {
    workload: String,
    routings: Vec<(usize, Vec<Cell<'a>>)>,
}

pub(super) fn routings(material: &Material<'_>, page: &mut Page) {
    let sides = sides(material);
    if sides.is_empty() {
        return;
    }
    let panels: Vec<CurvePanel> = sides.iter().map(panel).collect();
    let subtitle = format!("{}; bars at the marks: lowest to highest of repeats", material.engine);
    let title = "Operations a second by the routing of keys";
    page.figure(draw_curves("routings", title, &subtitle, 2, 220.0, &panels));
    page.table(&table(&sides));
}

/// Returns the workloads that were measured with at least two routings.
fn sides<'a>(material: &Material<'a>) -> Vec<Side<'a>> {
    let mut sides: Vec<Side<'a>> = Vec::new();
    for (at, routing) in ROUTINGS.iter().enumerate() {
        let trials = material.trials.iter().filter(|trial| {
            trial.header.engine == material.engine
                && trial.header.options.get("routing").is_some_and(|found| found == routing)
        });
        let all = cells(trials).cells;
        for workload in distinct(all.iter().map(|cell| cell.workload.clone())) {
            let mut of: Vec<Cell<'a>> =
                all.iter().filter(|cell| cell.workload == workload).cloned().collect();
            let partitions = prefer(PARTITIONS, of.iter().map(|cell| cell.partitions));
            of.retain(|cell| cell.partitions == partitions);
            match sides.iter_mut().find(|side| side.workload == workload) {
                Some(side) => side.routings.push((at, of)),
                None => sides.push(Side { workload, routings: vec![(at, of)] }),
            }
        }
    }
    sides.retain(|side| side.routings.len() > 1);
    sides
}

/// Returns the name of a routing, with its number of partitions if it has several.
fn label(at: usize, cells: &[Cell<'_>]) -> String {
    match (ROUTINGS[at], cells.first().map_or(1, |cell| cell.partitions)) {
        (routing, 1) => routing.to_owned(),
        (routing, several) => format!("{routing}, {}", plural(several, "partition")),
    }
}

fn panel(side: &Side<'_>) -> CurvePanel {
    let of = |(at, cells): &(usize, Vec<Cell<'_>>)| {
        let cells: Vec<&Cell<'_>> = cells.iter().collect();
        curve(ROUTINGS[*at], hue(*at), *at, &cells, |cell| cell.lanes.threads as f64)
    };
    let curves = side.routings.iter().map(of).collect();
    let up = "Operations a second";
    let panel = CurvePanel::new(Across::Measured, "Threads", Unit::Count, up, curves);
    CurvePanel { title: side.workload.clone(), ..panel }
}

fn table(sides: &[Side<'_>]) -> Table {
    let mut table = Table::default();
    for side in sides {
        let rate = |at: usize, cell: &Cell<'_>| {
            let (_, cells) = side.routings.iter().find(|(routing, _)| *routing == at)?;
            cells.iter().find(|other| other.lanes == cell.lanes).map(Cell::rate)
        };
        for (at, cells) in &side.routings {
            for cell in cells {
                let first = rate(0, cell).filter(|first| *at > 0 && *first > 0.0);
                let ratio = first.map(|first| Unit::Factor.show(cell.rate() / first));
                table.row([
                    ("Workload", side.workload.clone()),
                    ("Routing", label(*at, cells)),
                    ("#Threads", cell.lanes.to_string()),
                    ("#Operations/s", Unit::Rate.show(cell.rate())),
                    ("#Lowest to highest", spread(cell)),
                    ("#Against hash", ratio.unwrap_or_default()),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Header, Summary, Trial};

    fn trial(workload: &str, routing: &str, partitions: u64, threads: u64, rate: f64) -> Trial {
        let mut header = Header { engine: "flagstone".into(), ..Header::default() };
        header.workload = workload.into();
        header.options.insert("routing".into(), routing.into());
        header.options.insert("partitions".into(), partitions.into());
        header.options.insert("threads".into(), threads.into());
        Trial {
            header,
            summary: Summary { ops_per_s: rate, ..Summary::default() },
            ..Trial::default()
        }
    }

    #[test]
    fn workloads_with_several_routings_are_set_side_by_side() {
        let trials = [
            trial("balanced", "hash", 4, 2, 100.0),
            trial("balanced", "hash", 16, 2, 900.0),
            trial("balanced", "auto", 1, 2, 150.0),
            trial("balanced", "auto", 1, 8, 50.0),
            trial("ycsb-e", "auto", 1, 2, 7.0),
        ];
        let material = Material::new(&trials, None);
        let sides = sides(&material);
        assert_eq!(sides.len(), 1);
        let labels: Vec<String> =
            sides[0].routings.iter().map(|(at, cells)| label(*at, cells)).collect();
        assert_eq!(labels, ["hash, 4 partitions", "auto"]);
        let rows = table(&sides).rows;
        let ratios: Vec<&str> = rows.iter().map(|row| row[5].as_str()).collect();
        assert_eq!(ratios, ["", Unit::Factor.show(1.5).as_str(), ""]);
    }
}
