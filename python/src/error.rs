//! Errors of the engine as Python exceptions: one class a kind, defined in `flagstone.errors`.

use flagstone::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the name of the class of `kind`.
const fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "InvalidInput",
        ErrorKind::Busy => "Busy",
        ErrorKind::Conflict => "Conflict",
        ErrorKind::ConditionFailed => "ConditionFailed",
        ErrorKind::Duplicate => "Duplicate",
        ErrorKind::TooOld => "TooOld",
        ErrorKind::Io => "Io",
        ErrorKind::OutOfSpace => "OutOfSpace",
        ErrorKind::Poisoned => "Poisoned",
        ErrorKind::Corruption => "Corruption",
        ErrorKind::Unavailable => "Unavailable",
        ErrorKind::Unknown => "Unknown",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::Closed => "Closed",
        ErrorKind::Forked => "Forked",
        ErrorKind::Interrupted => "Interrupted",
        // A kind that is newer than this file.
        _ => "Error",
    }
}

/// Returns the exception of an error of the engine. An error of the operating system keeps its
/// number in `errno`.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let io = error.io_error();
    let is_missing = io.is_some_and(|io| io.kind() == std::io::ErrorKind::NotFound);
    let class = match error.kind() {
        ErrorKind::Io if is_missing => "NotFound",
        kind => class_of(kind),
    };
    let raised = named(py, class, in_python(error.to_string()));
    if let Some(code) = io.and_then(std::io::Error::raw_os_error) {
        // An exception of another class has no such attribute to be set: it is one of ours.
        let _ = raised.value(py).setattr("errno", code);
    }
    raised
}

/// Returns a message of the engine with the names that Python has for what it names.
fn in_python(text: String) -> String {
    const NAMES: [(&str, &str); 2] =
        [("Options::change_retention", "keep_changes"), (", or --naive-utc to the tool", "")];
    NAMES.iter().fold(
        text,
        |text, (name, python)| if text.contains(name) { text.replace(name, python) } else { text },
    )
}

/// Returns an exception of the class `name` of `flagstone.errors`.
#[cold]
pub(crate) fn named(py: Python<'_>, name: &str, text: impl Into<String>) -> PyErr {
    match class(py, name) {
        Ok(class) => PyErr::from_type(class, (text.into(),)),
        Err(error) => error,
    }
}

/// Returns an `InvalidInput`: the caller passed an argument that can never work.
#[cold]
pub(crate) fn invalid(py: Python<'_>, text: impl Into<String>) -> PyErr {
    named(py, "InvalidInput", text)
}

/// Runs `work`, which holds the GIL and calls no database, such as the conversion of an argument. A
/// panic becomes an `InternalError`.
pub(crate) fn guarded<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(panic) => Err(named(py, "InternalError", text_of(&*panic))),
    }
}

/// Returns the text of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("flagstone panicked: {}", text.unwrap_or("without a text"))
}

/// Returns whether `error` is a `Conflict`.
pub(crate) fn is_conflict(py: Python<'_>, error: &PyErr) -> bool {
    class(py, "Conflict").is_ok_and(|conflict| error.is_instance(py, &conflict))
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE
        .get_or_try_init(py, || PyModule::import(py, "flagstone.errors").map(Bound::unbind))?;
    Ok(module.bind(py).getattr(name)?.cast_into::<PyType>()?)
}
