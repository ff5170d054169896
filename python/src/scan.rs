//! Iterators over the entries of a keyspace.

use crate::ahead::{Ahead, Source};
use crate::fork::OfProcess;
use crate::opened::Opened;
use flagstone::Slice;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// What an iterator returns of each entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Keys,
    Values,
    Items,
}

impl Part {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "keys" => Self::Keys,
            "values" => Self::Values,
            _ => Self::Items,
        }
    }
}

/// An iterator over the entries of a keyspace, as of the moment of its creation. It may be kept for
/// as long as you like, and shared by threads.
///
/// In a transaction it reads some hundred entries at a time, each time what the transaction has
/// written by then: whether it meets a key that was written meanwhile depends on where it is.
/// `list(tx[kv].items())` reads all before anything is written.
///
///     >>> kv = db.keyspace("kv")
///     >>> kv.update({b"a": b"1", b"b": b"2"})
///     >>> keys = iter(kv)
///     >>> kv[b"c"] = b"3"
///     >>> list(keys)
///     [b'a', b'b']
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Scan {
    opened: Arc<Opened>,
    part: Part,
    entries: OfProcess<Ahead<(Slice, Slice)>>,
}

impl Scan {
    pub(crate) fn new(opened: &Arc<Opened>, source: Source<(Slice, Slice)>, part: Part) -> Self {
        let entries = Ahead::new(source, |(key, value)| key.len() + value.len());
        Self { opened: Arc::clone(opened), part, entries: OfProcess::new(entries) }
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.opened.check(py)?;
        let next = match self.entries.ready() {
            Some(entry) => Some(entry),
            None => self.opened.run(py, || self.entries.next())?,
        };
        let Some((key, value)) = next else { return Ok(None) };
        let bytes = |bytes: &Slice| PyBytes::new(py, bytes);
        Ok(Some(match self.part {
            Part::Keys => bytes(&key).into_any(),
            Part::Values => bytes(&value).into_any(),
            Part::Items => (bytes(&key), bytes(&value)).into_pyobject(py)?.into_any(),
        }))
    }
}
