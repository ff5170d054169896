//! The change feed: `flagstone.Changes` and `flagstone.Change`.

use crate::decode::{self, Decimals};
use crate::document::Document;
use crate::error::raised;
use crate::fork::OfProcess;
use crate::opened::Opened;
use crate::{options, time};
use flagstone::changes::{ChangeBatch, ChangeKind, ChangeToken, ChangesFrom, Happened};
use flagstone::{Moment, Result};
use pyo3::Borrowed;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A wait looks this often for Ctrl-C, and for a close by another thread.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A reader of changes: `Database.changes`, `Collection.changes` and `Keyspace.changes` begin one.
/// An iterator of `Change`; what survives a power cut is delivered, in order, each change once.
///
/// It ends when nothing has come for as long as its `timeout`; to iterate again continues with what
/// came since. A reader that stores `token` with what it has made of the changes continues there,
/// after a restart, too.
///
///     >>> db.close()
///     >>> db = flagstone.open("feed", keep_changes="64MiB")
///     >>> c = db.collection("users")
///     >>> c["ada"] = {"age": 36}
///     >>> c.update("ada", inc={"age": 1})
///     True
///     >>> changes = c.changes()
///     >>> [(change.kind, change.key, change.document) for change in changes]
///     [('put', 'ada', Document({'age': 36})), ('put', 'ada', Document({'age': 37}))]
///     >>> del c["ada"]
///     >>> [change.kind for change in c.changes(start=changes.token)]
///     ['delete']
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Changes {
    opened: Arc<Opened>,
    state: OfProcess<Mutex<State>>,
    decimals: Decimals,
    /// How long the next change is waited for; without a bound if there is none.
    timeout: Option<Duration>,
}

struct State {
    reader: flagstone::changes::Changes,
    /// The changes of the last delivery that were not returned yet.
    ready: VecDeque<Found>,
    /// The position after the last change that was returned and has one.
    token: ChangeToken,
}

/// One change. `kind` says which of the other attributes it has.
///
/// - `"put"`: `document`, or in a keyspace `value`; `expires`.
/// - `"patch"`: the text of the `patch` of a document, which a batch has written without reading
///   the document. `"merge"`: `value`, an operand.
/// - `"delete"`: of `key`, whether it was there or not.
/// - `"delete_range"`: of all keys from `start` on and before `end`.
/// - `"gap"`: unlogged writes may have happened, or a crash may have lost some: read again what you
///   need, and call `db.sync()` before you store the next token.
/// - `"ingested"`: a bulk load into the keyspace, between the keys `start` and `end`.
/// - `"dropped"`: the keyspace was dropped.
/// - `"renamed"`: the keyspace `name` is called `new_name` from here on. Changes have the name of
///   their time.
///
/// `old` is the document before the change, in a collection with `keep_old_documents(True)`.
///
///     >>> db.close()
///     >>> db = flagstone.open("kept", keep_changes="64MiB")
///     >>> db.keyspace("kv")[b"a"] = b"1"
///     >>> change = next(db.changes())
///     >>> change.kind, change.name, change.key, change.value
///     ('put', 'kv', b'a', b'1')
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Change {
    found: Found,
    decimals: Decimals,
}

/// A change that does not depend on the database.
#[derive(Default)]
struct Found {
    token: Option<ChangeToken>,
    kind: &'static str,
    name: Option<String>,
    new_name: Option<String>,
    seqno: Option<u64>,
    key: Option<Key>,
    range: Option<(Vec<u8>, Vec<u8>)>,
    value: Option<Vec<u8>>,
    document: Option<flagstone::Document>,
    old: Option<flagstone::Document>,
    patch: Option<String>,
    expires: Option<Moment>,
}

enum Key {
    Bytes(Vec<u8>),
    Value(flagstone::Value),
}

/// How long a change is waited for; without a bound if there is none.
#[derive(Clone, Copy)]
pub(crate) struct Timeout(Option<Duration>);

impl Timeout {
    /// Only what is there already.
    pub(crate) const ZERO: Self = Self(Some(Duration::ZERO));
}

impl FromPyObject<'_, '_> for Timeout {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if given.is_none() {
            Ok(Self(None))
        } else {
            options::duration("timeout", &given).map(Some).map(Self)
        }
    }
}

/// What a reader of changes is asked for.
pub(crate) struct Asked<'a> {
    pub(crate) start: Option<&'a str>,
    pub(crate) timeout: Timeout,
    /// The keyspaces and collections; all without.
    pub(crate) names: Option<Vec<String>>,
    pub(crate) decimals: Decimals,
}

