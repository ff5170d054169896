//! `Collection.get_json`: the JSON text of a document as a `str`.

use crate::access::Documents;
use crate::keys::key_of;
use crate::opened::Opened;
use crate::through::Through;
use flagstone::TryGet;
use flagstone::doc::JsonMode;
use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::Cell;

/// A longer text is freed once it is returned; a shorter one leaves its memory to the next.
const TEXT_BYTES_KEPT: usize = 64 << 10;

thread_local! {
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns the text of the document of `key`, or `None` if there is none.
///
/// The text of a document in memory is not checked here, since Python checks all text that becomes
/// a `str`. What Python refuses is read again with a check, which reports the damage.
pub(crate) fn get<'py>(
    py: Python<'py>,
    opened: &Opened,
    documents: &Documents,
    key: &Bound<'py, PyAny>,
    mode: JsonMode,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let mut text = TEXT.take();
    text.clear();
    let mut found = TryGet::WouldRead;
    if let (Through::Live, JsonMode::Plain) = (&documents.through, mode) {
        let key = key_of(key)?;
        found = opened.run_attached(py, || documents.try_json(key, &mut text))?;
    }
    let read = |text: &mut Vec<u8>| {
        let key = key_of(key)?;
        text.clear();
        let is_there = opened.run(py, || documents.json(key, mode, text))?;
        is_there.then(|| PyString::from_bytes(py, text)).transpose()
    };
    let returned = match found {
        TryGet::Absent => Ok(None),
        TryGet::WouldRead => read(&mut text),
        TryGet::Found(()) => match PyString::from_bytes(py, &text) {
            Err(error) if error.is_instance_of::<PyUnicodeDecodeError>(py) => read(&mut text),
            string => string.map(Some),
        },
    };
    if text.capacity() <= TEXT_BYTES_KEPT {
        TEXT.set(text);
    }
    returned
}
