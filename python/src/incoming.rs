//! Arrow streams of other libraries, by the PyCapsule interface.

use arrow_array::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, PoisonError};

/// A stream that another library fills. Every batch is checked: see `flagstone_arrow::imported`.
pub(crate) struct Incoming {
    batches: Batches,
    schema: SchemaRef,
    failure: Failure,
}

/// Where the batches come from.
enum Batches {
    Stream(FFI_ArrowArrayStream),
    /// A reader of pyarrow. Its method raises what its producer in Python has raised, of which the
    /// stream has a text alone.
    Reader(Py<PyAny>),
}

/// The exception of a producer in Python, or that it was an interrupt.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<Raised>>>);

enum Raised {
    Exception(PyErr),
    /// One of which the text is known.
    Interrupt,
}

impl Failure {
    fn set(&self, raised: Raised) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
    }

    /// Returns the exception of a load that ended with `error`: an interrupt as it is, and any
    /// other exception of the producer as the cause of `error`.
    pub(crate) fn raised(self, py: Python<'_>, error: PyErr) -> PyErr {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Raised::Interrupt) => PyKeyboardInterrupt::new_err(()),
            // An exit or an interrupt, which nobody who handles errors shall get as one.
            Some(Raised::Exception(raised)) if !raised.is_instance_of::<PyException>(py) => raised,
            Some(Raised::Exception(raised)) => {
                error.set_cause(py, Some(raised));
                error
            }
            None => error,
        }
    }
}

impl Incoming {
    /// Asks a stream for its schema.
    pub(crate) fn new(given: Given, failure: Failure) -> Result<Self, ArrowError> {
        let Given { mut stream, reader } = given;
        let mut schema = FFI_ArrowSchema::empty();
        let released = || ArrowError::CDataInterface("it was read before".into());
        let get = stream.get_schema.filter(|_| stream.release.is_some()).ok_or_else(released)?;
        #[expect(unsafe_code, reason = "the interface is one of C")]
        // SAFETY: the stream is not released, and both pointers are valid during the call.
        let code = unsafe { get(&mut stream, &mut schema) };
        check(&mut stream, code, &failure)?;
        let schema = Arc::new(Schema::try_from(&schema)?);
        let batches = reader.map_or(Batches::Stream(stream), Batches::Reader);
        Ok(Self { batches, schema, failure })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let array = match &mut self.batches {
            Batches::Reader(reader) => {
                let read = Python::try_attach(|py| next_of(py, reader));
                let is_ending = || ArrowError::CDataInterface("the interpreter is ending".into());
                read.ok_or_else(is_ending)?.map_err(|(text, raised)| {
                    self.failure.set(Raised::Exception(raised));
                    ArrowError::CDataInterface(text)
                })?
            }
            Batches::Stream(stream) => next_array(stream, &self.failure)?,
        };
        let Some(array) = array else { return Ok(None) };
        let data_type = DataType::Struct(self.schema.fields().clone());
        #[expect(unsafe_code, reason = "the interface is one of C")]
        // SAFETY: the producer promises an array of the schema of the stream.
        let data = unsafe { from_ffi_and_data_type(array, data_type) }?;
        flagstone_arrow::imported(self.schema(), &data).map(Some)
    }
}

/// Returns the next array of a stream.
fn next_array(
    stream: &mut FFI_ArrowArrayStream,
    failure: &Failure,
) -> Result<Option<FFI_ArrowArray>, ArrowError> {
    let Some(get) = stream.get_next else { return Ok(None) };
    let mut array = FFI_ArrowArray::empty();
    #[expect(unsafe_code, reason = "the interface is one of C")]
    // SAFETY: the stream is not released, and both pointers are valid during the call.
    let code = unsafe { get(stream, &mut array) };
    check(stream, code, failure)?;
    Ok((!array.is_released()).then_some(array))
}

/// Returns the next array of a reader of pyarrow. An error is the exception with its text.
fn next_of(py: Python<'_>, reader: &Py<PyAny>) -> Result<Option<FFI_ArrowArray>, (String, PyErr)> {
    let batch = match reader.call_method0(py, "read_next_batch") {
        Ok(batch) => batch,
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => return Ok(None),
        Err(error) => return Err((error.to_string(), error)),
    };
    let array = || {
        let both = batch.bind(py).call_method0("__arrow_c_array__")?;
        let array = both.get_item(1)?;
        let pointer = array
            .cast::<PyCapsule>()
            .map_err(PyErr::from)?
            .pointer_checked(Some(c"arrow_array"))?;
        #[expect(unsafe_code, reason = "a capsule holds a C pointer")]
        // SAFETY: a capsule of this name holds a valid array, which is moved out of it.
        Ok(unsafe { FFI_ArrowArray::from_raw(pointer.cast().as_ptr()) })
    };
    array().map(Some).map_err(|error: PyErr| (error.to_string(), error))
}

/// Returns the error of a call of `stream`.
fn check(
    stream: &mut FFI_ArrowArrayStream,
    code: c_int,
    failure: &Failure,
) -> Result<(), ArrowError> {
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
    let Some(exception) = exception_in(&text) else { return Err(ArrowError::CDataInterface(text)) };
    if exception.starts_with("KeyboardInterrupt") {
        failure.set(Raised::Interrupt);
    }
    Err(ArrowError::CDataInterface(exception))
}

/// Returns the text of the exception that pyarrow has made a text of, with its traceback.
fn exception_in(text: &str) -> Option<String> {
    let (_, traceback) = text.split_once("Python exception: ")?;
    // The frames are indented, the exception after them is not.
    let lines: Vec<&str> = traceback.trim_end().lines().collect();
    let frames = lines.iter().rposition(|line| line.starts_with("  ")).map_or(0, |last| last + 1);
    lines.get(frames..).filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n"))
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

/// What `load_arrow` was called with.
pub(crate) struct Given {
    stream: FFI_ArrowArrayStream,
    /// The reader of pyarrow that the stream belongs to, which was not read.
    reader: Option<Py<PyAny>>,
}

/// Takes the stream of an object.
pub(crate) fn stream_of(reader: &Bound<'_, PyAny>) -> PyResult<Given> {
    if is_pyarrow_reader(reader)? {
        // The stream of a table without rows has the schema. A reader that was closed says so here.
        let empty = reader.getattr("schema")?.call_method0("empty_table")?;
        let stream = capsule_of(&empty)?;
        return Ok(Given { stream, reader: Some(reader.clone().unbind()) });
    }
    Ok(Given { stream: capsule_of(reader)?, reader: None })
}

fn is_pyarrow_reader(reader: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = reader.get_type();
    Ok(class.name()? == "RecordBatchReader" && class.module()?.to_cow()?.starts_with("pyarrow"))
}

fn capsule_of(reader: &Bound<'_, PyAny>) -> PyResult<FFI_ArrowArrayStream> {
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
