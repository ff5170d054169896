//! Pipelines.

use super::args::{Args, is_document};
use super::filter::{Fields, is_backwards};
use super::id::ID;
use super::name::Namespace;
use super::output::{Output, stage};
use super::read::{BufferedRows, FirstBatch, Listed, ListedRows, batch_size};
use super::run::{Command, Run};
use super::service::ServiceCounters;
use super::stream::{self, Scope};
use super::variables::Variables;
use crate::access::{ADMIN, Need};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::home::INSTEAD_OF_CHANGES;
use crate::session::cursors::Rows;
use flagstone::doc::{FieldKey, FieldPath, ValueType};
use flagstone::internal::document::{Direction, IndexKeys, sort_key};
use flagstone::remote::unsupported;
use flagstone::{Document, Error, Filter, Value, View};
use flagstone_pipeline::{Aggregate, Aggregation, PipelineError, RowStages};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rows of a pipeline.
struct Piped {
    rows: Aggregation<'static>,
    /// What is returned of each.
    fields: Fields,
    current: Option<Document>,
}

impl Piped {
    fn new(rows: Aggregation<'static>, fields: Fields) -> Self {
        Self { rows, fields, current: None }
    }
}

impl Rows for Piped {
    fn len(&self) -> usize {
        self.current.as_ref().map_or(0, |row| row.as_bytes().len())
    }

    fn advance(&mut self) -> Outcome<bool> {
        self.current = self.rows.next().transpose().map_err(of_reading)?;
        Ok(self.current.is_some())
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        match &self.current {
            Some(row) => put_row(row, &self.fields, out),
            None => Ok(()),
        }
    }

    fn park(&mut self) {
        self.current = None;
        self.rows.park();
    }
}

/// Returns what a command needs that shows what the client runs itself: no more than a login.
pub(super) fn need(command: &Command<'_>, need: Need) -> Outcome<Need> {
    let args = Args::new(command.body.root(), command.name);
    if command.name != "aggregate" || command.database != ADMIN {
        return Ok(need);
    }
    let stages = args.list("pipeline")?.unwrap_or_default();
    let first = stages.first().and_then(|stage| stage.get("$currentOp").ok().flatten());
    // Others may read collections.
    let only_chooses = |stage: &View<'_>| {
        let name = stage.fields().ok().and_then(|mut fields| fields.next()?.ok());
        matches!(name, Some((FieldKey::Name("$limit" | "$match" | "$project" | "$sort"), _)))
    };
    let shows_own = match first.filter(View::is_map) {
        Some(stage) => {
            stages[1..].iter().all(only_chooses)
                && !Args::new(stage, "$currentOp").is("allUsers")?
        }
        None => false,
    };
    Ok(if shows_own { Need::Login } else { need })
}

/// What ends a pipeline while it is read.
fn of_reading(error: PipelineError) -> Failure {
    match error.database_error() {
        Some(error) => Failure::of_reading(error.clone()),
        None => of_rows(error),
    }
}

/// A failure of the rows of a pipeline: one for want of memory says what sets that.
pub(super) fn of_rows(error: PipelineError) -> Failure {
    let mut failure = Failure::from(error);
    if failure.number().0 == Code::ExceededMemoryLimit as i32 {
        failure.message.push_str(" (a 16th of --memory, from 1 to 64 MiB)");
    }
    failure
}

fn put_row(row: &Document, fields: &Fields, out: &mut BsonWriter<'_>) -> Outcome {
    if fields.is_all() {
        return Ok(out.fields(&row.root(), |_name| false)?);
    }
    let projected = Document::from_value(&fields.project(&row.to_value(), None)?)?;
    Ok(out.fields(&projected.root(), |_name| false)?)
}

/// Returns all rows of a query in a transaction: its cursor must not hold the transaction, which
/// goes on to write.
fn all(run: &Run<'_, '_>, rows: Aggregation<'_>, fields: &Fields) -> Outcome<ListedRows> {
    let mut listed = Listed::new(run.service);
    for row in rows {
        let row = row.map_err(of_reading)?;
        listed.add(|out| put_row(&row, fields, out))?;
    }
    listed.rows()
}

