//! Values of documents as Python values.

use flagstone::doc::{FieldKey, Malformed};
use flagstone::{Value, View};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
    PyType, PyTzInfo,
};

use crate::error::{guarded, invalid, named};
use crate::value::{decimal_type, object_id_type, step_of, uuid_type};
use std::ops::RangeInclusive;

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
    view_at(py, view, decimals, || "$".into())
}

/// As [`view`]; `path` says in messages where the part is.
pub(crate) fn view_at<'py>(
    py: Python<'py>,
    view: &View<'_>,
    decimals: Decimals,
    path: impl FnOnce() -> String,
) -> PyResult<Bound<'py, PyAny>> {
    located(py, view, path, || part(py, view, decimals, None))
}

/// As [`view_at`], for what is no copy but a part of a stored document: its lists and dicts refuse
/// changes, which nobody would write.
pub(crate) fn stored_at<'py>(
    py: Python<'py>,
    view: &View<'_>,
    decimals: Decimals,
    path: impl FnOnce() -> String,
) -> PyResult<Bound<'py, PyAny>> {
    static LIST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static DICT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    located(py, view, path, || {
        if !view.is_array() && !view.is_map() {
            return part(py, view, decimals, None);
        }
        let list = LIST.import(py, "flagstone.edits", "StoredList")?;
        let dict = DICT.import(py, "flagstone.edits", "StoredDict")?;
        part(py, view, decimals, Some(&Stored { list, dict }))
    })
}

/// The classes of lists and dicts that refuse changes.
struct Stored<'a, 'py> {
    list: &'a Bound<'py, PyType>,
    dict: &'a Bound<'py, PyType>,
}

fn located<'py>(
    py: Python<'py>,
    view: &View<'_>,
    path: impl FnOnce() -> String,
    decode: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, decode).map_err(|error| {
        let beyond = view.to_value().ok().and_then(|value| beyond_years(&value));
        beyond.map_or(error, |rest| beyond_python(py, &(path() + &rest)))
    })
}

/// The microseconds since 1970 of the years 1 to 9999, which Python has.
pub(crate) const YEARS: RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;

/// Returns the path to the first datetime that Python does not have.
fn beyond_years(value: &Value) -> Option<String> {
    match value {
        Value::DateTime(at) => (!YEARS.contains(&at.as_micros())).then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| Some(format!("[{index}]{}", beyond_years(item)?))),
        Value::Map(map) => map.iter().find_map(|(name, value)| {
            let step = match name {
                Value::Text(name) => step_of(name),
                other => format!("[{other:?}]"),
            };
            match (beyond_years(name), beyond_years(value)) {
                (None, None) => None,
                (_, inside) => Some(step + &inside.unwrap_or_default()),
            }
        }),
        _ => None,
    }
}

#[cold]
fn beyond_python(py: Python<'_>, path: &str) -> PyErr {
    let text = "a datetime beyond the years 1 to 9999, which Python does not have";
    invalid(py, format!("{path}: {text}"))
}

fn part<'py>(
    py: Python<'py>,
    view: &View<'_>,
    decimals: Decimals,
    stored: Option<&Stored<'_, 'py>>,
) -> PyResult<Bound<'py, PyAny>> {
    let wrong = |error: Malformed| malformed(py, error);
    if let Some(text) = view.as_str() {
        return Ok(PyString::new(py, text).into_any());
    }
    if view.is_array() {
        let list = match stored {
            Some(stored) => stored.list.call0()?.cast_into()?,
            None => PyList::empty(py),
        };
        for item in view.items().map_err(wrong)? {
            list.append(part(py, &item.map_err(wrong)?, decimals, stored)?)?;
        }
        return Ok(list.into_any());
    }
    if view.is_map() {
        let dict = match stored {
            Some(stored) => stored.dict.call0()?.cast_into()?,
            None => PyDict::new(py),
        };
        for field in view.fields().map_err(wrong)? {
            let (name, value) = field.map_err(wrong)?;
            let value = part(py, &value, decimals, stored)?;
            match name {
                FieldKey::Name(name) => dict.set_item(name, value)?,
                FieldKey::Value(name) => {
                    let name = tupled(py, &name.to_value().map_err(wrong)?, decimals)?;
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
    whole(py, value, decimals).map_err(|error| match beyond_years(value) {
        Some(rest) => beyond_python(py, &format!("${rest}")),
        None => error,
    })
}

fn whole<'py>(py: Python<'py>, value: &Value, decimals: Decimals) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| whole(py, item, decimals));
            Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        Value::Map(map) => {
            let dict = PyDict::new(py);
            for (name, value) in map.iter() {
                dict.set_item(tupled(py, name, decimals)?, whole(py, value, decimals)?)?;
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
    tupled(py, value, decimals).map_err(|error| match beyond_years(value) {
        Some(rest) => beyond_python(py, &format!("the key{rest}")),
        None => error,
    })
}

fn tupled<'py>(py: Python<'py>, value: &Value, decimals: Decimals) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| tupled(py, item, decimals));
            Ok(PyTuple::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        other => whole(py, other, decimals),
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
        Value::ObjectId(id) => object_id_type(py)?.call1((PyBytes::new(py, id.as_bytes()),))?,
        Value::DateTime(at) => datetime(py, at.as_micros())?,
        Value::Uuid(bytes) => {
            let named = PyDict::new(py);
            named.set_item("bytes", PyBytes::new(py, bytes))?;
            uuid_type(py)?.call((), Some(&named))?
        }
        Value::Null | Value::Array(_) | Value::Map(_) => py.None().into_bound(py),
    })
}

/// Returns the number of a literal.
fn number<'py>(py: Python<'py>, literal: &str, decimals: Decimals) -> PyResult<Bound<'py, PyAny>> {
    let decimal = || decimal_type(py)?.call1((literal,));
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if digits.bytes().all(|digit| digit.is_ascii_digit()) && literal != "-0" {
        return py.get_type::<PyInt>().call1((decimal()?,));
    }
    float_of(literal, decimals).map_or_else(decimal, |float| Ok(PyFloat::new(py, float).into_any()))
}

/// Returns the float that a number comes as, if it does.
pub(crate) fn float_of(literal: &str, decimals: Decimals) -> Option<f64> {
    let float = literal.parse::<f64>().ok().filter(|float| float.is_finite())?;
    match decimals {
        Decimals::Float => Some(float),
        Decimals::Auto => is_text_of(float, literal).then_some(float),
        Decimals::Always => None,
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
    // Callers that know the path say where it is.
    epoch.add(delta)
}

/// The error of a document that cannot be read.
#[cold]
pub(crate) fn malformed(py: Python<'_>, error: Malformed) -> PyErr {
    named(py, "Corruption", format!("a stored document: {error}"))
}
