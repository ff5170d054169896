//! Where rows come from: collections, all as of one moment if they are in one database.

use super::condition::Test;
use super::row::{Rows, malformed_row, map_of};
use crate::error::{PipelineError, Result, code, shown};
use flagstone::doc::{FieldPath, Map};
use flagstone::internal::document::long;
use flagstone::internal::remote_of;
use flagstone::{Collection, Cursor, Database, Filter, Find, Snapshot, Transaction, Value};
use std::sync::Arc;

/// Opens a collection by its name in a pipeline; `None` if there is none.
pub(crate) type Opener =
    Arc<dyn Fn(&str) -> flagstone::Result<Option<Collection>> + Send + Sync + 'static>;

/// What a pipeline reads.
#[derive(Clone)]
pub(crate) enum Reads<'t> {
    /// A snapshot of now; of a cluster, which has none, what is there when it is read.
    Now(Snapshot),
    Snapshot(Snapshot),
    Transaction(&'t Transaction),
}

/// The collections of a pipeline.
#[derive(Clone)]
pub(crate) struct Sources<'t> {
    pub(crate) database: Database,
    pub(crate) reads: Reads<'t>,
    pub(crate) open: Opener,
}

impl<'t> Sources<'t> {
    pub(super) fn find(&self, collection: &Collection, filter: &Filter) -> Find<'t> {
        match &self.reads {
            Reads::Now(_) if remote_of(collection).is_some() => collection.find(filter),
            Reads::Now(snapshot) | Reads::Snapshot(snapshot) => snapshot.find(collection, filter),
            Reads::Transaction(transaction) => transaction.find(collection, filter),
        }
    }
}

/// The documents of a query as rows.
pub(super) struct Found<'t>(pub(super) Cursor<'t>);

impl Rows for Found<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        if !self.0.advance()? {
            return Ok(None);
        }
        let key = self.0.key()?;
        let view = self.0.view()?;
        let document = view.to_value().map_err(|wrong| malformed_row(&wrong))?;
        with_key(key, document, "pipeline").map(Some)
    }

    fn park(&mut self) {
        self.0.park();
    }
}

/// Returns a document with its primary key as the first field `_id`. A field `_id` that equals the
/// key stays, because its number may have another type; any other one gives way.
pub(crate) fn with_key(key: Value, document: Value, place: &str) -> Result<Value> {
    let Value::Map(map) = document else {
        let (key, found) = (shown(&key), document.type_name());
        let text = format!("expected documents that are maps, found {found} with the key {key}");
        return Err(PipelineError::new(code::BAD_VALUE, place, text));
    };
    let mut pairs = Vec::with_capacity(map.len() + 1);
    pairs.push((Value::from("_id"), key));
    for (name, value) in map {
        if name.as_str() != Some("_id") {
            pairs.push((name, value));
        } else if value == pairs[0].1 {
            pairs[0].1 = value;
        }
    }
    Ok(map_of(pairs))
}

/// Rows that are in memory.
pub(super) struct RowsInMemory(pub(super) std::vec::IntoIter<Value>);

impl Rows for RowsInMemory {
    fn next(&mut self) -> Result<Option<Value>> {
        Ok(self.0.next())
    }

    fn park(&mut self) {}
}

/// Returns the condition that the field `foreign` of a document equals one of `values`; null also
/// equals what is missing. A condition inside of the primary key is tested on rows, and so is one
/// on rows that are not stored.
pub(super) fn equal(
    values: Vec<Value>,
    foreign: &str,
    is_stored: bool,
    place: &str,
) -> Result<(Filter, Option<Test>)> {
    if foreign == "_id" && is_stored {
        return Ok((Filter::key().one_of(values), None));
    }
    let names = foreign.split('.');
    let filter =
        Filter::field(FieldPath::parse(foreign).map_err(|error| {
            PipelineError::new(code::FAILED_TO_PARSE, place, error.to_string())
        })?);
    let filter = filter.one_of(values);
    if !is_stored || names.clone().next() == Some("_id") {
        let compiled = filter.compile();
        let matcher = compiled
            .map_err(|error| PipelineError::new(code::BAD_VALUE, place, error.to_string()))?;
        return Ok((Filter::everything(), Some(Test::Filter(Arc::new(matcher)))));
    }
    Ok((filter, None))
}

/// Returns the rows of `$indexStats`: a row for each index.
pub(super) fn index_rows(collection: &Collection) -> Vec<Value> {
    let rows = collection.indexes().into_iter().map(|index| {
        let mut key = Map::new();
        for field in &index.fields {
            match field.strip_prefix('-') {
                Some(name) => key.insert(name, -1),
                None => key.insert(field.as_str(), 1),
            };
        }
        let uses = long(i64::try_from(index.uses).unwrap_or(i64::MAX));
        map_of(vec![
            (Value::from("name"), index.name.into()),
            (Value::from("key"), Value::Map(key)),
            (Value::from("accesses"), map_of(vec![(Value::from("ops"), uses)])),
        ])
    });
    rows.collect()
}
