//! What `collections.abc` gives to mappings, and the views of ranges in `flagstone.views`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

/// The arguments of a view: start, end, prefix, reverse.
pub(crate) type Arguments<'py> =
    (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, bool);

/// Returns a view of a range of `mapping`: an object of the class `name` of `flagstone.views`.
pub(crate) fn of<'py>(
    mapping: &Bound<'py, PyAny>,
    name: &str,
    (start, end, prefix, reverse): Arguments<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    static VIEWS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = mapping.py();
    let views =
        VIEWS.get_or_try_init(py, || PyModule::import(py, "flagstone.views").map(Bound::unbind))?;
    views.bind(py).getattr(name)?.call1((mapping, start, end, prefix, reverse))
}

/// Returns a view of a whole mapping: an object of the class `name` of `collections.abc`.
pub(crate) fn whole<'py>(mapping: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static ABC: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = mapping.py();
    let abc =
        ABC.get_or_try_init(py, || PyModule::import(py, "collections.abc").map(Bound::unbind))?;
    abc.bind(py).getattr(name)?.call1((mapping,))
}

/// Returns the first documents of a collection or a query as a table in HTML.
pub(crate) fn html<'py>(of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(of.py(), "flagstone.show")?.getattr("table")?.call1((of,))
}

/// Refuses more than one default of a `pop`.
pub(crate) fn check_default(default: &Bound<'_, PyTuple>) -> PyResult<()> {
    match default.len() {
        0 | 1 => Ok(()),
        more => {
            let text = format!("pop expected at most 2 arguments, got {}", more + 1);
            Err(PyTypeError::new_err(text))
        }
    }
}

/// Returns whether `other` is a mapping of the same pairs.
pub(crate) fn equal(mapping: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let arguments = PyTuple::new(mapping.py(), [mapping, other])?;
    Ok(mutable_mapping(mapping.py())?.getattr("__eq__")?.call1(arguments)?.unbind())
}

/// Returns what `update` iterates over: the pairs of a mapping, or an iterable of pairs.
pub(crate) fn pairs_of<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if entries.hasattr("items")? {
        return entries.call_method0("items");
    }
    if entries.hasattr("keys")? {
        return entries.py().get_type::<PyDict>().call1((entries,))?.call_method0("items");
    }
    Ok(entries.clone())
}

fn mutable_mapping(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "collections.abc", "MutableMapping")
}
