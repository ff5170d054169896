//! Record batches for other libraries: streams of Arrow's C interface, in PyCapsules.
//!
//! **No panic leaves a callback**: in the language that has called it would end the process. It is
//! an error of the stream, and the stream has ended. Nor does a text: one of C ends at its first 0.

use crate::error::text_of;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatchReader, StructArray};
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

/// The errors of a stream have a code of the operating system, which nobody reads beside the text.
const EINVAL: c_int = 22;

/// What a stream owns.
struct Outgoing {
    /// `None` after an error: nothing comes after one.
    reader: Option<Box<dyn RecordBatchReader + Send>>,
    error: Option<CString>,
}

/// Returns the batches of `reader` as a capsule.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    let outgoing = Outgoing { reader: Some(Box::new(reader)), error: None };
    let stream = FFI_ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(Box::new(outgoing)).cast(),
    };
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

#[expect(unsafe_code, reason = "the interface is one of C")]
// SAFETY: a consumer passes the stream, and a place for a schema.
unsafe extern "C" fn get_schema(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowSchema,
) -> c_int {
    let schema = |outgoing: &mut Outgoing| {
        crate::panics::at("get_schema");
        let reader = outgoing.reader.as_ref().ok_or_else(ended)?;
        FFI_ArrowSchema::try_from(&*reader.schema())
    };
    // SAFETY: as above. What is there is no schema yet, so it is not dropped.
    unsafe { called(stream, schema, |schema| out.write_unaligned(schema)) }
}

#[expect(unsafe_code, reason = "the interface is one of C")]
// SAFETY: a consumer passes the stream, and a place for an array.
unsafe extern "C" fn get_next(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowArray,
) -> c_int {
    let array = |outgoing: &mut Outgoing| {
        crate::panics::at("get_next");
        let reader = outgoing.reader.as_mut().ok_or_else(ended)?;
        // An array that is released is the end.
        reader.next().map_or(Ok(FFI_ArrowArray::empty()), |batch| {
            Ok(FFI_ArrowArray::new(&StructArray::from(batch?).to_data()))
        })
    };
    // SAFETY: as above. What is there is no array yet, so it is not dropped.
    unsafe { called(stream, array, |array| out.write_unaligned(array)) }
}

#[expect(unsafe_code, reason = "the interface is one of C")]
// SAFETY: a consumer passes the stream.
unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: as above.
    let outgoing = unsafe { outgoing_of(stream) };
    let text = catch_unwind(AssertUnwindSafe(|| {
        crate::panics::at("get_last_error");
        outgoing.and_then(|outgoing| outgoing.error.as_ref()).map_or(null(), |text| text.as_ptr())
    }));
    text.unwrap_or(null())
}

#[expect(unsafe_code, reason = "the interface is one of C")]
// SAFETY: a consumer passes the stream, and uses nothing of it afterwards.
unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: as above.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };
    let owned: *mut Outgoing = std::mem::replace(&mut stream.private_data, null_mut()).cast();
    stream.get_schema = None;
    stream.get_next = None;
    stream.get_last_error = None;
    stream.release = None;
    if owned.is_null() {
        return;
    }
    // SAFETY: `capsule` has made it of a box, and nobody else has taken it.
    let owned = unsafe { Box::from_raw(owned) };
    let _panic = catch_unwind(AssertUnwindSafe(move || {
        let _owned = owned;
        crate::panics::at("release");
    }));
}

/// # Safety
/// `stream` is null, or a stream of [`capsule`]. Nobody else uses it meanwhile.
#[expect(unsafe_code, reason = "the interface is one of C")]
unsafe fn outgoing_of<'a>(stream: *mut FFI_ArrowArrayStream) -> Option<&'a mut Outgoing> {
    // SAFETY: the caller's promise. After the release there is nothing.
    unsafe { stream.as_mut()?.private_data.cast::<Outgoing>().as_mut() }
}

/// Makes what a consumer asks for, and gives it. Returns 0, or the code of an error.
///
/// # Safety
/// As [`outgoing_of`].
#[expect(unsafe_code, reason = "the interface is one of C")]
unsafe fn called<T>(
    stream: *mut FFI_ArrowArrayStream,
    make: impl FnOnce(&mut Outgoing) -> Result<T, ArrowError>,
    give: impl FnOnce(T),
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(outgoing) = (unsafe { outgoing_of(stream) }) else { return EINVAL };
    let text = match catch_unwind(AssertUnwindSafe(|| make(outgoing))) {
        Ok(Ok(made)) => {
            give(made);
            return 0;
        }
        Ok(Err(error)) => error.to_string(),
        Err(panic) => text_of(&*panic),
    };
    if let Some(reader) = outgoing.reader.take() {
        outgoing.error = CString::new(text.replace('\0', "\\0")).ok();
        let _panic = catch_unwind(AssertUnwindSafe(|| drop(reader)));
    }
    EINVAL
}

/// The error of a call after an error: the text stays that of the first.
fn ended() -> ArrowError {
    ArrowError::CDataInterface("the stream has ended with an error".to_owned())
}
