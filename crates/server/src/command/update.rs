//! Commands that change documents: `update` and `findAndModify`.

use super::args::{Args, check_statements};
use super::filter::{self, Fields};
use super::id::{self, ID};
use super::name::Namespace;
use super::notes::Replacing;
use super::read::put_count;
use super::run::{Run, STATEMENTS_MAX};
use super::service::{Service, ServiceCounters};
use super::target::Target;
use super::variables::Variables;
use super::work::Work;
use super::write::{Failures, duplicate_key, is_ordered, with_index};
use crate::bson::{BsonWriter, is_longer};
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::DateTime;
use flagstone::query::Matcher;
use flagstone::{Collection, Document, Value, View};
use flagstone_pipeline::update::{Context, Update};
use std::cell::RefCell;

/// A document that was found, or that an upsert has inserted.
struct Changed {
    key: Value,
    is_inserted: bool,
    /// Whether it has another form now.
    is_changed: bool,
    /// Its forms before and now, as drivers see them, if they want to.
    old: Option<Value>,
    new: Option<Value>,
}

/// What is done to documents.
struct UpdateStatement<'a> {
    namespace: &'a Namespace,
    update: Update,
    is_upsert: bool,
    /// Whether the client wants to see documents.
    is_shown: bool,
    now: DateTime,
    /// Notes for readers of changes that documents are replaced.
    replacing: Option<Replacing>,
    /// The last document that was put: if it is refused, its values are told.
    last: RefCell<Option<Document>>,
}

impl<'a> UpdateStatement<'a> {
    fn parse(
        service: &Service,
        args: &Args<'_>,
        name: &str,
        namespace: &'a Namespace,
        variables: &Variables,
    ) -> Outcome<Self> {
        let Some(update) = args.get(name)? else { return Err(args.missing(name)) };
        let filters = args.list("arrayFilters")?.unwrap_or_default();
        let filters = filters.iter().map(View::to_value).collect::<Result<Vec<_>, _>>()?;
        let update = Update::parse(&variables.in_update(update.to_value()?)?, &filters)?;
        let now = DateTime::from_micros(super::service::now_millis().saturating_mul(1000));
        let (is_upsert, last) = (args.is("upsert")?, RefCell::default());
        let replacing = if update.is_replacement() { Replacing::new(service)? } else { None };
        Ok(Self { namespace, update, is_upsert, is_shown: false, now, replacing, last })
    }

    /// Changes the document of a key if it is one of the target.
    fn one(
        &self,
        work: &mut Work<'_>,
        target: &Target<'_>,
        key: &Value,
    ) -> Outcome<Option<Changed>> {
        let Some(document) = target.read(work, key)? else { return Ok(None) };
        let mut new = id::shown(key, &document)?;
        let old = self.is_shown.then(|| new.clone());
        let position = match (self.update.matched_array(), &target.matcher) {
            (Some(path), Some(matcher)) => {
                let path = filter::path(path)?;
                matcher.position(&document.root(), &path)?
            }
            _ => None,
        };
        let context = Context { position, is_insert: false, now: self.now };
        let is_changed = self.update.apply(&mut new, &context)?;
        if self.update.is_replacement() {
            id::stamp(&mut new);
        }
        let shown = (self.is_shown && is_changed).then(|| new.clone());
        if is_changed {
            let (_key, stored) = id::without_id(new)?;
            let expiry = work.expiry(target.collection, key)?;
            let stored = document_of(&stored)?;
            let put = work.put(target.collection, key, &stored, expiry);
            self.last.replace(Some(stored));
            put?;
            if let (Some(replacing), Some(tx)) = (&self.replacing, work.transaction()) {
                replacing.note(tx, &self.namespace.keyspace(), key)?;
            }
        }
        let key = key.clone();
        Ok(Some(Changed { key, is_inserted: false, is_changed, old, new: shown }))
    }

    /// Changes the first document of the target. If there is none, an upsert inserts one.
    fn first(&self, work: &mut Work<'_>, target: &Target<'_>) -> Outcome<Option<Changed>> {
        let changed = match target.first(work)? {
            Some(key) => self.one(work, target, &key)?,
            None => None,
        };
        match changed {
            None if self.is_upsert => self.insert(work, target).map(Some),
            changed => Ok(changed),
        }
    }

    /// Returns why a document was refused: with the values that another one has.
    fn refused(&self, failure: Failure) -> Failure {
        with_index(failure, self.namespace, self.last.borrow().as_ref())
    }

