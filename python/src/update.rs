//! The changes of `Collection.update`, as a patch or an update document.

use crate::arg::{self, Argument};
use crate::error::{guarded, invalid, raised};
use crate::value;
use flagstone::{Error, Patch, Value};
use flagstone_pipeline::update::Update;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyMapping, PyString};

/// Adds a change of a path to a patch.
type Add = fn(Patch, &str, Value) -> Patch;

/// The changes that take a dict of paths and values.
const PAIRS: [(&str, Add); 9] = [
    ("set", |patch, path, value| patch.set(path, value)),
    ("inc", |patch, path, value| patch.inc(path, value)),
    ("mul", |patch, path, value| patch.mul(path, value)),
    ("min", |patch, path, value| patch.min(path, value)),
    ("max", |patch, path, value| patch.max(path, value)),
    ("push", |patch, path, value| patch.push(path, value)),
    ("add_to_set", |patch, path, value| patch.add_to_set(path, value)),
    ("pull", |patch, path, value| patch.pull(path, value)),
    ("where", |patch, path, value| patch.if_eq(path, value)),
];

/// The names of all changes, for messages.
const NAMES: &str =
    "set, inc, mul, min, max, push, add_to_set, pull, unset, rename, where, upsert, update";

/// What is done to documents.
pub(crate) enum Change {
    Patch(Patch),
    Update(Update),
}

/// Returns whether these keywords are changes of a document.
pub(crate) fn has_changes(keywords: Option<&Bound<'_, PyDict>>) -> bool {
    keywords.is_some_and(|keywords| !keywords.is_empty())
}

/// Returns the change of keywords: a patch, or `update={"$inc": {"n": 1}}`.
pub(crate) fn change(py: Python<'_>, keywords: &Bound<'_, PyDict>) -> PyResult<Change> {
    let (update, filters) = (keywords.get_item("update")?, keywords.get_item("array_filters")?);
    let Some(update) = update else {
        if filters.is_some() {
            return Err(invalid(py, "array_filters: expected with update= only"));
        }
        return patch(py, keywords).map(Change::Patch);
    };
    let mut is_upsert = false;
    for (name, given) in keywords.iter() {
        match name.cast::<PyString>()?.to_cow()?.as_ref() {
            "update" | "array_filters" => {}
            "upsert" => is_upsert = bool::of("upsert", &given)?,
            other => {
                let text =
                    format!("update: expected array_filters or upsert with it, found {other}");
                return Err(invalid(py, text));
            }
        }
    }
    let update = value::of_python(&update, "update")?;
    let filters = match filters {
        Some(given) => {
            let wrong = || arg::expected("array_filters", "a list of filters", &given);
            let items = arg::items(&given).ok_or_else(wrong)?;
            let filter = |(at, item)| value::of_python(&item, &format!("array_filters[{at}]"));
            items.into_iter().enumerate().map(filter).collect::<PyResult<Vec<_>>>()?
        }
        None => Vec::new(),
    };
    let update = guarded(py, || {
        let parsed = Update::parse(&update, &filters);
        parsed.map_err(|error| raised(py, &Error::from(error)))
    })?;
    Ok(Change::Update(if is_upsert { update.upsert() } else { update }))
}

/// Returns the patch of keywords such as `set={"a.b": 1}, inc={"n": 1}, unset=["c"]`.
fn patch(py: Python<'_>, keywords: &Bound<'_, PyDict>) -> PyResult<Patch> {
    let mut patch = Patch::new();
    let mut all = Vec::new();
    for (name, given) in keywords.iter() {
        all.push((name.cast::<PyString>()?.to_cow()?.into_owned(), given));
    }
    // The parts of a patch see what those before them have changed: conditions come first.
    all.sort_by_key(|(name, _)| name != "where");
    for (name, given) in all {
        if let Some((_, add)) = PAIRS.iter().find(|(pair, _)| *pair == name) {
            for (path, value) in dict(&name, &given)?.iter() {
                let path = path_of(&name, &path)?;
                let value = value::of_python(&value, &format!("{name}[{path:?}]"))?;
                patch = add(patch, &path, value);
            }
            continue;
        }
        match name.as_str() {
            "unset" if given.cast::<PyString>().is_ok() => {
                patch = patch.unset(path_of(&name, &given)?);
            }
            "unset" => {
                let wrong = || arg::expected(&name, "a path, or a list of them", &given);
                for path in arg::items(&given).ok_or_else(wrong)? {
                    patch = patch.unset(path_of(&name, &path)?);
                }
            }
            "rename" => {
                for (path, new) in dict(&name, &given)?.iter() {
                    patch = patch.rename(path_of(&name, &path)?, path_of(&name, &new)?);
                }
            }
            "upsert" => {
                patch = match given.cast::<PyBool>() {
                    Ok(wanted) if wanted.is_true() => patch.upsert(),
                    Ok(_unwanted) => patch,
                    Err(_default) => patch.upsert_from(value::of_python(&given, "upsert")?),
                };
            }
            other => {
                let text = format!("update: expected {NAMES}, found {other}");
                return Err(PyTypeError::new_err(text));
            }
        }
    }
    if patch.is_empty() {
        return Err(invalid(py, format!("update: expected a change ({NAMES}), found none")));
    }
    Ok(patch)
}

fn dict<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(dict) = given.cast::<PyDict>() {
        return Ok(dict.clone());
    }
    let Ok(mapping) = given.cast::<PyMapping>() else {
        return Err(arg::expected(name, "a dict of paths and values", given));
    };
    let dict = PyDict::new(given.py());
    dict.update(mapping)?;
    Ok(dict)
}

fn path_of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    let wrong = |_other: PyErr| arg::expected(name, "a path as text", given);
    given.extract().map_err(wrong)
}
