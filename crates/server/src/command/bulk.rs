//! `bulkWrite`: writes to several collections in one command.

use super::args::Args;
use super::id;
use super::name::Namespace;
use super::read::{BULK_RESULTS, BufferedRows, FirstBatch, Listed, batch_size, put_count};
use super::run::Run;
use super::update::{ArgumentNames, UpdateResult};
use super::variables::Variables;
use super::write::{Earlier, Failures, Inserting, Removal, is_ordered};
use crate::access::{ADMIN, Need};
use crate::bson::{BsonWriter, elements, kind};
use crate::failure::{Code, Failure, Outcome};
use crate::session::cursors::{BATCH_BYTES, Rows};
use flagstone::{Collection, Document, Slice, Value};

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Insert,
    Update,
    Delete,
}

/// An operation.
struct Operation<'a> {
    action: Action,
    /// The number of its collection in `nsInfo`.
    place: usize,
    bson: &'a [u8],
}

/// What a field of an operation is, and whether it must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Document,
    Required,
    Flag,
    List,
    Hint,
    Update,
}

impl Field {
    /// Returns whether a value of this kind may be the field. Null is as none.
    fn takes(self, kind: u8) -> bool {
        match self {
            Self::Document => matches!(kind, kind::DOCUMENT | kind::NULL),
            Self::Required => kind == kind::DOCUMENT,
            Self::Flag => matches!(kind, kind::BOOL | kind::NULL),
            Self::List => matches!(kind, kind::ARRAY | kind::NULL),
            Self::Hint => matches!(kind, kind::DOCUMENT | kind::STRING),
            Self::Update => matches!(kind, kind::DOCUMENT | kind::ARRAY),
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::Document | Self::Required => "a document",
            Self::Flag => "true or false",
            Self::List => "an array",
            Self::Hint => "the name or the keys of an index",
            Self::Update => "an update or stages",
        }
    }
}

impl Action {
    /// Returns the fields of an operation, besides the first one.
    const fn fields(self) -> &'static [(&'static str, Field)] {
        match self {
            Self::Insert => &[("document", Field::Required)],
            Self::Update => &[
                ("filter", Field::Required),
                ("updateMods", Field::Update),
                ("constants", Field::Document),
                ("multi", Field::Flag),
                ("upsert", Field::Flag),
                ("arrayFilters", Field::List),
                ("hint", Field::Hint),
                ("sort", Field::Document),
                ("collation", Field::Document),
            ],
            Self::Delete => &[
                ("filter", Field::Required),
                ("multi", Field::Flag),
                ("hint", Field::Hint),
                ("collation", Field::Document),
            ],
        }
    }
}

impl<'a> Operation<'a> {
    /// Parses an operation. What is malformed in one of them refuses the command, before anything
    /// is done.
    fn parse(bson: &'a [u8], index: usize, places: usize) -> Outcome<Self> {
        let refuse =
            |code, text: String| Err(Failure::new(code, format!("bulkWrite.ops[{index}]{text}")));
        let mut elements = elements(bson)?;
        let Some(first) = elements.next().transpose()? else {
            let text = ": expected an operation, found no field".to_owned();
            return refuse(Code::FailedToParse, text);
        };
        let action = match first.name {
            "insert" => Action::Insert,
            "update" => Action::Update,
            "delete" => Action::Delete,
            other => {
                let text = format!(": expected insert, update or delete first, found {other:?}");
                return refuse(Code::IDLUnknownField, text);
            }
        };
        let missing = |name| refuse(Code::IDLFailedToParse, format!(".{name} is missing"));
        if first.kind == kind::NULL {
            return missing(first.name);
        }
        let Some(number) = place_of(first.kind, first.value) else {
            let text = format!(".{}: expected a number", first.name);
            return refuse(Code::TypeMismatch, text);
        };
        let Some(place) = usize::try_from(number).ok().filter(|at| *at < places) else {
            let most = places.saturating_sub(1);
            let text = format!(".{}: expected 0 to {most}, a place in nsInfo", first.name);
            return refuse(Code::BadValue, text);
        };
        let fields = action.fields();
        let mut has = vec![false; fields.len()];
        for element in elements {
            let element = element?;
            let name = element.name;
            let Some(at) = fields.iter().position(|(field, _)| *field == name) else {
                return refuse(Code::IDLUnknownField, format!(".{name} is an unknown field"));
            };
            let field = fields[at].1;
            has[at] = true;
            if field.takes(element.kind) {
                continue;
            }
            let text = format!(".{name}: expected {}", field.expected());
            return match (field, element.kind) {
                (Field::Required, kind::NULL) => missing(name),
                (Field::Hint | Field::Update, _) => refuse(Code::FailedToParse, text),
                _ => refuse(Code::TypeMismatch, text),
            };
        }
        let needed = |(at, field): (usize, &(&str, Field))| {
            matches!(field.1, Field::Required | Field::Update) && !has[at]
        };
        match fields.iter().enumerate().find(|entry| needed((entry.0, entry.1))) {
            Some((_, (name, _))) => missing(name),
            None => Ok(Self { action, place, bson }),
        }
    }

