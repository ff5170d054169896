//! Operations that read documents.

use super::super::id::key_bytes;
use super::super::name::Namespace;
use super::super::read::FirstBatch;
use super::super::run::Run;
use super::super::service::ServiceCounters;
use super::asked::{put_number, put_stored, put_value};
use super::refused::{Done, OperationError};
use crate::bson::BsonWriter;
use crate::failure::{Failure, Outcome};
use crate::session::cursors::{FIRST_BATCH, Rows};
use flagstone::internal::{park_distinct, park_groups, stored_len};
use flagstone::query::{Hint, PageToken};
use flagstone::{Collection, Cursor, Document, Error, Find, Group, Prefix, Scan, Space, Value};
use flagstone_pipeline::{Aggregate, Aggregation};
use std::ops::Bound;
use std::sync::Arc;

/// Returns the query of the arguments.
fn asked(run: &Run<'_, '_>) -> Done<Find<'static>> {
    ServiceCounters::add(&run.service.counters.queries, 1);
    let args = run.args();
    let collection = run.asked_collection()?;
    let mut find = collection.find(args.filter()?).skip(args.count("skip")?.unwrap_or(0));
    if let Some(sort) = args.text("sort")? {
        find = find.sort(sort);
    }
    if let Some(limit) = args.count("limit")? {
        find = find.limit(limit);
    }
    if let Some(project) = args.text("project")? {
        find = find.project(project);
    }
    if let Some(after) = args.text("after")? {
        find = find.after(&after.parse::<PageToken>()?);
    }
    Ok(match args.text("index")? {
        Some(index) => find.hint(Hint::index(index)),
        None if args.is("scan")? => find.hint(Hint::Scan),
        None => find,
    })
}

/// Appends a cursor to the reply.
fn answer(run: &mut Run<'_, '_>, rows: impl Rows + 'static) -> Done {
    let namespace = run.asked_namespace()?;
    let first = FirstBatch::of(Some(FIRST_BATCH));
    Ok(first.put(run, namespace.to_string(), Box::new(rows))?)
}

/// Documents with their keys, or values, one after the other: what `next` returns of `source`.
struct KeyedRows<S, N> {
    source: S,
    next: N,
    /// Lets the source give up memory.
    park: fn(&mut S),
    current: Option<Row>,
}

struct Row {
    /// A sort key.
    key: Option<Vec<u8>>,
    document: Option<Document>,
}

impl<S: Send, N: FnMut(&mut S) -> Option<Done<Row>> + Send> KeyedRows<S, N> {
    fn new(source: S, park: fn(&mut S), next: N) -> Self {
        Self { source, next, park, current: None }
    }
}

impl<S: Send, N: FnMut(&mut S) -> Option<Done<Row>> + Send> Rows for KeyedRows<S, N> {
    fn row_bytes_max(&self) -> usize {
        // The tool takes whole messages.
        usize::MAX
    }

    fn len(&self) -> usize {
        let document = self.current.as_ref().and_then(|row| row.document.as_ref());
        document.map_or(0, |document| document.as_bytes().len())
    }

    fn advance(&mut self) -> Outcome<bool> {
        let next = (self.next)(&mut self.source);
        self.current = next.transpose().map_err(OperationError::into_failure)?;
        Ok(self.current.is_some())
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        let Some(row) = &self.current else { return Ok(()) };
        if let Some(key) = &row.key {
            out.bytes("k", key)?;
        }
        match &row.document {
            Some(document) => put_stored(out, "d", document).map_err(OperationError::into_failure),
            None => Ok(()),
        }
    }

    fn park(&mut self) {
        self.current = None;
        (self.park)(&mut self.source);
    }
}

/// Answers with values.
fn answer_values<I>(run: &mut Run<'_, '_>, values: I, park: fn(&mut I)) -> Done
where
    I: Iterator<Item = flagstone::Result<Value>> + Send + 'static,
{
    let next = |values: &mut I| {
        let row = |value: flagstone::Result<Value>| -> Done<Row> {
            Ok(Row { key: None, document: Some(Document::from_value(&value?)?) })
        };
        values.next().map(row)
    };
    answer(run, KeyedRows::new(values, park, next))
}

