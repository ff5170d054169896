//! Arrow streams of other libraries, by the PyCapsule interface.
//!
//! The interface carries no sizes of buffers: an array has the type that its stream has said, and
//! who reads another one of it reads beyond its buffers. pyarrow lets a program make a reader whose
//! batches have other types than its schema, and arrays of buffers that are too short. So what is
//! pyarrow's is taken batch by batch, each with a schema of its own, and pyarrow checks its sizes.

use crate::error::invalid;
use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use flagstone_arrow::{batch_of, check_same, schema_of};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, PoisonError};

/// A stream that another library fills. Every batch is checked: see `flagstone_arrow::batch_of`.
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
    /// One array, with a schema of its own.
    Array(Option<FFI_ArrowArray>),
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
        let (batches, schema) = match given {
            Given::Array(schema, array) => (Batches::Array(Some(array)), schema),
            Given::Reader(reader, schema) => (Batches::Reader(reader), schema),
            Given::Stream(mut stream) => {
                let schema = schema_of_stream(&mut stream, &failure)?;
                (Batches::Stream(stream), schema)
            }
        };
        #[expect(unsafe_code, reason = "the interface is one of C")]
        // SAFETY: who makes a schema fills it as the interface demands.
        let schema = unsafe { schema_of(&schema) }?;
        Ok(Self { batches, schema: Arc::new(schema), failure })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let array = match &mut self.batches {
            Batches::Reader(reader) => {
                let read = Python::try_attach(|py| next_of(py, reader));
                let is_ending = || ArrowError::CDataInterface("the interpreter is ending".into());
                let next = read.ok_or_else(is_ending)?.map_err(|(text, raised)| {
                    self.failure.set(Raised::Exception(raised));
                    ArrowError::CDataInterface(text)
                })?;
                let Some((schema, array)) = next else { return Ok(None) };
                #[expect(unsafe_code, reason = "the interface is one of C")]
                // SAFETY: as in `new`.
                let schema = unsafe { schema_of(&schema) }?;
                check_same(&self.schema, &schema)?;
                Some(array)
            }
            Batches::Stream(stream) => next_array(stream, &self.failure)?,
            Batches::Array(array) => array.take(),
        };
        let Some(array) = array else { return Ok(None) };
        #[expect(unsafe_code, reason = "the interface is one of C")]
        // SAFETY: the producer promises an array of the schema of the stream, and it is the schema
        // of the array where it has one.
        let batch = unsafe { batch_of(array, self.schema()) }?;
        Ok(Some(batch))
    }
}

/// Returns the schema of a stream.
fn schema_of_stream(
    stream: &mut FFI_ArrowArrayStream,
    failure: &Failure,
) -> Result<FFI_ArrowSchema, ArrowError> {
    let mut schema = FFI_ArrowSchema::empty();
    let released = || ArrowError::CDataInterface("it was read before".into());
    let get = stream.get_schema.filter(|_| stream.release.is_some()).ok_or_else(released)?;
    #[expect(unsafe_code, reason = "the interface is one of C")]
    // SAFETY: the stream is not released, and both pointers are valid during the call.
    let code = unsafe { get(stream, &mut schema) };
    check(stream, code, failure)?;
    Ok(schema)
}

/// Returns the next array of a stream.
fn next_array(
    stream: &mut FFI_ArrowArrayStream,
    failure: &Failure,
) -> Result<Option<FFI_ArrowArray>, ArrowError> {
    let none = || ArrowError::CDataInterface("a stream without get_next".into());
    let get = stream.get_next.ok_or_else(none)?;
    let mut array = FFI_ArrowArray::empty();
    #[expect(unsafe_code, reason = "the interface is one of C")]
    // SAFETY: the stream is not released, and both pointers are valid during the call.
    let code = unsafe { get(stream, &mut array) };
    check(stream, code, failure)?;
    Ok((!array.is_released()).then_some(array))
}

type Pair = (FFI_ArrowSchema, FFI_ArrowArray);