    /// Returns the document that is inserted.
    fn document(&self) -> Outcome<&'a [u8]> {
        for element in elements(self.bson)? {
            let element = element?;
            if element.name == "document" {
                return Ok(element.value);
            }
        }
        // It was checked.
        Ok(&[])
    }
}

/// Returns a place in `nsInfo`, which a client may give as any type of number.
fn place_of(kind: u8, value: &[u8]) -> Option<i64> {
    match kind {
        kind::INT32 => value.first_chunk().map(|n| i64::from(i32::from_le_bytes(*n))),
        kind::INT64 => value.first_chunk().map(|n| i64::from_le_bytes(*n)),
        // As drivers of languages send it that have one type of numbers.
        kind::DOUBLE => value.first_chunk().map(|n| f64::from_le_bytes(*n) as i64),
        _ => None,
    }
}

/// Reads the collections of the command.
fn places(run: &Run<'_, '_>) -> Outcome<Vec<Namespace>> {
    let mut places = Vec::new();
    for (index, bson) in run.statements("nsInfo")?.iter().enumerate() {
        let what = format!("bulkWrite.nsInfo[{index}]");
        let mut names = elements(bson)?.map(|element| element.map(|element| element.name));
        if let Some(name) = names.find(|name| !matches!(name, Ok("ns"))).transpose()? {
            return Err(Failure::unsupported(format_args!("{what}.{name}")));
        }
        let element = elements(bson)?.next().transpose()?;
        let text = element.filter(|element| element.kind == kind::STRING).and_then(|element| {
            let text = element.value.get(4..element.value.len().checked_sub(1)?)?;
            str::from_utf8(text).ok()
        });
        let Some(text) = text else {
            let is_missing = elements(bson)?.next().transpose()?;
            let is_missing = is_missing.is_none_or(|element| element.kind == kind::NULL);
            let code = if is_missing { Code::IDLFailedToParse } else { Code::TypeMismatch };
            return Err(Failure::new(code, format!("{what}.ns: expected DATABASE.COLLECTION")));
        };
        let namespace = Namespace::parse(text)?;
        run.require(Need::Write, &namespace.database)?;
        places.push(namespace);
    }
    Ok(places)
}

/// What was done, for the reply.
#[derive(Default)]
struct Total {
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
    /// A row for each operation, or for those that failed.
    rows: Vec<Vec<u8>>,
    errors_only: bool,
}

impl Total {
    const fn has_written(&self) -> bool {
        self.inserted + self.modified + self.upserted + self.deleted > 0
    }

    fn add(
        &mut self,
        index: usize,
        failure: Option<&Failure>,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Outcome,
    ) -> Outcome {
        if self.errors_only && failure.is_none() {
            return Ok(());
        }
        let mut bson = Vec::new();
        let mut row = BsonWriter::new(&mut bson);
        row.begin();
        row.double("ok", if failure.is_some() { 0.0 } else { 1.0 })?;
        put_count(&mut row, "idx", index as u64)?;
        if let Some(failure) = failure {
            failure.write_details(&mut row)?;
            row.text("errmsg", &failure.message)?;
        }
        put(&mut row)?;
        row.end()?;
        self.rows.push(bson);
        Ok(())
    }
}

