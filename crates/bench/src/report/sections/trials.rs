//! Trials as tables: the options that differ, and every figure of their summaries.

use crate::record::{Summary, Trial};
use crate::report::chart::Unit;
use crate::report::data::{FigureName, median, options_that_vary, shown};
use crate::report::model::{Material, Part, Section, Table};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn section(material: &Material<'_>) -> Section {
    let mut workloads: BTreeMap<&str, Vec<&Trial>> = BTreeMap::new();
    for trial in material.trials {
        workloads.entry(&trial.header.workload).or_default().push(trial);
    }
    let fold = |(workload, trials): (&str, Vec<&Trial>)| {
        let title = format!("{workload}: {}", trials.len());
        let mut table = rows(&trials, &mut |trial| trial.path.display().to_string());
        table.columns.push(("File".to_owned(), false));
        Part::Folded(title, vec![Part::Table(table)])
    };
    let parts = workloads.into_iter().map(fold).collect();
    Section::new("trials", "All trials", parts, "flagstone-bench WORKLOAD --out DIR")
}

/// The medians of trials that repeat each other, one row each.
pub(super) fn table(trials: &[&Trial]) -> Table {
    let options = options_that_vary(trials);
    let mut groups: BTreeMap<Vec<String>, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        let mut key = vec![trial.header.workload.clone(), trial.header.engine.clone()];
        key.extend(options.iter().map(|option| shown(trial, option)));
        groups.entry(key).or_default().push(trial);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    let order = |trial: &Trial| {
        let number = |option: &String| trial.header.options.get(option).and_then(|v| v.as_u64());
        (trial.header.workload.clone(), options.iter().map(number).collect::<Vec<_>>())
    };
    groups.sort_by_key(|group| order(group[0]));
    let figures = figure_names(trials);
    let mut table = head(&options, &figures);
    for group in groups {
        table.rows.push(row(&group, &options, &figures));
    }
    tidy(table)
}

/// Columns of every table, behind the options and before a workload's own figures.
const COLUMNS: [&str; 9] = [
    "Operations/s",
    "Lowest to highest",
    "Slowest 1% / median",
    "Seconds",
    "Making keys, values",
    "CPUs used",
    "Largest RSS",
    "Size on disk",
    "Written / put",
];

/// One row a trial, with something more at its end.
fn rows(trials: &[&Trial], more: &mut dyn FnMut(&Trial) -> String) -> Table {
    let (options, figures) = (options_that_vary(trials), figure_names(trials));
    let mut table = head(&options, &figures);
    for trial in trials {
        table.rows.push(row(&[trial], &options, &figures));
    }
    table = tidy(table);
    for (row, trial) in table.rows.iter_mut().zip(trials) {
        row.push(more(trial));
    }
    table
}

fn figure_names<'a>(trials: &[&'a Trial]) -> Vec<&'a String> {
    let names: BTreeSet<_> = trials.iter().flat_map(|trial| trial.summary.figures.keys()).collect();
    names.into_iter().collect()
}

fn head(options: &[String], figures: &[&String]) -> Table {
    let mut table = Table::new(&["Workload", "Engine"]);
    let capital = |text: &str| {
        let mut letters = text.chars();
        letters.next().map(|c| c.to_uppercase().chain(letters).collect::<String>())
    };
    for option in options {
        let title = capital(&option.replace(['_', '-'], " ")).unwrap_or_default();
        table.columns.push((title, true));
    }
    for title in COLUMNS {
        table.columns.push((title.to_owned(), true));
    }
    for name in figures {
        let title = FigureName::new(name).title;
        table.columns.push((capital(&title).unwrap_or_default(), true));
    }
    table
}

fn row(group: &[&Trial], options: &[String], figures: &[&String]) -> Vec<String> {
    let first = group[0];
    let mut row = vec![first.header.workload.clone(), first.header.engine.clone()];
    row.extend(options.iter().map(|option| shown(first, option)));
    let of = |value: &dyn Fn(&Trial) -> Option<f64>, unit: Unit| {
        let value = median(group.iter().filter_map(|trial| value(trial))).filter(|v| *v > 0.0);
        value.map(|value| unit.show(value)).unwrap_or_default()
    };
    let rates = || group.iter().map(|trial| trial.summary.ops_per_s);
    let spread = || {
        let low = Unit::Count.show(rates().fold(f64::INFINITY, f64::min));
        format!("{low} \u{2013} {}", Unit::Count.show(rates().fold(0.0, f64::max)))
    };
    let summary = |of: fn(&Summary) -> f64| move |trial: &Trial| Some(of(&trial.summary));
    row.push(of(&summary(|s| s.ops_per_s), Unit::Rate));
    row.push(if group.len() > 1 { spread() } else { String::new() });
    row.push(of(&summary(|s| s.row_worst_hundredth / s.row_median), Unit::Share));
    row.push(of(&summary(|s| s.seconds), Unit::Count));
    row.push(of(&summary(|s| s.make_share), Unit::Share));
    row.push(of(&summary(|s| s.cpu_s / s.seconds), Unit::Count));
    row.push(of(&summary(|s| s.rss_max_bytes as f64), Unit::Bytes));
    row.push(of(&summary(|s| s.disk_bytes as f64), Unit::Bytes));
    row.push(of(&|trial| trial.summary.write_amplification, Unit::Count));
    for name in figures {
        let value = median(group.iter().filter_map(|t| t.summary.figures.get(*name)).copied());
        row.push(value.map(|value| FigureName::new(name).show(value)).unwrap_or_default());
    }
    row
}

/// Without columns in which nothing stands.
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
