//! The changes of `Collection.update`, as a patch.

use crate::error::invalid;
use crate::value;
use flagstone::{Patch, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString};

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
const NAMES: &str = "set, inc, mul, min, max, push, add_to_set, pull, unset, rename, where, upsert";

/// Returns whether these keywords are changes of a document.
pub(crate) fn has_changes(keywords: Option<&Bound<'_, PyDict>>) -> bool {
    keywords.is_some_and(|keywords| !keywords.is_empty())
}

/// Returns the patch of keywords such as `set={"a.b": 1}, inc={"n": 1}, unset=["c"]`.
pub(crate) fn patch(py: Python<'_>, keywords: &Bound<'_, PyDict>) -> PyResult<Patch> {
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
                let paths = given
                    .try_iter()
                    .and_then(|paths| PyList::new(py, paths.collect::<PyResult<Vec<_>>>()?))?;
                for path in paths.iter() {
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

fn dict<'a, 'py>(name: &str, given: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyDict>> {
    given.cast::<PyDict>().map_err(|_other| {
        let text = format!("{name}: expected a dict of paths and values, found {}", type_of(given));
        PyTypeError::new_err(text)
    })
}

/// Returns a dotted path; `$.a.b` is one, too.
fn path_of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(text) = given.cast::<PyString>() else {
        let text = format!("{name}: expected a path as text, found {}", type_of(given));
        return Err(PyTypeError::new_err(text));
    };
    let text = text.to_cow()?;
    Ok(text.strip_prefix("$.").unwrap_or(&text).to_owned())
}

fn type_of(given: &Bound<'_, PyAny>) -> String {
    given.get_type().name().map_or_else(|_error| "another type".into(), |name| name.to_string())
}
