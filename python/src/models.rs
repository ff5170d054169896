//! Documents as instances of classes: dataclasses, pydantic models, msgspec structs and others.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Returns an instance of `class` from a decoded value. `flagstone.models` knows the classes.
pub(crate) fn build<'py>(
    class: &Bound<'py, PyAny>,
    decoded: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(class.py(), "flagstone.models")?.getattr("build")?.call1((class, decoded))
}

/// Returns what a model of pydantic or a struct of msgspec consists of.
pub(crate) fn dump<'py>(model: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static DUMP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    DUMP.import(model.py(), "flagstone.models", "dump")?.call1((model,))
}