pub(super) fn aggregate(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    args.refuse_null("pipeline", Code::TypeMismatch)?;
    for name in ["allowDiskUse", "cursor", "explain"] {
        args.refuse_null(name, Code::TypeMismatch)?;
    }
    let stages = args.required_list("pipeline")?;
    let explains = args.flag("explain")?.unwrap_or(false);
    check_first(&args, stages.first(), explains)?;
    if explains {
        if args.get("writeConcern")?.is_some() {
            let text = "aggregate.writeConcern: expected none with explain";
            return Err(Failure::new(Code::FailedToParse, text));
        }
        let runs = false;
        return super::explain::of_command(run, &run.command.body.root(), runs);
    }
    if args.get("cursor")?.is_none() {
        let text = "aggregate.cursor: expected it, if only as {}, unless the command is explained";
        return Err(Failure::new(Code::FailedToParse, text));
    }
    let namespace = match args.get("aggregate")? {
        Some(one) if one.value_type() == ValueType::Number => {
            if one.as_f64() != Some(1.0) {
                let text = format!("aggregate: expected a collection or 1, found {one}");
                return Err(Failure::new(Code::BadValue, text));
            }
            None
        }
        _ => Some(run.namespace()?),
    };
    let first = stages.first().and_then(|stage| stage.get("$changeStream").ok().flatten());
    if let Some(stage) = first {
        return change_stream(run, &stage, namespace, &stages[1..]);
    }
    ServiceCounters::add(&run.service.counters.queries, 1);
    let mut collection = match &namespace {
        Some(namespace) => run.existing(namespace)?,
        None => None,
    };
    let hinted = match &collection {
        Some(collection) => super::filter::hint(&args, collection, Filter::everything())?.0,
        None => Filter::everything(),
    };
    let pipeline = stages.iter().map(flagstone::View::to_value).collect::<Result<Vec<_>, _>>();
    let mut pipeline = pipeline?;
    let variables = Variables::parse(&args, "let")?;
    let output = Output::take(&mut pipeline, &run.command.database, &variables)?;
    if let Some(output) = &output {
        let concern = args.map("readConcern")?;
        let level = concern.and_then(|concern| concern.get("level").ok().flatten());
        if level.is_some_and(|level| level.as_str() == Some("linearizable")) {
            let text = "readConcern.level: expected none like linearizable with $out or $merge";
            return Err(Failure::new(Code::InvalidOptions, text));
        }
        output.check(run)?;
    }
    if let Some(rows) = rows_of_server(run, stages.first(), &pipeline, namespace.as_ref())? {
        pipeline[0] = self::stage("$documents", literal(rows));
        collection = None;
    }
    if is_backwards(&args)? && collection.is_some() {
        let is_match = |stage: &Value| stage.get("$match").is_some();
        let at = pipeline.iter().take_while(|stage| is_match(stage)).count();
        pipeline.insert(at, backwards());
    }
    let (db, pipeline) = (&run.service.db, Value::Array(pipeline));
    let aggregate =
        Aggregate::with_variables(db, collection.as_ref(), pipeline, variables.values())?;
    // The index of the hint may leave documents out.
    let aggregate = aggregate.matching(hinted);
    // The other collections of a pipeline belong to the same database.
    let (home, database) = (Arc::clone(&run.service.home), run.command.database.clone());
    let aggregate = aggregate.collections(move |name| {
        let namespace = match Namespace::new(&database, name) {
            // There is no collection of such a name.
            Err(failure) if failure.code == Code::InvalidNamespace => return Ok(None),
            namespace => namespace.map_err(|failure| Error::invalid(failure.message))?,
        };
        home.existing(&namespace.keyspace())
    });
    let rows: Box<dyn Rows> = match (&output, &run.transaction) {
        (Some(output), _) => {
            output.write(run, aggregate.run()?)?;
            Box::new(BufferedRows::new(Vec::new()))
        }
        (None, None) => Box::new(Piped::new(aggregate.run()?, Fields::default())),
        (None, Some(tx)) => {
            Box::new(all(run, aggregate.transaction(tx).run()?, &Fields::default())?)
        }
    };
    let name = match &namespace {
        Some(namespace) => namespace.to_string(),
        None => format!("{}.$cmd.aggregate", run.command.database),
    };
    FirstBatch::of(first_size(&args)?).put(run, name, rows)
}

