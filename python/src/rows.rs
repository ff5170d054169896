//! Iterators over the documents of a collection or of a query.

use crate::access::Documents;
use crate::ahead::{Ahead, Source};
use crate::decode::{self, Decimals};
use crate::document::Document;
use crate::edits::Edited;
use crate::fork::OfProcess;
use crate::opened::Opened;
use crate::scan::Part;
use crate::through::Through;
use flagstone::Value;
use pyo3::prelude::*;
use std::sync::Arc;

/// A key and its document; `None` if only keys are asked for.
pub(crate) type Row = (Value, Option<flagstone::Document>);

/// An iterator over documents, as of the moment of its creation. It may be kept for as long as you
/// like, and shared by threads.
///
/// In a transaction an iterator over a collection, unlike one over a query, reads some hundred
/// documents at a time, each time what the transaction has written by then: whether it meets a
/// document that was written meanwhile depends on where it is. `list(tx[c].items())` reads all
/// before anything is written.
///
///     >>> c = db.collection("c")
///     >>> c.update({"a": {"n": 1}, "b": {"n": 2}})
///     >>> documents = iter(c.values())
///     >>> del c["b"]
///     >>> [doc["n"] for doc in documents]
///     [1, 2]
#[pyclass(module = "flagstone._flagstone", frozen, weakref)]
pub(crate) struct Rows {
    opened: Arc<Opened>,
    part: Part,
    decimals: Decimals,
    rows: OfProcess<Ahead<Row>>,
    /// The transaction that changes of the documents are written to.
    edits: Option<OfProcess<Documents>>,
}

impl Rows {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        source: Source<Row>,
        part: Part,
        decimals: Decimals,
    ) -> Self {
        let weigh = |(_, document): &Row| document.as_ref().map_or(16, |d| d.as_bytes().len());
        let rows = OfProcess::new(Ahead::new(source, weigh));
        Self { opened: Arc::clone(opened), part, decimals, rows, edits: None }
    }

    /// Lets the documents be changed, if `documents` are those of a transaction.
    pub(crate) fn edited_in(mut self, documents: &Documents) -> Self {
        if let Through::Transaction(_) = documents.through {
            self.edits = Some(OfProcess::new(documents.clone()));
        }
        self
    }

    fn document_of<'py>(
        &self,
        py: Python<'py>,
        key: &Value,
        document: flagstone::Document,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.edits {
            None => Document::of(py, document, self.decimals),
            Some(documents) => {
                let edited = Edited::new(&self.opened, documents, key.clone(), document);
                Document::of_edited(py, edited, self.decimals)
            }
        }
    }
}

#[pymethods]
impl Rows {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.opened.check(py)?;
        let next = match self.rows.ready() {
            Some(row) => Some(row),
            None => self.opened.run(py, || self.rows.next())?,
        };
        let Some((key, document)) = next else { return Ok(None) };
        let document = document.map(|document| self.document_of(py, &key, document));
        let key = || decode::key(py, &key, self.decimals);
        Ok(Some(match (self.part, document) {
            (Part::Values, Some(document)) => document?,
            (Part::Items, Some(document)) => (key()?, document?).into_pyobject(py)?.into_any(),
            (Part::Keys, _) | (_, None) => key()?,
        }))
    }
}