    /// Inserts what an upsert makes of the filter.
    fn insert(&self, work: &mut Work<'_>, target: &Target<'_>) -> Outcome<Changed> {
        let context = Context { position: None, is_insert: true, now: self.now };
        let mut document = self.update.upserted(&target.filter, &context)?;
        if self.update.is_replacement() {
            id::stamp(&mut document);
        }
        let (key, stored) = id::without_id(document)?;
        let key = key.unwrap_or_else(|| Value::ObjectId(work.new_id()));
        // The document of this key is no match, or it would have been found.
        if work.get(target.collection, &key)?.is_some() {
            return Err(duplicate_key(self.namespace, &key));
        }
        let stored = document_of(&stored)?;
        let new = if self.is_shown { Some(id::shown(&key, &stored)?) } else { None };
        let put = work.put(target.collection, &key, &stored, None);
        self.last.replace(Some(stored));
        put?;
        Ok(Changed { key, is_inserted: true, is_changed: true, old: None, new })
    }
}

/// Returns the stored form of a document.
fn document_of(value: &Value) -> Outcome<Document> {
    let document = Document::from_value(value)?;
    if is_longer(&document, crate::wire::DOCUMENT_BYTES_MAX) {
        let text = "the document would be larger than 16 MiB after the update";
        return Err(Failure::new(Code::BsonObjectTooLarge, text));
    }
    Ok(document)
}

/// What a statement has done.
#[derive(Default)]
pub(super) struct UpdateResult {
    pub(super) matched: u64,
    pub(super) modified: u64,
    pub(super) upserted: Option<Value>,
}

impl UpdateResult {
    fn note(&mut self, changed: Changed) {
        if changed.is_inserted {
            self.upserted = Some(changed.key);
        } else {
            self.matched += 1;
            self.modified += u64::from(changed.is_changed);
        }
    }

    /// Writes what a retry of the statement is told.
    fn write(&self) -> Outcome<Vec<u8>> {
        let mut bson = Vec::new();
        let mut out = BsonWriter::new(&mut bson);
        out.begin();
        put_count(&mut out, "n", self.matched)?;
        put_count(&mut out, "nModified", self.modified)?;
        if let Some(key) = &self.upserted {
            id::write_value(&mut out, "upserted", key)?;
        }
        out.end()?;
        Ok(bson)
    }

    pub(super) fn read(document: &Document) -> Outcome<Self> {
        let root = document.root();
        let count = |name: &str| -> Outcome<u64> {
            let count = root.get(name)?.and_then(|count| count.as_u64());
            Ok(count.unwrap_or(0))
        };
        let upserted = root.get("upserted")?.map(|key| key.to_value()).transpose()?;
        Ok(Self { matched: count("n")?, modified: count("nModified")?, upserted })
    }
}

pub(super) fn update(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let is_ordered = is_ordered(&args)?;
    let variables = Variables::parse(&args, "let")?;
    let statements = run.statements("updates")?;
    let form = ArgumentNames { filter: "q", update: "u", constants: "c" };
    check_statements("update.updates", statements, &form.known(), &["q", "u"])?;
    let earlier_done = run.done()?;
    // What an earlier try has done may not have been synced when its connection ended.
    run.has_one_commit = statements.len() == 1 && earlier_done.is_empty();
    let (mut matched, mut modified, mut upserted) = (0, 0, Vec::new());
    let mut failures = Failures::default();
    for (index, bson) in statements.iter().enumerate() {
        let number = run.statement(index);
        let earlier = earlier_done.binary_search_by_key(&number, |(number, _)| *number).ok();
        let mut done = UpdateResult::default();
        let ran = match earlier.and_then(|at| earlier_done.get(at)) {
            Some((_, noted)) => {
                let noted = run.incoming.any(noted).and_then(|noted| UpdateResult::read(&noted));
                noted.map(|noted| done = noted)
            }
            None => run.incoming.any(bson).and_then(|statement| {
                let args = Args::new(statement.root(), "update.updates");
                form.change(run, &args, &namespace, number, &variables, &mut done)
            }),
        };
        matched += done.matched;
        modified += done.modified;
        upserted.extend(done.upserted.map(|key| (index, key)));
        if let Err(failure) = ran {
            let has_written = modified > 0 || !upserted.is_empty();
            failures.note(run, index, failure, is_ordered, has_written)?;
            if failures.is_over() {
                break;
            }
        }
    }
    let reply = &mut run.reply;
    put_count(reply, "n", matched + upserted.len() as u64)?;
    put_count(reply, "nModified", modified)?;
    if !upserted.is_empty() {
        reply.begin_array("upserted")?;
        for (index, key) in &upserted {
            reply.begin_document("")?;
            put_count(reply, "index", *index as u64)?;
            id::write_value(reply, ID, key)?;
            reply.end()?;
        }
        reply.end()?;
    }
    failures.write(reply)
}

