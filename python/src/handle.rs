//! What a `flagstone.Collection` holds, and its calls on single entries.

use crate::access::Documents;
use crate::arg;
use crate::decode::{self, Decimals};
use crate::document::Document;
use crate::edits::Edited;
use crate::error::invalid;
use crate::fork::OfProcess;
use crate::keys::{Range, key_of, missing, text_range};
use crate::opened::Opened;
use crate::rows::Rows;
use crate::scan::Part;
use crate::selection::{Selected, Selection};
use crate::through::Through;
use crate::{models, time, value, views};
use flagstone::{Result, TryGet, Value};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ops::Bound as End;
use std::sync::Arc;

/// A collection of an open database, and how it is read and written.
pub(crate) struct Handle {
    pub(crate) opened: Arc<Opened>,
    pub(crate) documents: OfProcess<Documents>,
    pub(crate) decimals: Decimals,
}

/// An update of many documents is committed in batches of at most this number of documents, and of
/// about [`UPDATE_BYTES`].
const UPDATE_DOCUMENTS: usize = 4096;
const UPDATE_BYTES: usize = 1 << 20;

impl Handle {
    pub(crate) fn new(opened: &Arc<Opened>, documents: Documents, decimals: Decimals) -> Self {
        Self { opened: Arc::clone(opened), documents: OfProcess::new(documents), decimals }
    }

    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Documents) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.opened.run(py, || work(&self.documents))
    }

    /// The collection itself, for what neither snapshots nor transactions do.
    pub(crate) fn run_live<T: Send>(
        &self,
        py: Python<'_>,
        what: &str,
        work: impl FnOnce(&flagstone::Collection) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.opened.run(py, || {
            self.documents.through.live(what)?;
            work(&self.documents.collection)
        })
    }

    pub(crate) fn look_up(
        &self,
        py: Python<'_>,
        key: &Value,
    ) -> PyResult<Option<flagstone::Document>> {
        match self.opened.run_attached(py, || self.documents.try_get(key))? {
            TryGet::Found(document) => Ok(Some(document)),
            TryGet::Absent => Ok(None),
            TryGet::WouldRead => self.run(py, |documents| documents.get(key)),
        }
    }

    pub(crate) fn scan(&self, py: Python<'_>, range: Range, part: Part) -> PyResult<Rows> {
        let Range { start, end, prefix, is_reverse } = range;
        let range = match prefix {
            Some(_) if start.is_some() || end.is_some() => {
                return Err(invalid(py, "expected a prefix, or a start and an end, found both"));
            }
            Some(prefix) => text_range(py, prefix)?,
            None => (
                start.map_or(End::Unbounded, End::Included),
                end.map_or(End::Unbounded, End::Excluded),
            ),
        };
        let source = self.run(py, |documents| documents.scan(range, is_reverse, part))?;
        let rows = Rows::new(&self.opened, source, part, self.decimals);
        Ok(rows.edited_in(&self.documents))
    }

    pub(crate) fn put(
        &self,
        py: Python<'_>,
        key: Value,
        document: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let value = value::of_python(document, "$")?;
        self.run(py, |documents| documents.put(key, &value, None))
    }

    /// Returns the document of `key`, which a transaction can change.
    pub(crate) fn handed_out<'py>(
        &self,
        py: Python<'py>,
        key: Value,
        document: flagstone::Document,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Through::Transaction(_) = self.documents.through else {
            return Document::of(py, document, self.decimals);
        };
        let edited = Edited::new(&self.opened, &self.documents, key, document);
        Document::of_edited(py, edited, self.decimals)
    }

    pub(crate) fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        path: Option<&str>,
        r#type: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let default_or_none = || default.clone().unwrap_or_else(|| py.None().into_bound(py));
        let key = key_of(key)?;
        let Some(path) = path else {
            let Some(document) = self.look_up(py, &key)? else { return Ok(default_or_none()) };
            return match r#type {
                None => self.handed_out(py, key, document),
                Some(class) => {
                    let decoded = decode::view(py, &document.root(), self.decimals)?;
                    models::build(class, &decoded)
                }
            };
        };
        let selection = Selection::parse(py, path)?;
        match self.run(py, |documents| documents.select(&key, &selection))? {
            // What is not there is no instance of the class.
            None | Some(Selected::One(None)) => Ok(default_or_none()),
            Some(selected) => {
                let selected = selected.into_python(py, self.decimals, default.clone())?;
                r#type.map_or(Ok(selected.clone()), |class| models::build(class, &selected))
            }
        }
    }

    pub(crate) fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        views::check_default(default)?;
        let value = key_of(key)?;
        let database = &self.opened.database;
        // What is not there needs no transaction, which would wait for a sync.
        let found = match self.opened.run_attached(py, || self.documents.try_get(&value))? {
            TryGet::Absent => None,
            TryGet::Found(_) | TryGet::WouldRead => {
                self.run(py, |documents| documents.take(database, &value))?
            }
        };
        match found {
            Some(document) => Document::of(py, document, self.decimals),
            None if default.is_empty() => Err(missing(key)),
            None => default.get_item(0),
        }
    }

    pub(crate) fn popitem<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let database = &self.opened.database;
        let first = self.run(py, |documents| documents.take_first(database))?;
        let none_left = || PyKeyError::new_err("popitem: no document is left");
        let (key, document) = first.ok_or_else(none_left)?;
        Ok((decode::key(py, &key, self.decimals)?, Document::of(py, document, self.decimals)?))
    }

    pub(crate) fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = key_of(key)?;
        let found = match self.look_up(py, &value)? {
            Some(document) => Some(document),
            None => {
                let default = value::of_python(default.unwrap_or(&py.None().into_bound(py)), "$")?;
                let database = &self.opened.database;
                self.run(py, |documents| documents.get_or_put(database, &value, &default))?
            }
        };
        // The default may have expired already, by an index.
        let document = found.ok_or_else(|| missing(key))?;
        self.handed_out(py, value, document)
    }

    pub(crate) fn insert<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        document: &Bound<'py, PyTuple>,
        expires: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (key, document) = match document.len() {
            0 => (Value::from(flagstone_load::new_key()), key.clone()),
            1 => (key_of(key)?, document.get_item(0)?),
            more => {
                let text = format!("insert: expected a key and a document, found {more} more");
                return Err(PyTypeError::new_err(text));
            }
        };
        let database = &self.opened.database;
        let expires = time::expiry(expires, || database.now())?;
        let document = value::of_python(&document, "$")?;
        self.run(py, |documents| documents.insert(database, key.clone(), &document, expires))?;
        decode::key(py, &key, self.decimals)
    }

    /// Sets the documents of a mapping, or of an iterable of pairs.
    pub(crate) fn update_all(&self, py: Python<'_>, documents: &Bound<'_, PyAny>) -> PyResult<()> {
        if !documents.hasattr("items")? && !arg::is_iterable(documents) {
            let what = "changes of the document, such as set={..}, or a mapping or pairs";
            return Err(arg::expected("update", what, documents));
        }
        let pairs = views::pairs_of(documents)?;
        let mut ready = Vec::new();
        for pair in pairs.try_iter()? {
            let (key, document): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            ready.push((key_of(&key)?, value::of_python(&document, "$")?));
            if ready.len() == UPDATE_DOCUMENTS {
                self.commit_some(py, &mut ready)?;
            }
        }
        self.commit_some(py, &mut ready)
    }

    fn commit_some(&self, py: Python<'_>, ready: &mut Vec<(Value, Value)>) -> PyResult<()> {
        let ready = std::mem::take(ready);
        self.run(py, |documents| documents.put_all(ready, UPDATE_BYTES, &self.opened.database))
    }
}
