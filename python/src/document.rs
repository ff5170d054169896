//! `flagstone.Document`: a mapping that decodes what is asked for.

use crate::arg;
use crate::decode::{self, Decimals, malformed};
use crate::edits::{self, Edited};
use crate::error::invalid;
use crate::selection::Selection;
use crate::{value, views};
use flagstone::doc::{FieldKey, JsonMode};
use flagstone::{Value, View};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::sync::Arc;

/// A document, or a map in one: a `Mapping` of names to values. It keeps its stored bytes, and
/// decodes what is read: `doc["a"]["b"]` decodes that value alone. It does not change, also when
/// another document is stored under its key, and can be read when the database is closed. Lists in
/// it, and dicts in these, refuse changes, too; `to_dict` and `path` return copies.
///
///     >>> c = db.collection("comments")
///     >>> c["a"] = {"author": {"name": "x"}, "score": 1}
///     >>> doc = c["a"]
///     >>> doc["author"]["name"]
///     'x'
///     >>> doc.path("$.author.name")
///     'x'
///     >>> doc.json()
///     '{"author":{"name":"x"},"score":1}'
///     >>> doc.to_dict() == doc == {"author": {"name": "x"}, "score": 1}
///     True
#[pyclass(module = "flagstone._flagstone", weakref, frozen, mapping)]
pub(crate) struct Document {
    bytes: Held,
    /// The names of the fields on the way from the root to the map.
    names: Vec<Box<str>>,
    decimals: Decimals,
}

/// The stored bytes: those that were read, or those that a transaction has now.
#[derive(Clone)]
enum Held {
    Read(flagstone::Document),
    Edited(Arc<Edited>),
}

impl Held {
    fn now(&self) -> flagstone::Document {
        match self {
            Self::Read(document) => document.clone(),
            Self::Edited(edited) => edited.now(),
        }
    }
}

impl Document {
    /// Returns the Python value of a whole document: a `Document` if it is a map of names.
    pub(crate) fn of<'py>(
        py: Python<'py>,
        document: flagstone::Document,
        decimals: Decimals,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !has_names(py, &document.root())? {
            return decode::stored_at(py, &document.root(), decimals, || "$".into());
        }
        let document = Self { bytes: Held::Read(document), names: Vec::new(), decimals };
        Ok(document.into_pyobject(py)?.into_any())
    }

    /// As `of`, for a document of a transaction.
    pub(crate) fn of_edited<'py>(
        py: Python<'py>,
        edited: Edited,
        decimals: Decimals,
    ) -> PyResult<Bound<'py, PyAny>> {
        let edited = Arc::new(edited);
        let root = edited.now();
        if !has_names(py, &root.root())? {
            return edits::part(py, &edited, Vec::new(), &root.root(), decimals);
        }
        let bytes = Held::Edited(edited);
        Ok(Self { bytes, names: Vec::new(), decimals }.into_pyobject(py)?.into_any())
    }

    /// Returns the map in memory.
    pub(crate) fn to_value(&self, py: Python<'_>) -> PyResult<Value> {
        self.read(py, |view| view.to_value().map_err(|error| malformed(py, error)))
    }

    fn read<T>(&self, py: Python<'_>, read: impl FnOnce(&View<'_>) -> PyResult<T>) -> PyResult<T> {
        let document = self.bytes.now();
        let mut view = document.root();
        for name in &self.names {
            let next = view.get(name).map_err(|error| malformed(py, error))?;
            view = next.ok_or_else(|| self.replaced(py))?;
        }
        // What it was taken from may have another value there by now.
        if let Held::Edited(_) = self.bytes
            && !has_names(py, &view)?
        {
            return Err(self.replaced(py));
        }
        read(&view)
    }

    #[cold]
    fn replaced(&self, py: Python<'_>) -> PyErr {
        let path = value::path_of(self.names.iter().map(|name| &**name));
        invalid(py, format!("{path} is no map any more, since the document was changed"))
    }

    /// Sets a field, or removes it, in the transaction that the document belongs to.
    fn change(&self, py: Python<'_>, name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Held::Edited(edited) = &self.bytes else {
            let text = "a Document does not change: use Collection.update, or change a copy, as of \
                        to_dict(), and set the whole document";
            return Err(PyTypeError::new_err(text));
        };
        let names: Vec<Box<str>> = self.names.iter().cloned().chain([name.into()]).collect();
        let path = || value::path_of(names.iter().map(|name| &**name));
        let value = value.map(|value| value::of_python(value, &path())).transpose()?;
        edited.set(py, &names, value)
    }

    /// Returns the value of a field: a `Document` if it is a map of names.
    fn field<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        view: &View<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let has_names = has_names(py, view)?;
        if let (Held::Read(_), false) = (&self.bytes, has_names) {
            let path = || {
                let names = self.names.iter().map(|name| &**name);
                value::path_of(names.chain([name]))
            };
            return decode::stored_at(py, view, self.decimals, path);
        }
        let names = self.names.iter().cloned().chain([name.into()]).collect();
        if let (Held::Edited(edited), false) = (&self.bytes, has_names) {
            return edits::part(py, edited, names, view, self.decimals);
        }
        let inner = Self { bytes: self.bytes.clone(), names, decimals: self.decimals };
        Ok(inner.into_pyobject(py)?.into_any())
    }
}

