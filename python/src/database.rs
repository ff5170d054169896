//! `flagstone.open` and `flagstone.Database`.

use crate::arg;
use crate::changes::{Asked, Changes, Timeout};
use crate::clusters;
use crate::collection::Collection;
use crate::decode::{self, Decimals};
use crate::error::{invalid, is_conflict};
use crate::groups::{Batch, Snapshot, Transaction};
use crate::keyspace::Keyspace;
use crate::opened::Opened;
use crate::options;
use crate::signals::Interrupt;
use crate::stats;
use flagstone::{Isolation, Options, TransactionOptions, Value};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::path::PathBuf;
use std::sync::Arc;

/// An open database: a directory that one process writes. `flagstone.open` returns it.
///
/// As a context manager it is closed at the end of the block. Otherwise it is closed when the last
/// of its handles is gone, and at the latest when the interpreter exits.
///
///     >>> import flagstone
///     >>> with flagstone.open("data") as db:
///     ...     db.keyspace("sessions")[b"alice"] = b"1"
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Database {
    opened: Arc<Opened>,
    decimals: Decimals,
}

impl Database {
    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }
}

/// Opens the database in the directory `path`, or creates it.
///
/// - `read_only`: changes no file; others may read at the same time.
/// - `create`: whether a database is created if there is none.
/// - `memory`: for memtables, cache and everything else together: bytes, or text such as
///   `"512MiB"`; by default a quarter of the machine's memory, at most 4 GiB.
/// - `durability`: when a write returns. `"buffered"`, the default, survives the death of the
///   process; `"group"` and `"each"` survive a power cut; a number is the seconds between syncs in
///   the background; `"none"` writes no log.
/// - `document_bytes_max`: the longest document that collections accept, `"16MiB"` by default.
/// - `keep_changes`: how long changes are kept for readers of `Database.changes`: a `timedelta`,
///   or bytes of log; `False` keeps none. It is stored: without it, as it was set last.
/// - `compaction_workers`: threads that compact; by default half the cores.
/// - `scratch`: the directory of temporary files, by default that of the database.
/// - `decimal`: how numbers of documents come that are no integers: `"auto"`, the default, as a
///   float where its text is the number's, else as a `Decimal`; `"always"` as a `Decimal`;
///   `"float"` as a float.
///
/// In the place of a directory may stand the address of a cluster, `cql://host/keyspace`, if the
/// package was built with the feature `cluster`: its collections have the same methods. `decimal`
/// is the only option then.
///
/// Raises `Busy` if the database is open already, here or in another process, `InvalidInput` for an
/// option out of range, `Unsupported` if a newer flagstone wrote it, `Io`, `Corruption`.
///
///     >>> db = flagstone.open("data", memory="64MiB", durability="group")
///     >>> db.close()
#[pyfunction]
#[pyo3(signature = (
    path,
    *,
    read_only=false,
    create=true,
    memory=None,
    durability=None,
    document_bytes_max=None,
    keep_changes=None,
    compaction_workers=None,
    scratch=None,
    decimal="auto",
))]
#[expect(clippy::too_many_arguments, reason = "keywords, which Python names at each call")]
pub(crate) fn open(
    py: Python<'_>,
    #[pyo3(from_py_with = arg::path)] path: PathBuf,
    #[pyo3(from_py_with = arg::read_only)] read_only: bool,
    #[pyo3(from_py_with = arg::create)] create: bool,
    memory: Option<&Bound<'_, PyAny>>,
    durability: Option<&Bound<'_, PyAny>>,
    document_bytes_max: Option<&Bound<'_, PyAny>>,
    keep_changes: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = arg::compaction_workers)] compaction_workers: Option<usize>,
    #[pyo3(from_py_with = arg::scratch)] scratch: Option<PathBuf>,
    #[pyo3(from_py_with = arg::decimal)] decimal: &str,
) -> PyResult<Database> {
    let decimals = Decimals::parse(py, decimal)?;
    if clusters::is_cluster(&path) {
        let given = [
            ("read_only", read_only),
            ("create", !create),
            ("memory", memory.is_some()),
            ("durability", durability.is_some()),
            ("document_bytes_max", document_bytes_max.is_some()),
            ("keep_changes", keep_changes.is_some()),
            ("compaction_workers", compaction_workers.is_some()),
            ("scratch", scratch.is_some()),
        ];
        if let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(invalid(py, format!("{name} is for a directory, not for a cluster")));
        }
        return Ok(Database { opened: Opened::connect(py, &path)?, decimals });
    }
    let mut chosen = Options::new().create_if_missing(create);
    if let Some(memory) = memory {
        chosen = chosen.memory_budget(options::bytes("memory", memory)?);
    }
    if let Some(durability) = durability {
        chosen = chosen.durability(options::durability(durability)?);
    }
    if let Some(bytes) = document_bytes_max {
        let bytes = options::bytes("document_bytes_max", bytes)?;
        chosen = chosen.document_bytes_max(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if let Some(retention) = keep_changes {
        chosen = chosen.change_retention(options::retention(retention)?);
    }
    if let Some(threads) = compaction_workers {
        chosen = chosen.compaction_workers(threads);
    }
    let mut builder = flagstone::Database::builder(&path).options(chosen);
    if let Some(directory) = scratch {
        builder = builder.scratch_dir(directory);
    }
    let opened = Opened::open(py, read_only, || {
        if read_only { builder.open_read_only() } else { builder.open() }
    })?;
    Ok(Database { opened, decimals })
}

fn transaction_options(serializable: bool) -> TransactionOptions {
    if serializable {
        TransactionOptions::new().isolation(Isolation::Serializable)
    } else {
        TransactionOptions::new()
    }
}

#[pymethods]
impl Database {
    /// The directory of the database, as an absolute path.
    #[getter]
    fn path(&self) -> PathBuf {
        self.opened.path.clone()
    }

    /// Whether the database was opened for reading only.
    #[getter]
    fn read_only(&self) -> bool {
        self.opened.is_read_only
    }

    /// Whether the database was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.opened.is_closed()
    }

    /// Returns the keyspace `name`, and creates it if there is none. With `create=False` raises
    /// `KeyError` then.
    ///
    /// The options are set when it is created, and stored with it. Raises `InvalidInput` if it
    /// exists and one that is given differs: `alter` changes all but `hash_partitions`.
    ///
    /// - `hash_partitions`: the keys are spread over this many partitions by their hash, 1 to 256:
    ///   for many threads that write. By default partitions are ranges of keys, which split by
    ///   themselves.
    /// - `compression`: that of all levels but the deepest: `"none"`, `"lz4"`, the default, or
    ///   `"zstd"` and a level of 1 to 19: `"zstd 3"`.
    /// - `bottom_compression`: that of the deepest level, which holds most of the data. Default:
    ///   `"zstd 1"`. `"lz4"` takes more space and is read faster. Data that is written in the order
    ///   of its keys has `compression` until `compact`.
    /// - `bottom_dictionary`: whether tables of the deepest level have a dictionary for zstd.
    ///   Default: `True` for collections, `False` for keyspaces.
    /// - `block_bytes`: bytes of a block before compression, 1 KiB to 1 MiB. Default: `"16KiB"`.
    /// - `filter_bits`: bits of filter for each key, 0 to 20. Default: 10.
    ///
    /// Indexes have the default options.
    ///
    ///     >>> db.keyspace("sessions", hash_partitions=8)[b"alice"] = b"1"
    ///     >>> db.keyspace("typo", create=False)
    ///     Traceback (most recent call last):
    ///     KeyError: 'typo'
    #[pyo3(signature = (name, *, create=true, **options))]
    fn keyspace(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::name)] name: &str,
        #[pyo3(from_py_with = arg::create)] create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Keyspace> {
        self.opened.check_is_here(py, "a keyspace of bytes", "a collection")?;
        let database = &self.opened.database;
        let options = options::of_new("keyspace", "create", options)?;
        // A database that is open for reading creates nothing.
        let found = if create && !self.opened.is_read_only {
            self.opened.run(py, || database.space(name).options(options).keyspace().map(Some))?
        } else {
            self.opened.run(py, || database.space(name).options(options).existing().keyspace())?
        };
        let found = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        Ok(Keyspace::new(&self.opened, found))
    }

    /// Returns the collection `name`, and creates it if there is none. With `create=False` raises
    /// `KeyError` then. `decimal`: as in `flagstone.open`, for this handle. `options`: as in
    /// `keyspace`.
    ///
    ///     >>> c = db.collection("prices", decimal="always")
    ///     >>> c.put_json("a", '{"price":1.5}')
    ///     >>> c["a"]["price"]
    ///     Decimal('1.5')
    #[pyo3(signature = (name, *, create=true, decimal=None, **options))]
    fn collection(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::name)] name: &str,
        #[pyo3(from_py_with = arg::create)] create: bool,
        #[pyo3(from_py_with = arg::decimal)] decimal: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Collection> {
        let database = &self.opened.database;
        if options.is_some_and(|options| !options.is_empty()) {
            self.opened.check_is_here(py, "an option of a collection", "those of its tables")?;
        }
        let options = options::of_new("collection", "create, decimal", options)?;
        let decimals = decimal.map_or(Ok(self.decimals), |text| Decimals::parse(py, text))?;
        let found = if self.opened.is_cluster() {
            self.opened.run(py, || {
                let opened = self.opened.with_cluster(|cluster| {
                    if create { cluster.collection(name).map(Some) } else { cluster.existing(name) }
                });
                opened.unwrap_or(Ok(None))
            })?
        } else if create && !self.opened.is_read_only {
            self.opened.run(py, || database.space(name).options(options).collection().map(Some))?
        } else {
            self.opened.run(py, || database.space(name).options(options).existing().collection())?
        };
        let found = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        Ok(Collection::new(&self.opened, found, decimals))
    }

    /// Begins a batch: writes that happen together or not at all. See `Batch`.
    ///
    ///     >>> kv = db.keyspace("kv")
    ///     >>> with db.batch() as batch:
    ///     ...     batch[kv][b"a"] = b"1"
    ///     ...     batch[kv][b"b"] = b"2"
    ///     >>> len(kv)
    ///     2
    fn batch(&self, py: Python<'_>) -> PyResult<Batch> {
        self.opened.check_is_here(py, "a batch", "update of one document")?;
        Ok(Batch::new(&self.opened))
    }

    /// Begins a transaction. See `Transaction`, and `transact` for one that is tried again.
    ///
    /// With `serializable=True` its reads count, too: nothing that it has read was changed when it
    /// commits.
    ///
    ///     >>> c = db.collection("accounts")
    ///     >>> c["alice"] = {"balance": 100}
    ///     >>> with db.transaction() as tx:
    ///     ...     tx[c]["alice"]["balance"] -= 30
    ///     >>> c["alice"]["balance"]
    ///     70
    #[pyo3(signature = (*, serializable=false))]
    fn transaction(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::serializable)] serializable: bool,
    ) -> PyResult<Transaction> {
        self.opened.check_is_here(py, "a transaction", "update of one document")?;
        let options = transaction_options(serializable);
        let begun = self.opened.run(py, || options.begin(&self.opened.database))?;
        Ok(Transaction::new(&self.opened, begun))
    }

    /// Calls `work` with a transaction, commits it, and returns what `work` has returned. After a
    /// `Conflict` calls it again on a new transaction, up to `retries` times. An exception of
    /// `work` ends the transaction without effect.
    ///
    ///     >>> c = db.collection("counters")
    ///     >>> c["n"] = {"n": 0}
    ///     >>> def count(tx):
    ///     ...     tx[c]["n"]["n"] += 1
    ///     ...     return tx[c]["n"]["n"]
    ///     >>> db.transact(count)
    ///     1
    #[pyo3(signature = (work, *, serializable=false, retries=100))]
    fn transact<'py>(
        &self,
        py: Python<'py>,
        work: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::serializable)] serializable: bool,
        #[pyo3(from_py_with = arg::retries)] retries: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        arg::check_callable("work", "a function of a transaction", work)?;
        for tries_left in (0..=retries).rev() {
            let transaction = Bound::new(py, self.transaction(py, serializable)?)?;
            let done = work
                .call1((&transaction,))
                .and_then(|returned| transaction.get().commit(py).map(|()| returned));
            match done {
                Err(error) if tries_left > 0 && is_conflict(py, &error) => py.check_signals()?,
                Err(error) => {
                    // The first error counts, also if the database is closed by now.
                    let _ = transaction.get().rollback(py);
                    return Err(error);
                }
                Ok(returned) => return Ok(returned),
            }
        }
        unreachable!("the last try returns")
    }

    /// Returns the database as of now, for reading. See `Snapshot`.
    ///
    ///     >>> kv = db.keyspace("kv")
    ///     >>> with db.snapshot() as snapshot:
    ///     ...     kv[b"a"] = b"1"
    ///     ...     b"a" in snapshot[kv]
    ///     False
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        self.opened.check_is_here(py, "a snapshot", "find, which reads no one moment")?;
        let taken = self.opened.run(py, || Ok(self.opened.database.snapshot()))?;
        Ok(Snapshot::new(&self.opened, taken))
    }

    /// Begins to read changes: what was written, in order, each commit once and as a whole. See
    /// `Changes`. The database must keep them: `keep_changes` of `flagstone.open`.
    ///
    /// - `start`: `None` begins with the oldest change that is kept, `"now"` with the first commit
    ///   after the call, and a token where an earlier reader was.
    /// - `names`: the keyspaces and collections; all without.
    /// - `timeout`: how long each change is waited for, a `timedelta` or seconds. `0` ends after
    ///   what was written before, and `None` waits without a bound. Ctrl-C ends the wait.
    ///
    /// Raises `TooOld` if changes after `start` are not kept any more, here or later: read
    /// everything again then. `InvalidInput` if changes are not kept, and for a token of another
    /// history, such as that of a restored backup.
    ///
    ///     >>> db.close()
    ///     >>> db = flagstone.open("all", keep_changes="64MiB")
    ///     >>> db.keyspace("kv")[b"a"] = b"1"
    ///     >>> db.collection("c")["a"] = {"n": 1}
    ///     >>> [(change.name, change.kind) for change in db.changes()]
    ///     [('kv', 'put'), ('c', 'put')]
    #[pyo3(signature = (start=None, *, names=None, timeout=Timeout::ZERO))]
    fn changes(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::start)] start: Option<&str>,
        #[pyo3(from_py_with = arg::names)] names: Option<Vec<String>>,
        timeout: Timeout,
    ) -> PyResult<Changes> {
        let decimals = self.decimals;
        Changes::new(py, &self.opened, Asked { start, timeout, names, decimals })
    }

    /// Copies what is new into the backups in the directory `path`, which is created if it is not
    /// there, and verifies the copies. Returns the text of the report.
    fn backup(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::path)] path: PathBuf,
    ) -> PyResult<String> {
        self.opened.check_is_here(py, "a backup", "nodetool snapshot, or flagstone copy")?;
        let report = self.opened.run(py, || self.opened.database.backup(path))?;
        Ok(report.to_string())
    }

    /// Creates an independent copy of the database in the directory `path`, which must be missing
    /// or empty, as of one moment. That takes milliseconds on the same file system: the tables get
    /// second names. The copy may be opened, written and removed as any database.
    ///
    ///     >>> db.collection("c")["a"] = {"n": 1}
    ///     >>> db.checkpoint("copy")
    ///     >>> len(flagstone.open("copy").collection("c"))
    ///     1
    fn checkpoint(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::path)] path: PathBuf,
    ) -> PyResult<()> {
        self.opened.check_is_here(py, "a checkpoint", "nodetool snapshot, or flagstone copy")?;
        self.opened.run(py, || self.opened.database.checkpoint(path).map(drop))
    }

    /// Reads everything, compares it with its checksums, and indexes with their documents. Returns
    /// the text of the report; raises `Corruption` for the first damage.
    fn verify(&self, py: Python<'_>) -> PyResult<String> {
        self.opened.check_is_here(py, "verify", "nodetool verify")?;
        let report = self.opened.run(py, || self.opened.database.verify())?;
        Ok(report.to_string())
    }

    /// Returns counters and sizes of all parts of the database: a dict, with one for each keyspace
    /// under `keyspaces`.
    ///
    ///     >>> db.keyspace("kv")[b"a"] = b"1"
    ///     >>> list(db.stats()["keyspaces"])
    ///     ['kv']
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.opened.is_cluster() {
            let facts = self.opened.run(py, || {
                self.opened.with_cluster(|cluster| cluster.facts()).unwrap_or(Ok(Value::Null))
            })?;
            return Ok(decode::value(py, &facts, self.decimals)?.cast_into()?);
        }
        let stats = self.opened.run(py, || Ok(self.opened.database.stats()))?;
        stats::to_dict(py, &stats)
    }

    /// Returns what the database holds: a dict of names and contents, `bytes` for a keyspace and
    /// `documents` for a collection.
    ///
    ///     >>> kv, c = db.keyspace("kv"), db.collection("c")
    ///     >>> db.keyspaces()
    ///     {'c': 'documents', 'kv': 'bytes'}
    fn keyspaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let names = PyDict::new(py);
        if self.opened.is_cluster() {
            let collections = self.opened.run(py, || {
                self.opened.with_cluster(|cluster| cluster.collections()).unwrap_or(Ok(Vec::new()))
            })?;
            for name in collections {
                names.set_item(name, "documents")?;
            }
            return Ok(names);
        }
        let listed = self.opened.run(py, || Ok(self.opened.database.keyspaces()))?;
        for keyspace in listed.iter().filter(|keyspace| keyspace.owner.is_none()) {
            names.set_item(&keyspace.name, &keyspace.content)?;
        }
        Ok(names)
    }

    /// Changes options of the keyspace or collection `name`, which are those of `keyspace`, but for
    /// `hash_partitions`. They apply to tables written from then on. `compact` rewrites tables of
    /// another compression; other changes come with later compactions. Indexes do not change.
    ///
    /// Raises `InvalidInput` if there is no `name`, or for a value out of range.
    ///
    ///     >>> c = db.collection("comments")
    ///     >>> db.alter("comments", bottom_compression="lz4")
    ///     >>> db.compact()
    #[pyo3(signature = (name, **options))]
    fn alter(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::name)] name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.opened.check_is_here(py, "alter", "ALTER TABLE of Cassandra")?;
        let options = options::to_alter(options)?;
        self.opened.run(py, || self.opened.database.alter_keyspace(name, options))
    }

    /// Merges all tables down to the deepest level: drops what was overwritten and deleted, and
    /// gives all tables their final compression. This takes a long time for large databases. Ctrl-C
    /// ends it, and what is done stays done. Reads and writes go on meanwhile.
    ///
    ///     >>> kv = db.keyspace("kv")
    ///     >>> kv[b"a"] = b"1"
    ///     >>> db.compact()
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.check_is_here(py, "compact", "nodetool compact")?;
        let interrupt = Interrupt::default();
        let compact = || self.opened.database.compact_with(|_progress| interrupt.check());
        // Only the interrupt, which is raised next, ends it early.
        let _ended = self.opened.run_unwatched(py, compact)?;
        interrupt.raise()
    }

    /// Removes the keyspace or collection `name` with all it holds. Returns whether there was one.
    fn drop(&self, py: Python<'_>, #[pyo3(from_py_with = arg::name)] name: &str) -> PyResult<bool> {
        self.opened.run(py, || {
            let dropped = self.opened.with_cluster(|cluster| cluster.drop_collection(name));
            dropped.unwrap_or_else(|| self.opened.database.drop_keyspace(name))
        })
    }

    /// Renames a keyspace or collection. Its handles stay valid.
    fn rename(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::old)] old: &str,
        #[pyo3(from_py_with = arg::new)] new: &str,
    ) -> PyResult<()> {
        self.opened.check_is_here(py, "rename", "flagstone copy into another keyspace")?;
        self.opened.run(py, || self.opened.database.rename_keyspace(old, new))
    }

    /// Makes everything that was written so far survive a power cut.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.check_is_here(py, "sync", "commitlog_sync of Cassandra")?;
        self.opened.run(py, || self.opened.database.sync())
    }

    /// Writes what is only in memory into tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.check_is_here(py, "flush", "nodetool flush")?;
        self.opened.run(py, || self.opened.database.flush())
    }

    /// Flushes what is only in memory, syncs, and closes the database for all handles. Does nothing
    /// if it is closed already.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.close(py)
    }

    fn __enter__<'py>(slf: PyRef<'py, Self>, py: Python<'py>) -> PyResult<PyRef<'py, Self>> {
        slf.opened.check(py)?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.opened.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = PyString::new(py, &self.opened.path.display().to_string()).repr()?.to_string();
        let state = match (self.opened.is_closed(), self.opened.is_read_only) {
            (true, _) => ", closed",
            (false, true) => ", read-only",
            (false, false) => "",
        };
        Ok(format!("<flagstone.Database {path}{state}>"))
    }
}
