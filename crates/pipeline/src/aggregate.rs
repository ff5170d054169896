//! Pipelines over collections, as users build and run them.

use crate::PipelineError;
use crate::error::{Place, Result, code};
use crate::expression::{EvalContext, Names, check_depth};
use crate::memory::Memory;
use crate::stage::{BoxedRows, Reads, Run, Sources, Stages, parse, run};
use flagstone::doc::json::JsonParser;
use flagstone::doc::{DateTime, JsonOptions, Map};
use flagstone::internal::{database, held_memory, query_memory};
use flagstone::{Collection, Database, Document, Filter, Snapshot, Transaction, Value};
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The deepest nesting of a text.
const TEXT_DEPTH_MAX: usize = 256;

/// What a pipeline is made of: a value, an array of stages, or its JSON text.
pub trait IntoPipeline {
    /// Returns the array of stages.
    ///
    /// # Errors
    /// If a text is not JSON. What is no pipeline is refused when it is parsed.
    fn into_pipeline(self) -> Result<Value>;
}

impl IntoPipeline for Value {
    fn into_pipeline(self) -> Result<Value> {
        Ok(self)
    }
}

impl IntoPipeline for &Value {
    fn into_pipeline(self) -> Result<Value> {
        // A copy of what is nested too deep would need too deep a stack.
        check_depth(self, &Place::Root("pipeline"))?;
        Ok(self.clone())
    }
}

impl IntoPipeline for &str {
    fn into_pipeline(self) -> Result<Value> {
        // Conditions may be 100 deep, each in a list.
        let options = JsonOptions::new().depth_max(TEXT_DEPTH_MAX);
        JsonParser::new(options).parse_value(self.as_bytes()).map_err(|error| {
            PipelineError::new(code::FAILED_TO_PARSE, "pipeline", error.to_string())
        })
    }
}

impl IntoPipeline for &String {
    fn into_pipeline(self) -> Result<Value> {
        self.as_str().into_pipeline()
    }
}

/// Begins pipelines: `use flagstone_pipeline::Aggregated` adds `aggregate` to collections.
pub trait Aggregated {
    /// Begins a pipeline over the documents of the collection.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// use flagstone_pipeline::Aggregated;
    /// let orders = db.collection("orders")?;
    /// orders.put(1, doc!({ "city": "Oslo", "items": [{ "price": 3 }, { "price": 4 }] }))?;
    /// orders.put(2, doc!({ "city": "Rome", "items": [{ "price": 5 }] }))?;
    /// let totals = orders.aggregate(
    ///     r#"[{"$unwind":"$items"},
    ///         {"$group":{"_id":"$city","total":{"$sum":"$items.price"}}},
    ///         {"$sort":{"total":-1}}]"#,
    /// )?;
    /// let mut found = Vec::new();
    /// for row in totals.run()? {
    ///     found.push(row?.to_string());
    /// }
    /// assert_eq!(found, [r#"{"_id":"Oslo","total":7}"#, r#"{"_id":"Rome","total":5}"#]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the pipeline is malformed: the error names the place.
    fn aggregate(&self, pipeline: impl IntoPipeline) -> Result<Aggregate<'static>>;
}

impl Aggregated for Collection {
    fn aggregate(&self, pipeline: impl IntoPipeline) -> Result<Aggregate<'static>> {
        Aggregate::new(&database(self), Some(self), pipeline)
    }
}

/// A pipeline, which runs when [`Aggregate::run`] is called.
///
/// Rows have the primary key of their document as first field `_id`. All collections are read as of
/// one moment.
#[must_use = "a pipeline does nothing until it is run"]
pub struct Aggregate<'t> {
    stages: Stages,
    collection: Option<Collection>,
    /// Which documents of the collection come to the first stage.
    filter: Filter,
    sources: Sources<'t>,
    /// The names and values of the variables around the pipeline.
    variables: Vec<Option<Value>>,
    memory: usize,
}

