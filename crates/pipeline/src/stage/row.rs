//! Rows: maps that go from stage to stage.

use crate::error::Result;
use flagstone::doc::Map;
use flagstone::internal::document::Encoder;
use flagstone::{Error, ErrorKind, Value, View};

/// Rows, one after another.
pub(crate) trait Rows {
    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    /// If a stage meets a value that it does not take, or needs too much memory; errors of the
    /// database. The rows have ended then.
    fn next(&mut self) -> Result<Option<Value>>;

    /// Gives up memory and keeps the position.
    fn park(&mut self);
}

/// Encodes rows, and keeps its memory between them.
#[derive(Default)]
pub(crate) struct RowBytes {
    encoder: Encoder,
    bytes: Vec<u8>,
}

impl RowBytes {
    /// Returns the binary form of a row.
    ///
    /// # Errors
    /// InvalidInput for a row that is nested too deep.
    pub(crate) fn of(&mut self, row: &Value) -> Result<&[u8]> {
        self.bytes.clear();
        self.encoder.encode(row, None, &mut self.bytes)?;
        Ok(&self.bytes)
    }

    /// The binary form of the last row.
    pub(crate) fn last(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a view of a row.
    ///
    /// # Errors
    /// As [`RowBytes::of`].
    pub(crate) fn view(&mut self, row: &Value) -> Result<View<'_>> {
        let bytes = self.of(row)?;
        View::of(bytes, None).map_err(|malformed| malformed_row(&malformed))
    }
}

/// Decodes a row that was encoded.
///
/// # Errors
/// Corruption, of a spill file.
pub(crate) fn decoded(bytes: &[u8]) -> Result<Value> {
    let value = View::of(bytes, None).and_then(|view| view.to_value());
    value.map_err(|malformed| malformed_row(&malformed))
}

#[cold]
pub(crate) fn malformed_row(malformed: &flagstone::doc::Malformed) -> crate::PipelineError {
    Error::new(ErrorKind::Corruption, format!("a row of a pipeline, {malformed}")).into()
}

/// Sets the value at a path through maps; what is not a map on the way becomes one.
pub(crate) fn set(row: &mut Value, names: &[Box<str>], value: Value) {
    let Some((name, rest)) = names.split_first() else {
        *row = value;
        return;
    };
    if !matches!(row, Value::Map(_)) {
        *row = Value::object();
    }
    let Value::Map(map) = row else { return };
    match map.get_mut(name) {
        Some(inner) => set(inner, rest, value),
        None => {
            let mut inner = Value::Null;
            set(&mut inner, rest, value);
            map.insert(&**name, inner);
        }
    }
}

/// Removes the value at a path through maps.
pub(crate) fn remove(row: &mut Value, names: &[Box<str>]) {
    let Value::Map(map) = row else { return };
    match names {
        [] => {}
        [last] => drop(map.remove(last)),
        [name, rest @ ..] => {
            if let Some(inner) = map.get_mut(name) {
                remove(inner, rest);
            }
        }
    }
}

/// Returns the value at a path through maps.
pub(crate) fn get<'v>(row: &'v Value, names: &[Box<str>]) -> Option<&'v Value> {
    names.iter().try_fold(row, |value, name| value.as_map()?.get(name))
}

/// Makes a map of pairs whose names differ.
pub(crate) fn map_of(pairs: Vec<(Value, Value)>) -> Value {
    Value::Map(Map::from_distinct(pairs))
}
