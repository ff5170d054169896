//! `explain`: how a command would find its documents, in the form that drivers and tools read.

use super::args::Args;
use super::filter;
use super::id;
use super::index::ID_INDEX;
use super::name::Namespace;
use super::output::Output;
use super::read::{REFUSED, check_numbers, put_count};
use super::run::Run;
use super::shape::Shape;
use super::target::Target;
use super::variables::Variables;
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{FieldKey, Map};
use flagstone::query::{Actual, Explain};
use flagstone::{Collection, Find, Value, View};
use flagstone_pipeline::Aggregate;
use std::time::{Duration, Instant};

/// The query of a command.
struct Query {
    /// `None` if there is no collection.
    find: Option<Find<'static>>,
    /// The stages around the query, the outermost first.
    around: Vec<&'static str>,
    /// The filter as the command has it.
    filter: Value,
    /// The stages of a pipeline behind the query.
    behind: Vec<Value>,
    shape: Shape,
}

pub(super) fn explain(run: &mut Run<'_, '_>) -> Outcome {
    let command = run.args().required_map("explain")?;
    let runs = match run.args().text("verbosity")? {
        Some("queryPlanner") => false,
        None | Some("executionStats" | "allPlansExecution") => true,
        Some(other) => {
            let text = format!(
                "explain.verbosity: expected queryPlanner, executionStats or allPlansExecution, \
                 found {other:?}"
            );
            return Err(Failure::new(Code::BadValue, text));
        }
    };
    of_command(run, &command, runs)
}

/// Explains a command. `runs`: its query is run.
pub(super) fn of_command(run: &mut Run<'_, '_>, command: &View<'_>, runs: bool) -> Outcome {
    let Some(first) = command.fields()?.next() else {
        return Err(Failure::new(Code::FailedToParse, "explain: a command has no field"));
    };
    let (FieldKey::Name(name), collection) = first? else {
        return Err(Failure::new(Code::FailedToParse, "explain: a name that is no text"));
    };
    let of_no_collection = name == "aggregate" && collection.as_f64() == Some(1.0);
    let (args, database) = (Args::new(*command, name), &run.command.database);
    if let Some(other) = command.get("$db")?.filter(|other| other.as_str() != Some(database)) {
        let text = format!("explain.{name}.$db: expected {database}, found {other}");
        return Err(Failure::new(Code::InvalidNamespace, text));
    }
    // Who explains a write may learn what it would find.
    if matches!(name, "update" | "delete" | "findAndModify" | "findandmodify") {
        run.require(Need::Write, database)?;
    }
    let (namespace, existing) = match collection.as_str() {
        Some(collection) => {
            let namespace = Namespace::new(database, collection)?;
            let existing = run.existing(&namespace)?;
            (namespace.to_string(), existing)
        }
        None if of_no_collection => (format!("{database}.$cmd.aggregate"), None),
        None => {
            let text = format!("explain.{name}: expected the name of a collection");
            return Err(Failure::new(Code::TypeMismatch, text));
        }
    };
    let mut query = match name {
        "find" => of_find(&args, existing.as_ref())?,
        "count" => of_count(&args, existing.as_ref())?,
        "distinct" => of_statement(&args, "query", existing.as_ref(), &[])?,
        "aggregate" => of_pipeline(run, &args, existing.as_ref())?,
        "update" => of_first(&args, "updates", existing.as_ref(), "UPDATE")?,
        "delete" => of_first(&args, "deletes", existing.as_ref(), "DELETE")?,
        "findAndModify" | "findandmodify" => {
            let around = if args.is("remove")? { "DELETE" } else { "UPDATE" };
            of_statement(&args, "query", existing.as_ref(), &[around, "LIMIT"])?
        }
        _ => return Err(Failure::unsupported(format_args!("explain of {name}"))),
    };
    query.shape.complete(name, &namespace);
    let began = Instant::now();
    let explain = match &query.find {
        Some(find) if runs => Some(find.clone().analyze().explain()?),
        Some(find) => Some(find.explain()?),
        None => None,
    };
    let took = began.elapsed();
    let shown = Shown {
        namespace: &namespace,
        collection: existing.as_ref(),
        explain: explain.as_ref(),
        query: &query,
        took: runs.then_some(took),
    };
    let reply = &mut run.reply;
    reply.text("explainVersion", "1")?;
    reply.text("queryShapeHash", &query.shape.query_hash())?;
    if query.behind.is_empty() {
        shown.put(reply)?;
    } else {
        reply.begin_array("stages")?;
        reply.begin_document("")?;
        reply.begin_document("$cursor")?;
        shown.put(reply)?;
        reply.end()?;
        reply.end()?;
        for stage in &query.behind {
            id::write_value(reply, "", stage)?;
        }
        reply.end()?;
    }
    reply.begin_document("command")?;
    reply.fields(command, |name| name == "lsid" || name.starts_with('$'))?;
    reply.end()?;
    reply.begin_document("serverInfo")?;
    reply.text("host", &super::operation::host())?;
    reply.text("version", super::connection::VERSION)?;
    reply.text("gitVersion", "flagstone")?;
    reply.end()?;
    // None of them changes what a query does.
    reply.begin_document("serverParameters")?;
    Ok(reply.end()?)
}

