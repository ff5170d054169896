//! `flagstone.ArrowSource`: a query as an Arrow stream, by the PyCapsule interface.

use crate::arg::{self, Argument};
use crate::error::{guarded, invalid, raised};
use crate::find::{Find, filter_of};
use crate::opened::Opened;
use crate::outgoing::capsule;
use crate::signals;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use flagstone::{Error, ErrorKind, Result};
use flagstone_arrow::{
    Column, Columns, KeyColumn, Kind, OnMismatch, PRECISION_128, Stream, StreamOptions,
};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyMapping, PyString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The path of the primary key.
const KEY: &str = "$key";
/// The name of its column, unless a field has it or another is asked for.
pub(crate) const KEY_NAME: &str = "_key";
/// The most threads of a stream.
const THREADS_MAX: usize = 64;

/// A query as a table of Arrow, which pyarrow, polars, pandas and DuckDB read:
/// `pyarrow.table(source)`, `polars.DataFrame(source)`, `SELECT .. FROM source`. Each reader runs
/// the query anew. `Find.arrow` makes it.
///
///     >>> c = db.collection("c")
///     >>> c.update({"a": {"n": 1}, "b": {"n": 2}})
///     >>> source = c.find({"n": {"$gte": 2}}).arrow()
///     >>> source
///     <flagstone.ArrowSource _key: text, n: int64>
///     >>> source.to_pyarrow().to_pylist()
///     [{'_key': 'b', 'n': 2}]
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct ArrowSource {
    find: Py<Find>,
    columns: Columns,
    /// What its columns were made of.
    asked: Arc<Asked>,
    /// Not all documents were asked for the types of the columns.
    is_sampled: bool,
    options: StreamOptions,
    /// What has ended a stream of it, until it is asked for.
    end: Arc<End>,
}

/// What columns are made of.
struct Asked {
    /// `None` for those of all fields.
    columns: Option<Vec<Column>>,
    /// The name of the column of the keys beside these.
    key: Option<String>,
}

/// What has ended a stream.
#[derive(Default)]
struct End {
    /// The exception of a handler of signals.
    interrupt: Mutex<Option<PyErr>>,
    /// A document that does not fit.
    misfit: AtomicBool,
}

