//! Rows of CSV and TSV: chosen paths of documents, or the fields of groups.

use crate::failure::Failure;
use crate::units::grouped;
use flagstone::doc::json::append_json;
use flagstone::doc::{FieldKey, FieldPath, Map, Number, Reached, ValueType};
use flagstone::{Value, View};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The columns of a table, and the byte between them.
pub(super) struct Table {
    columns: Vec<Column>,
    /// The columns of fields, by the names of these.
    fields: HashMap<String, usize>,
    /// Whether there is a column of documents that have no fields.
    has_whole: bool,
    delimiter: u8,
}

/// A column.
pub(super) struct Column {
    name: String,
    what: ColumnContent,
}

/// What a column shows.
enum ColumnContent {
    /// The primary key.
    Key,
    Path(FieldPath),
    /// The field of its name.
    Field,
    /// A document that has no fields.
    Whole,
}

/// The column of documents that have no fields.
const WHOLE: &str = "value";
/// Maps with keys of data, such as ids, have no end of fields: this many have columns.
const COLUMNS: usize = 10_000;

impl Column {
    /// The column of primary keys.
    pub(super) fn key(name: &str) -> Self {
        Self { name: name.to_owned(), what: ColumnContent::Key }
    }

    /// The column of the values at a path.
    pub(super) fn path(text: &str) -> Result<Self, flagstone::doc::PathError> {
        let (name, path) = (text.to_owned(), FieldPath::parse(text)?);
        Ok(Self { name, what: ColumnContent::Path(path) })
    }
}

impl Table {
    /// A table with this byte between the columns, of which there are none yet.
    pub(super) fn new(delimiter: u8) -> Self {
        Self { columns: Vec::new(), fields: HashMap::new(), has_whole: false, delimiter }
    }

    /// Adds a column.
    pub(super) fn add(&mut self, column: Column) {
        self.columns.push(column);
    }

    /// Adds columns for the fields of a document that have none yet.
    pub(super) fn add_fields(&mut self, document: &View<'_>) -> Result<(), Failure> {
        let mut is_empty = true;
        for field in document.fields()? {
            is_empty = false;
            let (key, _) = field?;
            let Some(name) = name_of(&key)? else {
                return Err(Failure::Usage(format!(
                    "a field whose name is no text has no column: {CHOOSE}"
                )));
            };
            if self.fields.contains_key(&*name) {
                continue;
            }
            if self.fields.len() == COLUMNS {
                let text =
                    format!("expected at most {} fields of all documents", grouped(COLUMNS as u64));
                return Err(Failure::Usage(format!("{text}, a column each: {CHOOSE}")));
            }
            self.fields.insert(name.clone().into_owned(), self.columns.len());
            self.add(Column { name: name.into_owned(), what: ColumnContent::Field });
        }
        if is_empty && document.value_type() != ValueType::Map && !self.has_whole {
            self.has_whole = true;
            self.add(Column { name: WHOLE.to_owned(), what: ColumnContent::Whole });
        }
        Ok(())
    }

    /// Appends the line that names the columns, if there are some.
    pub(super) fn header(&self, line: &mut Vec<u8>) -> Result<(), Failure> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let cell =
            |column: &Column| Cell { text: column.name.clone().into_bytes(), is_text: false };
        self.line(&self.columns.iter().map(cell).collect::<Vec<_>>(), line)
    }

    /// Appends the line of a document.
    pub(super) fn row(
        &self,
        key: Option<&Value>,
        document: &View<'_>,
        line: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let mut cells = vec![Cell::default(); self.columns.len()];
        if !self.fields.is_empty() {
            for field in document.fields()? {
                let (key, value) = field?;
                let column = name_of(&key)?.and_then(|name| self.fields.get(&*name));
                if let Some(cell) = column.and_then(|column| cells.get_mut(*column)) {
                    *cell = cell_of(&value)?;
                }
            }
        }
        for (column, cell) in self.columns.iter().zip(&mut cells) {
            match &column.what {
                ColumnContent::Key => *cell = key.map_or_else(Cell::default, cell_of_value),
                ColumnContent::Path(path) => *cell = cell_at(document, path)?,
                ColumnContent::Whole if document.fields()?.next().is_none() => {
                    *cell = cell_of(document)?;
                }
                ColumnContent::Whole | ColumnContent::Field => {}
            }
        }
        self.line(&cells, line)
    }

    /// Appends the line of a group, whose fields are those of the first one.
    pub(super) fn group(&mut self, group: &Map, line: &mut Vec<u8>) -> Result<(), Failure> {
        if self.columns.is_empty() {
            for (name, _) in group.iter() {
                let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
                self.add(Column { name, what: ColumnContent::Whole });
            }
            self.header(line)?;
        }
        let cells: Vec<Cell> = group.iter().map(|(_, value)| cell_of_value(value)).collect();
        self.line(&cells, line)
    }

    fn line(&self, cells: &[Cell], line: &mut Vec<u8>) -> Result<(), Failure> {
        for (n, cell) in cells.iter().enumerate() {
            if n > 0 {
                line.push(self.delimiter);
            }
            if self.delimiter != b'\t' {
                // Readers leave out empty lines.
                cell.append_csv(self.delimiter, cells.len() == 1, line);
            } else if cell.has_any(b"\t\r\n") {
                let name = self.columns.get(n).map_or("", |column| &column.name);
                return Err(Failure::Usage(format!(
                    "TSV cannot represent tabs or line ends (column {name:?}): use csv"
                )));
            } else {
                line.extend_from_slice(&cell.text);
            }
        }
        line.push(b'\n');
        Ok(())
    }
}

