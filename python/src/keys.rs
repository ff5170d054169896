//! Keys and ranges of keys of a collection, and lists of paths.

use crate::arg;
use crate::error::invalid;
use crate::value;
use flagstone::Value;
use flagstone::doc::FieldPath;
use flagstone::internal::is_one_path;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use std::ops::Bound as End;

/// The keys that a scan reads, and in which order.
#[derive(Default)]
pub(crate) struct Range {
    pub(crate) start: Option<Value>,
    pub(crate) end: Option<Value>,
    pub(crate) prefix: Option<Value>,
    pub(crate) is_reverse: bool,
}

impl Range {
    pub(crate) fn of(
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        is_reverse: bool,
    ) -> PyResult<Self> {
        let key = |given: Option<&Bound<'_, PyAny>>| given.map(key_of).transpose();
        Ok(Self { start: key(start)?, end: key(end)?, prefix: key(prefix)?, is_reverse })
    }
}

/// Returns the keys that begin with a text.
pub(crate) fn text_range(py: Python<'_>, prefix: Value) -> PyResult<(End<Value>, End<Value>)> {
    let Value::Text(text) = &prefix else {
        return Err(invalid(py, format!("prefix: expected text, found {}", prefix.type_name())));
    };
    let mut chars: Vec<char> = text.chars().collect();
    let mut next = None;
    while let Some(last) = chars.pop() {
        // The character after it in the order of UTF-8, past the surrogates.
        if let Some(after) = (u32::from(last) + 1..=0x0010_FFFF).find_map(char::from_u32) {
            next = Some(chars.iter().chain([&after]).collect::<String>());
            break;
        }
    }
    // Bytes come after all text.
    let end = next.map_or(Value::Bytes(Vec::new()), Value::Text);
    Ok((End::Included(prefix), End::Excluded(end)))
}

/// Returns the value of a key.
pub(crate) fn key_of(key: &Bound<'_, PyAny>) -> PyResult<Value> {
    value::of_python(key, "the key")
}

pub(crate) fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

/// A list of paths as text: one text, or several. A comma or bracket in one of several is part of a
/// name.
pub(crate) fn joined(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = given.extract::<String>() {
        return Ok(text);
    }
    let wrong = || arg::expected(name, "a path as text, or a list of them", given);
    let paths = arg::texts(given).ok_or_else(wrong)?;
    Ok(paths.iter().map(|path| one_of(path)).collect::<Vec<_>>().join(","))
}

/// Returns the text of one path among others.
fn one_of(path: &str) -> String {
    let (sign, name) = path.split_at(path.len() - path.trim_start_matches(['-', '+']).len());
    match FieldPath::parse(name) {
        Ok(parsed) if !is_one_path(name) => format!("{sign}{parsed:#}"),
        _ => path.to_owned(),
    }
}
