//! Trials as tables: the options that differ, and every figure of their summaries.

use crate::record::{Header, Summary, Trial};
use crate::report::chart::Unit;
use crate::report::data::{options_that_vary, shown, spread};
use crate::report::model::{Material, Table, grouped};
use crate::report::page::Page;
use crate::stats::median;
use std::collections::BTreeSet;

pub(super) fn trials(material: &Material<'_>, page: &mut Page) {
    for (workload, trials) in grouped(material.trials, |trial| trial.header.workload.as_str()) {
        page.folded(&format!("{workload}: {}", trials.len()), |page| page.table(&every(&trials)));
    }
}

/// The medians of trials that repeat each other, one row each.
pub(super) fn table(trials: &[&Trial]) -> Table {
    let options = options_that_vary(trials);
    let groups = grouped(trials.iter().copied(), |trial| {
        let shown: Vec<String> = options.iter().map(|option| shown(trial, option)).collect();
        (&trial.header.workload, &trial.header.engine, shown)
    });
    let mut groups: Vec<_> = groups.into_values().collect();
    let order = |trial: &Trial| {
        let numbers: Vec<_> = options.iter().map(|option| trial.number(option)).collect();
        (trial.header.workload.clone(), numbers)
    };
    groups.sort_by_key(|group| order(group[0]));
    rows(groups.iter().map(Vec::as_slice), &options)
}

/// One row a trial, and its file.
fn every(trials: &[&Trial]) -> Table {
    let mut table = rows(trials.chunks(1), &options_that_vary(trials));
    table.columns.push(("File".to_owned(), false));
    for (row, trial) in table.rows.iter_mut().zip(trials) {
        row.push(trial.path.display().to_string());
    }
    table
}

/// A row a group of trials that repeat each other: options, what every workload has, the figures of
/// their own.
fn rows<'t>(groups: impl Iterator<Item = &'t [&'t Trial]> + Clone, options: &[String]) -> Table {
    let figures = groups.clone().flatten().flat_map(|trial| trial.summary.figures.keys());
    let figures: BTreeSet<_> = figures.collect();
    let mut table = Table::default();
    for group in groups {
        table.row(row(group, options, &figures));
    }
    tidy(table)
}

fn row(group: &[&Trial], options: &[String], figures: &BTreeSet<&String>) -> Vec<(String, String)> {
    let Header { workload, engine, .. } = &group[0].header;
    let capital = |text: &str| {
        let mut letters = text.chars();
        let first = letters.next().map(char::to_uppercase);
        format!("#{}", first.into_iter().flatten().chain(letters).collect::<String>())
    };
    let mut row = vec![("Workload".into(), workload.clone()), ("Engine".into(), engine.clone())];
    let title = |option: &str| capital(&option.replace(['_', '-'], " "));
    row.extend(options.iter().map(|option| (title(option), shown(group[0], option))));
    let spread = spread(group).map_or(String::new(), |(low, high)| {
        format!("{} \u{2013} {}", Unit::Count.show(low), Unit::Count.show(high))
    });
    let column = |title: &str, unit: Unit, of: fn(&Summary) -> Option<f64>| {
        let value = median(group.iter().filter_map(|trial| of(&trial.summary)));
        let shown = value.filter(|value| *value > 0.0).map(|value| unit.show(value));
        (format!("#{title}"), shown.unwrap_or_default())
    };
    row.extend([
        column("Operations/s", Unit::Rate, |s| Some(s.ops_per_s)),
        ("#Lowest to highest".into(), spread),
        column("Slowest 1% / median", Unit::Share, |s| Some(s.row_worst_hundredth / s.row_median)),
        column("Seconds", Unit::Count, |s| Some(s.seconds)),
        column("Making keys, values", Unit::Share, |s| Some(s.make_share)),
        column("CPUs used", Unit::Count, |s| Some(s.cpu_s / s.seconds)),
        column("Largest RSS", Unit::Bytes, |s| Some(s.rss_max_bytes as f64)),
        column("Size on disk", Unit::Bytes, |s| Some(s.disk_bytes as f64)),
        column("Written / put", Unit::Count, |s| s.write_amplification),
    ]);
    row.extend(figures.iter().map(|name| {
        let value = median(group.iter().filter_map(|t| t.summary.figures.get(*name)).copied());
        let (title, value) = title_and_value(name, value);
        (capital(&title), value)
    }));
    row
}

/// Removes empty columns.
fn tidy(table: Table) -> Table {
    let used: Vec<bool> = (0..table.columns.len())
        .map(|at| table.rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.is_empty())))
        .collect();
    let keep = |cells: Vec<String>| -> Vec<String> {
        cells.into_iter().zip(&used).filter(|(_, used)| **used).map(|(cell, _)| cell).collect()
    };
    let columns = table.columns.into_iter().zip(&used).filter(|(_, used)| **used);
    Table {
        columns: columns.map(|(column, _)| column).collect(),
        rows: table.rows.into_iter().map(keep).collect(),
    }
}

/// The end of a name, its unit, and how many of that unit it is.
const UNITS: [(&str, Unit, f64); 7] = [
    ("_mb_per_s", Unit::BytesRate, 1e6),
    ("_per_s", Unit::Rate, 1.0),
    ("_bytes", Unit::Bytes, 1.0),
    ("_share", Unit::Share, 1.0),
    ("_ratio", Unit::Factor, 1.0),
    ("_us", Unit::Micros, 1.0),
    ("_s", Unit::Seconds, 1.0),
];

/// The title of a figure for people, and a value of it with its unit: `close_s` is `close`, in
/// seconds.
fn title_and_value(name: &str, value: Option<f64>) -> (String, String) {
    let name = name.replace('-', "_");
    let of = UNITS.iter().find_map(|(end, unit, by)| Some((name.strip_suffix(end)?, *unit, *by)));
    let (start, unit, factor) = of.unwrap_or((&name, Unit::Count, 1.0));
    (start.replace('_', " "), value.map(|value| unit.show(value * factor)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_name_ends_in_its_unit() {
        let show = |name: &str, value| {
            let (title, value) = title_and_value(name, Some(value));
            format!("{title}: {value}")
        };
        assert_eq!(show("close_s", 1.5), "close: 1.5 s");
        assert_eq!(show("read_p99_us", 1_500.0), "read p99: 1.5 ms");
        assert_eq!(show("sequential_write_mb_per_s", 812.0), "sequential write: 812 MB/s");
        assert_eq!(show("commits_per_sync", 12.345), "commits per sync: 12.3");
        assert_eq!(show("block_bytes", 4096.0), "block: 4.1 KB");
        assert_eq!(show("hit_share", 0.5), "hit: 50%");
    }
}
