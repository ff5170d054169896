//! `flagstone.Find`: a query over a collection.

use crate::access::{Documents, row};
use crate::ahead::Source;
use crate::arg;
use crate::arrow::{ArrowSource, Wanted, columns_of};
use crate::collection::Collection;
use crate::decode::{self, Decimals};
use crate::document::Document;
use crate::edits::Edited;
use crate::error::{guarded, invalid, raised};
use crate::fork::OfProcess;
use crate::keys::joined;
use crate::opened::Opened;
use crate::rows::{Row, Rows};
use crate::scan::Part;
use crate::selection::check_dotted;
use crate::through::{Through, no_reads, read_snapshot};
use crate::update::Change;
use crate::{update, value, views};
use flagstone::query::{Projection, SortSpec};
use flagstone::{Filter, Group, Result, Value};
use flagstone_arrow::Column;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString};
use std::sync::Arc;

/// A query: `Collection.find` makes it. It runs when it is iterated over, which gives pairs of key
/// and document, or when one of its methods is called; each time anew.
///
///     >>> c = db.collection("comments")
///     >>> c.update({n: {"score": n, "author": "x" if n % 2 else "y"} for n in range(10)})
///     >>> find = c.find({"score": {"$gte": 3}}, sort="-score", limit=2)
///     >>> [(key, doc["author"]) for key, doc in find]
///     [(9, 'x'), (8, 'y')]
///     >>> c.find({"author": "x"}).count()
///     5
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Find {
    opened: Arc<Opened>,
    documents: OfProcess<Documents>,
    decimals: Decimals,
    query: Query,
    /// The columns of its Arrow streams, if they were chosen with it.
    columns: Option<Vec<Column>>,
}

/// What is asked for.
#[derive(Clone)]
pub(crate) struct Query {
    filter: Filter,
    sort: Option<SortSpec>,
    fields: Option<Projection>,
    skip: u64,
    limit: Option<u64>,
}

impl Query {
    fn on<'t>(&self, mut find: flagstone::Find<'t>) -> flagstone::Find<'t> {
        if let Some(sort) = &self.sort {
            find = find.sort(sort);
        }
        if let Some(fields) = &self.fields {
            find = find.project(fields);
        }
        if let Some(limit) = self.limit {
            find = find.limit(limit);
        }
        find.skip(self.skip)
    }
}

impl Find {
    pub(crate) fn new(
        collection: &Bound<'_, Collection>,
        filter: Option<&Bound<'_, PyAny>>,
        sort: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyAny>>,
        (skip, limit): (u64, Option<u64>),
    ) -> PyResult<Self> {
        let (py, collection) = (collection.py(), collection.get());
        let wrong = |error: flagstone::query::FilterError| invalid(py, error.to_string());
        let sort = sort.map(|sort| joined("sort", sort)).transpose()?;
        let fields = fields.map(|fields| joined("fields", fields)).transpose()?;
        let filter = filter_of(filter)?;
        let query = guarded(py, || {
            Ok(Query {
                filter,
                sort: sort.map(|sort| SortSpec::parse(&sort)).transpose().map_err(wrong)?,
                fields: fields.map(|text| Projection::parse(&text)).transpose().map_err(wrong)?,
                skip,
                limit,
            })
        })?;
        collection.opened().check(py)?;
        let Documents { collection: of, through } = collection.documents();
        let documents = Documents { collection: of.clone(), through: through.clone() };
        Ok(Self {
            opened: Arc::clone(collection.opened()),
            documents: OfProcess::new(documents),
            decimals: collection.decimals(),
            query,
            columns: None,
        })
    }

