//! Aggregation pipelines.

use crate::ahead::Source;
use crate::collection::Collection;
use crate::error::{guarded, raised};
use crate::rows::{Row, Rows};
use crate::scan::Part;
use crate::through::{Through, no_reads, read_snapshot};
use crate::value;
use flagstone::{Error, Result, Value};
use flagstone_pipeline::{Aggregate, Aggregated, Aggregation, IntoPipeline};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Runs a pipeline over a collection. The rows of a transaction are read at once: it may write
/// while the iterator is there.
pub(crate) fn rows(
    collection: &Bound<'_, Collection>,
    pipeline: &Bound<'_, PyAny>,
    memory: Option<usize>,
) -> PyResult<Rows> {
    let py = collection.py();
    let stages = match pipeline.cast::<PyString>() {
        Ok(text) => {
            let text = text.to_cow()?;
            guarded(py, || {
                let stages = text.as_ref().into_pipeline();
                stages.map_err(|error| raised(py, &Error::from(error)))
            })?
        }
        Err(_other) => value::of_python(pipeline, "pipeline")?,
    };
    let collection = collection.get();
    let (opened, documents) = (collection.opened(), collection.documents());
    let of = &documents.collection;
    let begin = || -> Result<Aggregate<'static>> {
        let aggregate = of.aggregate(&stages)?;
        Ok(match memory {
            Some(bytes) => aggregate.memory(bytes),
            None => aggregate,
        })
    };
    let source: Source<Row> = opened.run(py, || -> Result<Source<Row>> {
        Ok(match &documents.through {
            Through::Live => Box::new(begin()?.run()?.map(row)),
            Through::Snapshot(snapshot) => read_snapshot(snapshot, |snapshot| {
                Ok(Box::new(begin()?.snapshot(snapshot).run()?.map(row)) as Source<Row>)
            })?,
            Through::Transaction(tx) => tx.with(|tx| {
                let found: Aggregation<'_> = begin()?.transaction(tx).run()?;
                let all = found.map(row).collect::<Result<Vec<_>>>()?;
                Ok(Box::new(all.into_iter().map(Ok)) as Source<Row>)
            })?,
            Through::Batch(_) => return Err(no_reads()),
        })
    })?;
    Ok(Rows::new(opened, source, Part::Values, collection.decimals()))
}

fn row(row: flagstone_pipeline::Result<flagstone::Document>) -> Result<Row> {
    Ok((Value::Null, Some(row?)))
}
