//! Arguments of Python by their names: an error says which one it is, what is expected and what was
//! found. A wrong type is a `TypeError`; a value out of range is an `InvalidInput`, a `ValueError`.
//! PyO3 names an argument in a note alone, which Python 3.10 does not have.
//!
//! `#[pyo3(from_py_with = arg::create)] create: bool` takes an argument so.

use crate::error::invalid;
use flagstone::doc::JsonMode;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyMapping, PyString};
use std::collections::HashMap;
use std::path::PathBuf;

/// A type of arguments.
pub(crate) trait Argument<'a>: Sized {
    fn of(name: &str, given: &'a Bound<'_, PyAny>) -> PyResult<Self>;
}

impl<'a> Argument<'a> for &'a str {
    fn of(name: &str, given: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(text) = given.cast::<PyString>() else {
            return Err(expected(name, "text", given));
        };
        text.to_str().map_err(|_lone| expected(name, "text without lone surrogates", given))
    }
}

impl Argument<'_> for bool {
    fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        // A bool of numpy is one, too.
        given.extract().map_err(|_other| expected(name, "True or False", given))
    }
}

impl Argument<'_> for u64 {
    fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        const NUMBER: &str = "an int from 0 on";
        if given.is_instance_of::<PyBool>() || given.is_instance_of::<PyFloat>() {
            return Err(expected(name, NUMBER, given));
        }
        given.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyTypeError>(given.py()) {
                expected(name, NUMBER, given)
            } else {
                // Negative, or beyond 64 bits.
                out_of_range(name, NUMBER, given)
            }
        })
    }
}

/// A number beyond the type counts as the largest of the type, which is beyond any use.
macro_rules! clamped {
    ($($type:ty)*) => {$(
        impl Argument<'_> for $type {
            fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
                Ok(Self::try_from(u64::of(name, given)?).unwrap_or(Self::MAX))
            }
        }
    )*};
}

clamped! { u32 usize }

/// Returns a number up to `most`.
pub(crate) fn up_to<T: TryFrom<u64>>(
    name: &str,
    most: u64,
    given: &Bound<'_, PyAny>,
) -> PyResult<T> {
    let number = u64::of(name, given)?;
    let fits = T::try_from(number).ok().filter(|_| number <= most);
    fits.ok_or_else(|| out_of_range(name, &format!("an int up to {most}"), given))
}

impl Argument<'_> for PathBuf {
    /// A path: text, bytes or an object with `__fspath__`.
    fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let os = given.py().import("os")?;
        let path = os.call_method1("fspath", (given,));
        let path = path.map_err(|_other| expected(name, "a path", given))?;
        let path: PathBuf = os
            .call_method1("fsdecode", (path,))?
            .extract()
            .map_err(|_surrogate: PyErr| out_of_range(name, "a path of the system", given))?;
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            Err(out_of_range(name, "a path without the character U+0000", given))
        } else {
            Ok(path)
        }
    }
}

impl Argument<'_> for Vec<String> {
    fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        texts(given).ok_or_else(|| expected(name, "a list of text", given))
    }
}

impl Argument<'_> for HashMap<String, String> {
    fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        given.extract().map_err(|_other| expected(name, "a dict of text", given))
    }
}

impl<'a, T: Argument<'a>> Argument<'a> for Option<T> {
    fn of(name: &str, given: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if given.is_none() { Ok(None) } else { T::of(name, given).map(Some) }
    }
}

/// Defines the conversion of the arguments of these names.
macro_rules! named {
    ($($name:ident)*) => {$(
        pub(crate) fn $name<'a, T: Argument<'a>>(given: &'a Bound<'_, PyAny>) -> PyResult<T> {
            T::of(stringify!($name), given)
        }
    )*};
}

named! {
    after analyze bad_lines batch_rows by compaction_workers create decimal delimiter documents
    extended_json format json keep_key key limit memory mode naive name names new nulls old on
    on_mismatch path read_only resume retries reverse sample scratch serializable skip sparse start
    threads types unique window_log
}

/// Returns the mode that the argument `extended_json` asks for.
pub(crate) const fn json_mode(is_extended: bool) -> JsonMode {
    if is_extended { JsonMode::Extended } else { JsonMode::Plain }
}

/// Returns the items of a list, a tuple or another iterable; `None` for what is none, and for a
/// mapping.
pub(crate) fn items<'py>(given: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if !is_iterable(given) || given.cast::<PyMapping>().is_ok() {
        return None;
    }
    given.try_iter().ok()?.collect::<PyResult<_>>().ok()
}

/// Returns whether `given` is an iterable, but for text and bytes, whose items are not meant.
pub(crate) fn is_iterable(given: &Bound<'_, PyAny>) -> bool {
    let is_one = given.is_instance_of::<PyString>()
        || given.is_instance_of::<PyBytes>()
        || given.is_instance_of::<PyByteArray>();
    !is_one && given.try_iter().is_ok()
}

/// Returns the texts of a list, a tuple or another iterable.
pub(crate) fn texts(given: &Bound<'_, PyAny>) -> Option<Vec<String>> {
    items(given)?.iter().map(|item| item.extract().ok()).collect()
}

/// Refuses what is not a function.
pub(crate) fn check_callable(name: &str, what: &str, given: &Bound<'_, PyAny>) -> PyResult<()> {
    if given.is_callable() { Ok(()) } else { Err(expected(name, what, given)) }
}

/// Returns the error of an argument of a wrong type.
#[cold]
pub(crate) fn expected(name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("{name}: expected {expected}, found {}", shown(given)))
}

/// Returns the error of an argument of the right type that has no meaning.
#[cold]
pub(crate) fn out_of_range(name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyErr {
    invalid(given.py(), format!("{name}: expected {expected}, found {}", shown(given)))
}

fn shown(given: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 60;
    let Ok(text) = given.repr() else { return "another value".into() };
    let text = text.to_string_lossy();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.into_owned(),
    }
}