    /// Returns the same query with these columns in its Arrow streams.
    pub(crate) fn of_columns(self, columns: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { columns: columns.map(columns_of).transpose()?, ..self })
    }

    /// Returns the columns of its Arrow streams, if they were chosen.
    pub(crate) fn columns(&self) -> Option<&[Column]> {
        self.columns.as_deref()
    }

    /// Returns the same query for the documents that match `filter`, too. `None` if they cannot be
    /// told before it is run: the result was cut, or lacks fields.
    pub(crate) fn filtered(&self, filter: Filter) -> Option<Self> {
        if !self.is_whole() {
            return None;
        }
        let mut query = self.query.clone();
        query.filter = query.filter.and(filter);
        Some(self.with(query))
    }

    /// Returns the same query for no more than its first `most` documents.
    pub(crate) fn first_of(&self, most: u64) -> Self {
        let limit = self.query.limit.map_or(most, |limit| limit.min(most));
        self.with(Query { limit: Some(limit), ..self.query.clone() })
    }

    fn with(&self, query: Query) -> Self {
        let Documents { collection, through } = &*self.documents;
        let documents = Documents { collection: collection.clone(), through: through.clone() };
        Self {
            opened: Arc::clone(&self.opened),
            documents: OfProcess::new(documents),
            decimals: self.decimals,
            query,
            columns: self.columns.clone(),
        }
    }

    /// Returns whether the query gives whole documents, and all that match.
    pub(crate) const fn is_whole(&self) -> bool {
        let Query { fields, skip, limit, .. } = &self.query;
        fields.is_none() && *skip == 0 && limit.is_none()
    }

    /// Runs `ask` on the query.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(flagstone::Find<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        let Self { query, .. } = self;
        self.opened.run(py, || {
            let Documents { collection, through } = &*self.documents;
            match through {
                Through::Live => ask(query.on(collection.find(&query.filter))),
                Through::Snapshot(snapshot) => read_snapshot(snapshot, |snapshot| {
                    ask(query.on(snapshot.find(collection, &query.filter)))
                }),
                Through::Transaction(tx) => {
                    tx.with(|tx| ask(query.on(tx.find(collection, &query.filter))))
                }
                Through::Batch(_) => Err(no_reads()),
            }
        })
    }

    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// Returns a cursor that does not depend on a transaction.
    pub(crate) fn cursor(&self) -> Result<flagstone::Cursor<'static>> {
        self.detached()?.run()
    }

    /// Returns the query, which does not depend on a transaction.
    pub(crate) fn detached(&self) -> Result<flagstone::Find<'static>> {
        let Documents { collection, through } = &*self.documents;
        match through {
            Through::Live => Ok(self.query.on(collection.find(&self.query.filter))),
            Through::Snapshot(snapshot) => read_snapshot(snapshot, |snapshot| {
                Ok(self.query.on(snapshot.find(collection, &self.query.filter)))
            }),
            Through::Transaction(_) | Through::Batch(_) => Err(flagstone::Error::invalid(
                "this is done by the database or a snapshot, not by a transaction or a batch",
            )),
        }
    }

    /// Returns the documents. Those of a transaction are read at once: it may write while the
    /// iterator is there.
    fn rows(&self, py: Python<'_>, part: Part) -> PyResult<Rows> {
        let source: Source<Row> = if let Through::Transaction(_) = self.documents.through {
            let all = self.ask(py, |find| find.run()?.map(row).collect::<Result<Vec<_>>>())?;
            Box::new(all.into_iter().map(Ok))
        } else {
            Box::new(self.opened.run(py, || self.cursor())?.map(row))
        };
        let rows = Rows::new(&self.opened, source, part, self.decimals);
        // What lacks fields is not the document.
        Ok(if self.query.fields.is_none() { rows.edited_in(&self.documents) } else { rows })
    }
}

/// Returns the filter of a dict, or of JSON text.
pub(crate) fn filter_of(filter: Option<&Bound<'_, PyAny>>) -> PyResult<Filter> {
    let Some(filter) = filter else { return Ok(Filter::everything()) };
    let wrong = |error: flagstone::query::FilterError| invalid(filter.py(), error.to_string());
    if let Ok(text) = filter.cast::<PyString>() {
        let text = text.to_cow()?;
        return guarded(filter.py(), || Filter::parse(&text).map_err(wrong));
    }
    let value = value::of_python(filter, "filter")?;
    guarded(filter.py(), || Filter::from_value(&value).map_err(wrong))
}

#[pymethods]
impl Find {
    fn __iter__(&self, py: Python<'_>) -> PyResult<Rows> {
        self.rows(py, Part::Items)
    }

    /// Returns an iterator over the keys alone.
    fn keys(&self, py: Python<'_>) -> PyResult<Rows> {
        self.rows(py, Part::Keys)
    }

    /// Returns an iterator over the documents alone.
    fn values(&self, py: Python<'_>) -> PyResult<Rows> {
        self.rows(py, Part::Values)
    }

