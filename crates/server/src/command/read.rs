//! Commands that read documents.

use super::args::Args;
use super::filter::{self, Fields};
use super::id::{self, ID};
use super::name::Namespace;
use super::run::Run;
use super::service::Counters;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::session::cursors::{Cursor, FIRST_BATCH, Rows};
use flagstone::query::Explain;
use flagstone::{Collection, Find};

/// The documents that a find returns.
struct Found {
    cursor: flagstone::Cursor<'static>,
    with_key: bool,
}

impl Rows for Found {
    fn advance(&mut self) -> Outcome<bool> {
        Ok(self.cursor.advance()?)
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        let key = if self.with_key { self.cursor.key_bytes().to_vec() } else { Vec::new() };
        let root = self.cursor.view()?;
        id::write_fields(out, &key, &root, self.with_key).map_err(|failure| {
            let key = id::shown_key(&key);
            failure.context(format_args!("document {key}"))
        })
    }

    fn park(&mut self) {
        self.cursor.park();
    }
}

/// Rows that are there already: documents of BSON.
pub(super) struct Listed(std::vec::IntoIter<Vec<u8>>, Vec<u8>);

impl Listed {
    pub(super) fn new(documents: Vec<Vec<u8>>) -> Self {
        Self(documents.into_iter(), Vec::new())
    }
}