impl End {
    fn interrupted(&self) -> Option<PyErr> {
        self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Asked {
    fn has_types(&self) -> bool {
        self.columns.as_ref().is_some_and(|columns| {
            Columns::new(columns.iter().cloned()).is_ok_and(|columns| columns.are_typed())
        })
    }

    /// Returns the columns of a query, with types that hold the values of `sample` documents.
    fn columns(&self, find: &flagstone::Find<'static>, sample: usize) -> Result<Columns> {
        let key = match self.key.as_deref() {
            None => KeyColumn::None,
            Some(KEY_NAME) => KeyColumn::Free(KEY_NAME),
            Some(name) => KeyColumn::Named(name),
        };
        match &self.columns {
            None => Columns::of_fields(find, sample, key),
            Some(columns) => match Columns::new(columns.iter().cloned())? {
                // Errors of the query are noticed now, as with a sample.
                columns if columns.are_typed() => find.explain().map(|_| columns),
                columns => columns.inferred(find, sample),
            },
        }
    }
}

/// How `Find.arrow` was called.
pub(crate) struct Wanted<'a, 'py> {
    pub(crate) columns: Option<&'a Bound<'py, PyAny>>,
    pub(crate) key: Option<&'a str>,
    /// `None` for all documents.
    pub(crate) sample: Option<usize>,
    pub(crate) on_mismatch: &'a str,
    pub(crate) rows: usize,
    pub(crate) threads: Option<usize>,
}

impl ArrowSource {
    pub(crate) fn new(find: &Bound<'_, Find>, wanted: &Wanted<'_, '_>) -> PyResult<Self> {
        let py = find.py();
        let on_mismatch = match wanted.on_mismatch {
            "error" => OnMismatch::Error,
            "null" => OnMismatch::Null,
            other => {
                let text = format!("on_mismatch {other:?}: expected \"error\" or \"null\"");
                return Err(invalid(py, text));
            }
        };
        for (name, count) in [("batch_rows", Some(wanted.rows)), ("threads", wanted.threads)] {
            if count == Some(0) {
                return Err(invalid(py, format!("{name}: expected at least 1, found 0")));
            }
        }
        let mut options = StreamOptions { on_mismatch, rows: wanted.rows, ..Default::default() };
        options.threads =
            wanted.threads.map_or(options.threads, |threads| threads.min(THREADS_MAX));
        let query = find.get();
        let asked = match wanted.columns {
            Some(columns) => Some(columns_of(columns)?),
            None => query.columns().map(<[Column]>::to_vec),
        };
        let asked = Asked { columns: asked, key: wanted.key.map(str::to_owned) };
        let sample = wanted.sample.unwrap_or(usize::MAX);
        let columns = query.opened().run(py, || asked.columns(&query.detached()?, sample))?;
        let is_sampled = wanted.sample.is_some() && !asked.has_types();
        let (asked, end) = (Arc::new(asked), Arc::default());
        Ok(Self { find: find.clone().unbind(), columns, asked, is_sampled, options, end })
    }

    /// Returns the same source with other columns, or of another query.
    fn with(&self, find: Py<Find>, columns: Columns) -> Self {
        let (asked, is_sampled, options) = (Arc::clone(&self.asked), self.is_sampled, self.options);
        Self { find, columns, asked, is_sampled, options, end: Arc::default() }
    }

    /// Returns whether a stream of it has met a document that does not fit.
    pub(crate) fn has_misfit(&self) -> bool {
        self.end.misfit.load(Ordering::Acquire)
    }

    /// Returns whether columns are inferred from some of the documents alone.
    pub(crate) const fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Returns the same source with columns that hold all documents; `None` if types were given.
    pub(crate) fn widened(&self, py: Python<'_>) -> PyResult<Option<Self>> {
        if self.asked.has_types() {
            return Ok(None);
        }
        let find = self.find.get();
        let columns = find.opened().run(py, || {
            let wide = self.asked.columns(&find.detached()?, usize::MAX)?;
            Ok(match self.options.on_mismatch {
                OnMismatch::Error => wide,
                // Their types decide what becomes null.
                OnMismatch::Null => wide.typed_as(&self.columns),
            })
        })?;
        let columns = self.columns.replaced_by(&columns).map_err(|error| raised(py, &error))?;
        let wide = self.with(self.find.clone_ref(py), columns);
        Ok(Some(Self { is_sampled: false, ..wide }))
    }

    fn stream(&self, py: Python<'_>, threads: usize) -> PyResult<Reader> {
        signals::note_main_thread(py)?;
        let find = self.find.get();
        let options = StreamOptions { threads: threads.min(self.options.threads), ..self.options };
        let stream = find.opened().run(py, || {
            let find = find.detached()?;
            Stream::new(&self.columns, &find, options)
        })?;
        Ok(Reader {
            opened: Arc::clone(find.opened()),
            schema: stream.schema(),
            stream: Some(stream),
            is_sampled: self.is_sampled,
            end: Arc::clone(&self.end),
        })
    }

    /// Returns the exception of a handler of signals that has ended a stream of it.
    pub(crate) fn interrupted(&self) -> Option<PyErr> {
        self.end.interrupted()
    }

    /// Has a package read the source, by this function of it; once more with the columns of all
    /// documents, if one does not fit those of a sample. Ctrl-C raises its own exception, and not
    /// what the package makes of it.
    fn read_by<'py>(
        slf: &Bound<'py, Self>,
        package: &str,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let function = PyModule::import(py, package)?.getattr(name)?;
        let read = |source: &Bound<'py, Self>| {
            let read = function.call1((source,));
            read.map_err(|error| source.get().interrupted().unwrap_or(error))
        };
        let failed = match read(slf) {
            Ok(table) => return Ok(table),
            Err(error) => error,
        };
        let wide = if slf.get().has_misfit() { slf.get().widened(py)? } else { None };
        wide.map_or(Err(failed), |wide| read(&Bound::new(py, wide)?))
    }
}

/// Returns the columns of `{"name": "$.path"}`, `{"name": ("$.path", "int64")}` or a list of paths.
pub(crate) fn columns_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<Column>> {
    let py = given.py();
    let column = |name: &str, path: &str| match path {
        KEY => Ok(Column::key(name)),
        path => Column::path(name, path).map_err(|error| raised(py, &error)),
    };
    if let Ok(mapping) = given.cast::<PyMapping>() {
        let mut columns = Vec::new();
        for pair in mapping.items()?.iter() {
            let (name, place): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            let name: String = name
                .extract()
                .map_err(|_other: PyErr| arg::expected("columns", "names that are text", &name))?;
            if place.is_instance_of::<PyString>() {
                columns.push(column(&name, <&str>::of(&format!("column {name}"), &place)?)?);
                continue;
            }
            let pair = arg::texts(&place).filter(|pair| pair.len() == 2);
            let Some([path, kind]) = pair.as_deref() else {
                let expected = "a path, or a pair of path and type";
                return Err(arg::expected(&format!("column {name}"), expected, &place));
            };
            let kind = Kind::parse(kind).map_err(|error| raised(py, &error))?;
            columns.push(column(&name, path)?.of(kind));
        }
        return Ok(columns);
    }
    let wrong = "a dict of names and paths, or a list of paths";
    let paths = arg::texts(given).ok_or_else(|| arg::expected("columns", wrong, given))?;
    paths.iter().map(|path| column(path.strip_prefix("$.").unwrap_or(path), path)).collect()
}

