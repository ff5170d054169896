//! Rows and events as CSV, for spreadsheets and data frames.

use super::line::{EventLine, Line, RowLine};
use super::read::Trial;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Columns that stand first; the others follow by name.
const FIRST: [&str; 3] = ["t", "dt", "ops"];

/// The rows of a trial, a line each, below the names of the columns. Two lines before these begin with
/// `#`: the header with machine and options, and the summary, as the result file has them.
///
/// A column is a field of [`RowLine`]; parts of a field are named behind a dot: `latency.put.p999`,
/// `level_bytes.0`. What was not measured in a row is empty there.
pub fn rows_as_csv(trial: &Trial) -> String {
    let rows: Vec<BTreeMap<String, String>> = trial.rows.iter().map(cells).collect();
    let names: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    let rest = names.into_iter().filter(|name| !FIRST.contains(name));
    let columns: Vec<&str> = FIRST.into_iter().chain(rest).collect();
    let mut text = String::new();
    for line in [Line::Header(trial.header.clone()), Line::Summary(trial.summary.clone())] {
        text.push_str("# ");
        text.push_str(&serde_json::to_string(&line).unwrap_or_default());
        text.push('\n');
    }
    text.push_str(&columns.join(","));
    text.push('\n');
    for row in &rows {
        let cells = columns.iter().map(|column| row.get(*column).map_or("", String::as_str));
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

/// What the engine told during a trial, a line each, below the names of the columns: seconds from the start of the
/// trial, the kind of event, bytes, and the engine's words.
pub fn events_as_csv(trial: &Trial) -> String {
    let mut text = String::from("t,until,kind,bytes,what\n");
    for EventLine { t, until, kind, bytes, what } in &trial.events {
        let kind = serde_json::to_string(kind).unwrap_or_default();
        let what = what.replace('"', "\"\"");
        let _infallible = writeln!(text, "{t},{until},{kind},{bytes},\"{what}\"");
    }
    text
}

/// What a row holds, by column. All of it is numbers, so nothing needs quotes.
fn cells(row: &RowLine) -> BTreeMap<String, String> {
    let mut cells = BTreeMap::new();
    if let Ok(value) = serde_json::to_value(row) {
        flatten(String::new(), &value, &mut cells);
    }
    cells
}

fn flatten(name: String, value: &Value, into: &mut BTreeMap<String, String>) {
    let part = |part: &str| match name.as_str() {
        "" => part.to_owned(),
        name => format!("{name}.{part}"),
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| flatten(part(field), value, into));
        }
        Value::Array(values) => {
            let numbered = values.iter().enumerate();
            numbered.for_each(|(at, value)| flatten(part(&at.to_string()), value, into));
        }
        value => {
            into.insert(name, value.to_string());
        }
    }
}
