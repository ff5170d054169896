//! `Collection.load_arrow`: documents from an Arrow stream, by the PyCapsule interface.

use crate::arrow::{ArrowSource, KEY_NAME};
use crate::error::invalid;
use crate::find::Find;
use crate::incoming::{Failure, Incoming, stream_of};
use crate::opened::Opened;
use crate::signals::Interrupt;
use arrow_schema::ArrowError;
use flagstone::{Collection, Error, ErrorKind};
use flagstone_arrow::{LoadMode, LoadOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;

/// How `Collection.load_arrow` was called.
pub(crate) struct Wanted<'a> {
    pub(crate) key: &'a str,
    pub(crate) mode: &'a str,
    pub(crate) keep_key: Option<bool>,
    pub(crate) nulls: &'a str,
    pub(crate) naive: &'a str,
}

impl Wanted<'_> {
    fn options(&self, py: Python<'_>) -> PyResult<LoadOptions> {
        let mut options = LoadOptions::new(self.key.strip_prefix("$.").unwrap_or(self.key));
        let one_of = |name: &str, given: &str, known: &[&str]| {
            known.iter().position(|known| *known == given).ok_or_else(|| {
                let text = format!("{name} {given:?}: expected one of {known:?}");
                invalid(py, text)
            })
        };
        let modes = [LoadMode::Upsert, LoadMode::Insert, LoadMode::Merge];
        options.mode = modes[one_of("mode", self.mode, &["upsert", "insert", "merge"])?];
        options.drops_nulls = one_of("nulls", self.nulls, &["keep", "drop"])? == 1;
        options.naive_is_utc = one_of("naive", self.naive, &["error", "utc"])? == 1;
        options.drops_key = !self.keep_key.unwrap_or(!is_added(&options.key));
        Ok(options)
    }
}

/// Returns whether a column has a name that `Find.arrow` gives to the primary keys: `_key`, or
/// `_key_1` beside a field of that name.
fn is_added(name: &str) -> bool {
    name.strip_prefix(KEY_NAME).is_some_and(|rest| match rest.strip_prefix('_') {
        Some(number) => !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()),
        None => rest.is_empty(),
    })
}

/// Loads a stream and returns what was done. `progress` is called with the documents so far.
pub(crate) fn run<'py>(
    opened: &Opened,
    collection: &Collection,
    reader: &Bound<'py, PyAny>,
    wanted: &Wanted<'_>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = reader.py();
    let options = wanted.options(py)?;
    // Ctrl-C in a query of ours is kept with its source. All of it is loaded, so all of it is asked
    // for its columns.
    let source = match reader.cast::<Find>() {
        Ok(find) => Some(Bound::new(py, Find::whole(find, None)?)?),
        Err(_other) if reader.cast::<crate::collection::Collection>().is_ok() => {
            let find = reader.call_method0("find")?;
            Some(Bound::new(py, Find::whole(find.cast()?, None)?)?)
        }
        Err(_other) => match reader.cast::<ArrowSource>() {
            Ok(source) if source.get().is_sampled() => match source.get().widened(py)? {
                Some(wide) => Some(Bound::new(py, wide)?),
                None => Some(source.clone()),
            },
            Ok(source) => Some(source.clone()),
            Err(_other) => None,
        },
    };
    let given = stream_of(source.as_ref().map_or(reader, |source| source.as_any()))?;
    let (interrupt, failure, mut raised) = (Interrupt::default(), Failure::default(), None);
    let progress = progress.map(|call| call.clone().unbind());
    let loaded = opened.run_unwatched(py, || {
        let mut reader = Incoming::new(given, failure.clone()).map_err(|error| match error {
            ArrowError::SchemaError(why) => plain(Error::invalid(why)),
            error => Error::new(ErrorKind::Io, format!("the Arrow stream has no schema: {error}")),
        })?;
        let watch = |so_far: flagstone_arrow::Loaded| {
            if let Some(call) = &progress {
                let called = Python::try_attach(|py| call.call1(py, (so_far.documents,)).err());
                raised = called.flatten();
            }
            if raised.is_some() { ControlFlow::Break(()) } else { interrupt.check() }
        };
        flagstone_arrow::load(&opened.database, collection, &mut reader, &options, watch)
            .map_err(plain)
    });
    interrupt.raise()?;
    let source = source.as_ref().map(Bound::get);
    if let Some(error) = raised.or_else(|| source.and_then(ArrowSource::interrupted)) {
        return Err(error);
    }
    let loaded = loaded.map_err(|error| {
        // A document that does not fit its columns is no failure of the stream.
        if source.is_some_and(ArrowSource::has_misfit) {
            return invalid(py, error.value(py).to_string());
        }
        failure.raised(py, error)
    })?;
    let report = PyDict::new(py);
    report.set_item("documents", loaded.documents)?;
    report.set_item("existing", loaded.existing)?;
    Ok(report)
}

/// The name of the interface says nothing to who reads the message.
fn plain(error: Error) -> Error {
    let text = error.to_string();
    if text.contains(INTERFACE) {
        Error::new(error.kind(), text.replacen(INTERFACE, "", 1))
    } else {
        error
    }
}

const INTERFACE: &str = "C Data interface error: ";