pub(super) fn bulk_write(run: &mut Run<'_, '_>) -> Outcome {
    if run.command.database != ADMIN {
        let text = "bulkWrite may only be run against the admin database";
        return Err(Failure::new(Code::Unauthorized, text));
    }
    let args = run.args();
    let (is_ordered, variables) = (is_ordered(&args)?, Variables::parse(&args, "let")?);
    let size = batch_size(&args)?;
    let places = places(run)?;
    let operations = run.statements("ops")?.iter().enumerate();
    let operations = operations.map(|(index, bson)| Operation::parse(bson, index, places.len()));
    let operations = operations.collect::<Outcome<Vec<_>>>()?;
    // Before anything is committed: the client could not be told what was done.
    let place =
        if may_take_batches(&operations, size) { Some(run.service.cursors.place()?) } else { None };
    let done = run.done()?;
    run.has_one_commit = operations.len() == 1 && done.is_empty();
    let earlier = EarlierTry::of(&operations, done);
    let mut bulk = Bulk {
        places: &places,
        collections: vec![None; places.len()],
        variables: &variables,
        is_ordered,
        earlier,
        failures: Failures::default(),
        total: Total { errors_only: args.flag("errorsOnly")?.unwrap_or(false), ..Total::default() },
    };
    let mut at = 0;
    while at < operations.len() && !bulk.failures.is_over() {
        at = match operations[at].action {
            Action::Insert => bulk.insert(run, &operations, at)?,
            _ => bulk.change(run, &operations[at], at)?,
        };
    }
    let Bulk { failures, mut total, .. } = bulk;
    // What was done is told, also if there is no room for it elsewhere.
    let listed = || -> Outcome<_> {
        let mut listed = Listed::new(run.service);
        total.rows.iter().try_for_each(|row| listed.push(row))?;
        listed.rows()
    };
    let rows: Box<dyn Rows> = match place.is_some().then(listed) {
        Some(Ok(listed)) => Box::new(listed),
        _ => Box::new(BufferedRows::new(std::mem::take(&mut total.rows))),
    };
    let first = FirstBatch { place, is_exempt: true, ..FirstBatch::of(size) };
    first.put(run, format!("{ADMIN}.{BULK_RESULTS}"), rows)?;
    put_count(&mut run.reply, "nErrors", failures.len() as u64)?;
    for (name, count) in [
        ("nInserted", total.inserted),
        ("nMatched", total.matched),
        ("nModified", total.modified),
        ("nUpserted", total.upserted),
        ("nDeleted", total.deleted),
    ] {
        put_count(&mut run.reply, name, count)?;
    }
    Ok(())
}

/// What a result has besides what was sent, at most.
const ROW_BYTES: usize = 256;

