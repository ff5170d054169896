//! Values of documents as Python values.

use flagstone::{FieldKey, Malformed, Value, View};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
    PyTzInfo,
};

use crate::error::{guarded, invalid, named};
use crate::value::{decimal_type, uuid_type};

/// How numbers come that are neither integers nor binary floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Decimals {
    /// As a float if its text is the number's literal, else as a `Decimal`.
    #[default]
    Auto,
    Always,
    Float,
}

impl Decimals {
    pub(crate) fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        Ok(match text {
            "auto" => Self::Auto,
            "always" => Self::Always,
            "float" => Self::Float,
            other => {
                let text = format!("decimal {other:?}: expected \"auto\", \"always\" or \"float\"");
                return Err(invalid(py, text));
            }
        })
    }
}

/// Returns the Python value of a part of a document, decoded as a whole.
pub(crate) fn view<'py>(
    py: Python<'py>,
    view: &View<'_>,
    decimals: Decimals,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, || part(py, view, decimals))
}

fn part<'py>(py: Python<'py>, view: &View<'_>, decimals: Decimals) -> PyResult<Bound<'py, PyAny>> {
    let wrong = |error: Malformed| malformed(py, error);
    if let Some(text) = view.as_str() {
        return Ok(PyString::new(py, text).into_any());
    }
    if view.is_array() {
        let list = PyList::empty(py);
        for item in view.items().map_err(wrong)? {
            list.append(part(py, &item.map_err(wrong)?, decimals)?)?;
        }
        return Ok(list.into_any());
    }
    if view.is_map() {
        let dict = PyDict::new(py);
        for field in view.fields().map_err(wrong)? {
            let (name, value) = field.map_err(wrong)?;
            let value = part(py, &value, decimals)?;
            match name {
                FieldKey::Name(name) => dict.set_item(name, value)?,
                FieldKey::Value(name) => {
                    let name = key(py, &name.to_value().map_err(wrong)?, decimals)?;
                    if dict.contains(&name)? {
                        let text = format!("a map with two keys that Python takes for one: {name}");
                        return Err(invalid(py, text));
                    }
                    dict.set_item(name, value)?;
                }
            }
        }
        return Ok(dict.into_any());
    }
    scalar(py, &view.to_value().map_err(wrong)?, decimals)
}

/// Returns the Python value of a value in memory.
pub(crate) fn value<'py>(
    py: Python<'py>,
    value: &Value,
    decimals: Decimals,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| self::value(py, item, decimals));
            Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        Value::Map(map) => {
            let dict = PyDict::new(py);
            for (name, value) in map.iter() {
                dict.set_item(key(py, name, decimals)?, self::value(py, value, decimals)?)?;
            }
            Ok(dict.into_any())
        }
        scalar => self::scalar(py, scalar, decimals),
    }
}

/// Returns the Python value of a key, which can be a key of a dict: arrays come as tuples.
pub(crate) fn key<'py>(
    py: Python<'py>,
    value: &Value,
    decimals: Decimals,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| key(py, item, decimals));
            Ok(PyTuple::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        other => self::value(py, other, decimals),
    }
}

fn scalar<'py>(py: Python<'py>, value: &Value, decimals: Decimals) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(bool) => PyBool::new(py, *bool).to_owned().into_any(),
        Value::Int(int) => PyInt::new(py, *int).into_any(),
        Value::Number(literal) => number(py, literal.as_str(), decimals)?,
        Value::Float(float) => PyFloat::new(py, *float).into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::DateTime(at) => datetime(py, at.as_micros())?,
        Value::Uuid(bytes) => {
            let named = PyDict::new(py);
            named.set_item("bytes", PyBytes::new(py, bytes))?;
            uuid_type(py)?.call((), Some(&named))?
        }
        Value::Null | Value::Array(_) | Value::Map(_) => py.None().into_bound(py),
    })
}

/// Returns the number of a literal that is no 64-bit integer.
fn number<'py>(py: Python<'py>, literal: &str, decimals: Decimals) -> PyResult<Bound<'py, PyAny>> {
    let decimal = || decimal_type(py)?.call1((literal,));
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if digits.bytes().all(|digit| digit.is_ascii_digit()) && literal != "-0" {
        return py.get_type::<PyInt>().call1((decimal()?,));
    }
    let float = literal.parse::<f64>().ok().filter(|float| float.is_finite());
    match (decimals, float) {
        (Decimals::Float, Some(float)) => Ok(PyFloat::new(py, float).into_any()),
        (Decimals::Auto, Some(float)) if is_text_of(float, literal) => {
            Ok(PyFloat::new(py, float).into_any())
        }
        _ => decimal(),
    }
}

/// Returns whether a literal is the shortest text of a float, as Python or as Rust writes it.
fn is_text_of(float: f64, literal: &str) -> bool {
    if format!("{float:?}") == literal {
        return true;
    }
    // Python has an exponent of two digits at least, with its sign, from 1e16 on and below 1e-4.
    let text = format!("{float:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return false };
    let Ok(exponent) = exponent.parse::<i32>() else { return false };
    if (-4..16).contains(&exponent) {
        return format!("{float}") == literal && literal.contains('.');
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs()) == literal
}

fn datetime(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    const DAY: i64 = 86_400_000_000;
    let utc = PyTzInfo::utc(py)?.to_owned();
    let epoch = PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&utc))?;
    let in_day = micros.rem_euclid(DAY);
    // 106,751,991 days and less than a day: they fit.
    let days = micros.div_euclid(DAY) as i32;
    let (seconds, micros) = ((in_day / 1_000_000) as i32, (in_day % 1_000_000) as i32);
    let delta = PyDelta::new(py, days, seconds, micros, true)?;
    epoch.add(delta).map_err(|error| match error.is_instance_of::<PyOverflowError>(py) {
        true => invalid(py, "a datetime beyond the years 1 to 9999, which Python does not have"),
        false => error,
    })
}

/// The error of a document that cannot be read.
#[cold]
pub(crate) fn malformed(py: Python<'_>, error: Malformed) -> PyErr {
    named(py, "Corruption", format!("a stored document: {error}"))
}
