//! Arguments of plain types: one of a wrong type is a `TypeError` that names the argument. PyO3
//! names it in a note alone, which Python 3.10 does not have.
//!
//! `#[pyo3(from_py_with = arg::create)] create: bool` takes an argument so.

use crate::error::invalid;
use crate::options::expected;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use std::path::PathBuf;

/// A plain type of arguments.
pub(crate) trait Plain<'a>: Sized {
    /// What a call should have passed.
    const EXPECTED: &'static str;

    fn of(given: &'a Bound<'_, PyAny>) -> PyResult<Self>;
}

impl<'a> Plain<'a> for &'a str {
    const EXPECTED: &'static str = "text";

    fn of(given: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        given.cast::<PyString>()?.to_str()
    }
}

macro_rules! plain {
    ($($type:ty: $expected:literal;)*) => {$(
        impl Plain<'_> for $type {
            const EXPECTED: &'static str = $expected;

            fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
                given.extract()
            }
        }
    )*};
}

macro_rules! count {
    ($($type:ty)*) => {$(
        impl Plain<'_> for $type {
            const EXPECTED: &'static str = "an int from 0 on";

            fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
                match given.is_instance_of::<PyBool>() {
                    true => Err(PyTypeError::new_err(Self::EXPECTED)),
                    false => given.extract(),
                }
            }
        }
    )*};
}

count! { u32 u64 usize }

plain! {
    bool: "True or False";
    PathBuf: "a path";
    Vec<String>: "a list of text";
}

impl<'a, T: Plain<'a>> Plain<'a> for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn of(given: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if given.is_none() { Ok(None) } else { T::of(given).map(Some) }
    }
}

/// Returns the argument `name`.
fn named<'a, T: Plain<'a>>(name: &str, given: &'a Bound<'_, PyAny>) -> PyResult<T> {
    T::of(given).map_err(|error| match error.is_instance_of::<PyTypeError>(given.py()) {
        true => expected(name, T::EXPECTED, given),
        // A number below 0, or one that is too large.
        false if error.is_instance_of::<PyOverflowError>(given.py()) => {
            invalid(given.py(), format!("{name}: expected {}, found {given}", T::EXPECTED))
        }
        false => error,
    })
}

macro_rules! arguments {
    ($($name:ident)*) => {$(
        pub(crate) fn $name<'a, T: Plain<'a>>(given: &'a Bound<'_, PyAny>) -> PyResult<T> {
            named(stringify!($name), given)
        }
    )*};
}

arguments! {
    analyze bad_lines batch_rows compaction_workers create decimal format json keep_key key
    limit mode naive name names new nulls old on on_mismatch path read_only
    resume retries reverse sample scratch serializable skip sparse start threads unique
}