/// Returns the query of a filter, with the sort and the hint beside it.
fn of_statement(
    args: &Args<'_>,
    name: &str,
    collection: Option<&Collection>,
    around: &[&'static str],
) -> Outcome<Query> {
    args.refuse_collation()?;
    let variables = Variables::parse(args, "let")?;
    let given = args.map(name)?;
    let filter = given.map_or_else(|| Ok(Value::object()), |given| given.to_value())?;
    let mut shape = Shape::default();
    shape.filter(&filter);
    if let Some(sort) = args.filled_map("sort")? {
        shape.sort(&sort.to_value()?);
    }
    let find = match collection {
        Some(collection) => {
            let target = Target::parse(args, name, collection, &variables)?;
            Some(target.find(collection.find(target.filter.clone())))
        }
        None => {
            filter::split(given.as_ref(), &variables)?;
            None
        }
    };
    Ok(Query { find, around: around.to_vec(), filter, behind: Vec::new(), shape })
}

fn of_find(args: &Args<'_>, collection: Option<&Collection>) -> Outcome<Query> {
    args.refuse_set(REFUSED)?;
    check_numbers(args)?;
    filter::Fields::parse(args, "projection", &Variables::parse(args, "let")?)?;
    let mut query = of_statement(args, "filter", collection, &[])?;
    if let Some(projection) = args.filled_map("projection")? {
        query.shape.projection(&projection.to_value()?);
    }
    limited(query, args)
}

fn of_count(args: &Args<'_>, collection: Option<&Collection>) -> Outcome<Query> {
    let mut query = limited(of_statement(args, "query", collection, &[])?, args)?;
    query.around.insert(0, "COUNT");
    Ok(query)
}

/// Adds the skip and the limit of a command.
fn limited(mut query: Query, args: &Args<'_>) -> Outcome<Query> {
    if let Some(skip) = args.count("skip")?.filter(|skip| *skip > 0) {
        query.find = query.find.map(|find| find.skip(skip));
        query.around.push("SKIP");
    }
    let limit = super::read::limit(args)?;
    if limit > 0 {
        query.find = query.find.map(|find| find.limit(limit));
        query.around.push("LIMIT");
    }
    Ok(query)
}

/// Returns the query of the only statement of a list.
fn of_first(
    args: &Args<'_>,
    list: &str,
    collection: Option<&Collection>,
    around: &'static str,
) -> Outcome<Query> {
    let statements = args.required_list(list)?;
    let [statement] = statements[..] else {
        let text = format!("explain.{list}: expected one statement, found {}", statements.len());
        return Err(Failure::new(Code::InvalidLength, text));
    };
    of_statement(&Args::new(statement, list), "q", collection, &[around])
}

/// Returns the query of the first stages of a pipeline: those that go to the planner.
fn of_pipeline(
    run: &Run<'_, '_>,
    args: &Args<'_>,
    collection: Option<&Collection>,
) -> Outcome<Query> {
    args.refuse_collation()?;
    let stages = args.required_list("pipeline")?;
    let values = stages.iter().map(View::to_value).collect::<Result<Vec<_>, _>>()?;
    let variables = Variables::parse(args, "let")?;
    // What is malformed is refused.
    let mut piped = values.clone();
    if let Some(output) = Output::take(&mut piped, &run.command.database, &variables)? {
        output.check(run)?;
    }
    let pipeline = Value::Array(piped);
    let _well_formed =
        Aggregate::with_variables(&run.service.db, collection, pipeline, variables.values())?;
    /// Stages, and the arguments of a find that say the same, in the order in which it does them.
    const PLANNED: [(&str, &str); 4] =
        [("$match", "filter"), ("$sort", "sort"), ("$skip", "skip"), ("$limit", "limit")];
    let (mut planned, mut done, mut next) = (Map::new(), 0, 0);
    for stage in &values {
        let first = stage.as_map().and_then(|stage| stage.iter().next());
        let Some((name, value)) = first else { break };
        let place = PLANNED.iter().position(|(stage, _)| name.as_str() == Some(*stage));
        let Some(place) = place.filter(|place| *place >= next) else { break };
        planned.insert(PLANNED[place].1, value.clone());
        (done, next) = (done + 1, place + 1);
    }
    for name in ["hint", "let"] {
        if let Some(value) = args.get(name)? {
            planned.insert(name, value.to_value()?);
        }
    }
    let planned = flagstone::Document::from_value(&Value::Map(planned))?;
    let planned = Args::new(planned.root(), "pipeline");
    let mut query = limited(of_statement(&planned, "filter", collection, &[])?, &planned)?;
    query.shape = Shape::default();
    values.iter().for_each(|stage| query.shape.stage(stage));
    query.behind = values.into_iter().skip(done).collect();
    Ok(query)
}

/// How plans that combine ranges or indexes begin, and their stages.
const COMBINED: [(&str, &str); 3] =
    [("sorted merge", "SORT_MERGE"), ("union", "OR"), ("intersection", "AND_SORTED")];

/// A query as it is shown.
struct Shown<'a> {
    namespace: &'a str,
    collection: Option<&'a Collection>,
    explain: Option<&'a Explain>,
    query: &'a Query,
    /// How long it took, if it was run.
    took: Option<Duration>,
}