impl Aggregate<'static> {
    /// Parses a pipeline over a collection of `database`; without one there are no documents.
    ///
    /// # Errors
    /// If the pipeline is malformed: the error names the place.
    pub fn new(
        database: &Database,
        collection: Option<&Collection>,
        pipeline: impl IntoPipeline,
    ) -> Result<Self> {
        Self::parsed(database, collection, pipeline, &Map::new(), Names::of_text())
    }

    /// As [`Aggregate::new`], of a pipeline that a driver sends: its values stand for themselves,
    /// `{"$oid":..}` too, and its filters are MongoDB's. `variables` are around it: `{"low":5}` is
    /// `$$low` in expressions.
    ///
    /// # Errors
    /// As [`Aggregate::new`].
    pub fn with_variables(
        database: &Database,
        collection: Option<&Collection>,
        pipeline: impl IntoPipeline,
        variables: &Map,
    ) -> Result<Self> {
        let name = |(key, _): &(Value, Value)| key.as_str().unwrap_or_default().to_owned();
        let names = Names::around(variables.iter().map(name).collect());
        Self::parsed(database, collection, pipeline, variables, names)
    }

    fn parsed(
        database: &Database,
        collection: Option<&Collection>,
        pipeline: impl IntoPipeline,
        variables: &Map,
        mut names: Names,
    ) -> Result<Self> {
        let (pipeline, place) = (pipeline.into_pipeline()?, Place::Root("pipeline"));
        check_depth(&pipeline, &place)?;
        let stages = parse(&pipeline, &place, &mut names)?;
        let opened = database.clone();
        let sources = Sources {
            database: database.clone(),
            reads: Reads::Now(database.snapshot()),
            open: Arc::new(move |name| opened.space(name).existing().collection()),
        };
        let variables = variables.iter().map(|(_, value)| Some(value.clone())).collect();
        let (collection, memory) = (collection.cloned(), query_memory(database));
        let filter = Filter::everything();
        Ok(Self { stages, collection, filter, sources, variables, memory })
    }
}

impl<'t> Aggregate<'t> {
    /// Reads an older snapshot.
    pub fn snapshot(self, snapshot: &Snapshot) -> Self {
        let reads = Reads::Snapshot(snapshot.clone());
        Self { sources: Sources { reads, ..self.sources }, ..self }
    }

    /// Reads what a transaction sees, with its own writes. What is read counts as its read.
    pub fn transaction<'a>(self, transaction: &'a Transaction) -> Aggregate<'a> {
        let Sources { database, open, .. } = self.sources;
        let sources = Sources { database, reads: Reads::Transaction(transaction), open };
        let Self { stages, collection, filter, variables, memory, .. } = self;
        Aggregate { stages, collection, filter, sources, variables, memory }
    }

    /// Leaves the documents out that do not match `filter`, before the first stage.
    pub fn matching(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// Sets how the collections of `$lookup` and `$unionWith` are found; `None` is an empty one.
    /// Without this a name is that of a collection of the database.
    pub fn collections(
        self,
        open: impl Fn(&str) -> flagstone::Result<Option<Collection>> + Send + Sync + 'static,
    ) -> Self {
        Self { sources: Sources { open: Arc::new(open), ..self.sources }, ..self }
    }

    /// Sets the bytes of memory; without it as for a query, from 1 MiB to 64 MiB. Sorts and groups
    /// have equal parts of as much, and write the rest to temporary files. Values that expressions
    /// and stages build may take as much together: what needs more is an error with code 146.
    pub const fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Runs the pipeline. Stages other than groups and sorts hold no more than a row or what they
    /// build.
    ///
    /// # Errors
    /// Of the database.
    pub fn run(self) -> Result<Aggregation<'t>> {
        let memory = Memory::of_query(self.memory, held_memory(&self.sources.database));
        let mut context = EvalContext::new(memory.clone(), now());
        context.outer = self.variables;
        let whole = Run::new(self.sources, context, &self.stages);
        let rows = run(&self.stages, self.collection.as_ref(), self.filter, &whole)?;
        Ok(Aggregation { rows: Some(rows), memory })
    }
}

impl fmt::Debug for Aggregate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aggregate({:?}, {} stages)", self.collection, self.stages.len())
    }
}

/// The time of the wall clock.
pub(crate) fn now() -> DateTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    DateTime::from_micros(i64::try_from(since.as_millis()).unwrap_or(i64::MAX / 1_000) * 1_000)
}

/// The rows of a pipeline: an iterator over documents, which ends after an error.
pub struct Aggregation<'t> {
    rows: Option<BoxedRows<'t>>,
    memory: Memory,
}

impl Aggregation<'_> {
    /// Gives up memory and keeps the position, for a slow reader: what sorts and groups hold is
    /// written to temporary files.
    pub fn park(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.park();
        }
        self.memory.park();
    }
}

impl Iterator for Aggregation<'_> {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.rows.as_mut()?.next();
        let row = match next {
            Ok(Some(row)) => Document::from_value(&row).map_err(PipelineError::from),
            Ok(None) => {
                self.rows = None;
                return None;
            }
            Err(error) => Err(error),
        };
        if row.is_err() {
            self.rows = None;
        }
        Some(row)
    }
}

impl std::iter::FusedIterator for Aggregation<'_> {}

impl fmt::Debug for Aggregation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aggregation")
    }
}
