//! `flagstone.Collection`: a mutable mapping of keys to documents.

use crate::access::Documents;
use crate::arg;
use crate::arrow::ArrowSource;
use crate::changes::{Asked, Changes, Timeout};
use crate::decode::Decimals;
use crate::find::Find;
use crate::handle::Handle;
use crate::keys::{Range, key_of, missing};
use crate::opened::Opened;
use crate::rows::Rows;
use crate::scan::Part;
use crate::signals::Interrupt;
use crate::through::Through;
use crate::update::Change;
use crate::{aggregate, indexes, json_text, load, load_arrow, time, update, value, views};
use flagstone::Space;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyString, PyTuple};
use std::ops::Bound as End;
use std::sync::Arc;

/// A named, ordered map of keys to documents, with indexes and queries: a `MutableMapping`.
///
/// A key is any value, such as text or an `int`. A document is mostly a dict, and may be
/// any value; an unsupported value raises a `TypeError` that names its path. Documents come
/// back lazily, see `Document`; numbers come back exactly.
///
///     >>> c = db.collection("comments")
///     >>> c["evn2i5p"] = {"author": "x", "score": 1, "subreddit": "rust"}
///     >>> c.update("evn2i5p", inc={"score": 1}, set={"edited": True})
///     True
///     >>> c.get("evn2i5p", path="$.score")
///     2
///     >>> c.create_index("by_sub", "$.subreddit", "-$.score")
///     >>> [key for key, doc in c.find({"subreddit": "rust", "score": {"$gte": 2}})]
///     ['evn2i5p']
#[pyclass(module = "flagstone._flagstone", frozen, mapping, weakref)]
pub(crate) struct Collection {
    handle: Handle,
}

impl Collection {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        collection: flagstone::Collection,
        decimals: Decimals,
    ) -> Self {
        let documents = Documents { collection, through: Through::Live };
        Self { handle: Handle::new(opened, documents, decimals) }
    }

    /// Returns a handle of the same collection that reads and writes `through` something else.
    pub(crate) fn through(&self, through: Through) -> Self {
        let Handle { opened, documents, decimals } = &self.handle;
        let documents = Documents { collection: documents.collection.clone(), through };
        Self { handle: Handle::new(opened, documents, *decimals) }
    }

    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.handle.opened
    }

    /// Returns what queries of this handle read.
    pub(crate) fn documents(&self) -> &Documents {
        &self.handle.documents
    }

    pub(crate) const fn decimals(&self) -> Decimals {
        self.handle.decimals
    }
}