/// Returns the next array of a reader of pyarrow, and its schema. An error is the exception with
/// its text.
fn next_of(py: Python<'_>, reader: &Py<PyAny>) -> Result<Option<Pair>, (String, PyErr)> {
    let batch = match reader.call_method0(py, "read_next_batch") {
        Ok(batch) => batch.into_bound(py),
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => return Ok(None),
        Err(error) => return Err((error.to_string(), error)),
    };
    // The sizes of buffers, which are lost on the way here. It looks at no value.
    let pair = batch.call_method0("validate").and_then(|_none| pair_of(&batch));
    pair.map(Some).map_err(|error: PyErr| (error.to_string(), error))
}

/// Takes the array of an object, and its schema.
fn pair_of(object: &Bound<'_, PyAny>) -> PyResult<Pair> {
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
        object.call_method0("__arrow_c_array__")?.extract()?;
    #[expect(unsafe_code, reason = "a capsule holds a C pointer")]
    // SAFETY: capsules of these names hold a valid schema and a valid array, which are moved out of
    // them: a capsule does not release what was moved.
    Ok(unsafe {
        (
            FFI_ArrowSchema::from_raw(pointer_in(&schema, c"arrow_schema")?),
            FFI_ArrowArray::from_raw(pointer_in(&array, c"arrow_array")?),
        )
    })
}

/// Returns the pointer in a capsule of this name.
fn pointer_in<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(PyErr::from)?;
    Ok(capsule.pointer_checked(Some(name))?.cast().as_ptr())
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
pub(crate) enum Given {
    Stream(FFI_ArrowArrayStream),
    /// A reader of pyarrow, and its schema.
    Reader(Py<PyAny>, FFI_ArrowSchema),
    /// One batch, and its schema.
    Array(FFI_ArrowSchema, FFI_ArrowArray),
}

/// Takes the stream of an object.
pub(crate) fn stream_of(given: &Bound<'_, PyAny>) -> PyResult<Given> {
    if let Some(reader) = pyarrow_reader(given)? {
        // A reader that was closed says so here.
        let schema = reader.getattr("schema")?;
        check_names(&schema)?;
        let schema = schema.call_method0("__arrow_c_schema__")?;
        #[expect(unsafe_code, reason = "a capsule holds a C pointer")]
        // SAFETY: as in `pair_of`.
        let schema = unsafe { FFI_ArrowSchema::from_raw(pointer_in(&schema, c"arrow_schema")?) };
        return Ok(Given::Reader(reader.unbind(), schema));
    }
    check_objects(given)?;
    if let Some(method) = given.getattr_opt("__arrow_c_stream__")? {
        let capsule = method.call0()?;
        #[expect(unsafe_code, reason = "a capsule holds a C pointer")]
        // SAFETY: as in `pair_of`.
        let stream =
            unsafe { FFI_ArrowArrayStream::from_raw(pointer_in(&capsule, c"arrow_array_stream")?) };
        return Ok(Given::Stream(stream));
    }
    if given.hasattr("__arrow_c_array__")? {
        let (schema, array) = pair_of(given)?;
        return Ok(Given::Array(schema, array));
    }
    let found = given.get_type().fully_qualified_name()?;
    let hint = if given.hasattr("collect")? { "; collect() it first" } else { "" };
    let text = format!(
        "load_arrow: expected an Arrow stream, an object with __arrow_c_stream__ or \
         __arrow_c_array__, found {found}{hint}"
    );
    Err(PyTypeError::new_err(text))
}

/// Returns a package, if it is imported: who has an object of it has done so.
fn package<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(py.import("sys")?.getattr("modules")?.get_item(name).ok())
}

const HAS_ZERO: &str = "a name has the character U+0000, at which names end in Arrow";

