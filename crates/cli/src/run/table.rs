//! Rows of CSV and TSV: chosen paths of documents, or the fields of groups.

use crate::failure::Failure;
use flagstone::doc::json::append_json;
use flagstone::doc::{FieldKey, FieldPath, Map, Reached};
use flagstone::{Value, View};
use std::ops::ControlFlow;

/// The columns of a table, and the byte between them.
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) delimiter: u8,
}

/// A column.
pub(super) struct Column {
    pub(super) name: String,
    what: ColumnContent,
}

/// What a column shows.
enum ColumnContent {
    /// The primary key.
    Key,
    Path(FieldPath),
    /// A document that has no fields.
    Whole,
}

/// The column of documents that have no fields.
const WHOLE: &str = "value";

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
    /// A table of comma-separated values, still without columns.
    pub(super) const fn csv() -> Self {
        Self { columns: Vec::new(), delimiter: b',' }
    }

    /// Adds columns for the fields of a document that have none yet.
    pub(super) fn add_fields(&mut self, document: &View<'_>) -> Result<(), Failure> {
        let mut is_empty = true;
        for field in document.fields()? {
            is_empty = false;
            let (key, _) = field?;
            let name = name_of(key)?;
            if !self.has(&name) {
                let what = ColumnContent::Path(FieldPath::of_names([&name]));
                self.columns.push(Column { name, what });
            }
        }
        if is_empty && document.value_type() != flagstone::doc::ValueType::Map && !self.has(WHOLE) {
            self.columns.push(Column { name: WHOLE.to_owned(), what: ColumnContent::Whole });
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    /// Appends the line that names the columns.
    pub(super) fn header(&self, line: &mut Vec<u8>) {
        self.line(self.columns.iter().map(|column| column.name.as_bytes()), line);
    }

    /// Appends the line of a document.
    pub(super) fn row(
        &self,
        key: Option<&Value>,
        document: &View<'_>,
        line: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let mut cell = Vec::new();
            match &column.what {
                ColumnContent::Key => {
                    if let Some(key) = key {
                        append_value(key, &mut cell);
                    }
                }
                ColumnContent::Path(path) => append_at(document, path, &mut cell)?,
                ColumnContent::Whole if document.fields()?.next().is_some() => {}
                ColumnContent::Whole => append_at(document, &FieldPath::root(), &mut cell)?,
            }
            cells.push(cell);
        }
        self.line(cells.iter().map(Vec::as_slice), line);
        Ok(())
    }

    /// Appends the line of a group, whose fields are those of the first one.
    pub(super) fn group(&mut self, group: &Map, line: &mut Vec<u8>) {
        if self.columns.is_empty() {
            for (name, _) in group.iter() {
                let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
                self.columns.push(Column { name, what: ColumnContent::Whole });
            }
            self.header(line);
        }
        let mut cells = Vec::with_capacity(group.len());
        for (_, value) in group.iter() {
            let mut cell = Vec::new();
            append_value(value, &mut cell);
            cells.push(cell);
        }
        self.line(cells.iter().map(Vec::as_slice), line);
    }

    fn line<'a>(&self, cells: impl ExactSizeIterator<Item = &'a [u8]>, line: &mut Vec<u8>) {
        let is_only = cells.len() == 1;
        for (n, cell) in cells.enumerate() {
            if n > 0 {
                line.push(self.delimiter);
            }
            match cell {
                // Readers leave out empty lines.
                [] if is_only && self.delimiter == b',' => line.extend_from_slice(b"\"\""),
                _ => append_field(cell, self.delimiter, line),
            }
        }
        line.push(b'\n');
    }
}

fn name_of(key: FieldKey<'_>) -> Result<String, Failure> {
    match key {
        FieldKey::Name(name) => Ok(name.to_owned()),
        FieldKey::Value(view) => match view.to_value()?.as_str() {
            Some(name) => Ok(name.to_owned()),
            None => Err(Failure::Check(
                "a field whose name is no text has no column: choose some by --project".to_owned(),
            )),
        },
    }
}

/// Appends what is at `path`: text as it is, as are dates, bytes and UUIDs, which are text in JSON;
/// nothing for null, other values as JSON. Several values, which a path through an array reaches,
/// are a JSON array.
fn append_at(view: &View<'_>, path: &FieldPath, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut values = Vec::new();
    path.reach(view, |reached| {
        if let Reached::Value(value) = reached {
            values.push(value);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    match &values[..] {
        [] => {}
        [value] if value.is_null() => {}
        [value] => match value.as_str() {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => {
                let start = out.len();
                append_json(value, out)?;
                without_quotes(out, start);
            }
        },
        several => {
            for (n, value) in several.iter().enumerate() {
                out.push(if n == 0 { b'[' } else { b',' });
                append_json(value, out)?;
            }
            out.push(b']');
        }
    }
    Ok(())
}

/// Appends a value as [`append_at`] does.
fn append_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Text(text) => out.extend_from_slice(text.as_bytes()),
        other => {
            let start = out.len();
            flagstone::doc::json::append_value_json(other, out);
            without_quotes(out, start);
        }
    }
}

/// Takes the quotes from JSON text that nothing is escaped in, such as that of a date.
fn without_quotes(out: &mut Vec<u8>, start: usize) {
    if out[start..].starts_with(b"\"") {
        out.remove(start);
        out.pop();
    }
}

/// Appends a field of a line. CSV puts it in quotes where it needs them; TSV, which has none, gets
/// spaces for tabs and line ends.
fn append_field(field: &[u8], delimiter: u8, line: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(*byte, b'\r' | b'\n') || *byte == delimiter;
    if delimiter == b'\t' {
        line.extend(field.iter().map(|byte| if is_special(byte) { b' ' } else { *byte }));
        return;
    }
    if !field.iter().any(|byte| is_special(byte) || *byte == b'"') {
        line.extend_from_slice(field);
        return;
    }
    line.push(b'"');
    for byte in field {
        line.extend_from_slice(if *byte == b'"' { b"\"\"" } else { std::slice::from_ref(byte) });
    }
    line.push(b'"');
}