/// How columns are chosen.
const CHOOSE: &str = "choose some by --project";

/// Returns the name of a field; `None` if it is no text.
fn name_of<'a>(key: &FieldKey<'a>) -> Result<Option<Cow<'a, str>>, Failure> {
    Ok(match key {
        FieldKey::Name(name) => Some(Cow::Borrowed(*name)),
        FieldKey::Value(view) => view.to_value()?.as_str().map(|name| Cow::Owned(name.to_owned())),
    })
}

/// A field of a line.
#[derive(Clone, Default)]
struct Cell {
    text: Vec<u8>,
    /// Whether it is text, which a reader must not take for a number, or for nothing.
    is_text: bool,
}

impl Cell {
    /// Returns the cell of JSON. Dates, bytes, UUIDs and ObjectIds are text in JSON.
    fn of_json(mut json: Vec<u8>) -> Self {
        let is_text = json.first() == Some(&b'"');
        if is_text {
            json.pop();
            json.remove(0);
        }
        Self { text: json, is_text }
    }

    fn has_any(&self, bytes: &[u8]) -> bool {
        self.text.iter().any(|byte| bytes.contains(byte))
    }

    /// Appends the cell in quotes if it needs them: without them it would be another one, or a
    /// number, or nothing.
    fn append_csv(&self, delimiter: u8, is_only: bool, line: &mut Vec<u8>) {
        let is_number =
            || std::str::from_utf8(&self.text).is_ok_and(|t| Number::parse(t).is_some());
        let is_quoted = self.has_any(&[b'\r', b'\n', b'"', delimiter])
            || self.text.is_empty() && is_only
            // At the start of a file, readers take it for a mark of the encoding.
            || self.text.starts_with("\u{feff}".as_bytes())
            || self.is_text && (self.text.is_empty() || is_number());
        if !is_quoted {
            line.extend_from_slice(&self.text);
            return;
        }
        line.push(b'"');
        for byte in &self.text {
            line.push(*byte);
            if *byte == b'"' {
                line.push(b'"');
            }
        }
        line.push(b'"');
    }
}

/// Returns the cell of what is at `path`. Several values, which a path through an array reaches,
/// are a JSON array.
fn cell_at(view: &View<'_>, path: &FieldPath) -> Result<Cell, Failure> {
    let mut values = Vec::new();
    path.reach(view, |reached| {
        if let Reached::Value(value) = reached {
            values.push(value);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    match &values[..] {
        [] => Ok(Cell::default()),
        [value] => cell_of(value),
        several => {
            let mut text = Vec::new();
            for (n, value) in several.iter().enumerate() {
                text.push(if n == 0 { b'[' } else { b',' });
                append_json(value, &mut text)?;
            }
            text.push(b']');
            Ok(Cell { text, is_text: false })
        }
    }
}

/// Returns the cell of a value: text as it is, nothing for null, other values as JSON.
fn cell_of(value: &View<'_>) -> Result<Cell, Failure> {
    if value.is_null() {
        return Ok(Cell::default());
    }
    if let Some(text) = value.as_str() {
        return Ok(Cell { text: text.as_bytes().to_vec(), is_text: true });
    }
    let mut json = Vec::new();
    append_json(value, &mut json)?;
    Ok(Cell::of_json(json))
}

/// Returns the cell of a value as [`cell_of`] does.
fn cell_of_value(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::default(),
        Value::Text(text) => Cell { text: text.clone().into_bytes(), is_text: true },
        other => {
            let mut json = Vec::new();
            flagstone::doc::json::append_value_json(other, &mut json);
            Cell::of_json(json)
        }
    }
}
