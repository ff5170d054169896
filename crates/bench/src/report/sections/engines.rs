//! Engines compared cell by cell, and the latencies of their operations.

use crate::record::{Latency, OpKind, Summary};
use crate::report::chart::{
    Bar, Dumbbell, Group, Scales, Unit, draw_bars, draw_dumbbells, grouped, hue,
};
use crate::report::data::{Cell, Lanes, engine_order, mix_order, variant};
use crate::report::model::{Material, Table, distinct, fastest};
use crate::report::page::Page;
use crate::stats::median;
use std::collections::BTreeMap;

/// The engine that others are compared with.
const OURS: &str = "flagstone";
/// The engine that stores nothing: a yardstick of latencies, whose rates have no meaning.
const NOOP: &str = "noop";

/// The fastest cell of each engine, in the order of engines.
type Fastest<'c, 'a> = BTreeMap<(u8, &'c str), &'c Cell<'a>>;

/// The fastest cell of each engine, all of one workload with the same options but partitions.
struct Match<'c, 'a> {
    workload: &'c str,
    lanes: Lanes,
    cells: Vec<&'c Cell<'a>>,
}

impl Match<'_, '_> {
    fn title(&self) -> String {
        format!("{}, {}", self.workload, self.lanes.told())
    }
}

pub(super) fn engines(material: &Material<'_>, page: &mut Page) {
    let cells = &material.cells.cells;
    let mut engines = distinct(cells.iter().map(|cell| cell.engine));
    engines.sort_by_key(|engine| engine_order(engine));
    let matches = matches(cells);
    if !matches.is_empty() {
        draw(page, &engines, &matches);
        page.table(&table(&matches));
    }
}

fn matches<'c, 'a>(cells: &'c [Cell<'a>]) -> Vec<Match<'c, 'a>> {
    let mut found: BTreeMap<(usize, &str, Lanes, String), Fastest<'c, 'a>> = BTreeMap::new();
    for cell in cells {
        let (workload, variant) = (cell.workload.as_str(), variant(cell.trials[0]));
        let key = (mix_order(workload), workload, cell.lanes, variant);
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

fn draw(page: &mut Page, engines: &[&str], matches: &[Match<'_, '_>]) {
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
            // Other engines have no partitions.
            let label = match cell.partitions {
                partitions if partitions > 1 && cell.engine == OURS => {
                    format!("{OURS}, {partitions} partitions")
                }
                _ => cell.engine.to_owned(),
            };
            Bar { label, value: rate, spread: cell.spread(), note, color: hue(at) }
        };
        let bars = one.cells.iter().filter(|cell| cell.engine != NOOP).map(bar).collect();
        Group { title: one.title(), bars }
    };
    let groups = matches.iter().map(group).filter(|group| group.bars.len() > 1);
    let groups: Vec<Group> = groups.collect();
    if !groups.is_empty() {
        let title = "Operations a second, engine by engine";
        let subtitle = "Medians; thin lines: lowest to highest of repeated trials; each group has \
                        a scale of its own";
        page.figure(draw_bars("engines", title, subtitle, &groups, Scales::Own));
    }
}

fn table(matches: &[Match<'_, '_>]) -> Table {
    let mut table = Table::default();
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
            let written = median(written);
            let writes =
                [OpKind::Put, OpKind::Delete, OpKind::Update, OpKind::Merge, OpKind::Transaction];
            table.row([
                ("Cell", one.title()),
                ("Engine", cell.engine.to_owned()),
                ("#Operations/s", Unit::Rate.show(cell.rate())),
                ("#flagstone / it", ratio.map_or(String::new(), |r| Unit::Factor.show(r))),
                ("#Slowest interval", Unit::Rate.show(cell.median(|s| s.row_worst))),
                ("#Write p99.9", tail(&writes)),
                ("#Read p99.9", tail(&[OpKind::Get, OpKind::Scan])),
                ("#Size on disk", bytes(|summary| summary.disk_bytes)),
                ("#Written / put", written.map_or(String::new(), |w| format!("{w:.2}"))),
                ("#Largest RSS", bytes(|summary| summary.rss_max_bytes)),
                ("#Trials", cell.trials.len().to_string()),
            ]);
        }
    }
    table
}

/// The largest number of rows of a chart: the others are in the table.
const ROWS_MAX: usize = 48;
/// A longer table is folded.
const TABLE_MAX: usize = 24;

pub(super) fn latency(material: &Material<'_>, page: &mut Page) {
    let cells = &material.cells.cells;
    let mut with: Vec<&Cell<'_>> =
        cells.iter().filter(|cell| kinds(cell).next().is_some()).collect();
    with.sort_by_key(|cell| {
        (mix_order(&cell.workload), cell.workload.as_str(), engine_order(cell.engine))
    });
    if with.is_empty() {
        return;
    }
    draw_latencies(page, &with);
    let table = latency_table(&with);
    if table.rows.len() > TABLE_MAX {
        let title = format!("All latencies: {} rows", table.rows.len());
        page.folded(&title, |page| page.table(&table));
    } else {
        page.table(&table);
    }
}

fn kinds<'c>(cell: &'c Cell<'_>) -> impl Iterator<Item = (OpKind, Latency)> + 'c {
    OpKind::ALL.into_iter().filter_map(|kind| Some((kind, cell.latency(kind)?)))
}

fn draw_latencies(page: &mut Page, cells: &[&Cell<'_>]) {
    let mut rows = Vec::new();
    for same in cells.chunk_by(|a, b| (&a.workload, a.engine) == (&b.workload, b.engine)) {
        let Some(cell) = fastest(same.iter().copied()) else { continue };
        for (kind, latency) in kinds(cell) {
            let group = format!("{}, {}: {}", cell.workload, cell.engine, cell.place());
            let values = vec![latency.p50, latency.p99, latency.p999, latency.max];
            rows.push(Dumbbell { group, label: kind.name().to_owned(), values });
        }
    }
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let more = if left_out > 0 { format!("; {left_out} more in the table") } else { String::new() };
    let subtitle = format!("Of each workload and engine the cell with the highest rate{more}");
    let names = ["median", "p99", "p99.9", "slowest"];
    let title = "Latency of single operations";
    page.figure(draw_dumbbells("latency", title, &subtitle, &names, &rows));
}

fn latency_table(cells: &[&Cell<'_>]) -> Table {
    let mut table = Table::default();
    for cell in cells {
        for (kind, latency) in kinds(cell) {
            let time = |micros: f64| Unit::Micros.show(micros);
            table.row([
                ("Workload", cell.workload.clone()),
                ("Engine", cell.engine.to_owned()),
                ("#Partitions", cell.partitions.to_string()),
                ("#Threads", cell.lanes.to_string()),
                ("Operation", kind.name().to_owned()),
                ("#Count", grouped(latency.count)),
                ("#Mean", time(latency.mean)),
                ("#p50", time(latency.p50)),
                ("#p99", time(latency.p99)),
                ("#p99.9", time(latency.p999)),
                ("#Slowest", time(latency.max)),
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
        Trial { header, summary, ..Trial::default() }
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