/// Returns the rows of a first stage that the server computes, not the pipeline.
fn rows_of_server(
    run: &mut Run<'_, '_>,
    first: Option<&flagstone::View<'_>>,
    pipeline: &[Value],
    namespace: Option<&Namespace>,
) -> Outcome<Option<Vec<Value>>> {
    // One with other fields is none.
    let first = first.filter(|stage| stage.len().is_ok_and(|len| len == 1));
    let stage = |name: &str| first.and_then(|stage| stage.get(name).ok().flatten());
    if let (Some(stage), Some(namespace)) = (stage("$collStats"), namespace) {
        return Ok(Some(vec![super::catalog::stats_row(run, &stage, namespace)?]));
    }
    // What is no stage without arguments, the pipeline refuses.
    let index_stats = self::stage("$indexStats", Value::object());
    if let (true, Some(namespace)) = (pipeline.first() == Some(&index_stats), namespace) {
        return super::catalog::index_rows(run, namespace).map(Some);
    }
    if let (Some(stage), None) = (stage("$currentOp"), namespace) {
        let stage = Args::new(stage, "$currentOp");
        return super::current::rows_of_stage(run, &stage).map(Some);
    }
    Ok(None)
}

/// The databases whose collections have no change streams.
const OF_SERVER: [&str; 3] = [ADMIN, "config", "local"];

/// Stages that begin a pipeline of no collection, also those that there are not.
const OF_NONE: &[&str] = &[
    "$changeStream",
    "$currentOp",
    "$documents",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$querySettings",
    "$queryStats",
];

/// Refuses malformed options, and a pipeline whose first stage says something else than the
/// collection, the concern or the version of the API.
fn check_first(args: &Args<'_>, first: Option<&View<'_>>, explains: bool) -> Outcome {
    args.flag("allowDiskUse")?;
    if let Some(cursor) = args.map("cursor")? {
        Args::new(cursor, "aggregate.cursor").check(&["batchSize"])?;
        batch_size(args)?;
    }
    let name = match first.map(View::fields).transpose()?.and_then(|mut fields| fields.next()) {
        Some(field) => match field?.0 {
            FieldKey::Name(name) => name,
            _ => "",
        },
        None => "",
    };
    let of_collection = args.get("aggregate")?.is_some_and(|of| of.as_str().is_some());
    if of_collection && name == "$documents" || !of_collection && !OF_NONE.contains(&name) {
        let text = "aggregate: expected a collection, or 1 with $changeStream, $currentOp or \
                    $documents first";
        return Err(Failure::new(Code::InvalidNamespace, text));
    }
    let level = match args.map("readConcern")? {
        Some(concern) => concern.get("level")?.and_then(|level| level.as_str()),
        None => None,
    };
    if name == "$currentOp" && level.is_some_and(|level| level != "local") {
        let text = "readConcern.level: expected local with $currentOp";
        return Err(Failure::new(Code::InvalidOptions, text));
    }
    let shows_sizes = name == "$collStats"
        && first.and_then(|stage| stage.get(name).ok().flatten()).is_some_and(|stats| {
            ["latencyStats", "queryExecStats", "storageStats"]
                .into_iter()
                .any(|name| matches!(stats.get(name), Ok(Some(_))))
        });
    if args.is("apiStrict")? && (explains || name == "$currentOp" || shows_sizes) {
        let what = if explains { "explain" } else { name };
        let text = format!("{what} is not in version 1 of the API (apiStrict)");
        return Err(Failure::new(Code::APIStrictError, text));
    }
    Ok(())
}

