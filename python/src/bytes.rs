//! Keys and values of keyspaces: `bytes`, `bytearray` and `memoryview`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

/// Bytes that were given as a key or a value, without a copy if they are `bytes`.
pub(crate) struct Bytes(PyBackedBytes);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.extract::<PyBackedBytes>() {
            return Ok(Self(bytes));
        }
        if object.cast::<PyMemoryView>().is_ok() {
            let bytes = object.call_method0("tobytes")?;
            return Ok(Self(bytes.cast::<PyBytes>()?.extract()?));
        }
        let found = object.get_type().name()?;
        let hint = match object.cast::<PyString>() {
            Ok(_text) => "; a keyspace holds bytes: use .encode(), or a collection",
            Err(_other) => "",
        };
        Err(PyTypeError::new_err(format!("expected bytes, found {found}{hint}")))
    }
}
