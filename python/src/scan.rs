//! Iterators over the entries of a keyspace, as of one moment.

use crate::fork::OfProcess;
use crate::opened::Opened;
use flagstone::{Error, Result, Slice};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// What an iterator returns of each entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Keys,
    Values,
    Items,
}

/// What one visit of the engine reads at most: this many entries, and the entry that exceeds this
/// many bytes. The first visits read fewer, for loops that end soon.
const ENTRIES_MAX: usize = 256;
const BYTES_MAX: usize = 256 << 10;

/// An iterator over the entries of a keyspace, as of the moment of its creation. It may be kept for
/// as long as you like.
#[pyclass(module = "flagstone._flagstone", frozen)]
pub(crate) struct Scan {
    opened: Arc<Opened>,
    part: Part,
    state: OfProcess<Mutex<State>>,
}

struct State {
    scan: flagstone::Scan,
    /// Entries that were read and not returned yet.
    ready: VecDeque<(Slice, Slice)>,
    /// The error after them.
    failed: Option<Error>,
    /// How many entries the next visit reads; none after the end.
    next: usize,
}

impl Scan {
    pub(crate) fn new(opened: &Arc<Opened>, scan: flagstone::Scan, part: Part) -> Self {
        let state = State { scan, ready: VecDeque::new(), failed: None, next: 1 };
        Self { opened: Arc::clone(opened), part, state: OfProcess::new(Mutex::new(state)) }
    }
}

impl State {
    fn next(&mut self, part: Part) -> Result<Option<(Slice, Slice)>> {
        if self.ready.is_empty() && self.next > 0 {
            self.fill(part);
        }
        match self.ready.pop_front() {
            Some(entry) => Ok(Some(entry)),
            None => self.failed.take().map_or(Ok(None), Err),
        }
    }

    fn fill(&mut self, part: Part) {
        let mut bytes = 0;
        while self.ready.len() < self.next && bytes < BYTES_MAX {
            match self.scan.advance() {
                Ok(true) => {}
                Ok(false) => {
                    self.next = 0;
                    return;
                }
                Err(error) => {
                    self.failed = Some(error);
                    self.next = 0;
                    return;
                }
            }
            let (mut key, mut value) = (Slice::default(), Slice::default());
            if part != Part::Values {
                key = Slice::copy_of(self.scan.key());
            }
            if part != Part::Keys {
                value = self.scan.value();
            }
            bytes += key.len() + value.len();
            self.ready.push_back((key, value));
        }
        self.next = (2 * self.next).min(ENTRIES_MAX);
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.opened.check(py)?;
        // An entry that is ready needs no visit of the engine.
        let ready = self.state.try_lock().ok().and_then(|mut state| state.ready.pop_front());
        let next = match ready {
            Some(entry) => Some(entry),
            None => self.opened.run(py, || {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).next(self.part)
            })?,
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
