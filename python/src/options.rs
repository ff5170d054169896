//! The options of `flagstone.open`, as Python values.

use crate::error::{invalid, raised};
use flagstone::{ChangeRetention, Durability, parse_bytes};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyString};
use std::time::Duration;

/// A number of bytes: an `int`, or text such as `"512MiB"`.
pub(crate) fn bytes(name: &str, given: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = given.py();
    if let Ok(text) = given.cast::<PyString>() {
        return parse_bytes(text.to_cow()?.as_ref())
            .map_err(|error| raised(py, &error.context(name)));
    }
    if given.is_instance_of::<PyBool>() {
        return Err(expected(name, "a number of bytes", given));
    }
    given.extract().map_err(|_other| expected(name, "a number of bytes from 0 on", given))
}

/// A durability: its name, or for an interval a `timedelta` or the seconds.
pub(crate) fn durability(given: &Bound<'_, PyAny>) -> PyResult<Durability> {
    const NAMES: &str =
        "expected \"none\", \"buffered\", \"group\", \"each\", or the seconds between syncs";
    let py = given.py();
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(match text.to_cow()?.as_ref() {
            "none" => Durability::None,
            "buffered" => Durability::Buffered,
            "group" => Durability::Group,
            "each" => Durability::Each,
            other => return Err(invalid(py, format!("durability {other:?}: {NAMES}"))),
        });
    }
    duration("durability", given).map(Durability::Interval)
}

/// How long changes are kept, or how many bytes of them.
pub(crate) fn retention(given: &Bound<'_, PyAny>) -> PyResult<ChangeRetention> {
    if given.cast::<PyDelta>().is_ok() {
        return duration("keep_changes", given).map(ChangeRetention::age);
    }
    if let Ok(on) = given.cast::<PyBool>() {
        return match on.is_true() {
            false => Ok(ChangeRetention::OFF),
            true => Err(expected("keep_changes", "bytes, a timedelta or False", given)),
        };
    }
    bytes("keep_changes", given).map(ChangeRetention::bytes)
}

/// A time: a `timedelta` or seconds.
pub(crate) fn duration(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Duration> {
    if given.cast::<PyDelta>().is_ok() {
        return given.extract().map_err(|_negative| expected(name, "a time from 0 on", given));
    }
    if given.is_instance_of::<PyBool>() {
        return Err(expected(name, "a timedelta or seconds", given));
    }
    let Ok(seconds) = given.extract::<f64>() else {
        return Err(expected(name, "a timedelta or seconds", given));
    };
    let time = Duration::try_from_secs_f64(seconds);
    time.map_err(|_range| expected(name, "seconds from 0 on", given))
}

/// Returns the error of an argument of a wrong type or out of range.
pub(crate) fn expected(name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let found = given.repr().map_or_else(|_error| "another value".into(), |text| text.to_string());
    PyTypeError::new_err(format!("{name}: expected {expected}, found {found}"))
}