#[pymethods]
impl Collection {
    /// The name of the collection.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.handle.opened.check(py)?;
        Ok(self.handle.documents.collection.name())
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = key_of(key)?;
        let document = self.handle.look_up(py, &value)?.ok_or_else(|| missing(key))?;
        self.handle.handed_out(py, value, document)
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        document: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.handle.put(py, key_of(key)?, document)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = key_of(key)?;
        if self.handle.run(py, |documents| documents.remove(value))? {
            Ok(())
        } else {
            Err(missing(key))
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.handle.look_up(py, &key_of(key)?)?.is_some())
    }

    /// Counts the documents, which reads all keys; `approximate_len` is much faster.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.handle.run(py, Documents::count)?.try_into()?)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.handle.run(py, |documents| {
            let mut keys = documents.scan((End::Unbounded, End::Unbounded), false, Part::Keys)?;
            keys.next().transpose().map(|first| first.is_some())
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Rows> {
        self.handle.scan(py, Range::default(), Part::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Rows> {
        self.handle.scan(py, Range { is_reverse: true, ..Range::default() }, Part::Keys)
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        views::equal(slf.as_any(), other)
    }

    /// Returns the document of `key`, or `default` if there is none.
    ///
    /// With `path`, returns what the path selects in the document, and decodes nothing else: the
    /// value at `author.name` or `$.author.name`, and for a JSONPath such as `$.tags[*]` the list
    /// of its values. With `type`, returns an instance of this dataclass, pydantic model, msgspec
    /// struct, or of any class that can be called with the document's fields.
    ///
    ///     >>> c = db.collection("comments")
    ///     >>> c["a"] = {"author": {"name": "x"}, "tags": ["p", "q"]}
    ///     >>> c.get("a", path="author.name"), c.get("a", path="$.tags[*]"), c.get("b")
    ///     ('x', ['p', 'q'], None)
    #[pyo3(signature = (key, default=None, *, path=None, r#type=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arg::path)] path: Option<&str>,
        r#type: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.handle.get(py, key, default, path, r#type)
    }

    /// Returns the JSON text of the document of `key`, or `None` if there is none: with all numbers
    /// as they were written. bytes, datetimes, UUIDs and ObjectIds are text in it. With
    /// `extended_json=True` they are forms of MongoDB's Extended JSON, which `put_json` reads back.
    /// What has no text, such as a float that is not finite, is one in both.
    ///
    ///     >>> c = db.collection("prices")
    ///     >>> c.put_json("a", '{"price":1.10}')
    ///     >>> c.get_json("a")
    ///     '{"price":1.10}'
    ///     >>> c["b"] = {"ratio": float("nan"), "raw": b"a"}
    ///     >>> c.get_json("b")
    ///     '{"ratio":{"$numberDouble":"NaN"},"raw":"YQ=="}'
    ///     >>> c.put_json("c", c.get_json("b", extended_json=True), extended_json=True)
    ///     >>> c["c"]
    ///     Document({'ratio': nan, 'raw': b'a'})
    #[pyo3(signature = (key, *, extended_json=false))]
    fn get_json<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::extended_json)] extended_json: bool,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let mode = arg::json_mode(extended_json);
        json_text::get(py, &self.handle.opened, &self.handle.documents, key, mode)
    }

    /// Sets the document of `key`, as `c[key] = document` does. It expires at `expires`: a
    /// `datetime` with a time zone, or a `timedelta` from now; to the millisecond.
    ///
    ///     >>> from datetime import timedelta
    ///     >>> c = db.collection("sessions")
    ///     >>> c.put("alice", {"n": 1}, expires=timedelta(hours=1))
    #[pyo3(name = "put", signature = (key, document, *, expires=None))]
    fn put_entry(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        document: &Bound<'_, PyAny>,
        expires: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (key, document) = (key_of(key)?, value::of_python(document, "$")?);
        let expires = time::expiry(expires, || self.handle.opened.database.now())?;
        self.handle.run(py, |documents| documents.put(key, &document, expires))
    }

    /// Sets the document of `key` to the one in JSON text, with all numbers as they are written.
    /// With `extended_json=True` forms of MongoDB's Extended JSON are the values they stand for:
    /// `{"$date":"2026-01-01T00:00:00Z"}`, `{"$binary":..}`, `{"$uuid":..}`, `{"$oid":..}`,
    /// `{"$numberLong":"1"}`.
    #[pyo3(signature = (key, json, *, extended_json=false))]
    fn put_json(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::json)] json: &str,
        #[pyo3(from_py_with = arg::extended_json)] extended_json: bool,
    ) -> PyResult<()> {
        let key = key_of(key)?;
        let mode = arg::json_mode(extended_json);
        self.handle.run(py, |documents| documents.put_json(key, json, mode))
    }

    /// Returns when the document of `key` expires: a `datetime` in UTC, or `None`.
    fn expiry<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = key_of(key)?;
        let expiry = self.handle.run_live(py, "expiry", |collection| collection.expiry(key))?;
        expiry.map(|moment| time::datetime_of(py, moment)).transpose()
    }

    /// Removes the document of `key` if there is one. Unlike `del c[key]` it does not say whether.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = key_of(key)?;
        self.handle.run(py, |documents| documents.delete(key))
    }

    /// Removes all documents with keys from `start` on and before `end`. Without `start`, from the
    /// first key; without `end`, to the last.
    #[pyo3(signature = (start=None, end=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Range { start, end, .. } = Range::of(start, end, None, false)?;
        self.handle.run_live(py, "delete_range", |collection| {
            collection.delete_range((
                start.map_or(End::Unbounded, End::Included),
                end.map_or(End::Unbounded, End::Excluded),
            ))
        })
    }

    /// Removes all documents.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.run_live(py, "clear", flagstone::Collection::clear)
    }

    /// Returns about how many documents there are, from counters alone.
    fn approximate_len(&self, py: Python<'_>) -> PyResult<u64> {
        self.handle.run_live(py, "approximate_len", |collection| Ok(collection.approximate_count()))
    }

    /// Returns a view of the keys: all of them, those from `start` on and before `end`, or those
    /// that are text and begin with `prefix`.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({"a1": {}, "a2": {}, "b1": {}})
    ///     >>> list(c.keys(prefix="a")), list(c.keys("a2", reverse=True))
    ///     (['a1', 'a2'], ['b1', 'a2'])
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn keys<'py>(
        slf: &Bound<'py, Self>,
        start: Option<Bound<'py, PyAny>>,
        end: Option<Bound<'py, PyAny>>,
        prefix: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arg::reverse)] reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        views::of(slf.as_any(), "KeysOfRange", (start, end, prefix, reverse))
    }

    /// Returns a view of the documents, in the order of their keys. See `keys`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn values<'py>(
        slf: &Bound<'py, Self>,
        start: Option<Bound<'py, PyAny>>,
        end: Option<Bound<'py, PyAny>>,
        prefix: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arg::reverse)] reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        views::of(slf.as_any(), "ValuesOfRange", (start, end, prefix, reverse))
    }

    /// Returns a view of the pairs of key and document, in the order of the keys. See `keys`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false))]
    fn items<'py>(
        slf: &Bound<'py, Self>,
        start: Option<Bound<'py, PyAny>>,
        end: Option<Bound<'py, PyAny>>,
        prefix: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arg::reverse)] reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        views::of(slf.as_any(), "ItemsOfRange", (start, end, prefix, reverse))
    }

    /// Removes the document of `key` and returns it; without one returns `default`, or raises
    /// `KeyError`. Of several threads, one gets the document.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c["a"] = {"n": 1}
    ///     >>> c.pop("a"), c.pop("a", None)
    ///     (Document({'n': 1}), None)
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.handle.pop(py, key, default)
    }

    /// Removes the first document and returns its key and it; raises `KeyError` if there is none.
    /// Each of several threads gets another one.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.handle.popitem(py)
    }

    /// Returns the document of `key`; without one sets it to `default`. Of several threads, all get
    /// the document that one has set.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.setdefault("a", {"n": 1})
    ///     Document({'n': 1})
    ///     >>> c.setdefault("a", {"n": 2})
    ///     Document({'n': 1})
    #[pyo3(signature = (key, default=None))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.handle.setdefault(py, key, default)
    }

    /// Adds a document: `insert(document)` under a new key, or `insert(key, document)`, which
    /// raises `Duplicate` if the key has a document. Returns the key. A new key is the text of a
    /// UUID of version 7, which begins with the time, as `load` makes them with `key="auto"`: such
    /// documents are in the order in which a process has added them. `expires` as in `put`. In a
    /// batch it is the commit that raises, a `Conflict`.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> first, second = c.insert({"n": 1}), c.insert({"n": 2})
    ///     >>> first < second, c[second]["n"]
    ///     (True, 2)
    ///     >>> c.insert("a", {"n": 3})
    ///     'a'
    ///     >>> c.insert("a", {"n": 4})
    ///     Traceback (most recent call last):
    ///     flagstone.errors.Duplicate: collection "c" has a document of the key "a"
    #[pyo3(signature = (key, *document, expires=None))]
    fn insert<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        document: &Bound<'py, PyTuple>,
        expires: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.handle.insert(py, key, document, expires)
    }

    /// Changes the document of `key`: `update(key, set={"a.b": 1}, inc={"n": 1}, unset=["c"])`.
    /// Returns whether there was one. All changes happen together, and no other write of the key
    /// comes between. A change that does not apply, such as `inc` of text, raises `InvalidInput`. A
    /// batch does not read: `update` returns `None` there, and what does not apply changes nothing.
    ///
    /// The changes: `set`, `inc`, `mul`, `min`, `max`, `push`, `add_to_set` and `pull`, each a dict
    /// of paths and values; `unset`, a path or a list of them; `rename`, a dict of paths and new
    /// names. With `where`, a dict of paths and values, the document is changed only if it has
    /// these values; else this raises `ConditionFailed`. With `upsert=True`, or a document to begin
    /// with, a missing document is created.
    ///
    /// Instead of these, `update=` takes an update document of MongoDB, a document that replaces
    /// the old one, or a list of stages; `array_filters=` has the filters for `$[x]` in paths. The
    /// update sees the key as `_id`, and cannot change it. A batch refuses `update=`.
    ///
    /// Without changes, `update(documents)` sets the documents of a mapping, or of an iterable of
    /// pairs, in batches, as `dict.update` does.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({"a": {"n": 1, "tags": []}})
    ///     >>> c.update("a", inc={"n": 1}, push={"tags": "new"}, where={"n": 1})
    ///     True
    ///     >>> c.update("b", inc={"n": 1}, upsert=True)
    ///     True
    ///     >>> c["a"], c["b"]
    ///     (Document({'n': 2, 'tags': ['new']}), Document({'n': 1}))
    ///     >>> c.update("a", update={"$push": {"tags": {"$each": ["hot"], "$position": 0}}})
    ///     True
    ///     >>> c.update("a", update={"$set": {"tags.$[x]": "old"}}, array_filters=[{"x": "new"}])
    ///     True
    ///     >>> c["a"]["tags"]
    ///     ['hot', 'old']
    #[pyo3(signature = (key, *_wrong, **changes))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        _wrong: &Bound<'py, PyTuple>,
        changes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<bool>> {
        if !_wrong.is_empty() {
            let text = "update: expected changes of the document by keyword, such as \
                        update(key, set={\"score\": 1}); c[key] = document sets all of it";
            return Err(PyTypeError::new_err(text));
        }
        let Some(changes) = changes.filter(|changes| update::has_changes(Some(*changes))) else {
            return self.handle.update_all(py, key).map(|()| None);
        };
        let (key, change) = (key_of(key)?, update::change(py, changes)?);
        self.handle.run(py, |documents| match &change {
            Change::Patch(patch) => documents.patch(key, patch),
            Change::Update(update) => documents.update(key, update),
        })
    }

    /// Creates the index `name` on fields, and returns when it is complete: `"$.author"`,
    /// `"author"`, and descending `"-$.score"`. `unique` refuses two documents with one value,
    /// `sparse` leaves out documents without a value, and `only`, a filter, all that do not match.
    /// Does nothing if there is this index. Ctrl-C removes what was built.
    ///
    /// With `expire_after`, a `timedelta` or seconds, documents expire so long after the date in
    /// the field: a `datetime`, seconds since 1970, or text such as `2026-12-31T00:00:00Z`.
    ///
    ///     >>> c = db.collection("comments")
    ///     >>> c.create_index("by_sub", "subreddit", "-score", only={"score": {"$gt": 0}})
    ///     >>> c.indexes()
    ///     {'by_sub': 'subreddit, -score'}
    ///     >>> c.create_index("by_seen", "seen", expire_after=7 * 86_400)
    #[pyo3(signature = (
        name, *fields, unique=false, sparse=false, only=None, expire_after=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords, which Python names at each call")]
    fn create_index(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::name)] name: &str,
        fields: &Bound<'_, PyTuple>,
        #[pyo3(from_py_with = arg::unique)] unique: bool,
        #[pyo3(from_py_with = arg::sparse)] sparse: bool,
        only: Option<&Bound<'_, PyAny>>,
        expire_after: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let interrupt = Interrupt::default();
        let index = indexes::definition(py, fields, (unique, sparse), only, expire_after)?;
        let Documents { collection, through } = &*self.handle.documents;
        self.handle.opened.run_unwatched(py, || {
            through.live("create_index")?;
            collection.create_index_with(name, index, |_progress| interrupt.check()).map(drop)
        })?;
        interrupt.raise()
    }

    /// Removes the index `name`. Returns whether there was one.
    fn drop_index(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::name)] name: &str,
    ) -> PyResult<bool> {
        self.handle.run_live(py, "drop_index", |collection| collection.drop_index(name))
    }

    /// Begins to read the changes of the collection: what was written, in order, by any handle. The
    /// database must keep changes: `keep_changes` of `flagstone.open`. See `Database.changes`.
    #[pyo3(signature = (start=None, *, timeout=Timeout::ZERO))]
    fn changes(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::start)] start: Option<&str>,
        timeout: Timeout,
    ) -> PyResult<Changes> {
        let name = self.handle.run_live(py, "changes", |collection| Ok(collection.name()))?;
        let (names, decimals) = (Some(vec![name]), self.handle.decimals);
        Changes::new(py, &self.handle.opened, Asked { start, timeout, names, decimals })
    }

    /// Sets whether each write stores the document that it replaces with its change, which has it
    /// as `Change.old`. It is stored. Each write then reads the old document, and the change of a
    /// patch has the whole document.
    #[pyo3(signature = (on=true))]
    fn keep_old_documents(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::on)] on: bool,
    ) -> PyResult<()> {
        self.handle
            .run_live(py, "keep_old_documents", |collection| collection.keep_old_documents(on))
    }

    /// Returns the names of the indexes with their fields: `{"by_sub": "subreddit, -score"}`.
    fn indexes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let indexes = self.handle.run_live(py, "indexes", |collection| Ok(collection.indexes()))?;
        let names = PyDict::new(py);
        for index in &indexes {
            names.set_item(&index.name, index.fields.join(", "))?;
        }
        Ok(names)
    }

    /// Loads the documents of a file, or of a list of files: JSON lines, one JSON array, CSV or
    /// TSV, plain or compressed (.zst, .gz). Returns what was done: a dict of `documents`,
    /// `existing`, `bad`, `bytes`, `seconds` and `was_complete`.
    ///
    /// - `key`: the path of the primary key in each document; several with commas between them for
    ///   a compound key; or `"auto"` for new keys, which ascend with time.
    /// - `mode`: `"upsert"` replaces documents, `"insert"` keeps those that are there, `"merge"`
    ///   merges into them.
    /// - `format`: `"json"`, `"csv"` or `"tsv"`, if the name of the file does not say it.
    /// - `delimiter`, `types`: the character between the fields of a table, and types of columns,
    ///   `{"zip": "text", "n": "int"}`, also `"number"`, `"bool"` and `"json"`.
    /// - `window_log`: 31 for files that `zstd --long=31` made, which takes 2 GiB of memory.
    /// - `progress`: `True` for a bar, in a terminal or a notebook, or a function of documents,
    ///   bytes and all bytes.
    /// - `resume`: whether to go on where a load of the same files that had this set was stopped.
    ///   If it was complete, what the last file has grown by is loaded; if that is nothing,
    ///   `was_complete` is true. If what was read has changed, all is loaded again.
    /// - `bad_lines`: a file that documents are copied to which cannot be loaded, with `"insert"`
    ///   also those whose keys exist, each after a line `# file:line:column: reason`.
    /// - `extended_json`: whether forms of MongoDB's Extended JSON are the values they stand for,
    ///   as of `put_json`.
    ///
    /// Without `bad_lines` the first bad document ends the load with `InvalidInput`. What was read
    /// before is loaded, also at Ctrl-C.
    ///
    ///     >>> with open("comments.jsonl", "w") as file:
    ///     ...     _ = file.write('{"id": "a", "score": 1}\n{"id": "b", "score": 2}\n')
    ///     >>> c = db.collection("comments")
    ///     >>> c.load("comments.jsonl", key="id")["documents"]
    ///     2
    #[pyo3(signature = (
        files, *, key="id", mode="upsert", format=None, progress=None, resume=false,
        bad_lines=None, extended_json=false, delimiter=None, types=None, window_log=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords, which Python names at each call")]
    fn load<'py>(
        &self,
        py: Python<'py>,
        files: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::key)] key: &str,
        #[pyo3(from_py_with = arg::mode)] mode: &str,
        #[pyo3(from_py_with = arg::format)] format: Option<&str>,
        progress: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arg::resume)] resume: bool,
        #[pyo3(from_py_with = arg::bad_lines)] bad_lines: Option<std::path::PathBuf>,
        #[pyo3(from_py_with = arg::extended_json)] extended_json: bool,
        #[pyo3(from_py_with = arg::delimiter)] delimiter: Option<&str>,
        #[pyo3(from_py_with = arg::types)] types: Option<std::collections::HashMap<String, String>>,
        #[pyo3(from_py_with = arg::window_log)] window_log: Option<u32>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let wanted = load::Wanted {
            key,
            mode,
            format,
            resume,
            bad_lines,
            json: arg::json_mode(extended_json),
            delimiter,
            types,
            window_log,
        };
        self.handle.run_live(py, "load", |_| Ok(()))?;
        let collection = &self.handle.documents.collection;
        load::with_progress(py, progress, |progress| {
            load::run(&self.handle.opened, collection, files, &wanted, progress)
        })
    }

    /// Loads the rows of an Arrow stream as documents: of a table or a reader of pyarrow, a frame
    /// of polars or pandas, a result of DuckDB, or anything else with `__arrow_c_stream__`.
    /// Returns what was done: a dict of `documents` and `existing`.
    ///
    /// - `key`: the column of the primary key, or a dotted path in the columns.
    /// - `mode`: `"upsert"` replaces documents, `"insert"` keeps those that are there, `"merge"`
    ///   merges into them.
    /// - `keep_key`: whether the column of the key is a field of the documents, too. By default it
    ///   is, but for a column `_key` or `_key_1`, as `Find.arrow` names what is no field.
    /// - `nulls`: whether a null is `"keep"`, a field that is null, or `"drop"`, no field.
    /// - `naive`: whether a timestamp without a time zone is an `"error"`, or taken as `"utc"`.
    /// - `progress`: `True` for a line as of `load`, or a function of the documents so far.
    ///
    /// Values are exact: decimals keep their digits, dates are the datetimes at which they begin in
    /// UTC. An unsupported value ends the load with `InvalidInput`, which names
    /// row and column, a stream that fails with `Io`. The rows before are loaded, also at Ctrl-C.
    ///
    ///     >>> import pyarrow
    ///     >>> c = db.collection("comments")
    ///     >>> c.load_arrow(pyarrow.table({"id": ["a", "b"], "score": [1, 2]}))
    ///     {'documents': 2, 'existing': 0}
    ///     >>> c["b"]
    ///     Document({'id': 'b', 'score': 2})
    #[pyo3(signature = (
        reader, *, key="id", mode="upsert", keep_key=None, nulls="keep", naive="error",
        progress=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords, which Python names at each call")]
    fn load_arrow<'py>(
        &self,
        py: Python<'py>,
        reader: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::key)] key: &str,
        #[pyo3(from_py_with = arg::mode)] mode: &str,
        #[pyo3(from_py_with = arg::keep_key)] keep_key: Option<bool>,
        #[pyo3(from_py_with = arg::nulls)] nulls: &str,
        #[pyo3(from_py_with = arg::naive)] naive: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let wanted = load_arrow::Wanted { key, mode, keep_key, nulls, naive };
        self.handle.run_live(py, "load_arrow", |_| Ok(()))?;
        let collection = &self.handle.documents.collection;
        load::with_progress(py, progress, |progress| {
            load_arrow::run(&self.handle.opened, collection, reader, &wanted, progress)
        })
    }

    /// Begins a query for the documents that match `filter`, a dict such as `{"score": {"$gte":
    /// 10}}`; all documents without one. It runs when it is iterated over, counted, and so on.
    ///
    /// - `sort`: paths, the most significant first: `"-score"`, or a list of such. `"$key"` is the
    ///   primary key.
    /// - `fields`: the paths that documents keep, or without them with `-` before each.
    /// - `skip`, `limit`: which documents of the result.
    /// - `columns`: those of its Arrow streams: see `Find.arrow`.
    ///
    ///     >>> c = db.collection("comments")
    ///     >>> c.update({n: {"score": n, "author": "x"} for n in range(5)})
    ///     >>> list(c.find({"score": {"$gte": 2}}, sort="-score", fields="score", limit=2))
    ///     [(4, Document({'score': 4})), (3, Document({'score': 3}))]
    #[pyo3(signature = (
        filter=None, *, sort=None, fields=None, skip=0, limit=None, columns=None
    ))]
    fn find(
        slf: &Bound<'_, Self>,
        filter: Option<&Bound<'_, PyAny>>,
        sort: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arg::skip)] skip: u64,
        #[pyo3(from_py_with = arg::limit)] limit: Option<u64>,
        columns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Find> {
        Find::new(slf, filter, sort, fields, (skip, limit))?.of_columns(columns)
    }

    /// Runs an aggregation pipeline, a list of stages in the manner of MongoDB, and returns an
    /// iterator over its rows, which have the primary key as field `_id`. `memory` is the bytes
    /// that it may take: groups and sorts write the rest to temporary files.
    ///
    ///     >>> c = db.collection("comments")
    ///     >>> c.update({n: {"score": n, "author": "xy"[n % 2]} for n in range(5)})
    ///     >>> stages = [{"$group": {"_id": "$author", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    ///     >>> list(c.aggregate(stages))
    ///     [Document({'_id': 'x', 'n': 3}), Document({'_id': 'y', 'n': 2})]
    #[pyo3(signature = (pipeline, *, memory=None))]
    fn aggregate(
        slf: &Bound<'_, Self>,
        pipeline: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::memory)] memory: Option<usize>,
    ) -> PyResult<Rows> {
        aggregate::rows(slf, pipeline, memory)
    }

    /// Returns all documents as columns: see `Find.arrow`, which has the same arguments.
    ///
    ///     >>> c = db.collection("comments")
    ///     >>> c["a"] = {"author": {"name": "x"}, "score": 1}
    ///     >>> c.arrow({"author": "$.author.name", "score": ("$.score", "float64")})
    ///     <flagstone.ArrowSource author: text, score: float64>
    #[pyo3(signature = (
        columns=None, *, key=Some("_key"), sample=Some(1000), on_mismatch="error", batch_rows=16384,
        threads=None
    ))]
    fn arrow(
        slf: &Bound<'_, Self>,
        columns: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arg::key)] key: Option<&str>,
        #[pyo3(from_py_with = arg::sample)] sample: Option<usize>,
        #[pyo3(from_py_with = arg::on_mismatch)] on_mismatch: &str,
        #[pyo3(from_py_with = arg::batch_rows)] batch_rows: usize,
        #[pyo3(from_py_with = arg::threads)] threads: Option<usize>,
    ) -> PyResult<ArrowSource> {
        let all = Bound::new(slf.py(), Find::new(slf, None, None, None, (0, None))?)?;
        Find::arrow(&all, columns, key, sample, on_mismatch, batch_rows, threads)
    }

    /// Reads all documents as an Arrow stream: `pyarrow.table(collection)`. polars takes every
    /// mapping for one of columns: `polars.DataFrame(collection.arrow())`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let all = Bound::new(slf.py(), Find::new(slf, None, None, None, (0, None))?)?;
        Find::__arrow_c_stream__(&all, requested_schema)
    }

    /// Returns the first document that `find` finds, as a pair of key and document, or `None`.
    ///
    ///     >>> c = db.collection("comments")
    ///     >>> c.update({n: {"score": n} for n in range(5)})
    ///     >>> c.find_one(sort="-score")
    ///     (4, Document({'score': 4}))
    #[pyo3(signature = (filter=None, *, sort=None))]
    fn find_one<'py>(
        slf: &Bound<'py, Self>,
        filter: Option<&Bound<'py, PyAny>>,
        sort: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Find::new(slf, filter, sort, None, (0, Some(1)))?.first(slf.py())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        if self.handle.opened.check(py).is_err() {
            return "<flagstone.Collection of a closed database>".into();
        }
        let name = self.handle.documents.collection.name();
        format!("<flagstone.Collection {name:?}{}>", self.handle.documents.through.suffix())
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        views::html(slf.as_any())
    }

    /// Returns an iterator over a range, for the views.
    fn _scan(
        &self,
        py: Python<'_>,
        part: &str,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arg::reverse)] reverse: bool,
    ) -> PyResult<Rows> {
        self.handle.scan(py, Range::of(start, end, prefix, reverse)?, Part::parse(part))
    }

    /// Returns whether `key` lies in a range, for the views.
    fn _holds(
        &self,
        key: &Bound<'_, PyAny>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let key = key_of(key)?;
        let Range { start, end, prefix, .. } = Range::of(start, end, prefix, false)?;
        let has_prefix = prefix.is_none_or(|prefix| match (key.as_str(), prefix.as_str()) {
            (Some(key), Some(prefix)) => key.starts_with(prefix),
            _ => false,
        });
        Ok(start.is_none_or(|start| key >= start) && end.is_none_or(|end| key < end) && has_prefix)
    }
}
