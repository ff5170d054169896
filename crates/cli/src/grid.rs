//! Tables for a terminal: of documents, and of rows that are all known.

use crate::failure::Failure;
use crate::output::{self, Output};
use crate::units::counted;
use flagstone::Value;
use flagstone::doc::Map;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

/// Prints documents as rows. The first ones decide columns and widths.
pub(crate) struct Grid {
    output: Output,
    first: Vec<Map>,
    columns: Option<Columns>,
    /// The fields that no column shows, for lack of width or because they came late.
    hidden: BTreeSet<String>,
    width: usize,
    /// The names of columns that come first, in this order.
    wanted: Vec<String>,
}

/// The columns that are shown, and the place of each by its name: without a terminal there may be
/// as many as fields.
struct Columns {
    columns: Vec<GridColumn>,
    places: HashMap<String, usize>,
}

struct GridColumn {
    name: String,
    width: usize,
    is_number: bool,
}

/// How many documents decide the columns.
const FIRST: usize = 200;
/// The widest cell, in characters.
const CELL: usize = 40;
/// The most fields that are counted as not shown.
const HIDDEN: usize = 10_000;

impl Grid {
    /// Creates a table of at most `width` characters. Columns of the names `wanted` come first, in
    /// this order.
    pub(crate) fn new(width: usize, wanted: Vec<String>) -> Self {
        let output = Output::new();
        let hidden = BTreeSet::new();
        Self { output, first: Vec::new(), columns: None, hidden, width, wanted }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, value: Value) -> Result<(), Failure> {
        let map = match value {
            Value::Map(map) => map,
            other => std::iter::once((Value::from("value"), other)).collect(),
        };
        if let Some(columns) = &self.columns {
            for (name, _) in map.iter() {
                let name = text_of(name);
                if self.hidden.len() < HIDDEN && !columns.places.contains_key(&*name) {
                    self.hidden.insert(name.into_owned());
                }
            }
            return self.output.line(&columns.line(&map));
        }
        self.first.push(map);
        if self.first.len() < FIRST { Ok(()) } else { self.begin() }
    }

    /// Prints what is left.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.begin()?;
        self.output.flush()?;
        if !self.hidden.is_empty() {
            let fields = counted(self.hidden.len() as u64, "more field");
            let text = format!("{fields}: choose by --project, or print all by --format json");
            output::note(&text);
        }
        Ok(())
    }

    /// Chooses the columns and prints the first rows.
    fn begin(&mut self) -> Result<(), Failure> {
        if self.columns.is_some() || self.first.is_empty() {
            return Ok(());
        }
        let mut columns: Vec<GridColumn> = Vec::new();
        let mut places = HashMap::new();
        for (name, value) in self.first.iter().flat_map(Map::iter) {
            let (name, cell) = (show(name), show(value));
            let width = cell.width.min(CELL);
            match places.get(&name.text).and_then(|at: &usize| columns.get_mut(*at)) {
                Some(column) => {
                    column.width = column.width.max(width);
                    column.is_number &= cell.is_number;
                }
                None => {
                    places.insert(name.text.clone(), columns.len());
                    columns.push(GridColumn {
                        width: width.max(name.width.min(CELL)),
                        name: name.text,
                        is_number: cell.is_number,
                    });
                }
            }
        }
        let place = |column: &GridColumn| self.wanted.iter().position(|name| *name == column.name);
        columns.sort_by_key(|column| place(column).unwrap_or(usize::MAX));
        let mut used = 0;
        if let Some(first) = columns.first_mut() {
            first.width = first.width.min(self.width);
        }
        let fits = |column: &GridColumn| {
            used += column.width + 2;
            used - 2 <= self.width
        };
        let shown = columns.iter().map(fits).take_while(|fits| *fits).count().max(1);
        self.hidden = columns.drain(shown..).map(|column| column.name).collect();
        let head: Vec<String> = columns.iter().map(|column| pad(&column.name, column)).collect();
        self.output.line(head.join("  ").trim_end())?;
        let rule: Vec<String> = columns.iter().map(|column| "-".repeat(column.width)).collect();
        self.output.line(&rule.join("  "))?;
        let places = columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at));
        let columns = Columns { places: places.collect(), columns };
        for map in std::mem::take(&mut self.first) {
            self.output.line(&columns.line(&map))?;
        }
        self.columns = Some(columns);
        Ok(())
    }
}

/// Returns rows as lines, with columns as wide as they need to be; those with numbers `right` end
/// at their right side.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]], right: &[usize]) -> Vec<String> {
    let width = |column: usize| {
        rows.iter().map(|row| console::measure_text_width(&row[column])).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let side = if right.contains(&column) {
                console::Alignment::Right
            } else {
                console::Alignment::Left
            };
            console::pad_str(cell, *width, side, None)
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

impl Columns {
    /// Returns the line of a document.
    fn line(&self, map: &Map) -> String {
        let mut values: Vec<Option<&Value>> = vec![None; self.columns.len()];
        for (name, value) in map.iter() {
            let place = self.places.get(&*text_of(name));
            if let Some(found) = place.and_then(|at| values.get_mut(*at)) {
                found.get_or_insert(value);
            }
        }
        let cells = self.columns.iter().zip(values).map(|(column, value)| {
            pad(&value.map_or_else(String::new, |value| show(value).text), column)
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// A value as the text of a cell.
struct GridCell {
    text: String,
    width: usize,
    is_number: bool,
}

/// Text without quotes, other values as JSON; on one line, without control characters.
fn show(value: &Value) -> GridCell {
    let text = text_of(value).into_owned();
    let is_number = value.as_f64().is_some();
    GridCell { width: console::measure_text_width(&text), text, is_number }
}

fn text_of(value: &Value) -> Cow<'_, str> {
    let text = value.as_str().map_or_else(|| Cow::Owned(value.to_string()), Cow::Borrowed);
    if text.contains(char::is_control) {
        Cow::Owned(text.replace(char::is_control, " "))
    } else {
        text
    }
}

fn pad(text: &str, column: &GridColumn) -> String {
    let side = if column.is_number { console::Alignment::Right } else { console::Alignment::Left };
    console::pad_str(text, column.width, side, Some("..")).into_owned()
}
