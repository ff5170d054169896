//! `flagstone.Keyspace`: a mutable mapping of bytes to bytes.

use crate::access::Entries;
use crate::arg;
use crate::bytes::Bytes;
use crate::changes::{Asked, Changes, Timeout};
use crate::decode::Decimals;
use crate::error::{invalid, raised};
use crate::fork::OfProcess;
use crate::opened::Opened;
use crate::scan::{Part, Scan};
use crate::through::Through;
use crate::{time, views};
use flagstone::{Result, Slice, Space, TryGet};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::ops::Bound as End;
use std::sync::Arc;

/// A named, ordered map of bytes to bytes: a `MutableMapping` whose keys come in their order.
///
/// A key has 1 to 65,535 bytes, a value at most 512 MiB and a quarter of the memory budget. Handles
/// may be used by any number of threads.
///
///     >>> kv = db.keyspace("sessions")
///     >>> kv[b"alice"] = b"1"
///     >>> kv.update({b"albert": b"2", b"bob": b"3"})
///     >>> list(kv.items(prefix=b"al"))
///     [(b'albert', b'2'), (b'alice', b'1')]
///     >>> list(kv.keys(start=b"alice", reverse=True))
///     [b'bob', b'alice']
///     >>> del kv[b"bob"]
///     >>> b"bob" in kv
///     False
#[pyclass(module = "flagstone._flagstone", frozen, mapping, weakref)]
pub(crate) struct Keyspace {
    opened: Arc<Opened>,
    entries: OfProcess<Entries>,
}

impl Keyspace {
    pub(crate) fn new(opened: &Arc<Opened>, keyspace: flagstone::Keyspace) -> Self {
        let entries = Entries { keyspace, through: Through::Live };
        Self { opened: Arc::clone(opened), entries: OfProcess::new(entries) }
    }

    /// Returns a handle of the same keyspace that reads and writes `through` something else.
    pub(crate) fn through(&self, through: Through) -> Self {
        let entries = Entries { keyspace: self.entries.keyspace.clone(), through };
        Self { opened: Arc::clone(&self.opened), entries: OfProcess::new(entries) }
    }

    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Entries) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.opened.run(py, || work(&self.entries))
    }

    /// The keyspace itself, for what neither snapshots nor transactions do.
    fn run_live<T: Send>(
        &self,
        py: Python<'_>,
        what: &str,
        work: impl FnOnce(&flagstone::Keyspace) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.opened.run(py, || {
            self.entries.through.live(what)?;
            work(&self.entries.keyspace)
        })
    }

    /// Returns what `read` returns for the value of a key.
    fn look<R>(
        &self,
        py: Python<'_>,
        key: &Bytes,
        read: impl Fn(&[u8]) -> R,
    ) -> PyResult<Option<R>> {
        let key = key.as_ref();
        match self.opened.run_attached(py, || self.entries.try_look(key, &read))? {
            TryGet::Found(result) => Ok(Some(result)),
            TryGet::Absent => Ok(None),
            TryGet::WouldRead => {
                let value = self.run(py, |entries| entries.get(key))?;
                Ok(value.map(|value| read(&value)))
            }
        }
    }

    fn find<'py>(&self, py: Python<'py>, key: &Bytes) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.look(py, key, |value| bytes_of(py, value))?.transpose()
    }

    /// Returns the entries of a range.
    fn scan(&self, py: Python<'_>, range: Range, part: Part) -> PyResult<Scan> {
        let Range { start, end, prefix, reverse } = range;
        let slice = |bytes: Bytes| Slice::copy_of(bytes.as_ref());
        let range = match prefix {
            Some(_) if start.is_some() || end.is_some() => {
                return Err(invalid(py, "expected a prefix, or a start and an end, found both"));
            }
            Some(prefix) => prefix_range(prefix.as_ref()),
            None => (
                start.map_or(End::Unbounded, |start| End::Included(slice(start))),
                end.map_or(End::Unbounded, |end| End::Excluded(slice(end))),
            ),
        };
        let source = self.run(py, |entries| entries.scan(range, reverse, part))?;
        Ok(Scan::new(&self.opened, source, part))
    }
}

