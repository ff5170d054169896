//! The options of databases and of keyspaces, as Python values.

use crate::arg::{Argument, expected, out_of_range, up_to};
use crate::error::{invalid, raised};
use flagstone::admin::parse_bytes;
use flagstone::changes::ChangeRetention;
use flagstone::{Compression, Durability, KeyspaceOptions, Routing};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDict, PyString};
use std::time::Duration;

/// The options of tables.
const TABLES: &str =
    "compression, bottom_compression, bottom_dictionary, block_bytes or filter_bits";

/// The options of a keyspace or collection, by their names. `call` is the function that they are
/// given to, and `others` what else it takes.
pub(crate) fn of_new(
    call: &str,
    others: &str,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<KeyspaceOptions> {
    let others = format!("{others}, hash_partitions, {TABLES}");
    read(given, |name| unknown(call, name, &others))
}

/// The options that `alter` changes, one at least.
pub(crate) fn to_alter(given: Option<&Bound<'_, PyDict>>) -> PyResult<KeyspaceOptions> {
    if given.is_none_or(|given| given.is_empty()) {
        return Err(PyTypeError::new_err(format!("alter() without an option: expected {TABLES}")));
    }
    read(given, |name| unknown("alter", name, TABLES))
}

fn unknown(call: &str, name: &str, expected: &str) -> PyErr {
    PyTypeError::new_err(format!("{call}() has no argument {name:?}: expected {expected}"))
}

fn read(
    given: Option<&Bound<'_, PyDict>>,
    unknown: impl Fn(&str) -> PyErr,
) -> PyResult<KeyspaceOptions> {
    let mut options = KeyspaceOptions::new();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "hash_partitions" => options.routing(Routing::Hash(up_to(&name, 256, &value)?)),
            "compression" => options.compression(compression(&name, &value)?),
            "bottom_compression" => options.bottom_compression(compression(&name, &value)?),
            "bottom_dictionary" => options.bottom_dictionary(bool::of(&name, &value)?),
            "block_bytes" => {
                let bytes = bytes(&name, &value)?;
                options.block_bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
            }
            "filter_bits" => options.filter_bits(up_to(&name, 20, &value)?),
            _ => return Err(unknown(&name)),
        };
    }
    Ok(options)
}

/// The stored options of a keyspace, by the names under which they are given.
pub(crate) fn of_keyspace<'py>(
    py: Python<'py>,
    stored: &KeyspaceOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let options = PyDict::new(py);
    if let Some(Routing::Hash(partitions)) = stored.routing {
        options.set_item("hash_partitions", partitions)?;
    }
    options.set_item("compression", stored.compression.map(|c| c.to_string()))?;
    options.set_item("bottom_compression", stored.bottom_compression.map(|c| c.to_string()))?;
    options.set_item("bottom_dictionary", stored.bottom_dictionary)?;
    options.set_item("block_bytes", stored.block_bytes)?;
    options.set_item("filter_bits", stored.filter_bits)?;
    Ok(options)
}

/// A compression by its name.
fn compression(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Compression> {
    let parsed: flagstone::Result<_> = <&str>::of(name, given)?.parse();
    parsed.map_err(|error| raised(given.py(), &error.context(name)))
}

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
        let not_true = || expected("keep_changes", "bytes, a timedelta or False", given);
        return if on.is_true() { Err(not_true()) } else { Ok(ChangeRetention::OFF) };
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