    /// Returns the number of documents; an index may give it without reading them.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"n": n} for n in range(10)})
    ///     >>> c.find({"n": {"$lt": 3}}).count()
    ///     3
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        self.ask(py, |find| find.count())
    }

    /// Returns the first document as a pair of key and document, or `None`.
    pub(crate) fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((value, document)) = self.ask(py, |find| find.first())? else { return Ok(None) };
        let key = decode::key(py, &value, self.decimals)?;
        let document = match self.documents.through {
            Through::Transaction(_) if self.query.fields.is_none() => {
                let edited = Edited::new(&self.opened, &self.documents, value, document);
                Document::of_edited(py, edited, self.decimals)?
            }
            _ => Document::of(py, document, self.decimals)?,
        };
        Ok(Some((key, document).into_pyobject(py)?.into_any()))
    }

    /// Returns the distinct values at `path`, in their order; each element of an array counts.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({"a": {"tags": ["p", "q"]}, "b": {"tags": ["q"]}})
    ///     >>> c.find().distinct("tags")
    ///     ['p', 'q']
    fn distinct<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::path)] path: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        check_dotted(py, path)?;
        let values: Vec<Value> =
            self.ask(py, |find| find.distinct(path)?.collect::<Result<Vec<_>>>())?;
        let values = values.iter().map(|value| decode::value(py, value, self.decimals));
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the groups of the documents, and what they accumulate, as dicts. `by` is text:
    /// paths, and after a colon `count`, or `sum`, `min`, `max` or `avg` of a path, each with a
    /// name. Sort, skip and limit of the query are those of the groups.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"sub": "xyy"[n], "score": n} for n in range(3)})
    ///     >>> c.find(sort="-n").group("sub: count as n, avg(score) as mean")
    ///     [{'sub': 'y', 'n': 2, 'mean': 1.5}, {'sub': 'x', 'n': 1, 'mean': 0}]
    fn group<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::by)] by: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let groups: Vec<Value> = self.ask(py, |find| find.group(&Group::parse(by)?)?.collect())?;
        let groups = groups.iter().map(|group| decode::value(py, group, self.decimals));
        PyList::new(py, groups.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the next `documents` documents, as a list of pairs of key and document, and a token,
    /// which is text. `after`, the token of one page, gives the page that follows; after the last
    /// one it is `None`. Without a sort the documents come in the order of their keys. Each page is
    /// of a moment of its own.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"n": n} for n in range(5)})
    ///     >>> documents, token = c.find(sort="-n").page(3)
    ///     >>> [key for key, doc in documents]
    ///     [4, 3, 2]
    ///     >>> c.find(sort="-n").page(3, after=token)
    ///     ([(1, Document({'n': 1})), (0, Document({'n': 0}))], None)
    #[pyo3(signature = (documents, *, after=None))]
    fn page<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::documents)] documents: u64,
        #[pyo3(from_py_with = arg::after)] after: Option<&str>,
    ) -> PyResult<(Bound<'py, PyList>, Option<String>)> {
        let page = self.ask(py, |find| match after {
            Some(token) => find.after(&token.parse()?).page(documents),
            None => find.page(documents),
        })?;
        let pair = |(key, document)| {
            let key = decode::key(py, &key, self.decimals)?;
            Ok((key, Document::of(py, document, self.decimals)?))
        };
        let documents = page.documents.into_iter().map(pair).collect::<PyResult<Vec<_>>>()?;
        Ok((PyList::new(py, documents)?, page.next.map(|token| token.to_string())))
    }

    /// Changes all documents that match, as `Collection.update` does: `find.update(inc={"n": 1})`.
    /// Returns how many were changed. With `update`, `$` in a path is the element by which a
    /// document matches, and a replacement is refused. If none matches, `upsert=True` inserts a
    /// document with the values that the filter requires, and returns 1.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"n": n} for n in range(10)})
    ///     >>> c.find({"n": {"$lt": 3}}).update(set={"small": True})
    ///     3
    ///     >>> c.find({"n": 10}).update(update={"$set": {"small": False}}, upsert=True)
    ///     1
    #[pyo3(signature = (**changes))]
    fn update(&self, py: Python<'_>, changes: Option<&Bound<'_, PyDict>>) -> PyResult<u64> {
        let empty = PyDict::new(py);
        let change = update::change(py, changes.unwrap_or(&empty))?;
        self.check_write(py)?;
        let Documents { collection, through } = &*self.documents;
        let filter = &self.query.filter;
        self.opened.run(py, || match (through, &change) {
            (Through::Live, Change::Patch(patch)) => {
                Ok(collection.update_many(filter, patch).run()?.modified)
            }
            (Through::Live, Change::Update(update)) => {
                loop {
                    let done = collection.update_many(filter, update.change(filter)?).run()?;
                    if done.matched > 0 || !update.is_upsert() {
                        return Ok(done.modified);
                    }
                    // If another write has come first, there is something to change.
                    if update.insert(collection, filter)?.is_some() {
                        return Ok(1);
                    }
                }
            }
            (Through::Transaction(tx), Change::Patch(patch)) => {
                tx.with(|tx| Ok(tx.update_many(collection, filter, patch)?.modified))
            }
            (Through::Transaction(tx), Change::Update(update)) => tx.with(|tx| {
                let done = tx.update_many(collection, filter, update.change(filter)?)?;
                if done.matched > 0 || !update.is_upsert() {
                    return Ok(done.modified);
                }
                update.insert_in(tx, collection, filter).map(|_key| 1)
            }),
            (Through::Snapshot(_) | Through::Batch(_), _) => Err(crate::through::no_writes()),
        })
    }

    /// Removes all documents that match. Returns how many.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"n": n} for n in range(10)})
    ///     >>> c.find({"n": {"$lt": 3}}).delete()
    ///     3
    fn delete(&self, py: Python<'_>) -> PyResult<u64> {
        self.check_write(py)?;
        let Documents { collection, through } = &*self.documents;
        let filter = &self.query.filter;
        self.opened.run(py, || match through {
            Through::Live => Ok(collection.delete_many(filter).run()?.modified),
            Through::Transaction(tx) => {
                tx.with(|tx| Ok(tx.delete_many(collection, filter)?.modified))
            }
            Through::Snapshot(_) | Through::Batch(_) => Err(crate::through::no_writes()),
        })
    }

    /// Returns the documents as columns, for pyarrow, polars, pandas and DuckDB. See `ArrowSource`.
    ///
    /// - `columns`: a dict of names and paths, `{"author": "$.author"}`, or of names and pairs of
    ///   path and type, `{"score": ("$.score", "int64")}`; or a list of paths. `"$key"` is the
    ///   primary key. Without it those of `Collection.find`, or a column for each field that the
    ///   sample has.
    /// - `key`: without `columns`, the name of the column of the keys; `None` leaves it out. If
    ///   the documents have a field `_key`, the default is `_key_1`, and so on.
    /// - `sample`: how many documents columns and types are inferred from, 1000; `None` for all,
    ///   which are read once more for it. A document that does not fit, such as one with a field
    ///   that no column has, is an error of the stream, which cannot change its columns.
    ///   `to_polars`, `to_pandas` and `to_pyarrow` start again with columns that are
    ///   inferred from all documents.
    /// - `on_mismatch`: whether a value that does not fit its column is an `"error"` that names key
    ///   and column, or becomes `"null"`.
    /// - `batch_rows`: the rows of a record batch.
    /// - `threads`: how many threads fill batches, at most; `None` takes as many as cores,
    ///   up to 8. Without a `sort` the rows have no particular order.
    ///
    /// The types: bool, int64, float64, decimal(P,S), number (any number, as text), text, bytes,
    /// timestamp, objectid (as text), uuid and json (anything, as JSON text), of which the last two
    /// are Arrow's `arrow.uuid` and `arrow.json`, list(TYPE), struct(NAME: TYPE, ..). Decimals
    /// are inferred up to 38 digits, and numbers with more are text: polars and DuckDB have no
    /// decimals of more. A timestamp that is asked for may be text by RFC 3339. In a column of JSON
    /// `{"$numberDouble":"NaN"}` is a float that is not finite, `{"$pairs":[[key, value], ..]}` a
    /// map with keys that are not text.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"n": n} for n in range(10)})
    ///     >>> c.find({"n": {"$gte": 8}}).arrow(["n"]).to_pyarrow()["n"].to_pylist()
    ///     [8, 9]
    #[pyo3(signature = (
        columns=None, *, key=Some("_key"), sample=Some(1000), on_mismatch="error", batch_rows=16384,
        threads=None
    ))]
    pub(crate) fn arrow(
        slf: &Bound<'_, Self>,
        columns: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arg::key)] key: Option<&str>,
        #[pyo3(from_py_with = arg::sample)] sample: Option<usize>,
        #[pyo3(from_py_with = arg::on_mismatch)] on_mismatch: &str,
        #[pyo3(from_py_with = arg::batch_rows)] batch_rows: usize,
        #[pyo3(from_py_with = arg::threads)] threads: Option<usize>,
    ) -> PyResult<ArrowSource> {
        let wanted = Wanted { columns, key, sample, on_mismatch, rows: batch_rows, threads };
        ArrowSource::new(slf, &wanted)
    }

    /// Returns the query as a table of pyarrow, which must be installed: `find.arrow(..)` with the
    /// same arguments, and its `to_pyarrow()`.
    #[pyo3(signature = (columns=None, **options))]
    fn to_pyarrow<'py>(
        slf: &Bound<'py, Self>,
        columns: Option<Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method("arrow", (columns,), options)?.call_method0("to_pyarrow")
    }

    /// Returns the query as a `DataFrame` of polars, which must be installed: `find.arrow(..)` with
    /// the same arguments, and its `to_polars()`.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"n": n} for n in range(10)})
    ///     >>> c.find({"n": {"$gte": 8}}, sort="n").to_polars({"n": "$.n"}).rows()
    ///     [(8,), (9,)]
    #[pyo3(signature = (columns=None, **options))]
    fn to_polars<'py>(
        slf: &Bound<'py, Self>,
        columns: Option<Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method("arrow", (columns,), options)?.call_method0("to_polars")
    }

    /// Returns the query as a `DataFrame` of pandas; pandas and pyarrow must be installed:
    /// `find.arrow(..)` with the same arguments, and its `to_pandas()`.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.update({n: {"n": n} for n in range(10)})
    ///     >>> int(c.find().to_pandas({"n": "$.n"})["n"].sum())
    ///     45
    #[pyo3(signature = (columns=None, **options))]
    fn to_pandas<'py>(
        slf: &Bound<'py, Self>,
        columns: Option<Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method("arrow", (columns,), options)?.call_method0("to_pandas")
    }

    /// Runs the query and returns its columns as an Arrow stream: `polars.DataFrame(find)`.
    #[pyo3(signature = (requested_schema=None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let all = Self::whole(slf, Some(1000))?;
        all.__arrow_c_stream__(slf.py(), requested_schema)
    }

    /// Says how the query is run, and why; with `analyze` runs it, and says what was read.
    ///
    ///     >>> c = db.collection("c")
    ///     >>> c.create_index("by_n", "n")
    ///     >>> "by_n" in c.find({"n": 1}).explain()
    ///     True
    #[pyo3(signature = (*, analyze=false))]
    pub(crate) fn explain(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::analyze)] analyze: bool,
    ) -> PyResult<String> {
        self.ask(py, |find| if analyze { find.clone().analyze().explain() } else { find.explain() })
            .map(|explain| explain.to_string())
    }

    fn __repr__(&self) -> String {
        let Query { filter, sort, fields, skip, limit } = &self.query;
        let mut text = format!("<flagstone.Find {filter}");
        let add = |text: &mut String, name: &str, value: String| {
            text.push_str(&format!(", {name}={value}"));
        };
        if let Some(sort) = sort {
            add(&mut text, "sort", sort.to_string());
        }
        if let Some(fields) = fields {
            add(&mut text, "fields", fields.to_string());
        }
        if *skip > 0 {
            add(&mut text, "skip", skip.to_string());
        }
        if let Some(limit) = limit {
            add(&mut text, "limit", limit.to_string());
        }
        text + ">"
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        views::html(slf.as_any())
    }
}

impl Find {
    /// Returns its columns, with types from so many documents.
    pub(crate) fn whole(slf: &Bound<'_, Self>, sample: Option<usize>) -> PyResult<ArrowSource> {
        Self::arrow(slf, None, Some("_key"), sample, "error", 16_384, None)
    }

    /// A write by filter knows no order and no bounds: what it would leave out is an error.
    fn check_write(&self, py: Python<'_>) -> PyResult<()> {
        let Query { sort, skip, limit, fields, .. } = &self.query;
        if sort.is_some() || *skip > 0 || limit.is_some() || fields.is_some() {
            let text = "a write by filter takes no sort, fields, skip or limit";
            return Err(raised(py, &flagstone::Error::invalid(text)));
        }
        Ok(())
    }
}
