//! A database that is open in this process, and the one place where the engine is called.

use crate::clusters::{self, Cluster};
use crate::error::{guarded, named, raised, text_of};
use crate::fork::OfProcess;
use crate::signals;
use flagstone::remote::unsupported;
use flagstone::{Database, Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// What all handles of one open database share. Dropping the last of them closes the database.
pub(crate) struct Opened {
    /// Of a cluster, the one in whose directory queries spill.
    pub(crate) database: OfProcess<Database>,
    /// What has the collections instead, until it is closed.
    cluster: Option<OfProcess<Mutex<Option<Cluster>>>>,
    pub(crate) path: PathBuf,
    pub(crate) is_read_only: bool,
    is_closed: AtomicBool,
    /// The text of the first panic.
    panicked: OnceLock<String>,
}

/// The open databases, which are closed when the interpreter exits.
static OPEN: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

impl Opened {
    /// Opens a database by `open`.
    pub(crate) fn open(
        py: Python<'_>,
        is_read_only: bool,
        open: impl FnOnce() -> Result<Database> + Send,
    ) -> PyResult<Arc<Self>> {
        let database = opened_by(py, open)?;
        let path = database.path().to_owned();
        Ok(Self::new((database, None), path, is_read_only))
    }

    /// Connects to a cluster.
    pub(crate) fn connect(py: Python<'_>, address: &Path) -> PyResult<Arc<Self>> {
        let (database, cluster) = opened_by(py, || clusters::connect(address))?;
        let cluster = Some(OfProcess::new(Mutex::new(Some(cluster))));
        Ok(Self::new((database, cluster), clusters::shown(address).into(), false))
    }

    fn new(
        (database, cluster): (Database, Option<OfProcess<Mutex<Option<Cluster>>>>),
        path: PathBuf,
        is_read_only: bool,
    ) -> Arc<Self> {
        let opened = Arc::new(Self {
            path,
            database: OfProcess::new(database),
            cluster,
            is_read_only,
            is_closed: AtomicBool::new(false),
            panicked: OnceLock::new(),
        });
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&opened));
        opened
    }

    /// Returns whether it is a cluster.
    pub(crate) const fn is_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// Calls `work` with the cluster; `None` for a directory.
    pub(crate) fn with_cluster<T>(
        &self,
        work: impl FnOnce(&Cluster) -> Result<T>,
    ) -> Option<Result<T>> {
        let cluster = self.cluster.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(cluster.as_ref().map_or_else(|| Err(clusters::closed()), work))
    }

    /// Refuses what a cluster cannot do. `instead`: what it can.
    pub(crate) fn check_is_here(&self, py: Python<'_>, what: &str, instead: &str) -> PyResult<()> {
        self.check(py)?;
        if self.is_cluster() { Err(raised(py, &unsupported(what, instead))) } else { Ok(()) }
    }

    /// Ends the connections, or closes the database.
    fn end(&self) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Database::clone(&self.database).close() };
        let cluster = cluster.lock().unwrap_or_else(PoisonError::into_inner).take();
        cluster.map_or(Ok(()), Cluster::close)
    }

    /// Runs `work` without the GIL. Every call of the engine is made here. Ctrl-C ends a long one.
    ///
    /// A panic becomes an `InternalError`, and so does every later call but the close: nobody knows
    /// in which state the panic left the engine.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check(py)?;
        let done = self.run_unchecked(py, || signals::watched(work));
        // The exception of a handler of signals is raised whatever the call has returned.
        match signals::raised() {
            Some(raised) => Err(raised),
            None => done,
        }
    }

    /// As [`Opened::run`], for `work` that asks for Ctrl-C itself: see [`signals::Interrupt`].
    pub(crate) fn run_unwatched<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check(py)?;
        self.run_unchecked(py, work)
    }

    /// Runs `work` without releasing the GIL, for a get of what is in memory. Such a get is short,
    /// and a thread that releases the GIL may wait long to get it back. `work` must neither read a
    /// file nor wait.
    #[inline]
    pub(crate) fn run_attached<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T>,
    ) -> PyResult<T> {
        self.check(py)?;
        self.done(py, catch_unwind(AssertUnwindSafe(work)))
    }

    fn run_unchecked<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
        self.done(py, done)
    }

    fn done<T>(&self, py: Python<'_>, done: std::thread::Result<Result<T>>) -> PyResult<T> {
        match done {
            Ok(result) => result.map_err(|error| raised(py, &error)),
            Err(panic) => {
                let text = text_of(&*panic);
                let text = self.panicked.get_or_init(|| text);
                Err(named(py, "InternalError", text.clone()))
            }
        }
    }

    /// Runs `work` in a thread of a consumer, which may hold the GIL or not.
    pub(crate) fn run_in_any_thread<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.usable().map_err(|(_class, text)| Error::new(ErrorKind::Closed, text))?;
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result,
            Err(panic) => {
                let text = text_of(&*panic);
                Err(Error::new(ErrorKind::Poisoned, self.panicked.get_or_init(|| text).as_str()))
            }
        }
    }

    /// Refuses handles of another process, of a closed database, and after a panic.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.usable().map_err(|(class, text)| named(py, class, text))
    }

    /// The error is the name of an exception and its text.
    fn usable(&self) -> std::result::Result<(), (&'static str, String)> {
        if !self.database.is_here() {
            let text = format!(
                "{} was opened by the parent of this process: only the parent can use it",
                self.path.display()
            );
            return Err(("Forked", text));
        }
        if self.is_closed.load(Ordering::Acquire) {
            let text = format!("the database {} was closed: open it again", self.path.display());
            return Err(("Closed", text));
        }
        match self.panicked.get() {
            Some(text) => {
                let text = format!("an earlier call has failed inside of flagstone: {text}");
                Err(("InternalError", text))
            }
            None => Ok(()),
        }
    }

    /// Returns whether the database was closed by [`Opened::close`].
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Closes the database for all handles. Does nothing if it is closed already.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.database.is_here() || self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.run_unchecked(py, || self.end())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.database.is_here() && !self.is_closed() {
            // The listeners of the engine hear of errors; there is nobody here to raise them to.
            let close = || {
                let _ = self.end();
            };
            // Other threads go on meanwhile. Without an interpreter there is nothing to release.
            if Python::try_attach(|py| py.detach(close)).is_none() {
                let _ = self.end();
            }
        }
    }
}

/// Runs what opens something.
fn opened_by<T: Send>(py: Python<'_>, open: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(open))) {
        Ok(opened) => opened.map_err(|error| raised(py, &error)),
        Err(panic) => Err(named(py, "InternalError", text_of(&*panic))),
    }
}

/// Closes the databases that are open. The package calls it when the interpreter exits.
#[pyfunction]
pub(crate) fn _close_all(py: Python<'_>) -> PyResult<()> {
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    open.iter().filter_map(Weak::upgrade).try_for_each(|opened| opened.close(py))
}

/// Panics inside of a call of `database`, for the tests of what follows; without one in the
/// conversion of an argument.
#[pyfunction]
#[pyo3(signature = (database=None))]
#[expect(clippy::panic, reason = "the purpose of the function")]
pub(crate) fn _panic(py: Python<'_>, database: Option<&crate::database::Database>) -> PyResult<()> {
    match database {
        Some(database) => database.opened().run(py, || panic!("a panic for a test")),
        None => guarded(py, || panic!("a panic for a test")),
    }
}