impl Shown<'_> {
    fn put(&self, reply: &mut BsonWriter<'_>) -> Outcome {
        reply.begin_document("queryPlanner")?;
        reply.text("namespace", self.namespace)?;
        reply.bool("indexFilterSet", false)?;
        id::write_value(reply, "parsedQuery", &self.query.filter)?;
        reply.text("planCacheShapeHash", &self.query.shape.plan_hash())?;
        reply.begin_document("winningPlan")?;
        self.put_stages(reply, &self.query.around, None)?;
        if let Some(explain) = self.explain {
            id::write_value(reply, "flagstone", &explain.to_value())?;
        }
        reply.end()?;
        reply.begin_array("rejectedPlans")?;
        for plan in
            self.explain.map(|explain| &explain.plans[..]).unwrap_or_default().iter().skip(1)
        {
            reply.begin_document("")?;
            self.put_access(reply, &plan.access, None)?;
            reply.end()?;
        }
        reply.end()?;
        reply.end()?;
        let Some(took) = self.took else { return Ok(()) };
        let actual = self.explain.and_then(|explain| explain.actual).unwrap_or_default();
        reply.begin_document("executionStats")?;
        reply.bool("executionSuccess", true)?;
        let returns = !matches!(self.query.around.first(), Some(&("COUNT" | "UPDATE" | "DELETE")));
        put_count(reply, "nReturned", if returns { actual.rows } else { 0 })?;
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        put_count(reply, "executionTimeMillis", millis)?;
        put_count(reply, "totalKeysExamined", actual.entries)?;
        put_count(reply, "totalDocsExamined", actual.documents)?;
        reply.begin_document("executionStages")?;
        self.put_stages(reply, &self.query.around, Some((&actual, millis)))?;
        reply.end()?;
        Ok(reply.end()?)
    }

    /// Appends the fields of a stage, and those inside of it.
    fn put_stages(
        &self,
        reply: &mut BsonWriter<'_>,
        around: &[&'static str],
        actual: Option<(&Actual, u64)>,
    ) -> Outcome {
        let Some((stage, inside)) = around.split_first() else {
            return match self.explain {
                Some(explain) if explain.sorts => {
                    reply.text("stage", "SORT")?;
                    put_actual(reply, actual)?;
                    reply.begin_document("inputStage")?;
                    self.put_first(reply, actual)?;
                    Ok(reply.end()?)
                }
                _ => self.put_first(reply, actual),
            };
        };
        reply.text("stage", stage)?;
        put_actual(reply, actual)?;
        if let Some((actual, _)) = actual {
            match *stage {
                "COUNT" => put_count(reply, "nCounted", actual.rows)?,
                "UPDATE" => {
                    put_count(reply, "nMatched", actual.rows)?;
                    put_count(reply, "nWouldModify", actual.rows)?;
                    put_count(reply, "nWouldUpsert", 0)?;
                }
                "DELETE" => put_count(reply, "nWouldDelete", actual.rows)?,
                _ => {}
            }
        }
        reply.begin_document("inputStage")?;
        self.put_stages(reply, inside, actual)?;
        Ok(reply.end()?)
    }

    fn put_first(&self, reply: &mut BsonWriter<'_>, actual: Option<(&Actual, u64)>) -> Outcome {
        match self.explain.and_then(|explain| explain.plans.first()) {
            Some(plan) => self.put_access(reply, &plan.access, actual),
            None => Ok(reply.text("stage", "EOF")?),
        }
    }

    /// Appends the stages of what is read.
    fn put_access(
        &self,
        reply: &mut BsonWriter<'_>,
        access: &str,
        actual: Option<(&Actual, u64)>,
    ) -> Outcome {
        let index = access.contains("index").then(|| access.split('"').nth(1));
        let combines = COMBINED.iter().find(|(begin, _)| access.starts_with(begin));
        if access == "nothing" {
            reply.text("stage", "EOF")?;
            return put_actual(reply, actual);
        }
        if index.is_none() && combines.is_none() && !access.contains("key") {
            reply.text("stage", "COLLSCAN")?;
            reply.text("direction", "forward")?;
            if let Some((actual, _)) = actual {
                put_count(reply, "docsExamined", actual.documents)?;
            }
            return put_actual(reply, actual);
        }
        reply.text("stage", "FETCH")?;
        put_actual(reply, actual)?;
        if let Some((actual, _)) = actual {
            put_count(reply, "docsExamined", actual.documents)?;
        }
        let index = index.flatten();
        reply.begin_document("inputStage")?;
        let Some((_, stage)) = combines else {
            self.put_entries(reply, access, index, actual)?;
            return Ok(reply.end()?);
        };
        reply.text("stage", stage)?;
        put_actual(reply, actual)?;
        // What is combined is shown as one.
        reply.begin_array("inputStages")?;
        reply.begin_document("")?;
        self.put_entries(reply, access, index, actual)?;
        reply.end()?;
        reply.end()?;
        Ok(reply.end()?)
    }

    /// Appends the stage that reads entries of an index.
    fn put_entries(
        &self,
        reply: &mut BsonWriter<'_>,
        access: &str,
        index: Option<&str>,
        actual: Option<(&Actual, u64)>,
    ) -> Outcome {
        reply.text("stage", "IXSCAN")?;
        let infos = self.collection.map(Collection::indexes).unwrap_or_default();
        let info = index.and_then(|name| infos.iter().find(|info| info.name == name));
        match info {
            Some(info) => {
                let fields = super::index::fields_given(info);
                super::index::put_keys(reply, "keyPattern", &fields)?;
                reply.text("indexName", &info.name)?;
                reply.bool("isUnique", info.is_unique)?;
                reply.bool("isSparse", info.is_sparse)?;
            }
            None if access.contains("key") => {
                super::index::put_keys(reply, "keyPattern", &[id::ID.to_owned()])?;
                reply.text("indexName", ID_INDEX)?;
                reply.bool("isUnique", true)?;
            }
            // Several indexes: the plan says which.
            None => reply.text("indexName", access)?,
        }
        reply.text("direction", "forward")?;
        if let Some((actual, _)) = actual {
            put_count(reply, "keysExamined", actual.entries)?;
        }
        put_actual(reply, actual)
    }
}

fn put_actual(reply: &mut BsonWriter<'_>, actual: Option<(&Actual, u64)>) -> Outcome {
    let Some((actual, millis)) = actual else { return Ok(()) };
    put_count(reply, "nReturned", actual.rows)?;
    put_count(reply, "executionTimeMillisEstimate", millis)
}