/// Returns whether the value is a map whose keys are all names.
fn has_names(py: Python<'_>, view: &View<'_>) -> PyResult<bool> {
    if !view.is_map() {
        return Ok(false);
    }
    match view.fields().map_err(|error| malformed(py, error))?.next() {
        Some(Ok((FieldKey::Value(_), _))) => Ok(false),
        Some(Err(error)) => Err(malformed(py, error)),
        Some(Ok((FieldKey::Name(_), _))) | None => Ok(true),
    }
}

#[pymethods]
impl Document {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let missing = || PyKeyError::new_err(name.clone().unbind());
        let text = name.cast::<PyString>().map_err(|_no_text| missing())?;
        // No name has a lone surrogate.
        let text = text.to_cow().map_err(|_lone| missing())?;
        self.read(py, |view| {
            let found = view.get(&text).map_err(|error| malformed(py, error))?;
            self.field(py, &text, &found.ok_or_else(missing)?)
        })
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::name)] name: &str,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.change(py, name, Some(value))
    }

    fn __delitem__(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::name)] name: &str,
    ) -> PyResult<()> {
        if !self.read(py, |view| Ok(view.get(name).is_ok_and(|found| found.is_some())))? {
            return Err(PyKeyError::new_err(name.to_owned()));
        }
        self.change(py, name, None)
    }

    fn __contains__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(name) = name.cast::<PyString>() else { return Ok(false) };
        let Ok(name) = name.to_cow() else { return Ok(false) };
        self.read(py, |view| Ok(view.get(&name).map_err(|error| malformed(py, error))?.is_some()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, |view| view.len().map_err(|error| malformed(py, error)))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let names = PyDict::new(py);
        self.read(py, |view| {
            for field in view.fields().map_err(|error| malformed(py, error))? {
                if let (FieldKey::Name(name), _) = field.map_err(|error| malformed(py, error))? {
                    names.set_item(name, py.None())?;
                }
            }
            Ok(())
        })?;
        Ok(names.try_iter()?.into_any())
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let own = slf.get().to_dict(py)?;
        if let Ok(other) = other.cast::<Self>() {
            return own.eq(other.get().to_dict(py)?)?.into_py_any(py);
        }
        views::equal(&own, other)
    }

    /// Returns the value of the field `name`, or `default` if there is none.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // As a dict, which has no other keys.
        let name = name.cast::<PyString>().ok().and_then(|name| name.to_cow().ok());
        let Some(name) = name else {
            return Ok(default.unwrap_or_else(|| py.None().into_bound(py)));
        };
        self.read(py, |view| match view.get(&name).map_err(|error| malformed(py, error))? {
            Some(found) => self.field(py, &name, &found),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        })
    }

    /// Returns what `path` selects: the value at a dotted path or a JSONPath of names and indexes,
    /// or `default` if there is none; for any other JSONPath, the list of its values.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c["a"] = {"votes": [{"by": "x"}, {"by": "y"}]}
    ///     >>> c["a"].path("votes.1.by"), c["a"].path("$.votes[*].by"), c["a"].path("none", 0)
    ///     ('y', ['x', 'y'], 0)
    #[pyo3(signature = (path, default=None))]
    fn path<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::path)] path: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let selection = Selection::parse(py, path)?;
        let found =
            self.read(py, |view| selection.select(view).map_err(|error| malformed(py, error)))?;
        found.into_python(py, self.decimals, default)
    }

    /// Returns a view of the names of the fields.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        views::whole(slf.as_any(), "KeysView")
    }

    /// Returns a view of the values of the fields.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        views::whole(slf.as_any(), "ValuesView")
    }

    /// Returns a view of the pairs of name and value.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        views::whole(slf.as_any(), "ItemsView")
    }

    /// Decodes all of it: dicts, lists and scalars.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let path = || value::path_of(self.names.iter().map(|name| &**name));
        self.read(py, |view| decode::view_at(py, view, self.decimals, path))
    }

    /// Returns the JSON text, with all numbers as they were written, as of `Collection.get_json`.
    #[pyo3(signature = (*, extended_json=false))]
    fn json(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::extended_json)] extended_json: bool,
    ) -> PyResult<String> {
        self.read(py, |view| json(py, view, arg::json_mode(extended_json)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Document({})", self.to_dict(py)?.repr()?))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>,))> {
        // A copy elsewhere is a dict.
        Ok((py.get_type::<PyDict>().into_any(), (self.to_dict(py)?,)))
    }
}

/// Returns the JSON text of a part of a document.
pub(crate) fn json(py: Python<'_>, view: &View<'_>, mode: JsonMode) -> PyResult<String> {
    let mut text = Vec::new();
    flagstone::doc::json::append_json_as(view, mode, &mut text)
        .map_err(|error| malformed(py, error))?;
    Ok(String::from_utf8(text)?)
}