/// Refuses names in a schema of pyarrow that would be cut on the way: those of C end at a 0.
fn check_names(schema: &Bound<'_, PyAny>) -> PyResult<()> {
    let names = PyDict::new(schema.py());
    for metadata in ["show_field_metadata", "show_schema_metadata"] {
        names.set_item(metadata, false)?;
    }
    let names: String = schema.call_method("to_string", (), Some(&names))?.extract()?;
    match names.lines().find(|line| line.contains('\0')) {
        Some(line) => Err(invalid(schema.py(), format!("column {line:?}: {HAS_ZERO}"))),
        None => Ok(()),
    }
}

/// Returns whether a column of polars, or a field in it, has a name with a 0.
fn has_zero(name: &Bound<'_, PyAny>, kind: &Bound<'_, PyAny>) -> PyResult<bool> {
    if name.extract::<String>()?.contains('\0') {
        return Ok(true);
    }
    has_zero_in(kind)
}

fn has_zero_in(kind: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Some(inner) = kind.getattr_opt("inner")?
        && has_zero_in(&inner)?
    {
        return Ok(true);
    }
    let Some(fields) = kind.getattr_opt("fields")? else { return Ok(false) };
    let Ok(fields) = fields.try_iter() else { return Ok(false) };
    for field in fields {
        let field = field?;
        if has_zero(&field.getattr("name")?, &field.getattr("dtype")?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses columns of Python's objects in a frame or a series of polars, which hands over their
/// addresses, and names with a 0, at which it ends the process.
fn check_objects(given: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(polars) = package(given.py(), "polars")? else { return Ok(()) };
    let is_of = |class: &str| {
        polars.getattr_opt(class)?.map_or(Ok(false), |class| given.is_instance(&class))
    };
    let columns: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = if is_of("DataFrame")? {
        let columns = given.getattr("schema")?.call_method0("items")?;
        columns.try_iter()?.map(|column| column?.extract()).collect::<PyResult<_>>()?
    } else if is_of("Series")? {
        vec![(given.getattr("name")?, given.getattr("dtype")?)]
    } else {
        return Ok(());
    };
    for (name, kind) in columns {
        if has_zero(&name, &kind)? {
            let text = format!("column {}: {HAS_ZERO}", name.repr()?);
            return Err(invalid(given.py(), text));
        }
        if kind.eq(polars.getattr("Object")?)? {
            let text = format!("column {name}: Object of polars is not supported in a document");
            return Err(invalid(given.py(), text));
        }
    }
    Ok(())
}

/// Returns the reader of a table, a batch or a reader of pyarrow.
fn pyarrow_reader<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = given.py();
    // Frames of pandas hand over such a table, and import pyarrow for it.
    let frames = package(py, "pandas")?.and_then(|pandas| pandas.getattr("DataFrame").ok());
    if let Some(frames) = frames
        && given.is_instance(&frames)?
    {
        let table =
            py.import("pyarrow")?.getattr("Table")?.call_method1("from_pandas", (given,))?;
        return table.call_method0("to_reader").map(Some);
    }
    let Some(pyarrow) = package(py, "pyarrow")? else { return Ok(None) };
    let class = |name: &str| pyarrow.getattr(name);
    let Ok(readers) = class("RecordBatchReader") else { return Ok(None) };
    if given.is_instance(&readers)? {
        return Ok(Some(given.clone()));
    }
    if given.is_instance(&class("Table")?)? {
        return given.call_method0("to_reader").map(Some);
    }
    if given.is_instance(&class("RecordBatch")?)? {
        let schema = given.getattr("schema")?;
        return readers.call_method1("from_batches", (schema, (given,))).map(Some);
    }
    check_type(given)?;
    Ok(None)
}

/// Refuses an array of pyarrow in whose type is a name that would be cut on the way.
fn check_type(given: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(kind) = given.getattr_opt("type")? else { return Ok(()) };
    let text: String = kind.str()?.extract()?;
    if text.contains('\0') {
        return Err(invalid(given.py(), format!("type {text:?}: {HAS_ZERO}")));
    }
    Ok(())
}