#[pymethods]
impl ArrowSource {
    /// The names of the columns and their types: `{"author": "text", "score": "int64"}`.
    #[getter]
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let types = PyDict::new(py);
        for (name, kind) in self.columns.kinds() {
            types.set_item(name, kind.to_string())?;
        }
        Ok(types)
    }

    /// Runs the query and returns its record batches as a PyCapsule of an `ArrowArrayStream`. A
    /// schema that is asked for is not looked at: the consumer casts.
    #[pyo3(signature = (requested_schema=None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule(py, self.stream(py, usize::MAX)?)
    }

    /// Returns the schema as a PyCapsule of an `ArrowSchema`.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = guarded(py, || {
            FFI_ArrowSchema::try_from(&*self.columns.schema())
                .map_err(|error| invalid(py, error.to_string()))
        })?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Returns a source of these columns alone, in this order.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c["a"] = {"n": 1, "m": 2}
    ///     >>> c.arrow().select(["m"])
    ///     <flagstone.ArrowSource m: int64>
    fn select(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::names)] names: Vec<String>,
    ) -> PyResult<Self> {
        let columns = self.columns.select(&names).map_err(|error| raised(py, &error))?;
        Ok(self.with(self.find.clone_ref(py), columns))
    }

    /// Returns for each column its name, the path by which filters find its values, its type, and
    /// whether that was given; nothing if filters cannot be pushed down.
    fn _paths(&self) -> Vec<(String, String, String, bool)> {
        if !self.find.get().is_whole() {
            return Vec::new();
        }
        let paths = self.columns.filter_paths().zip(self.columns.kinds());
        paths
            .zip(self.columns.casts())
            .map(|((path, (name, kind)), casts)| (name.to_owned(), path, kind.to_string(), casts))
            .collect()
    }

    /// Returns a source of the documents that match `filter`, too.
    fn _filtered(&self, py: Python<'_>, filter: &Bound<'_, PyAny>) -> PyResult<Self> {
        let find = self.find.get().filtered(filter_of(Some(filter))?);
        let wrong = || invalid(py, "a query with skip, limit or fields is not filtered further");
        let find = Py::new(py, find.ok_or_else(wrong)?)?;
        Ok(self.with(find, self.columns.clone()))
    }

    /// Returns a source of no more than the first rows.
    fn _first(&self, py: Python<'_>, rows: u64) -> PyResult<Self> {
        let find = Py::new(py, self.find.get().first_of(rows))?;
        Ok(self.with(find, self.columns.clone()))
    }

    /// Says how the query is run, and why: see `Find.explain`.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let find = self.find.get();
        let explain =
            find.opened().run(py, || Stream::explain(&self.columns, &find.detached()?))?;
        Ok(explain.to_string())
    }

    /// Whether what does not fit becomes null.
    #[getter]
    fn _has_nulls_for_misfits(&self) -> bool {
        self.options.on_mismatch == OnMismatch::Null
    }

    /// Refuses a column of decimals that `reader` does not have.
    fn _check_decimals(&self, py: Python<'_>, reader: &str) -> PyResult<()> {
        let wide = self.columns.kinds().find(|(_, kind)| kind.digits_max() > PRECISION_128);
        let Some((name, kind)) = wide else { return Ok(()) };
        Err(invalid(
            py,
            format!(
                "column {name}: {kind}: {reader} has decimals of up to {PRECISION_128} digits; the \
                 type number is the text of numbers with any"
            ),
        ))
    }

    /// Returns a source with its values as polars holds them.
    fn _for_polars(&self, py: Python<'_>) -> Self {
        self.with(self.find.clone_ref(py), self.columns.clone().for_polars())
    }

    /// Returns a batch without rows, for its schema.
    fn _empty(&self) -> ArrowBatch {
        ArrowBatch { batch: RecordBatch::new_empty(self.columns.schema()) }
    }

    /// Returns an iterator over the record batches, each of them an Arrow stream of one batch.
    /// `threads` bounds the threads that fill them further.
    #[pyo3(signature = (*, threads=None))]
    fn batches(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::threads)] threads: Option<usize>,
    ) -> PyResult<ArrowBatches> {
        let threads = threads.map_or(usize::MAX, |threads| threads.max(1));
        let opened = Arc::clone(self.find.get().opened());
        Ok(ArrowBatches { opened, reader: Mutex::new(self.stream(py, threads)?) })
    }

    /// Returns all of it as a table of pyarrow, which must be installed.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::read_by(slf, "pyarrow", "table")
    }

    /// Returns all of it as a `DataFrame` of polars, which must be installed.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"n": n} for n in range(5)})
    ///     >>> c.arrow().to_polars()["n"].sum()
    ///     10
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.get()._check_decimals(py, "polars")?;
        Self::read_by(&Bound::new(py, slf.get()._for_polars(py))?, "polars", "DataFrame")
    }

    /// Returns all of it as a `DataFrame` of pandas; pandas and pyarrow must be installed. Integers
    /// beside null are exact: their column is one of pandas' `Int64`.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let frames = PyModule::import(slf.py(), "flagstone.frames")?;
        frames.getattr("to_pandas")?.call1((Self::to_pyarrow(slf)?,))
    }

    fn __repr__(&self) -> String {
        let columns: Vec<_> =
            self.columns.kinds().map(|(name, kind)| format!("{name}: {kind}")).collect();
        format!("<flagstone.ArrowSource {}>", columns.join(", "))
    }
}