impl Changes {
    /// Begins to read.
    pub(crate) fn new(py: Python<'_>, opened: &Arc<Opened>, asked: Asked<'_>) -> PyResult<Self> {
        let from = match asked.start {
            None | Some("start") => ChangesFrom::Start,
            Some("now") => ChangesFrom::Now,
            Some(token) => ChangesFrom::After(token.parse().map_err(|error| raised(py, &error))?),
        };
        let instead = "a field with the time of the change, and an index";
        opened.check_is_here(py, "the change feed", instead)?;
        let reader = opened.run(py, || {
            let reader = opened.database.changes(from)?;
            Ok(match asked.names {
                Some(names) => reader.only(names),
                None => reader,
            })
        })?;
        let state = State { token: reader.token(), reader, ready: VecDeque::new() };
        Ok(Self {
            opened: Arc::clone(opened),
            state: OfProcess::new(Mutex::new(state)),
            decimals: asked.decimals,
            timeout: asked.timeout.0,
        })
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.opened.run(py, || work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns the next change if there is one within `timeout`.
    fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Found>> {
        if let Some(found) = self.with(py, |state| state.next(None))? {
            return Ok(Some(found));
        }
        if !self.opened.is_read_only {
            // What was acknowledged before the call is delivered, whatever its durability.
            self.opened.run(py, || self.opened.database.sync())?;
        }
        let began = Instant::now();
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
            let pause = left.unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
            let found = self.with(py, |state| state.next(Some(pause)))?;
            if found.is_some() || left.is_some_and(|left| left.is_zero()) {
                return Ok(found);
            }
            py.check_signals()?;
            if self.opened.is_read_only {
                // Nothing is waited for: nobody writes.
                return Ok(None);
            }
        }
    }
}

impl State {
    /// Returns the next change, after a wait of at most `pause` if there is one.
    ///
    ///     >>> db.close()
    ///     >>> db = flagstone.open("waited", keep_changes="64MiB")
    ///     >>> kv = db.keyspace("kv")
    ///     >>> changes = kv.changes()
    ///     >>> kv[b"a"] = b"1"
    ///     >>> changes.next(timeout=1)
    ///     <flagstone.Change put "kv" b'a'>
    ///     >>> changes.next(timeout=0) is None
    ///     True
    fn next(&mut self, pause: Option<Duration>) -> Result<Option<Found>> {
        // A commit may have no change that the reader wants.
        while self.ready.is_empty() {
            let delivery = match pause {
                Some(pause) => self.reader.wait(pause)?,
                None => self.reader.poll()?,
            };
            let Some(delivery) = delivery else { return Ok(None) };
            let mut ready = match delivery.happened {
                Happened::Commit(batch) => changes_of(&batch)?,
                happened => VecDeque::from([found_of(happened)]),
            };
            match ready.back_mut() {
                Some(last) => last.token = Some(delivery.token),
                None => self.token = delivery.token,
            }
            self.ready = ready;
        }
        let next = self.ready.pop_front();
        if let Some(token) = next.as_ref().and_then(|found| found.token) {
            self.token = token;
        }
        Ok(next)
    }
}

/// Returns what happened besides commits.
fn found_of(happened: Happened) -> Found {
    match happened {
        Happened::Ingested { keyspace, start, end } => Found {
            kind: "ingested",
            name: Some(keyspace),
            range: Some((start, end)),
            ..Found::default()
        },
        Happened::Dropped { keyspace } => {
            Found { kind: "dropped", name: Some(keyspace), ..Found::default() }
        }
        Happened::Renamed { from, to } => {
            Found { kind: "renamed", name: Some(from), new_name: Some(to), ..Found::default() }
        }
        // Of what a newer engine may deliver nothing is known, either.
        _ => Found { kind: "gap", ..Found::default() },
    }
}

fn changes_of(batch: &ChangeBatch) -> Result<VecDeque<Found>> {
    batch.changes().map(|change| change_of(&change)).collect()
}

fn change_of(change: &flagstone::changes::Change<'_>) -> Result<Found> {
    let patch = change.patch()?;
    let kind = match change.kind() {
        ChangeKind::Put => "put",
        ChangeKind::Merge if patch.is_some() => "patch",
        ChangeKind::Merge => "merge",
        ChangeKind::Delete => "delete",
        _ => "delete_range",
    };
    let end = change.end_bytes();
    let key = match change.key()? {
        Some(key) => Some(Key::Value(key)),
        None if end.is_some() => None,
        None => Some(Key::Bytes(change.key_bytes().to_vec())),
    };
    let document = change.document()?;
    let has_value = patch.is_none() && document.is_none() && matches!(kind, "put" | "merge");
    Ok(Found {
        token: None,
        kind,
        name: Some(change.keyspace()),
        new_name: None,
        seqno: Some(change.seqno().get()),
        key,
        range: end.map(|end| (change.key_bytes().to_vec(), end.to_vec())),
        value: has_value.then(|| change.value_bytes().to_vec()),
        document,
        old: change.old_document()?,
        patch: patch.map(|patch| patch.to_string()),
        expires: change.expiry(),
    })
}

#[pymethods]
impl Changes {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Change>> {
        let found = self.wait(py, self.timeout)?;
        Ok(found.map(|found| Change { found, decimals: self.decimals }))
    }

