//! Engines side by side, cell by cell.

use crate::record::{OpKind, Summary};
use crate::report::chart::{Bar, BarChart, Group, Unit, hue};
use crate::report::data::{Cell, Lanes, engine_order, mix_order, plural};
use crate::report::model::{Figure, Material, Part, Section, Table, distinct};
use std::collections::BTreeMap;

/// The engine that others are measured against.
const OURS: &str = "flagstone";
/// Keeps nothing: a yardstick of latencies, whose rates say nothing.
const NOOP: &str = "noop";

/// The fastest cell of each engine, in their order.
type Fastest<'c, 'a> = BTreeMap<(u8, &'c str), &'c Cell<'a>>;

/// The fastest cell of each engine, all of one workload with the same options but partitions.
struct Match<'c, 'a> {
    workload: &'c str,
    lanes: Lanes,
    cells: Vec<&'c Cell<'a>>,
}

pub(super) fn section(material: &Material<'_>) -> Section {
    let cells = &material.cells.cells;
    let mut engines = distinct(cells.iter().map(|cell| cell.engine));
    engines.sort_by_key(|engine| engine_order(engine));
    let matches = matches(cells);
    let mut parts = Vec::new();
    if !matches.is_empty() {
        parts.extend(figure(&engines, &matches).map(Part::Figure));
        parts.push(Part::Table(table(&matches)));
    }
    Section::new(
        "engines",
        "Engines side by side",
        parts,
        "result files of several engines in one folder: cargo xtask peers",
    )
}

fn matches<'c, 'a>(cells: &'c [Cell<'a>]) -> Vec<Match<'c, 'a>> {
    let mut found: BTreeMap<(usize, &str, Lanes, String), Fastest<'c, 'a>> = BTreeMap::new();
    for cell in cells {
        let key = (mix_order(&cell.workload), cell.workload.as_str(), cell.lanes, cell.variant());
        let engines = found.entry(key).or_default();
        let best = engines.entry(engine_order(cell.engine)).or_insert(cell);
        if cell.rate() > best.rate() {
            *best = cell;
        }
    }
    let several = found.into_iter().filter(|(_, engines)| engines.len() > 1);
    several
        .map(|((_, workload, lanes, _), engines)| Match {
            workload,
            lanes,
            cells: engines.into_values().collect(),
        })
        .collect()
}

fn ours<'c, 'a>(cells: &[&'c Cell<'a>]) -> Option<&'c Cell<'a>> {
    cells.iter().copied().find(|cell| cell.engine == OURS).filter(|cell| cell.rate() > 0.0)
}

fn title(workload: &str, lanes: Lanes) -> String {
    match lanes.load {
        Some(_) => format!("{workload}, {lanes} readers + parsers"),
        None => format!("{workload}, {}", plural(lanes.threads, "thread")),
    }
}

fn figure(engines: &[&str], matches: &[Match<'_, '_>]) -> Option<Figure> {
    let group = |one: &Match<'_, '_>| {
        let ours = ours(&one.cells).map(Cell::rate);
        let bar = |cell: &&Cell<'_>| {
            let at = engines.iter().position(|engine| *engine == cell.engine).unwrap_or(0);
            let rate = cell.rate();
            let note = match ours {
                Some(ours) if cell.engine != OURS => {
                    format!("{} of {OURS}", Unit::Factor.show(rate / ours))
                }
                _ => String::new(),
            };
            // Others are given the number, and have no use for it.
            let label = match cell.partitions {
                partitions if partitions > 1 && cell.engine == OURS => {
                    format!("{OURS}, {partitions} partitions")
                }
                _ => cell.engine.to_owned(),
            };
            Bar { label, value: rate, spread: cell.spread(), note, color: hue(at) }
        };
        let bars = one.cells.iter().filter(|cell| cell.engine != NOOP).map(bar).collect();
        Group { title: title(one.workload, one.lanes), bars }
    };
    let chart = BarChart {
        title: "Operations a second, engine by engine".to_owned(),
        subtitle:
            "Medians; thin lines: lowest to highest of repeated trials; each group has a scale \
                   of its own"
                .to_owned(),
        unit: Unit::Rate,
        groups: matches.iter().map(group).filter(|group| group.bars.len() > 1).collect(),
        own_scales: true,
    };
    let is_empty = chart.groups.is_empty();
    (!is_empty).then(|| Figure { id: "engines".to_owned(), svg: chart.draw(), title: chart.title })
}

fn table(matches: &[Match<'_, '_>]) -> Table {
    let mut table = Table::new(&[
        "Cell",
        "Engine",
        "#Operations/s",
        "#flagstone / it",
        "#Slowest interval",
        "#Write p99.9",
        "#Read p99.9",
        "#Size on disk",
        "#Written / put",
        "#Largest RSS",
        "#Trials",
    ]);
    for one in matches {
        let ours = ours(&one.cells).map(Cell::rate);
        for cell in &one.cells {
            let bytes = |of: fn(&Summary) -> u64| Unit::Bytes.show(cell.median(|s| of(s) as f64));
            let ratio = ours.filter(|_| cell.rate() > 0.0).map(|ours| ours / cell.rate());
            let tail = |kinds: &[OpKind]| {
                let tails = kinds.iter().filter_map(|kind| cell.latency(*kind)).map(|l| l.p999);
                tails.reduce(f64::max).map(|micros| Unit::Micros.show(micros)).unwrap_or_default()
            };
            let written: Vec<f64> =
                cell.trials.iter().filter_map(|trial| trial.summary.write_amplification).collect();
            let written = crate::report::data::median(written);
            table.rows.push(vec![
                title(one.workload, one.lanes),
                cell.engine.to_owned(),
                Unit::Rate.show(cell.rate()),
                ratio.map(|ratio| Unit::Factor.show(ratio)).unwrap_or_default(),
                Unit::Rate.show(cell.median(|summary| summary.row_worst)),
                tail(&[OpKind::Put, OpKind::Delete, OpKind::Update, OpKind::Merge]),
                tail(&[OpKind::Get, OpKind::Scan]),
                bytes(|summary| summary.disk_bytes),
                written.map(|written| format!("{written:.2}")).unwrap_or_default(),
                bytes(|summary| summary.rss_max_bytes),
                cell.trials.len().to_string(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Header, Trial};
    use crate::report::data::cells;

    fn trial(engine: &str, partitions: u64, seconds: f64, rate: f64) -> Trial {
        let mut header = Header { engine: engine.into(), ..Header::default() };
        header.workload = "balanced".into();
        header.options.insert("partitions".into(), partitions.into());
        header.options.insert("seconds".into(), seconds.into());
        let summary = Summary { ops_per_s: rate, ..Summary::default() };
        Trial { path: "x".into(), header, rows: Vec::new(), events: Vec::new(), summary }
    }

    #[test]
    fn engines_with_other_options_are_not_set_side_by_side() {
        let trials = [
            trial("flagstone", 1, 20.0, 5.0),
            trial("flagstone", 4, 20.0, 7.0),
            trial("fjall", 1, 20.0, 6.0),
            trial("rocksdb", 1, 120.0, 9.0),
        ];
        let cells = cells(trials.iter());
        let found = matches(&cells.cells);
        assert_eq!(found.len(), 1);
        let rates: Vec<_> = found[0].cells.iter().map(|cell| (cell.engine, cell.rate())).collect();
        assert_eq!(rates, [("flagstone", 7.0), ("fjall", 6.0)]);
    }
}