/// How a command spells the arguments of a statement that changes documents.
pub(super) struct ArgumentNames {
    pub(super) filter: &'static str,
    pub(super) update: &'static str,
    pub(super) constants: &'static str,
}

impl ArgumentNames {
    /// Returns the arguments that a statement may have.
    fn known(&self) -> [&'static str; 9] {
        let Self { filter, update, constants } = *self;
        let [multi, upsert, filters, hint, sort, collation] =
            ["multi", "upsert", "arrayFilters", "hint", "sort", "collation"];
        [filter, update, constants, multi, upsert, filters, hint, sort, collation]
    }

    /// Carries out one statement. `done` is what was done, also before an error.
    pub(super) fn change(
        &self,
        run: &mut Run<'_, '_>,
        statement: &Args<'_>,
        namespace: &Namespace,
        number: u32,
        variables: &Variables,
        done: &mut UpdateResult,
    ) -> Outcome {
        statement.check(&self.known())?;
        statement.refuse_collation()?;
        let is_multi = statement.is("multi")?;
        let has_stages = statement.get(self.update)?.is_some_and(|update| update.is_array());
        if !has_stages && statement.get(self.constants)?.is_some() {
            let text = format!("{}: expected it with an update of stages alone", self.constants);
            return Err(Failure::numbered(51_198, text));
        }
        let constants = Variables::parse(statement, self.constants)?;
        let variables_of = variables.with(constants)?;
        let change =
            UpdateStatement::parse(run.service, statement, self.update, namespace, &variables_of)?;
        let q = statement.required_map(self.filter)?;
        if is_multi && change.update.is_replacement() {
            let text = "multi update is not supported for replacement-style update";
            return Err(Failure::new(Code::FailedToParse, text));
        }
        if is_multi && statement.filled_map("sort")?.is_some() {
            let text = "sort: expected it only where one document is changed";
            return Err(Failure::new(Code::FailedToParse, text));
        }
        let Some(collection) = collection(run, namespace, change.is_upsert)? else {
            // What is malformed is refused all the same.
            return filter::split(Some(&q), variables).map(drop);
        };
        let target = Target::parse(statement, self.filter, &collection, variables)?;
        let changed = if is_multi && target.key.is_none() {
            update_all(run, &change, &target, done)
        } else {
            update_first(run, &change, &target, number).map(|changed| *done = changed)
        };
        ServiceCounters::add(&run.service.counters.updates, done.matched);
        changed.map_err(|failure| change.refused(failure))
    }
}

/// Changes one document of the target.
fn update_first(
    run: &mut Run<'_, '_>,
    change: &UpdateStatement<'_>,
    target: &Target<'_>,
    number: u32,
) -> Outcome<UpdateResult> {
    again_if_raced(change, || {
        run.atomically(|run, work| {
            let mut done = UpdateResult::default();
            if let Some(changed) = change.first(work, target)? {
                done.note(changed);
            }
            run.note(work, number, || done.write())?;
            Ok(done)
        })
    })
}

/// Carries out an upsert once more if another has inserted a document with its unique value since
/// it found none: now it finds that one.
fn again_if_raced<T>(
    change: &UpdateStatement<'_>,
    mut work: impl FnMut() -> Outcome<T>,
) -> Outcome<T> {
    match work() {
        Err(failure) if change.is_upsert && failure.code == Code::DuplicateKey => work(),
        done => done,
    }
}

/// Changes all documents of the target: each in a commit of its own, or all in the transaction that
/// the client has open.
fn update_all(
    run: &mut Run<'_, '_>,
    change: &UpdateStatement<'_>,
    target: &Target<'_>,
    done: &mut UpdateResult,
) -> Outcome {
    target.each(run, |run, key| {
        if let Some(changed) = run.atomically(|_run, work| change.one(work, target, key))? {
            done.note(changed);
        }
        Ok(())
    })?;
    if done.matched == 0
        && change.is_upsert
        && let Some(changed) = run.atomically(|_run, work| change.first(work, target))?
    {
        done.note(changed);
    }
    Ok(())
}

fn collection(
    run: &Run<'_, '_>,
    namespace: &Namespace,
    is_created: bool,
) -> Outcome<Option<Collection>> {
    if is_created { run.created(namespace).map(Some) } else { run.existing(namespace) }
}