/// Returns rows as an expression: text in them is no path.
fn literal(rows: Vec<Value>) -> Value {
    stage("$literal", Value::Array(rows))
}

/// Returns the stage that passes documents from the last to the first.
fn backwards() -> Value {
    stage("$sort", Value::Map([(ID, -1)].into_iter().collect()))
}

/// Returns the stages that do what a find or a count does, whose filter has expressions.
fn stages_of(args: &Args<'_>, filter: &str) -> Outcome<Vec<Value>> {
    let mut stages = Vec::new();
    if let Some(filter) = args.map(filter)? {
        stages.push(stage("$match", filter.to_value()?));
    }
    if let Some(sort) = args.filled_map("sort")? {
        stages.push(stage("$sort", sort.to_value()?));
    } else if is_backwards(args)? {
        stages.push(backwards());
    }
    if let Some(skip) = args.count("skip")?.filter(|skip| *skip > 0) {
        stages.push(stage("$skip", skip));
    }
    match super::read::limit(args)? {
        0 => {}
        limit => stages.push(stage("$limit", limit)),
    }
    Ok(stages)
}

/// Returns stages over a collection, which are to be run.
fn prepared(
    run: &Run<'_, '_>,
    stages: Vec<Value>,
    collection: Option<&flagstone::Collection>,
) -> Outcome<Aggregate<'static>> {
    let variables = Variables::parse(&run.args(), "let")?;
    let (db, stages) = (&run.service.db, Value::Array(stages));
    let aggregate = Aggregate::with_variables(db, collection, stages, variables.values())?;
    let hinted = match collection {
        Some(collection) => super::filter::hint(&run.args(), collection, Filter::everything())?.0,
        None => Filter::everything(),
    };
    Ok(aggregate.matching(hinted))
}

/// Runs stages over a collection.
fn run_stages<'t>(
    run: &'t Run<'_, '_>,
    stages: Vec<Value>,
    collection: Option<&flagstone::Collection>,
) -> Outcome<Aggregation<'t>> {
    let aggregate = prepared(run, stages, collection)?;
    Ok(match &run.transaction {
        Some(tx) => aggregate.transaction(tx).run()?,
        None => aggregate.run()?,
    })
}

/// Answers a find whose filter has expressions.
pub(super) fn find(
    run: &mut Run<'_, '_>,
    namespace: &Namespace,
    collection: Option<&flagstone::Collection>,
) -> Outcome {
    let args = run.args();
    super::read::check_numbers(&args)?;
    let fields = Fields::parse(&args, "projection", &Variables::parse(&args, "let")?)?;
    let aggregate = prepared(run, stages_of(&args, "filter")?, collection)?;
    let rows: Box<dyn Rows> = match &run.transaction {
        None => Box::new(Piped::new(aggregate.run()?, fields)),
        Some(tx) => Box::new(all(run, aggregate.transaction(tx).run()?, &fields)?),
    };
    super::read::answer(run, namespace, rows)
}

/// Counts the documents of a filter that has expressions.
pub(super) fn count(run: &Run<'_, '_>, collection: Option<&flagstone::Collection>) -> Outcome<u64> {
    let mut n = 0;
    for row in run_stages(run, stages_of(&run.args(), "query")?, collection)? {
        row.map_err(of_reading)?;
        n += 1;
    }
    Ok(n)
}

/// What an element of an array takes in BSON besides its value, at least.
const ELEMENT_BYTES: usize = 3;

