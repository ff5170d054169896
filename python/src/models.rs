//! Documents as instances of classes: dataclasses, pydantic models, msgspec structs and others.

use pyo3::prelude::*;

/// Returns an instance of `class` from a decoded value. `flagstone.models` knows the classes.
pub(crate) fn build<'py>(
    class: &Bound<'py, PyAny>,
    decoded: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(class.py(), "flagstone.models")?.getattr("build")?.call1((class, decoded))
}