/// Returns whether the results may be more than a first batch holds. What is upserted, and what is
/// refused by its text, is among what was sent.
fn may_take_batches(operations: &[Operation<'_>], size: Option<u64>) -> bool {
    let bytes: usize = operations.iter().map(|operation| operation.bson.len()).sum();
    let bytes = bytes + ROW_BYTES * operations.len();
    size.is_some_and(|size| operations.len() as u64 > size) || bytes > BATCH_BYTES / 2
}

/// What an earlier try of the command has done.
struct EarlierTry {
    inserts: Earlier,
    /// Updates with their notes, and deletes.
    others: Vec<(u32, Slice)>,
}

impl EarlierTry {
    fn of(operations: &[Operation<'_>], done: Vec<(u32, Slice)>) -> Self {
        let is_insert = |number: u32| {
            let operation = operations.get(number as usize);
            operation.is_some_and(|operation| operation.action == Action::Insert)
        };
        let (inserts, others): (Vec<_>, Vec<_>) =
            done.into_iter().partition(|(number, _)| is_insert(*number));
        Self { inserts: Earlier::read(inserts), others }
    }

    fn other(&self, number: u32) -> Option<Slice> {
        let at = self.others.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.others.get(at).map(|(_, note)| note.clone())
    }
}

/// The command while it runs.
struct Bulk<'a> {
    places: &'a [Namespace],
    /// The collections that were opened.
    collections: Vec<Option<Collection>>,
    variables: &'a Variables,
    is_ordered: bool,
    earlier: EarlierTry,
    failures: Failures,
    total: Total,
}

impl Bulk<'_> {
    /// Inserts the documents of all operations from `start` on that insert into one collection.
    /// Returns the number of the operation after them.
    fn insert(
        &mut self,
        run: &mut Run<'_, '_>,
        operations: &[Operation<'_>],
        start: usize,
    ) -> Outcome<usize> {
        let place = operations[start].place;
        let same = operations[start..].iter();
        let same = same.take_while(|next| next.action == Action::Insert && next.place == place);
        let end = start + same.count();
        let namespace = &self.places[place];
        let collection = match &self.collections[place] {
            Some(collection) => Ok(collection.clone()),
            None => run.created(namespace),
        };
        let has_written = self.total.has_written();
        let collection = match collection {
            Ok(collection) => collection,
            Err(failure) => {
                // What operations before it have done is told.
                let failed = failure.clone();
                self.failures.note(run, start, failure, self.is_ordered, has_written)?;
                self.total.add(start, Some(&failed), |row| Ok(row.int("n", 0)?))?;
                return Ok(start + 1);
            }
        };
        self.collections[place] = Some(collection.clone());
        let (failures, is_ordered) = (&mut self.failures, self.is_ordered);
        let mut into = Inserting::new(run, namespace, &collection, failures, is_ordered);
        into.has_written = has_written;
        for (index, operation) in operations.iter().enumerate().take(end).skip(start) {
            if self.earlier.inserts.has(index) {
                into.pass(index)?;
            } else {
                match operation.document() {
                    Ok(document) => into.add(index, document)?,
                    Err(failure) => into.refuse_next(index, failure)?,
                }
            }
            if into.is_over() {
                break;
            }
        }
        let (inserted, tried) = into.finish()?;
        self.total.inserted += inserted;
        let failed = self.failures.since(start);
        for index in start..tried {
            let failure = failed.get(&index).copied();
            let n = i32::from(failure.is_none());
            self.total.add(index, failure, |row| Ok(row.int("n", n)?))?;
        }
        Ok(end)
    }

    /// Carries out an update or a delete. Returns the number of the next operation.
    fn change(
        &mut self,
        run: &mut Run<'_, '_>,
        operation: &Operation<'_>,
        index: usize,
    ) -> Outcome<usize> {
        let number = run.statement(index);
        let (mut done, mut removed) = (UpdateResult::default(), 0);
        let ran = match self.earlier.other(number) {
            Some(note) if operation.action == Action::Update => {
                let note = run.incoming.any(&note).and_then(|note| UpdateResult::read(&note));
                note.map(|note| done = note)
            }
            Some(_removed) => {
                removed = 1;
                Ok(())
            }
            None => run.incoming.any(operation.bson).and_then(|statement| {
                let namespace = &self.places[operation.place];
                match operation.action {
                    Action::Delete => self.delete(run, &statement, index, namespace, &mut removed),
                    _ => {
                        let args = Args::new(statement.root(), "update");
                        let form = ArgumentNames {
                            filter: "filter",
                            update: "updateMods",
                            constants: "constants",
                        };
                        form.change(run, &args, namespace, number, self.variables, &mut done)
                    }
                }
            }),
        };
        self.total.matched += done.matched;
        self.total.modified += done.modified;
        self.total.upserted += u64::from(done.upserted.is_some());
        self.total.deleted += removed;
        if let Err(failure) = ran {
            let has_written = self.total.has_written();
            self.failures.note(run, index, failure, self.is_ordered, has_written)?;
        }
        self.total.add(index, self.failures.since(index).get(&index).copied(), |row| {
            match operation.action {
                Action::Delete => put_count(row, "n", removed),
                _ => put_changed(row, &done),
            }
        })?;
        Ok(index + 1)
    }

    fn delete(
        &self,
        run: &mut Run<'_, '_>,
        statement: &Document,
        index: usize,
        namespace: &Namespace,
        removed: &mut u64,
    ) -> Outcome {
        let args = Args::new(statement.root(), "delete");
        let (is_one, number) = (!args.is("multi")?, run.statement(index));
        let collection = run.existing(namespace)?;
        let removal = Removal { filter: "filter", is_one, number, variables: self.variables };
        removal.carry_out(run, &args, collection.as_ref(), removed)
    }
}

fn put_changed(row: &mut BsonWriter<'_>, done: &UpdateResult) -> Outcome {
    put_count(row, "n", done.matched + u64::from(done.upserted.is_some()))?;
    put_count(row, "nModified", done.modified)?;
    if let Some(key) = &done.upserted {
        put_upserted(row, key)?;
    }
    Ok(())
}

fn put_upserted(row: &mut BsonWriter<'_>, key: &Value) -> Outcome {
    row.begin_document("upserted")?;
    id::write_value(row, id::ID, key)?;
    Ok(row.end()?)
}