    /// Returns the next change, or `None` if there is none within `timeout`, a `timedelta` or
    /// seconds; without it, waits for one. Ctrl-C ends the wait.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<Timeout>) -> PyResult<Option<Change>> {
        let found = self.wait(py, timeout.and_then(|timeout| timeout.0))?;
        Ok(found.map(|found| Change { found, decimals: self.decimals }))
    }

    /// The position after all commits whose last change was returned: text for `start`.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |state| Ok(state.token.to_string()))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.token(py) {
            Ok(token) => format!("<flagstone.Changes after {token}>"),
            Err(_closed) => "<flagstone.Changes of a closed database>".into(),
        }
    }
}

impl Change {
    fn document_of<'py>(
        &self,
        py: Python<'py>,
        document: Option<&flagstone::Document>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        document.map(|document| Document::of(py, document.clone(), self.decimals)).transpose()
    }
}

#[pymethods]
impl Change {
    /// What happened: `"put"`, `"patch"`, `"merge"`, `"delete"`, `"delete_range"`, `"gap"`,
    /// `"ingested"`, `"dropped"` or `"renamed"`.
    #[getter]
    const fn kind(&self) -> &'static str {
        self.found.kind
    }

    /// The name of the keyspace or collection; `None` for a gap.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.found.name.as_deref()
    }

    /// The name that a renamed keyspace or collection has from here on.
    #[getter]
    fn new_name(&self) -> Option<&str> {
        self.found.new_name.as_deref()
    }

    /// The position after the change: text for `start`. `None` if more changes of the same commit
    /// follow: a commit is read as a whole.
    #[getter]
    fn token(&self) -> Option<String> {
        self.found.token.map(|token| token.to_string())
    }

    /// The SeqNo of the change; later changes have larger ones. `None` for what is no write.
    #[getter]
    const fn seqno(&self) -> Option<u64> {
        self.found.seqno
    }

    /// The key: `bytes`, or the primary key of a document. `None` for ranges.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.found.key {
            None => Ok(None),
            Some(Key::Bytes(bytes)) => PyBytes::new(py, bytes).into_bound_py_any(py).map(Some),
            Some(Key::Value(key)) => decode::key(py, key, self.decimals).map(Some),
        }
    }

    /// The first key of a range, as it is stored: of a collection a sort key.
    #[getter]
    fn start<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.found.range.as_ref().map(|(start, _)| PyBytes::new(py, start))
    }

    /// The end of a range, which is excluded, as it is stored: of a collection a sort key.
    #[getter]
    fn end<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.found.range.as_ref().map(|(_, end)| PyBytes::new(py, end))
    }

    /// The new value in a keyspace, or the operand of a merge.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.found.value.as_ref().map(|value| PyBytes::new(py, value))
    }

    /// The new document.
    #[getter]
    fn document<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.document_of(py, self.found.document.as_ref())
    }

    /// The document before the change, if the collection keeps it and there was one.
    #[getter]
    fn old<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.document_of(py, self.found.old.as_ref())
    }

    /// The patch of a document, as text.
    #[getter]
    fn patch(&self) -> Option<&str> {
        self.found.patch.as_deref()
    }

    /// The moment from which on a put is absent: a `datetime` in UTC.
    #[getter]
    fn expires<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.found.expires.map(|moment| time::datetime_of(py, moment)).transpose()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Found { kind, name, .. } = &self.found;
        let name = name.as_deref().map_or(String::new(), |name| format!(" {name:?}"));
        let key = match self.key(py)? {
            Some(key) => format!(" {}", key.repr()?),
            None => String::new(),
        };
        Ok(format!("<flagstone.Change {kind}{name}{key}>"))
    }
}
