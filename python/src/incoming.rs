//! Arrow streams of other libraries, by the PyCapsule interface.

use arrow_array::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_int};
use std::sync::Arc;

/// A stream that another library fills. Every batch is checked: see `flagstone_arrow::imported`.
pub(crate) struct Incoming {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl Incoming {
    /// Asks a stream for its schema.
    pub(crate) fn new(mut stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        let mut schema = FFI_ArrowSchema::empty();
        let released = || ArrowError::CDataInterface("it was read before".into());
        let get = stream.get_schema.filter(|_| stream.release.is_some()).ok_or_else(released)?;
        #[expect(unsafe_code, reason = "the interface is one of C")]
        // SAFETY: the stream is not released, and both pointers are valid during the call.
        let code = unsafe { get(&mut stream, &mut schema) };
        check(&mut stream, code)?;
        let schema = Arc::new(Schema::try_from(&schema)?);
        Ok(Self { stream, schema })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(get) = self.stream.get_next else { return Ok(None) };
        let mut array = FFI_ArrowArray::empty();
        #[expect(unsafe_code, reason = "the interface is one of C")]
        // SAFETY: the stream is not released, and both pointers are valid during the call.
        let code = unsafe { get(&mut self.stream, &mut array) };
        check(&mut self.stream, code)?;
        if array.is_released() {
            return Ok(None);
        }
        let data_type = DataType::Struct(self.schema.fields().clone());
        #[expect(unsafe_code, reason = "the interface is one of C")]
        // SAFETY: the producer promises an array of the schema of the stream.
        let data = unsafe { from_ffi_and_data_type(array, data_type) }?;
        flagstone_arrow::imported(self.schema(), &data).map(Some)
    }
}

/// Returns the error of a call of `stream`.
fn check(stream: &mut FFI_ArrowArrayStream, code: c_int) -> Result<(), ArrowError> {
    if code == 0 {
        return Ok(());
    }
    let Some(get) = stream.get_last_error else {
        return Err(ArrowError::CDataInterface(format!("error {code}")));
    };
    #[expect(unsafe_code, reason = "the interface is one of C")]
    // SAFETY: the stream is not released. A text that is not null ends with 0, and is valid until
    // the next call.
    let text = unsafe {
        let text = get(stream);
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    let text = text.unwrap_or_else(|| format!("error {code}"));
    Err(ArrowError::CDataInterface(without_traceback(&text)))
}

/// Returns the first line, and the last one of a traceback of Python, which names the exception.
fn without_traceback(text: &str) -> String {
    let Some((front, traceback)) = text.split_once("Traceback (most recent call last)") else {
        return text.to_owned();
    };
    let first = front.lines().next().unwrap_or_default().trim();
    let last = traceback.lines().map(str::trim_end).rfind(|line| !line.is_empty());
    match last.filter(|last| !first.contains(last)) {
        Some(last) => format!("{first}: {last}"),
        None => first.to_owned(),
    }
}

impl Iterator for Incoming {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl RecordBatchReader for Incoming {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// Takes the stream of an object.
pub(crate) fn stream_of(reader: &Bound<'_, PyAny>) -> PyResult<FFI_ArrowArrayStream> {
    let Some(method) = reader.getattr_opt("__arrow_c_stream__")? else {
        let found = reader.get_type().fully_qualified_name()?;
        let text = format!(
            "load_arrow: expected an Arrow stream, an object with __arrow_c_stream__, found {found}"
        );
        return Err(PyTypeError::new_err(text));
    };
    let capsule = method.call0()?;
    let capsule = capsule.cast::<PyCapsule>().map_err(PyErr::from)?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    #[expect(unsafe_code, reason = "a capsule holds a C pointer")]
    // SAFETY: a capsule of this name holds a valid stream, which is moved out of it: the capsule is
    // kept until then, and does not release a stream that was moved.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
    Ok(stream)
}