/// An iterator over record batches, each of them an Arrow stream of one batch.
///
///     >>> c = db.collection("c")
///     >>> c.update({n: {"n": n} for n in range(5)})
///     >>> [len(batch) for batch in c.arrow(batch_rows=2, threads=1).batches()]
///     [2, 2, 1]
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct ArrowBatches {
    opened: Arc<Opened>,
    reader: Mutex<Reader>,
}

#[pymethods]
impl ArrowBatches {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        // First of all: in a forked child the lock may be held for ever.
        self.opened.check(py)?;
        let (next, interrupt) = py.detach(|| {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            (reader.next_batch(), reader.end.interrupted())
        });
        let batch =
            next.transpose().map_err(|error| interrupt.unwrap_or_else(|| raised(py, &error)))?;
        Ok(batch.map(|batch| ArrowBatch { batch }))
    }
}

/// A record batch: an Arrow stream of one batch.
///
///     >>> import pyarrow
///     >>> c = db.collection("c")
///     >>> c["a"] = {"n": 1}
///     >>> [batch] = c.arrow().batches()
///     >>> pyarrow.table(batch).to_pylist()
///     [{'_key': 'a', 'n': 1}]
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct ArrowBatch {
    batch: RecordBatch,
}

#[pymethods]
impl ArrowBatch {
    fn __len__(&self) -> usize {
        crate::panics::at("len");
        self.batch.num_rows()
    }

    /// Returns the batch as a PyCapsule of an `ArrowArrayStream`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let one = std::iter::once(Ok(self.batch.clone()));
        capsule(py, arrow_array::RecordBatchIterator::new(one, self.batch.schema()))
    }
}

/// A stream that its consumer reads in any thread, with the GIL or without.
struct Reader {
    opened: Arc<Opened>,
    schema: SchemaRef,
    stream: Option<Stream>,
    is_sampled: bool,
    end: Arc<End>,
}

impl Reader {
    fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        let stream = self.stream.as_mut()?;
        let next = self
            .opened
            .run_in_any_thread(|| signals::watched_in_main_thread(|| stream.next().transpose()));
        if let Some(raised) = signals::raised() {
            *self.end.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
            self.forget();
            return Some(Err(next.err().unwrap_or_else(flagstone::internal::interrupted)));
        }
        match next {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => None,
            Err(error) => {
                self.forget();
                if error.kind() != ErrorKind::InvalidInput {
                    return Some(Err(error));
                }
                self.end.misfit.store(true, Ordering::Release);
                let text = error.to_string();
                if !self.is_sampled || text.contains("sample=None") {
                    return Some(Err(error));
                }
                let text = format!("{text}; sample=None infers the types from all documents");
                Some(Err(Error::invalid(text)))
            }
        }
    }

    /// Ends the stream. What belongs to another process is not touched.
    fn forget(&mut self) {
        let stream = self.stream.take();
        if !self.opened.database.is_here() {
            std::mem::forget(stream);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch()?;
        Some(next.map_err(|error: Error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}
