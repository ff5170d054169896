//! Definitions of indexes by arguments of Python.

use crate::error::invalid;
use crate::{arg, find, options};
use flagstone::Index;
use flagstone::internal::split_paths;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Returns the index that `Collection.create_index` is called with.
pub(crate) fn definition(
    py: Python<'_>,
    fields: &Bound<'_, PyTuple>,
    (unique, sparse): (bool, bool),
    only: Option<&Bound<'_, PyAny>>,
    expire_after: Option<&Bound<'_, PyAny>>,
) -> PyResult<Index> {
    let fields = fields.iter().map(|field| {
        field.extract().map_err(|_other| arg::expected("fields", "paths as text", &field))
    });
    let fields: Vec<String> = fields.collect::<PyResult<_>>()?;
    if let Some(field) = fields.iter().find(|field| split_paths(field).nth(1).is_some()) {
        let text = format!(
            "create_index: {field:?}: expected one field, found a comma: give several as arguments \
             of their own; a name with a comma is $['a,b']"
        );
        return Err(invalid(py, text));
    }
    let (first, more) = match fields.split_first() {
        Some(split) => split,
        None => return Err(invalid(py, "create_index: expected a field, found none")),
    };
    let mut index = more.iter().fold(Index::on(first), |index, field| index.then(field));
    if unique {
        index = index.unique();
    }
    if sparse {
        index = index.sparse();
    }
    if let Some(filter) = only {
        index = index.only(find::filter_of(Some(filter))?);
    }
    if let Some(time) = expire_after {
        index = index.expire_after(options::duration("expire_after", time)?);
    }
    Ok(index)
}