/// The documents of a query.
struct QueryRows(Cursor<'static>);

impl Rows for QueryRows {
    fn row_bytes_max(&self) -> usize {
        // The tool takes whole messages.
        usize::MAX
    }

    fn len(&self) -> usize {
        stored_len(&self.0)
    }

    fn advance(&mut self) -> Outcome<bool> {
        self.0.advance().map_err(Failure::of_database)
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        out.bytes("k", self.0.key_bytes())?;
        let document = self.0.document().map_err(Failure::of_database)?;
        put_stored(out, "d", &document).map_err(OperationError::into_failure)
    }

    fn park(&mut self) {
        self.0.park();
    }
}

pub(super) fn find(run: &mut Run<'_, '_>) -> Done {
    let rows = QueryRows(asked(run)?.run()?);
    answer(run, rows)
}

pub(super) fn page(run: &mut Run<'_, '_>) -> Done {
    let documents = run.args().count("size")?.unwrap_or(FIRST_BATCH);
    let too_large = || -> OperationError {
        let text = format!("a page of {documents} documents takes more than 16 MiB: ask for fewer");
        Error::invalid(text).into()
    };
    // A page is whole in memory: what is too large is known before.
    let find = asked(run)?;
    let mut found = find.clone().limit(documents).run()?;
    let mut bytes = 0;
    while found.advance()? {
        bytes += found.key_bytes().len() + found.document()?.as_bytes().len();
        if bytes > crate::wire::DOCUMENT_BYTES_MAX {
            return Err(too_large());
        }
    }
    drop(found);
    let page = find.page(documents)?;
    let start = run.reply.len();
    run.reply.begin_array("page")?;
    for (key, document) in &page.documents {
        run.reply.begin_document("")?;
        put_value(&mut run.reply, "key", key)?;
        put_stored(&mut run.reply, "d", document)?;
        run.reply.end()?;
        if run.reply.len() - start > crate::wire::DOCUMENT_BYTES_MAX {
            return Err(too_large());
        }
    }
    run.reply.end()?;
    match page.next {
        Some(token) => Ok(run.reply.text("next", &token.to_string())?),
        None => Ok(()),
    }
}

pub(super) fn count(run: &mut Run<'_, '_>) -> Done {
    let count = match run.args().text("filter")? {
        Some(_) => asked(run)?.count()?,
        None => run.asked_collection()?.count()?,
    };
    put_number(&mut run.reply, "n", count)
}

fn asked_group(run: &Run<'_, '_>) -> Done<Option<Group>> {
    let text = run.args().text("group")?;
    Ok(text.map(Group::parse).transpose()?)
}

pub(super) fn explain(run: &mut Run<'_, '_>) -> Done {
    let mut find = asked(run)?;
    if run.args().is("analyze")? {
        find = find.analyze();
    }
    let explain = match asked_group(run)? {
        Some(group) => find.explain_group(&group)?,
        None => find.explain()?,
    };
    put_value(&mut run.reply, "value", &explain.to_value())?;
    Ok(run.reply.text("text", &explain.to_string())?)
}

pub(super) fn group(run: &mut Run<'_, '_>) -> Done {
    let find = asked(run)?;
    let group = asked_group(run)?.ok_or_else(|| run.args().missing("group"))?;
    let groups = find.group(&group)?;
    answer_values(run, groups, park_groups)
}

pub(super) fn distinct(run: &mut Run<'_, '_>) -> Done {
    let path = run.args().required_text("path")?;
    let values = asked(run)?.distinct(path)?;
    answer_values(run, values, park_distinct)
}

pub(super) fn scan(run: &mut Run<'_, '_>) -> Done {
    ServiceCounters::add(&run.service.counters.queries, 1);
    let (args, collection) = (run.args(), run.asked_collection()?);
    let scan = match args.text("prefix")? {
        Some(prefix) => collection.scan(Prefix(prefix)),
        None => {
            let from = args.value("from")?.map_or(Bound::Unbounded, Bound::Included);
            let to = args.value("to")?.map_or(Bound::Unbounded, Bound::Excluded);
            collection.scan((from, to))
        }
    };
    let scan = if args.is("reverse")? { scan.rev() } else { scan };
    let limit = args.count("limit")?.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(usize::MAX);
    let (mut left, keys_only) = (limit, args.is("keysOnly")?);
    let next = move |scan: &mut Scan<'static, Collection>| -> Option<Done<Row>> {
        left = left.checked_sub(1)?;
        if !keys_only {
            let row =
                |(key, document)| Row { key: Some(key_bytes(&key)), document: Some(document) };
            return scan.next().map(|entry| entry.map(row).map_err(OperationError::from));
        }
        match scan.advance() {
            Ok(true) => Some(Ok(Row { key: Some(scan.key().to_vec()), document: None })),
            Ok(false) => None,
            Err(error) => Some(Err(error.into())),
        }
    };
    answer(run, KeyedRows::new(scan, Scan::park, next))
}

pub(super) fn aggregate(run: &mut Run<'_, '_>) -> Done {
    ServiceCounters::add(&run.service.counters.queries, 1);
    let (args, collection) = (run.args(), run.asked_collection()?);
    let database = &run.service.db;
    let pipeline = args.required_text("pipeline")?;
    let aggregate = Aggregate::new(database, Some(&collection), pipeline)?;
    let others = others(run)?;
    let rows = aggregate.collections(others).run()?;
    let next = |rows: &mut Aggregation<'static>| {
        let row = |row| -> Done<Row> { Ok(Row { key: None, document: Some(row?) }) };
        rows.next().map(row)
    };
    answer(run, KeyedRows::new(rows, Aggregation::park, next))
}

/// Returns what finds the other collections of a pipeline: those of the database, or all that the
/// client may read if it names them by their whole names.
fn others(
    run: &Run<'_, '_>,
) -> Done<impl Fn(&str) -> flagstone::Result<Option<Collection>> + Send + Sync + use<>> {
    let is_whole = run.args().is("whole")?;
    let (of_database, home) = (run.command.database.clone(), Arc::clone(&run.service.home));
    let is_readable = run.readable()?;
    Ok(move |name: &str| {
        let keyspace = if is_whole {
            if !is_readable(name) {
                return Ok(None);
            }
            name.to_owned()
        } else {
            let namespace = Namespace::new(&of_database, name);
            namespace.map_err(|failure| Error::invalid(failure.message))?.keyspace()
        };
        home.existing(&keyspace)
    })
}

pub(super) fn get(run: &mut Run<'_, '_>) -> Done {
    let (args, collection) = (run.args(), run.asked_collection()?);
    let key = args.key()?;
    let Some(document) = collection.get(key.clone())? else { return Ok(()) };
    put_stored(&mut run.reply, "d", &document)?;
    match collection.expiry(key)? {
        Some(moment) => put_number(&mut run.reply, "expires", moment.millis()),
        None => Ok(()),
    }
}