impl Rows for Listed {
    fn advance(&mut self) -> Outcome<bool> {
        match self.0.next() {
            Some(document) => {
                self.1 = document;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        out.raw_fields(&self.1);
        Ok(())
    }
}

/// No rows.
struct Nothing;

impl Rows for Nothing {
    fn advance(&mut self) -> Outcome<bool> {
        Ok(false)
    }

    fn write(&mut self, _out: &mut BsonWriter<'_>) -> Outcome {
        Ok(())
    }
}

/// Refuses what finds of MongoDB can do and this does not, and numbers out of range.
fn refuse(args: &Args<'_>) -> Outcome {
    for name in ["max", "min", "returnKey", "showRecordId", "tailable"] {
        args.refuse_if(name, |value| match value.as_bool() {
            Some(is) => is,
            None => !(value.is_map() && value.is_empty().unwrap_or(false)),
        })?;
    }
    args.count("skip")?;
    args.count("batchSize")?;
    limit(args)?;
    Ok(())
}

/// Returns the query of a find command, and what it returns of each document.
fn query(args: &Args<'_>, collection: &Collection) -> Outcome<(Find<'static>, Fields)> {
    refuse(args)?;
    let fields = filter::fields(args)?;
    let filter = filter::filter(args.map("filter")?.as_ref())?;
    let mut find = collection.find(filter);
    if let Some(projection) = fields.projection.clone() {
        find = find.project(projection);
    }
    if let Some(sort) = filter::sort(args)? {
        find = find.sort(sort);
    }
    if let Some(hint) = filter::hint(args, collection)? {
        find = find.hint(hint);
    }
    if let Some(skip) = args.count("skip")? {
        find = find.skip(skip);
    }
    match limit(args)? {
        0 => {}
        limit => find = find.limit(limit),
    }
    Ok((find, fields))
}

/// Returns the most documents of a find; 0 for all. A negative number asks for one batch.
fn limit(args: &Args<'_>) -> Outcome<u64> {
    Ok(args.int("limit")?.unwrap_or(0).unsigned_abs())
}

pub(super) fn find(run: &mut Run<'_, '_>) -> Outcome {
    Counters::add(&run.service.counters.queries, 1);
    let (args, namespace) = (run.args(), run.namespace()?);
    let rows: Box<dyn Rows> = match run.existing(&namespace)? {
        None => {
            // What is malformed is refused all the same.
            refuse(&args)?;
            filter::filter(args.map("filter")?.as_ref())?;
            filter::sort(&args)?;
            filter::fields(&args)?;
            Box::new(Nothing)
        }
        Some(collection) => {
            let (find, fields) = query(&args, &collection)?;
            Box::new(Found { cursor: find.run()?, with_key: fields.with_key })
        }
    };
    let size = args.count("batchSize")?;
    let is_single = args.is("singleBatch")? || args.int("limit")?.is_some_and(|limit| limit < 0);
    let most = if is_single { size } else { Some(size.unwrap_or(FIRST_BATCH)) };
    let stays = args.is("noCursorTimeout")?;
    first_batch(run, namespace.to_string(), rows, (most, is_single, stays))
}

/// Appends a cursor with its first batch to the reply, and keeps the rest.
pub(super) fn first_batch(
    run: &mut Run<'_, '_>,
    namespace: String,
    rows: Box<dyn Rows>,
    (most, is_single, stays): (Option<u64>, bool, bool),
) -> Outcome {
    let mut cursor = Cursor::new(namespace.clone(), run.user(), rows);
    cursor.stays = stays;
    run.reply.begin_document("cursor")?;
    let has_more = cursor.batch("firstBatch", most, &mut run.reply)?;
    let id = if has_more && !is_single { run.service.cursors.keep(cursor)? } else { 0 };
    run.reply.long("id", id)?;
    run.reply.text("ns", &namespace)?;
    Ok(run.reply.end()?)
}

pub(super) fn get_more(run: &mut Run<'_, '_>) -> Outcome {
    Counters::add(&run.service.counters.get_mores, 1);
    let args = run.args();
    let id = args.int("getMore")?.unwrap_or(0);
    let collection = args.required_text("collection")?;
    let namespace = format!("{}.{collection}", run.command.database);
    let most = args.count("batchSize")?.filter(|size| *size > 0);
    let user = run.user();
    let mut cursor = run.service.cursors.take(id, user.as_deref(), &namespace)?;
    run.reply.begin_document("cursor")?;
    let has_more = match cursor.batch("nextBatch", most, &mut run.reply) {
        Ok(has_more) => has_more,
        Err(failure) => {
            run.service.cursors.kill(id, user.as_deref());
            return Err(failure);
        }
    };
    if has_more {
        run.service.cursors.give_back(id, cursor);
    } else {
        run.service.cursors.kill(id, user.as_deref());
    }
    run.reply.long("id", if has_more { id } else { 0 })?;
    run.reply.text("ns", &namespace)?;
    Ok(run.reply.end()?)
}

pub(super) fn kill_cursors(run: &mut Run<'_, '_>) -> Outcome {
    let ids = run.args().required_list("cursors")?;
    let user = run.user();
    let (mut killed, mut unknown) = (Vec::new(), Vec::new());
    for id in ids {
        let Some(id) = id.as_i64() else {
            let text = format!("killCursors.cursors: expected numbers, found {id}");
            return Err(Failure::new(Code::TypeMismatch, text));
        };
        if run.service.cursors.kill(id, user.as_deref()) { &mut killed } else { &mut unknown }
            .push(id);
    }
    let none = Vec::new();
    for (name, ids) in [
        ("cursorsKilled", &killed),
        ("cursorsNotFound", &unknown),
        ("cursorsAlive", &none),
        ("cursorsUnknown", &none),
    ] {
        run.reply.begin_array(name)?;
        for id in ids {
            run.reply.long("", *id)?;
        }
        run.reply.end()?;
    }
    Ok(())
}

pub(super) fn count(run: &mut Run<'_, '_>) -> Outcome {
    Counters::add(&run.service.counters.queries, 1);
    let (args, namespace) = (run.args(), run.namespace()?);
    let filter = filter::filter(args.map("query")?.as_ref())?;
    let mut n = 0;
    if let Some(collection) = run.existing(&namespace)? {
        let mut find = collection.find(filter).skip(args.count("skip")?.unwrap_or(0));
        if let Some(hint) = filter::hint(&args, &collection)? {
            find = find.hint(hint);
        }
        match limit(&args)? {
            0 => {}
            limit => find = find.limit(limit),
        }
        n = find.count()?;
    }
    put_count(&mut run.reply, "n", n)
}

/// Appends a number as int32 if it fits.
pub(super) fn put_count(reply: &mut BsonWriter<'_>, name: &str, n: u64) -> Outcome {
    match i32::try_from(n) {
        Ok(n) => reply.int(name, n)?,
        Err(_wide) => reply.long(name, i64::try_from(n).unwrap_or(i64::MAX))?,
    }
    Ok(())
}

pub(super) fn distinct(run: &mut Run<'_, '_>) -> Outcome {
    Counters::add(&run.service.counters.queries, 1);
    let (args, namespace) = (run.args(), run.namespace()?);
    let key = args.required_text("key")?;
    filter::path(key)?;
    let filter = filter::filter(args.map("query")?.as_ref())?;
    run.reply.begin_array("values")?;
    if let Some(collection) = run.existing(&namespace)? {
        let mut find = collection.find(filter);
        if let Some(hint) = filter::hint(&args, &collection)? {
            find = find.hint(hint);
        }
        let start = run.reply.len();
        if key == ID {
            let mut cursor = find.run()?;
            while cursor.advance()? {
                id::write_key(&mut run.reply, "", cursor.key_bytes())?;
                check_values(&run.reply, start)?;
            }
        } else {
            for value in find.distinct(key)? {
                id::write_value(&mut run.reply, "", &value?)?;
                check_values(&run.reply, start)?;
            }
        }
    }
    Ok(run.reply.end()?)
}

fn check_values(reply: &BsonWriter<'_>, start: usize) -> Outcome {
    if reply.len() - start <= crate::wire::DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    let text = "the distinct values are more than a document of 16 MiB can hold";
    Err(Failure::new(Code::BsonObjectTooLarge, text))
}

pub(super) fn explain(run: &mut Run<'_, '_>) -> Outcome {
    let command = run.args().required_map("explain")?;
    let verbosity = run.args().text("verbosity")?.unwrap_or("allPlansExecution");
    let Some(first) = command.fields()?.next() else {
        return Err(Failure::new(Code::FailedToParse, "explain: a command has no field"));
    };
    let (flagstone::doc::FieldKey::Name(name), collection) = first? else {
        return Err(Failure::new(Code::FailedToParse, "explain: a name that is no text"));
    };
    let Some(collection) = collection.as_str() else {
        let text = format!("explain.{name}: expected the name of a collection");
        return Err(Failure::new(Code::TypeMismatch, text));
    };
    let namespace = Namespace::new(&run.command.database, collection)?;
    let args = Args::new(command, name);
    let existing = run.existing(&namespace)?;
    let found = match (&existing, name) {
        (None, "find" | "count" | "distinct") => None,
        (Some(collection), "find") => Some(query(&args, collection)?.0),
        (Some(collection), "count" | "distinct") => {
            let find = collection.find(filter::filter(args.map("query")?.as_ref())?);
            Some(match filter::hint(&args, collection)? {
                Some(hint) => find.hint(hint),
                None => find,
            })
        }
        _ => return Err(Failure::unsupported(format_args!("explain of {name}"))),
    };
    let runs = verbosity != "queryPlanner";
    let explain = match &found {
        Some(find) if runs => Some(find.clone().analyze().explain()?),
        Some(find) => Some(find.explain()?),
        None => None,
    };
    put_explain(&mut run.reply, &namespace, explain.as_ref(), runs)
}

fn put_explain(
    reply: &mut BsonWriter<'_>,
    namespace: &Namespace,
    explain: Option<&Explain>,
    runs: bool,
) -> Outcome {
    reply.text("explainVersion", "1")?;
    reply.begin_document("queryPlanner")?;
    reply.text("namespace", &namespace.to_string())?;
    reply.begin_document("winningPlan")?;
    match explain {
        Some(explain) => {
            let is_index = explain.plans.first().is_some_and(|plan| plan.access.contains("index"));
            reply.text("stage", if is_index { "IXSCAN" } else { "COLLSCAN" })?;
            id::write_value(reply, "flagstone", &explain.to_value())?;
        }
        None => reply.text("stage", "EOF")?,
    }
    reply.end()?;
    reply.begin_array("rejectedPlans")?;
    reply.end()?;
    reply.end()?;
    if let (true, Some(actual)) = (runs, explain.and_then(|explain| explain.actual.as_ref())) {
        reply.begin_document("executionStats")?;
        reply.bool("executionSuccess", true)?;
        put_count(reply, "nReturned", actual.documents)?;
        reply.end()?;
    }
    reply.begin_document("serverInfo")?;
    reply.text("version", super::connection::VERSION)?;
    Ok(reply.end()?)
}
