//! The options of `flagstone.open`, as Python values.

use crate::arg::{Argument, expected, out_of_range};
use crate::error::{invalid, raised};
use flagstone::{ChangeRetention, Durability, parse_bytes};
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
    if given.is_instance_of::<PyBool>() || given.extract::<f64>().is_err() {
        return Err(expected(name, "a number of bytes, or text such as \"512MiB\"", given));
    }
    u64::of(name, given)
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
        return given.extract().map_err(|_negative| out_of_range(name, "a time from 0 on", given));
    }
    if given.is_instance_of::<PyBool>() {
        return Err(expected(name, "a timedelta or seconds", given));
    }
    let Ok(seconds) = given.extract::<f64>() else {
        return Err(expected(name, "a timedelta or seconds", given));
    };
    let time = Duration::try_from_secs_f64(seconds);
    time.map_err(|_range| out_of_range(name, "seconds from 0 on", given))
}