pub(super) fn find_and_modify(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let variables = Variables::parse(&args, "let")?;
    let (removes, wants_new) = (args.is("remove")?, args.is("new")?);
    let has_update = args.get("update")?.is_some();
    if removes == has_update || removes && (args.is("upsert")? || wants_new) {
        let text = "findAndModify: expected either remove, or update with new and upsert";
        return Err(Failure::new(Code::FailedToParse, text));
    }
    let returned = match (removes, wants_new) {
        (true, _) => ReturnedDocument::Removed,
        (false, false) => ReturnedDocument::Original,
        (false, true) => ReturnedDocument::Updated,
    };
    let fields = Fields::parse(&args, "fields", &variables)?;
    if let Some((_, reply)) = run.done()?.first() {
        run.reply.raw_fields(reply);
        return Ok(());
    }
    let change = if removes {
        None
    } else {
        let change = UpdateStatement::parse(run.service, &args, "update", &namespace, &variables)?;
        Some(UpdateStatement { is_shown: true, ..change })
    };
    let is_upsert = change.as_ref().is_some_and(|change| change.is_upsert);
    let reply = match collection(run, &namespace, is_upsert)? {
        None => reply_of(&fields, None, None, returned)?,
        Some(collection) => {
            let target = Target::parse(&args, "query", &collection, &variables)?;
            let number = run.statement(0);
            run.has_one_commit = true;
            let mut work = || {
                run.atomically(|run, work| {
                    let changed = match &change {
                        Some(change) => change.first(work, &target)?,
                        None => remove_first(run, work, &target)?,
                    };
                    let is_found = changed.is_some();
                    let (matcher, changed) = (target.matcher.as_ref(), changed.as_ref());
                    let reply = reply_of(&fields, matcher, changed, returned)?;
                    if is_found {
                        run.note(work, number, || Ok(reply.clone()))?;
                    }
                    Ok(reply)
                })
            };
            let done = match &change {
                Some(change) => again_if_raced(change, work),
                None => work(),
            };
            done.map_err(|failure| match &change {
                Some(change) => change.refused(failure),
                None => failure,
            })?
        }
    };
    let counters = &run.service.counters;
    ServiceCounters::add(if removes { &counters.deletes } else { &counters.updates }, 1);
    run.reply.raw_fields(&reply);
    Ok(())
}

/// Removes the first document of the target.
fn remove_first(
    run: &Run<'_, '_>,
    work: &mut Work<'_>,
    target: &Target<'_>,
) -> Outcome<Option<Changed>> {
    let Some(key) = target.first(work)? else { return Ok(None) };
    target.end_loads_there(run, work)?;
    let Some(document) = target.read(work, &key)? else { return Ok(None) };
    target.remove(work, &key)?;
    let old = Some(id::shown(&key, &document)?);
    Ok(Some(Changed { key, is_inserted: false, is_changed: true, old, new: None }))
}

/// Which document `findAndModify` returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReturnedDocument {
    /// The one that it has removed.
    Removed,
    /// The one that it has updated, as it was before.
    Original,
    /// The one that it has updated, as it is now.
    Updated,
}

/// Returns the fields of the reply as a document of BSON. A field of the matched element is that of
/// the document as it was found.
fn reply_of(
    fields: &Fields,
    matcher: Option<&Matcher>,
    changed: Option<&Changed>,
    returned: ReturnedDocument,
) -> Outcome<Vec<u8>> {
    let mut bson = Vec::new();
    let reply = &mut BsonWriter::new(&mut bson);
    reply.begin();
    reply.begin_document("lastErrorObject")?;
    reply.int("n", i32::from(changed.is_some()))?;
    let is_upserted = changed.is_some_and(|changed| changed.is_inserted);
    if returned != ReturnedDocument::Removed {
        reply.bool("updatedExisting", changed.is_some() && !is_upserted)?;
    }
    if let (Some(changed), true) = (changed, is_upserted) {
        id::write_value(reply, "upserted", &changed.key)?;
    }
    reply.end()?;
    let shown = changed.and_then(|changed| match (returned, &changed.new) {
        (ReturnedDocument::Updated, Some(new)) => Some(new),
        _ => changed.old.as_ref(),
    });
    match shown {
        Some(value) => {
            let found = changed.and_then(|changed| changed.old.as_ref());
            let found = found.filter(|found| std::ptr::eq(*found, value));
            let found = found.map(Document::from_value).transpose()?;
            let found = found.as_ref().map(Document::root);
            let projected = fields.project(value, matcher.zip(found.as_ref()))?;
            let document = Document::from_value(&projected)?;
            reply.value("value", &document.root())?;
        }
        None => reply.null("value")?,
    }
    reply.end()?;
    Ok(bson)
}

/// Statements have numbers of 32 bits.
const _: () = assert!(STATEMENTS_MAX < u32::MAX as usize);