/// Returns the distinct values at a path of the documents of a filter that has expressions, in
/// their order.
pub(super) fn distinct(
    run: &Run<'_, '_>,
    collection: Option<&flagstone::Collection>,
    key: &str,
) -> Outcome<Vec<Value>> {
    let path = FieldPath::parse(key).map_err(Error::from)?;
    let (mut keys, mut found, mut bytes) = (IndexKeys::new(), BTreeSet::new(), 0);
    for row in run_stages(run, stages_of(&run.args(), "query")?, collection)? {
        let row = row.map_err(of_reading)?;
        keys.collect_ordered(&path, &row.root())?;
        for key in keys.iter().filter(|key| **key != [sort_key::MISSING]) {
            if !found.contains(key) {
                // Without the order of its fields, with its type and its place in the reply.
                let len = sort_key::first_len(key, Direction::Ascending)?.unwrap_or(key.len());
                bytes += len + ELEMENT_BYTES;
                found.insert(key.to_vec());
            }
        }
        if bytes > crate::wire::DOCUMENT_BYTES_MAX {
            return Err(super::read::too_many_values());
        }
    }
    Ok(found.iter().map(|key| sort_key::decode_ordered(key)).collect::<Result<_, _>>()?)
}

/// Returns the size of the first batch, which a client may leave to the server.
fn first_size(args: &Args<'_>) -> Outcome<Option<u64>> {
    Ok(Some(batch_size(args)?.unwrap_or(crate::session::cursors::FIRST_BATCH)))
}

/// The stages that a change stream may have behind it: each makes at most one row of one row.
const AFTER_CHANGES: &[&str] = &[
    "$match",
    "$project",
    "$addFields",
    "$set",
    "$unset",
    "$replaceRoot",
    "$replaceWith",
    "$redact",
];

fn change_stream(
    run: &mut Run<'_, '_>,
    stage: &View<'_>,
    namespace: Option<Namespace>,
    stages: &[flagstone::View<'_>],
) -> Outcome {
    if run.service.home.cluster().is_some() {
        let text = unsupported("$changeStream", INSTEAD_OF_CHANGES).to_string();
        return Err(Failure::numbered(40_573, text));
    }
    if !is_document(stage)? {
        let text = format!("$changeStream: expected a document, found {stage}");
        return Err(Failure::numbered(6_188_500, text));
    }
    let stage = &Args::new(*stage, "$changeStream");
    let concern = run.args().map("readConcern")?;
    let level = concern.and_then(|concern| concern.get("level").ok().flatten());
    if level.is_some_and(|level| level.as_str() != Some("majority")) {
        let text = "readConcern.level: expected majority, or none, with $changeStream";
        return Err(Failure::new(Code::InvalidOptions, text));
    }
    let is_in_transaction = run.transaction.is_some();
    if is_in_transaction {
        let text = "a change stream in a transaction";
        return Err(Failure::new(Code::OperationNotSupportedInTransaction, text));
    }
    let scope = match (namespace, stage.flag("allChangesForCluster")?.unwrap_or(false)) {
        (Some(namespace), false) if OF_SERVER.contains(&namespace.database.as_str()) => {
            let text = format!("$changeStream: {namespace} belongs to the server");
            return Err(Failure::new(Code::InvalidNamespace, text));
        }
        (Some(namespace), false) => Scope::Collection(namespace),
        (None, false) => Scope::Database(run.command.database.clone()),
        (None, true) if run.command.database == ADMIN => {
            run.require(Need::ReadAll, ADMIN)?;
            Scope::All
        }
        _ => {
            let text = "$changeStream: allChangesForCluster is for aggregate: 1 on admin";
            return Err(Failure::new(Code::InvalidOptions, text));
        }
    };
    let stages = stages.iter().map(flagstone::View::to_value).collect::<Result<Vec<_>, _>>()?;
    let variables = Variables::parse(&run.args(), "let")?;
    let stages = if stages.is_empty() {
        None
    } else {
        Some(RowStages::parse(&Value::Array(stages), AFTER_CHANGES, variables.values())?)
    };
    let name = match &scope {
        Scope::Collection(namespace) => namespace.to_string(),
        _ => format!("{}.$cmd.aggregate", run.command.database),
    };
    let stream = stream::open(run, stage, scope, stages)?;
    let size = first_size(&run.args())?;
    FirstBatch::of(size).put(run, name, Box::new(stream))
}
