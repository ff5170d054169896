//! The data of all sections, and the tables that they write.

use super::data::{Cell, Cells, DocumentSizes, cells, engine_order, is_mix};
use crate::record::Trial;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Titles, and whether their cells are numbers.
    pub(super) columns: Vec<(String, bool)>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// Adds a row of titles and values. A title of numbers begins with `#`.
    pub(super) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = (T, String)>) {
        let (titles, row): (Vec<T>, Vec<String>) = cells.into_iter().unzip();
        if self.columns.is_empty() {
            let column = |title: &T| match title.as_ref().strip_prefix('#') {
                Some(title) => (title.to_owned(), true),
                None => (title.as_ref().to_owned(), false),
            };
            self.columns = titles.iter().map(column).collect();
        }
        self.rows.push(row);
    }
}

/// The data of all sections.
#[derive(Debug)]
pub(super) struct Material<'a> {
    pub(super) trials: &'a [Trial],
    pub(super) cells: Cells<'a>,
    /// The main engine: that of all figures that show only one.
    pub(super) engine: &'a str,
    pub(super) sizes: Option<&'a DocumentSizes>,
}

impl<'a> Material<'a> {
    pub(super) fn new(trials: &'a [Trial], sizes: Option<&'a DocumentSizes>) -> Self {
        let engines = trials.iter().map(|trial| trial.header.engine.as_str());
        let engine = engines.min_by_key(|engine| engine_order(engine)).unwrap_or_default();
        Self { trials, cells: cells(trials.iter()), engine, sizes }
    }

    /// The cells of the main engine whose workload is wanted.
    pub(super) fn of(&self, wanted: impl Fn(&str) -> bool) -> Vec<&Cell<'a>> {
        let main = self.cells.cells.iter().filter(|cell| cell.engine == self.engine);
        main.filter(|cell| wanted(&cell.workload)).collect()
    }

    pub(super) fn mixes(&self) -> Vec<&Cell<'a>> {
        self.of(is_mix)
    }
}

/// The different values, in order.
pub(super) fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let set: BTreeSet<T> = values.collect();
    set.into_iter().collect()
}

/// Trials with the same key, in the order of keys.
pub(super) fn grouped<'a, K: Ord>(
    trials: impl IntoIterator<Item = &'a Trial>,
    key: impl Fn(&'a Trial) -> K,
) -> BTreeMap<K, Vec<&'a Trial>> {
    let mut groups: BTreeMap<K, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        groups.entry(key(trial)).or_default().push(trial);
    }
    groups
}

/// The cells of each workload, in their order.
pub(super) fn by_workload<'c, 'a>(cells: &[&'c Cell<'a>]) -> Vec<(&'c str, Vec<&'c Cell<'a>>)> {
    let mut out: Vec<(&str, Vec<&Cell<'a>>)> = Vec::new();
    for cell in cells {
        match out.iter_mut().find(|(workload, _)| *workload == cell.workload) {
            Some((_, of)) => of.push(cell),
            None => out.push((&cell.workload, vec![cell])),
        }
    }
    out
}

/// The cell with the highest rate.
pub(super) fn fastest<'c, 'a: 'c>(
    cells: impl IntoIterator<Item = &'c Cell<'a>>,
) -> Option<&'c Cell<'a>> {
    cells.into_iter().max_by(|a, b| a.rate().total_cmp(&b.rate()))
}

/// `text` as part of an id: letters, digits and dashes.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}
