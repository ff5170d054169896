//! `flagstone.Batch`, `flagstone.Transaction` and `flagstone.Snapshot`: each gives handles of
//! keyspaces and collections that write or read through it.

use crate::collection::Collection;
use crate::error::invalid;
use crate::fork::OfProcess;
use crate::keyspace::Keyspace;
use crate::opened::Opened;
use crate::through::{Current, Pending, Through, read_snapshot};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the handle that reads and writes `through` something else what `handle` names.
fn handle<'py>(
    opened: &Arc<Opened>,
    handle: &Bound<'py, PyAny>,
    through: Through,
) -> PyResult<Bound<'py, PyAny>> {
    let py = handle.py();
    opened.check(py)?;
    if let Ok(keyspace) = handle.cast::<Keyspace>() {
        let keyspace = keyspace.get();
        check_same(py, opened, keyspace.opened())?;
        return Ok(keyspace.through(through).into_pyobject(py)?.into_any());
    }
    if let Ok(collection) = handle.cast::<Collection>() {
        let collection = collection.get();
        check_same(py, opened, collection.opened())?;
        return Ok(collection.through(through).into_pyobject(py)?.into_any());
    }
    let found = handle.get_type().name()?;
    Err(PyTypeError::new_err(format!("expected a Keyspace or a Collection, found {found}")))
}

fn check_same(py: Python<'_>, one: &Arc<Opened>, other: &Arc<Opened>) -> PyResult<()> {
    if Arc::ptr_eq(one, other) {
        return Ok(());
    }
    Err(invalid(py, "a handle of another database"))
}

/// Writes that happen together or not at all. As a context manager it is committed at the end of
/// the block, unless an exception leaves it.
///
///     >>> kv, c = db.keyspace("kv"), db.collection("c")
///     >>> with db.batch() as batch:
///     ...     batch[kv][b"k"] = b"v"
///     ...     batch[c]["a"] = {"n": 1}
///     ...     batch[c].update("a", inc={"n": 1})
///     >>> c["a"]["n"]
///     2
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Batch {
    opened: Arc<Opened>,
    pending: Arc<Pending>,
}

impl Batch {
    pub(crate) fn new(opened: &Arc<Opened>) -> Self {
        let batch = Mutex::new(Some(opened.database.batch()));
        let pending = Arc::new(Pending(OfProcess::new(batch)));
        Self { opened: Arc::clone(opened), pending }
    }
}

#[pymethods]
impl Batch {
    fn __getitem__<'py>(&self, handle: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self::handle(&self.opened, handle, Through::Batch(Arc::clone(&self.pending)))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.opened.run(py, || self.pending.with(|batch| Ok(batch.len())))
    }

    fn __bool__(&self) -> bool {
        true
    }

    /// Writes all of it. The batch has ended then.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.run(py, || match self.pending.take() {
            Some(batch) => self.opened.database.commit(batch),
            None => Err(flagstone::Error::invalid("the batch has ended")),
        })
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if raised.get_item(0).is_ok_and(|class| !class.is_none()) {
            return self.opened.run(py, || {
                drop(self.pending.take());
                Ok(())
            });
        }
        if self.opened.run(py, || self.pending.with(|_| Ok(())).map(|()| true).or(Ok(false)))? {
            self.commit(py)
        } else {
            Ok(())
        }
    }

    fn __repr__(&self) -> &'static str {
        "<flagstone.Batch>"
    }
}

/// Reads and writes that happen together or not at all, as if nothing else happened meanwhile. All
/// reads are of one moment, and see what the transaction has written. As a context manager it is
/// committed at the end of the block, unless an exception leaves it; the commit raises `Conflict`
/// if another one came between. `Database.transact` calls a function again then.
///
///     >>> c = db.collection("accounts")
///     >>> c.update({"alice": {"balance": 100}, "bob": {"balance": 0}})
///     >>> with db.transaction() as tx:
///     ...     tx[c].update("alice", inc={"balance": -30})
///     ...     tx[c].update("bob", inc={"balance": 30})
///     True
///     True
///     >>> c["bob"]["balance"]
///     30
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Transaction {
    opened: Arc<Opened>,
    current: Arc<Current>,
}

impl Transaction {
    pub(crate) fn new(opened: &Arc<Opened>, transaction: flagstone::Transaction) -> Self {
        let current = Arc::new(Current(OfProcess::new(Mutex::new(Some(transaction)))));
        Self { opened: Arc::clone(opened), current }
    }
}

#[pymethods]
impl Transaction {
    fn __getitem__<'py>(&self, handle: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self::handle(&self.opened, handle, Through::Transaction(Arc::clone(&self.current)))
    }

    /// Makes all writes visible together. The transaction has ended then, also after a `Conflict`.
    pub(crate) fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.run(py, || match self.current.take() {
            Some(transaction) => transaction.commit(),
            None => Err(flagstone::Error::invalid("the transaction has ended")),
        })
    }

    /// Ends the transaction without effect.
    pub(crate) fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        // A read of another thread may hold the lock, and ask for the GIL.
        self.opened.run(py, || {
            drop(self.current.take());
            Ok(())
        })
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if raised.get_item(0).is_ok_and(|class| !class.is_none()) {
            return self.rollback(py);
        }
        let has_ended = self.opened.run(py, || Ok(self.current.with(|_| Ok(())).is_err()))?;
        if has_ended { Ok(()) } else { self.commit(py) }
    }

    fn __repr__(&self) -> &'static str {
        "<flagstone.Transaction>"
    }
}

/// The database as of one moment, for reading. As a context manager it is released at the end of
/// the block; while it is there, what it sees is kept.
///
///     >>> kv = db.keyspace("kv")
///     >>> kv[b"a"] = b"1"
///     >>> with db.snapshot() as snapshot:
///     ...     kv[b"a"] = b"2"
///     ...     snapshot[kv][b"a"]
///     b'1'
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Snapshot {
    opened: Arc<Opened>,
    snapshot: Arc<OfProcess<Mutex<Option<flagstone::Snapshot>>>>,
}

impl Snapshot {
    pub(crate) fn new(opened: &Arc<Opened>, snapshot: flagstone::Snapshot) -> Self {
        let snapshot = Arc::new(OfProcess::new(Mutex::new(Some(snapshot))));
        Self { opened: Arc::clone(opened), snapshot }
    }
}

#[pymethods]
impl Snapshot {
    fn __getitem__<'py>(&self, handle: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.opened.run(handle.py(), || read_snapshot(&self.snapshot, |_| Ok(())))?;
        self::handle(&self.opened, handle, Through::Snapshot(Arc::clone(&self.snapshot)))
    }

    /// Releases what the snapshot keeps. Its handles cannot read any more.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.run(py, || {
            drop(self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).take());
            Ok(())
        })
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        // A database that was closed in the block has released it.
        if self.opened.is_closed() {
            return Ok(());
        }
        self.release(py)
    }

    fn __repr__(&self) -> &'static str {
        "<flagstone.Snapshot>"
    }
}