/// Returns the keys that begin with `prefix`.
fn prefix_range(prefix: &[u8]) -> (End<Slice>, End<Slice>) {
    let mut end = prefix.to_vec();
    while end.pop_if(|last| *last == u8::MAX).is_some() {}
    let end = match end.last_mut() {
        Some(last) => {
            *last += 1;
            End::Excluded(Slice::from(end))
        }
        None => End::Unbounded,
    };
    (End::Included(Slice::copy_of(prefix)), end)
}

/// The keys that a scan reads, and in which order.
#[derive(Default)]
struct Range {
    start: Option<Bytes>,
    end: Option<Bytes>,
    prefix: Option<Bytes>,
    reverse: bool,
}

/// Returns `value` as `bytes`, or a `MemoryError`: `PyBytes::new` panics if there is no memory,
/// which would pass for a panic of the engine.
fn bytes_of<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // A shorter one is not filled with zeros first.
    if value.len() < 64 << 10 {
        return Ok(PyBytes::new(py, value));
    }
    PyBytes::new_with(py, value.len(), |bytes| {
        bytes.copy_from_slice(value);
        Ok(())
    })
}

#[pymethods]
impl Keyspace {
    /// The name of the keyspace.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.opened.check(py)?;
        Ok(self.entries.keyspace.name())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes) -> PyResult<Bound<'py, PyBytes>> {
        self.find(py, &key)?.ok_or_else(|| missing(py, &key))
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes, value: Bytes) -> PyResult<()> {
        self.run(py, |entries| entries.put(key.as_ref(), value.as_ref(), None))
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes) -> PyResult<()> {
        if self.run(py, |entries| entries.remove(key.as_ref()))? {
            Ok(())
        } else {
            Err(missing(py, &key))
        }
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        Ok(self.look(py, &key, |_value| ())?.is_some())
    }

    /// Counts the keys, which reads all of them; `approximate_len` is much faster.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.run(py, Entries::count)?.try_into()?)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |entries| {
            let mut keys = entries.scan((End::Unbounded, End::Unbounded), false, Part::Keys)?;
            keys.next().transpose().map(|first| first.is_some())
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Scan> {
        self.scan(py, Range::default(), Part::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Scan> {
        self.scan(py, Range { reverse: true, ..Range::default() }, Part::Keys)
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        views::equal(slf.as_any(), other)
    }

    /// Returns the value of `key`, or `default` if there is none.
    #[pyo3(signature = (key, default=None))]
    fn get(&self, py: Python<'_>, key: Bytes, default: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        Ok(match self.find(py, &key)? {
            Some(value) => value.into_any().unbind(),
            None => default.unwrap_or_else(|| py.None()),
        })
    }

    /// Returns the values of many keys, all as of one moment: a list in the order of `keys`, with
    /// `None` for a key without a value.
    ///
    ///     >>> kv = db.keyspace("kv")
    ///     >>> kv[b"a"] = b"1"
    ///     >>> kv.get_many([b"b", b"a"])
    ///     [None, b'1']
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys: Vec<Bytes> =
            keys.try_iter()?.map(|key| key?.extract()).collect::<PyResult<_>>()?;
        let values = self.run(py, |entries| entries.get_many(keys))?;
        Ok(values.iter().map(|value| value.as_ref().map(|value| PyBytes::new(py, value))).collect())
    }

    /// Sets `key` to `value`, as `kv[key] = value` does. It expires at `expires`: a `datetime` with
    /// a time zone, or a `timedelta` from now; to the millisecond.
    ///
    ///     >>> from datetime import timedelta
    ///     >>> kv = db.keyspace("sessions")
    ///     >>> kv.put(b"alice", b"1", expires=timedelta(hours=1))
    ///     >>> kv.expiry(b"alice") is None
    ///     False
    #[pyo3(signature = (key, value, *, expires=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes,
        value: Bytes,
        expires: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let expires = time::expiry(expires, || self.opened.database.now())?;
        self.run(py, |entries| entries.put(key.as_ref(), value.as_ref(), expires))
    }

    /// Returns when `key` expires: a `datetime` in UTC, or `None` if never, or without a value.
    fn expiry<'py>(&self, py: Python<'py>, key: Bytes) -> PyResult<Option<Bound<'py, PyAny>>> {
        let expiry = self.run_live(py, "expiry", |keyspace| keyspace.expiry(key))?;
        expiry.map(|moment| time::datetime_of(py, moment)).transpose()
    }

    /// Removes `key` if it is there. Unlike `del kv[key]` it reads nothing.
    fn delete(&self, py: Python<'_>, key: Bytes) -> PyResult<()> {
        self.run(py, |entries| entries.delete(key.as_ref()))
    }

    /// Removes all keys from `start` on and before `end`, however many: the cost does not depend on
    /// their number. Without `start`, from the first key; without `end`, to the last.
    #[pyo3(signature = (start=None, end=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Bytes>,
        end: Option<Bytes>,
    ) -> PyResult<()> {
        self.run_live(py, "delete_range", |keyspace| {
            keyspace.delete_range((
                start.map_or(End::Unbounded, End::Included),
                end.map_or(End::Unbounded, End::Excluded),
            ))
        })
    }

    /// Removes all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.run_live(py, "clear", flagstone::Keyspace::clear)
    }

    /// Returns about how many keys there are, from counters alone.
    fn approximate_len(&self, py: Python<'_>) -> PyResult<u64> {
        self.run_live(py, "approximate_len", |keyspace| Ok(keyspace.approximate_count()))
    }

    /// Begins to read the changes of the keyspace: what was written, in order, by any handle. The
    /// database must keep changes: `keep_changes` of `flagstone.open`. See `Database.changes`.
    #[pyo3(signature = (start=None, *, timeout=Timeout::ZERO))]
    fn changes(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::start)] start: Option<&str>,
        timeout: Timeout,
    ) -> PyResult<Changes> {
        let name = self.run_live(py, "changes", |keyspace| Ok(keyspace.name()))?;
        let (names, decimals) = (Some(vec![name]), Decimals::default());
        Changes::new(py, &self.opened, Asked { start, timeout, names, decimals })
    }

    /// Returns a view of the keys: all of them, those from `start` on and before `end`, or those
    /// that begin with `prefix`.
    ///
    ///     >>> kv = db.keyspace("kv")
    ///     >>> kv.update({b"a1": b"", b"a2": b"", b"b1": b""})
    ///     >>> list(kv.keys(prefix=b"a", reverse=True))
    ///     [b'a2', b'a1']
    ///     >>> list(kv.keys(b"a2"))
    ///     [b'a2', b'b1']
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

    /// Returns a view of the values, in the order of their keys. See `keys`.
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

    /// Returns a view of the pairs of key and value, in the order of the keys. See `keys`.
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

    /// Removes `key` and returns its value; without one returns `default`, or raises `KeyError`.
    /// Of several threads, one gets the value.
    ///
    ///     >>> kv = db.keyspace("kv")
    ///     >>> kv[b"a"] = b"1"
    ///     >>> kv.pop(b"a"), kv.pop(b"a", None)
    ///     (b'1', None)
    #[pyo3(signature = (key, *default))]
    fn pop(&self, py: Python<'_>, key: Bytes, default: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        views::check_default(default)?;
        let (key_bytes, database) = (key.as_ref(), &self.opened.database);
        // What is not there needs no transaction, which would wait for a sync.
        let found =
            match self.opened.run_attached(py, || self.entries.try_look(key_bytes, |_value| ()))? {
                TryGet::Absent => None,
                TryGet::Found(_) | TryGet::WouldRead => {
                    self.run(py, |entries| entries.take(database, key_bytes))?
                }
            };
        match found {
            Some(value) => Ok(PyBytes::new(py, &value).into_any().unbind()),
            None if default.is_empty() => Err(missing(py, &key)),
            None => Ok(default.get_item(0)?.unbind()),
        }
    }

    /// Removes the first key and returns it with its value; raises `KeyError` if there is none.
    /// Each of several threads gets another one.
    fn popitem<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let database = &self.opened.database;
        let first = self.run(py, |entries| entries.take_first(database))?;
        let (key, value) = first.ok_or_else(|| PyKeyError::new_err("popitem: no key is left"))?;
        Ok((PyBytes::new(py, &key), PyBytes::new(py, &value)))
    }

    /// Returns the value of `key`; without one sets it to `default`. Of several threads, all get
    /// the value that one has set.
    ///
    ///     >>> kv = db.keyspace("kv")
    ///     >>> kv.setdefault(b"a", b"1"), kv.setdefault(b"a", b"2")
    ///     (b'1', b'1')
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: Bytes,
        default: Bytes,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(value) = self.find(py, &key)? {
            return Ok(value);
        }
        let (key, default, database) = (key.as_ref(), default.as_ref(), &self.opened.database);
        let found = self.run(py, |entries| entries.get_or_put(database, key, default))?;
        Ok(PyBytes::new(py, found.as_deref().unwrap_or(default)))
    }

    /// Sets the pairs of a mapping, or of an iterable of pairs, in batches. Each batch is written
    /// as a whole; `Database.batch` writes all or nothing.
    fn update(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        if !entries.hasattr("items")? && !arg::is_iterable(entries) {
            return Err(arg::expected("update", "a mapping or pairs", entries));
        }
        let pairs = views::pairs_of(entries)?;
        self.opened.check(py)?;
        let mut batch = self.opened.database.batch();
        for pair in pairs.try_iter()? {
            let (key, value): (Bytes, Bytes) = pair?.extract()?;
            if !matches!(self.entries.through, Through::Live) {
                self.__setitem__(py, key, value)?;
                continue;
            }
            batch.put(&self.entries.keyspace, key, value).map_err(|error| raised(py, &error))?;
            if batch.len() >= UPDATE_ENTRIES || batch.bytes() >= UPDATE_BYTES {
                let full = std::mem::take(&mut batch);
                self.opened.run(py, || self.opened.database.commit(full))?;
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.opened.run(py, || self.opened.database.commit(batch))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let name = match self.opened.check(py) {
            Ok(()) => self.entries.keyspace.name(),
            Err(_closed) => return "<flagstone.Keyspace of a closed database>".into(),
        };
        format!("<flagstone.Keyspace {name:?}{}>", self.entries.through.suffix())
    }

    /// Returns an iterator over a range, for the views.
    #[pyo3(signature = (part, start, end, prefix, reverse))]
    fn _scan(
        &self,
        py: Python<'_>,
        part: &str,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
        #[pyo3(from_py_with = arg::reverse)] reverse: bool,
    ) -> PyResult<Scan> {
        self.scan(py, Range { start, end, prefix, reverse }, Part::parse(part))
    }

    /// Returns whether `key` lies in a range, for the views.
    fn _holds(
        &self,
        key: Bytes,
        start: Option<Bytes>,
        end: Option<Bytes>,
        prefix: Option<Bytes>,
    ) -> bool {
        let key = key.as_ref();
        start.is_none_or(|start| key >= start.as_ref())
            && end.is_none_or(|end| key < end.as_ref())
            && prefix.is_none_or(|prefix| key.starts_with(prefix.as_ref()))
    }
}

/// An update is committed in batches of this many entries, or of this many bytes.
const UPDATE_ENTRIES: usize = 4096;
const UPDATE_BYTES: usize = 1 << 20;

fn missing(py: Python<'_>, key: &Bytes) -> PyErr {
    PyKeyError::new_err(PyBytes::new(py, key.as_ref()).unbind())
}
