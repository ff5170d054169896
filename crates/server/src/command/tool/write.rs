//! Operations that write documents.

use super::super::args::Args;
use super::super::measure::for_drivers;
use super::super::notes::Replacing;
use super::super::run::Run;
use super::super::service::ServiceCounters;
use super::asked::{put_number, put_value, stored};
use super::refused::{Done, OperationError};
use crate::bson::{elements, kind};
use crate::failure::{Code, Failure, Outcome};
use flagstone::internal::{drop_unwritten, interrupt_check, put_in, remote_of, stored_form};
use flagstone::query::{Changed, PageToken, WriteMany};
use flagstone::remote::{Remote, Row};
use flagstone::{
    Batch, Collection, Database, Document, Durability, Error, ErrorKind, Expect, Expires,
    JsonPatch, MergePatch, Moment, Patch, Patched, Space, Value,
};
use flagstone_load::{Continued, LoadError, Marks, Position, remove_marks};
use flagstone_pipeline::update::Update;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) fn put(run: &mut Run<'_, '_>) -> Done {
    ServiceCounters::add(&run.service.counters.inserts, 1);
    let (args, database) = (run.args(), &run.service.db);
    let key = args.key()?;
    let document = args.stored("document")?.ok_or_else(|| args.missing("document"))?;
    let expires = args.expiry(database)?;
    let namespace = run.asked_namespace()?;
    let collection = for_drivers(&run.created(&namespace)?);
    // A new collection stays if the document is refused: others may put some into it.
    let Some(replacing) = Replacing::new(run.service)? else {
        return Ok(collection.put(key, (&document).expires(expires))?);
    };
    let mut batch = database.batch();
    batch.put(&collection, &key, (&document).expires(expires))?;
    replacing.note_in(&mut batch, &namespace.keyspace(), &key)?;
    Ok(database.commit(batch)?)
}

/// A change of one document.
enum DocumentPatch {
    Patch(Patch),
    Json(JsonPatch),
    Merge(MergePatch),
    Update(Update),
}

impl DocumentPatch {
    fn asked(run: &Run<'_, '_>) -> Done<Self> {
        let args = run.args();
        if let Some(bytes) = args.bytes("patch")? {
            let patch = Patch::decode(bytes, None);
            let refused = |error| Failure::new(Code::BadValue, format!("patch: no patch: {error}"));
            return Ok(Self::Patch(patch.map_err(refused)?));
        }
        if let Some(patch) = args.value("jsonPatch")? {
            return Ok(Self::Json(JsonPatch::from_value(&patch)?));
        }
        if let Some(update) = args.value("update")? {
            let filters = args.value("arrayFilters")?.unwrap_or_else(|| Value::Array(Vec::new()));
            let Some(filters) = filters.as_array() else {
                let text = "arrayFilters: expected an array of filters";
                return Err(Failure::new(Code::BadValue, text).into());
            };
            let update = Update::parse(&update, filters)?;
            return Ok(Self::Update(if args.is("upsert")? { update.upsert() } else { update }));
        }
        match args.value("mergePatch")? {
            Some(patch) => {
                let patch = MergePatch::from_value(patch)?;
                Ok(Self::Merge(if args.is("upsert")? { patch.upsert() } else { patch }))
            }
            None => Err(args.missing("patch").into()),
        }
    }
}

pub(super) fn patch(run: &mut Run<'_, '_>) -> Done {
    ServiceCounters::add(&run.service.counters.updates, 1);
    let (args, collection) = (run.args(), for_drivers(&run.asked_collection()?));
    let (key, change) = (args.key()?, DocumentPatch::asked(run)?);
    let patched = match &change {
        DocumentPatch::Patch(patch) if args.is("blind")? => {
            collection.patch(key, patch)?;
            return Ok(());
        }
        DocumentPatch::Patch(patch) => collection.patch_if(key, patch)?,
        DocumentPatch::Json(patch) => collection.patch_if(key, patch)?,
        DocumentPatch::Merge(patch) => collection.patch_if(key, patch)?,
        DocumentPatch::Update(update) => update_one(run, &collection, update, &key)?,
    };
    let (outcome, why) = match patched {
        Patched::Changed => ("changed", None),
        Patched::Unchanged => ("unchanged", None),
        Patched::NoDocument => ("noDocument", None),
        Patched::ConditionFailed(why) => ("conditionFailed", Some(why)),
        Patched::NotApplied(why) => ("notApplied", Some(why)),
        other => ("notApplied", Some(other.to_string())),
    };
    run.reply.text("outcome", outcome)?;
    match why {
        Some(why) => Ok(run.reply.text("why", &why)?),
        None => Ok(()),
    }
}

/// Changes a document, and notes if it is replaced.
fn update_one(
    run: &Run<'_, '_>,
    collection: &Collection,
    update: &Update,
    key: &Value,
) -> Done<Patched> {
    let replacing = if update.is_replacement() { Replacing::new(run.service)? } else { None };
    let Some(replacing) = replacing else { return Ok(update.run(collection, key.clone())?) };
    let keyspace = run.asked_namespace()?.keyspace();
    loop {
        let mut transaction = run.service.db.begin()?;
        let patched = update.run_in(&mut transaction, collection, key.clone())?;
        if !matches!(patched, Patched::Changed) {
            return Ok(patched);
        }
        replacing.note(&mut transaction, &keyspace, key)?;
        match transaction.commit() {
            Ok(()) => return Ok(patched),
            Err(error) if error.kind() == ErrorKind::Conflict => interrupt_check()?,
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn delete(run: &mut Run<'_, '_>) -> Done {
    ServiceCounters::add(&run.service.counters.deletes, 1);
    let is_removed = run.asked_collection()?.remove(run.args().key()?)?;
    put_number(&mut run.reply, "n", u64::from(is_removed))
}

/// Changes or removes some of the documents that match: the client asks again for the next ones. An
/// upsert that finds none inserts one. It is of two names, so that an older server, which does not
/// know updates, takes none for a removal.
pub(super) fn many(run: &mut Run<'_, '_>) -> Done {
    let (args, collection) = (run.args(), for_drivers(&run.asked_collection()?));
    let filter = args.filter()?;
    let is_update = args.required_text("flagstone")? == "updateMany";
    let patch = match args.bytes("patch")? {
        None if !is_update => None,
        _ => Some(DocumentPatch::asked(run)?),
    };
    let after = args.text("after")?;
    let (done, error) = loop {
        let mut write: WriteMany<'_> = match &patch {
            Some(DocumentPatch::Patch(patch)) => collection.update_many(&filter, patch),
            Some(DocumentPatch::Update(update)) => {
                collection.update_many(&filter, update.change(&filter)?)
            }
            Some(_) => return Err(args.missing("patch").into()),
            None => collection.delete_many(&filter),
        };
        if let Some(limit) = args.count("limit")? {
            write = write.limit(limit);
        }
        if args.is("keepGoing")? {
            write = write.keep_going();
        }
        if let Some(after) = after {
            write = write.after(&after.parse::<PageToken>()?);
        }
        let (done, error) = match write.run() {
            Ok(done) => (done, None),
            Err(interrupted) => (*interrupted.done, Some(interrupted.error)),
        };
        match &patch {
            Some(DocumentPatch::Update(update))
                if update.is_upsert()
                    && after.is_none()
                    && error.is_none()
                    && done.matched == 0 =>
            {
                // If another write has come first, there is something to change.
                let Some(key) = update.insert(&collection, &filter)? else { continue };
                put_value(&mut run.reply, "inserted", &key)?;
                ServiceCounters::add(&run.service.counters.updates, 1);
            }
            _ => {}
        }
        break (done, error);
    };
    let Changed { matched, modified, refused, first_refusal, next, .. } = done;
    let counter =
        if patch.is_some() { &run.service.counters.updates } else { &run.service.counters.deletes };
    ServiceCounters::add(counter, modified);
    put_number(&mut run.reply, "matched", matched)?;
    put_number(&mut run.reply, "modified", modified)?;
    put_number(&mut run.reply, "refused", refused)?;
    if let Some(why) = first_refusal {
        run.reply.text("firstRefusal", &why)?;
    }
    if let Some(next) = next {
        run.reply.text("next", &next.to_string())?;
    }
    if let Some(error) = error {
        run.reply.begin_document("error")?;
        put_error(run, &error)?;
        run.reply.end()?;
    }
    Ok(())
}

fn put_error(run: &mut Run<'_, '_>, error: &Error) -> Done {
    run.reply.text("kind", &error.kind().to_string())?;
    Ok(run.reply.text("text", &error.to_string())?)
}

/// What a load does with a document whose key may exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Upsert,
    Insert,
    Merge,
}

/// A document that is loaded.
struct Loaded {
    key: Value,
    document: Document,
    /// Of a load with marks, the place after it, and the checksum of all text before that.
    end: Option<(Position, u64)>,
}

/// Loads the documents of the command: together, or one after the other if the database refuses
/// some. The reply tells which.
pub(super) fn load(run: &mut Run<'_, '_>) -> Done {
    let args = run.args();
    let mode = match args.required_text("mode")? {
        "upsert" => Mode::Upsert,
        "insert" => Mode::Insert,
        "merge" => Mode::Merge,
        other => {
            let text = format!("mode: expected upsert, insert or merge, found {other:?}");
            return Err(Failure::new(Code::BadValue, text).into());
        }
    };
    let durability = args.text("durability")?.map(str::parse::<Durability>).transpose();
    let durability =
        durability.map_err(|error| Failure::new(Code::BadValue, format!("durability: {error}")))?;
    if let (Some(Durability::Group | Durability::Each), Some(cluster)) =
        (durability, run.service.home.cluster())
    {
        super::super::concern::check_syncs("durability", cluster)?;
    }
    let expires = args.expiry(&run.service.db)?;
    let statements = run.statements("documents")?;
    let documents = statements.iter().map(|bson| loaded(bson)).collect::<Outcome<Vec<_>>>()?;
    let resumed = Resumed::asked(&args)?;
    ServiceCounters::add(&run.service.counters.inserts, documents.len() as u64);
    // Not before there are documents: a load that has none to put leaves no collection.
    in_created(run, |run, collection| {
        let marks = resumed.map(|resumed| resumed.marks(&run.service.db, &collection));
        let (marks, keyspace) = (marks.transpose()?, collection.name());
        let replacing = if mode == Mode::Upsert { Replacing::new(run.service)? } else { None };
        let replacing = replacing.map(|replacing| (replacing, keyspace));
        let asked = LoadOptions { collection, mode, expires, durability, marks, replacing };
        put_loaded(run, &documents, asked)
    })
}

/// Calls `then` with the collection, which is created if there is none. The reply tells whether it
/// is new. If that fails before anything is written to a new one, nothing is left of it.
fn in_created<'a, 'r>(
    run: &mut Run<'a, 'r>,
    then: impl FnOnce(&mut Run<'a, 'r>, Collection) -> Done,
) -> Done {
    let (namespace, partitions) = (run.asked_namespace()?, run.args().partitions()?);
    let (collection, is_new) = run.service.created_in(&namespace, partitions)?;
    let collection = for_drivers(&collection);
    run.reply.bool("isNew", is_new)?;
    let done = then(run, collection.clone());
    if is_new && done.is_err() {
        let _stays = drop_unwritten(&run.service.db, &collection);
    }
    done
}

fn put_loaded(run: &mut Run<'_, '_>, documents: &[Loaded], asked: LoadOptions) -> Done {
    let (args, mode, durability) = (run.args(), asked.mode, asked.durability);
    let load = Load { run, asked };
    let (at_existing, at_refused) = (args.is("stopsAtExisting")?, args.is("stopsAtRefused")?);
    // Each by itself, but all at once.
    let there = match remote_of(&load.asked.collection) {
        Some(remote) if mode == Mode::Insert => {
            Some(load.insert_there(remote, documents, at_existing))
        }
        _ => None,
    };
    let (is_there, mut there) = (there.is_some(), there.into_iter().flatten());
    // What is merged is read first, and cannot be in a batch.
    let is_done = mode != Mode::Merge && !is_there && load.together(documents)?;
    if is_done {
        return put_number(&mut run.reply, "done", documents.len() as u64);
    }
    let (mut done, mut problems) = (0, Vec::new());
    let mut merged = None;
    for (at, document) in documents.iter().enumerate() {
        let result = match there.next() {
            Some(result) => result,
            None if is_there => break,
            None => load.alone(document),
        };
        let problem = match result {
            Ok(true) => {
                done += 1;
                merged = Some(document).filter(|_| is_there || mode == Mode::Merge).or(merged);
                continue;
            }
            Ok(false) => Problem::Exists,
            Err(error) if is_refusal(&error) => Problem::Refused(error),
            Err(error) => Problem::Failed(error),
        };
        let is_end = match &problem {
            Problem::Exists => at_existing,
            Problem::Refused(_) => at_refused,
            Problem::Failed(_) => true,
        };
        problems.push((at, problem));
        if is_end {
            break;
        }
    }
    if let Some(last) = merged {
        // What is merged again is the same: one mark, and one sync, are for all of them. What is
        // inserted again, into a cluster, is told to exist.
        let mut batch = run.service.db.batch();
        load.mark(&mut batch, last)?;
        run.service.db.commit(batch)?;
    }
    if mode == Mode::Merge {
        run.sync_for(durability)?;
    }
    put_number(&mut run.reply, "done", done)?;
    run.reply.begin_array("problems")?;
    for (at, problem) in problems {
        run.reply.begin_document("")?;
        put_number(&mut run.reply, "at", at as u64)?;
        match problem {
            Problem::Exists => run.reply.bool("exists", true)?,
            Problem::Refused(error) => put_error(run, &error)?,
            Problem::Failed(error) => {
                run.reply.bool("ends", true)?;
                put_error(run, &error)?;
            }
        }
        run.reply.end()?;
    }
    Ok(run.reply.end()?)
}

/// Why a document was not loaded.
enum Problem {
    /// A document of its key exists.
    Exists,
    /// The database does not take this one.
    Refused(Error),
    /// The database takes none.
    Failed(Error),
}

/// Returns whether the database refused documents, and would take others.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Duplicate | ErrorKind::InvalidInput)
}

fn loaded(bson: &[u8]) -> Outcome<Loaded> {
    let (mut key, mut document) = (None, None);
    let (mut input, mut offset, mut sum) = (None, None, None);
    for element in elements(bson)? {
        let element = element?;
        if element.kind == kind::INT64 {
            let number = element.value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            match element.name {
                "i" => input = number,
                "o" => offset = number,
                "s" => sum = number,
                _ => {}
            }
            continue;
        }
        let bytes = element.value.get(5..).filter(|_| element.kind == kind::BINARY);
        match (element.name, bytes) {
            ("k", Some(bytes)) => key = Some(stored("k", bytes)?.root().to_value()?),
            ("d", Some(bytes)) => document = Some(stored("d", bytes)?),
            _ => {}
        }
    }
    match (key, document) {
        (Some(key), Some(document)) => {
            let place = input.zip(offset).map(|(input, offset)| Position {
                input: usize::try_from(input).unwrap_or(usize::MAX),
                offset,
            });
            Ok(Loaded { key, document, end: place.zip(sum) })
        }
        _ => Err(Failure::new(Code::BadValue, "documents: expected k and d, as bytes")),
    }
}

/// The marks of a load that may be continued, as a sender asks for them.
struct Resumed {
    settings: Vec<(String, String)>,
    /// The number of the load, once it has begun.
    number: Option<u64>,
}

impl Resumed {
    /// Returns `None` for a load without marks.
    fn asked(args: &Args<'_>) -> Outcome<Option<Self>> {
        if args.get("settings")?.is_none() {
            return Ok(None);
        }
        let mut settings = Vec::new();
        for setting in args.required_list("settings")? {
            let setting = setting.as_str().and_then(|setting| setting.split_once('\t'));
            let Some((name, value)) = setting else {
                let text = "settings: expected a name, a tab and a value";
                return Err(Failure::new(Code::BadValue, text));
            };
            settings.push((name.to_owned(), value.to_owned()));
        }
        let number = args.int("number")?.map(i64::cast_unsigned);
        Ok(Some(Self { settings, number }))
    }

    fn marks(&self, database: &Database, collection: &Collection) -> Done<Marks> {
        let settings = self.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let settings: Vec<_> = settings.collect();
        let marks = Marks::open(database, collection, None, &settings, 1).map_err(of_load)?;
        if self.number.is_some_and(|number| number != marks.continued().load.1) {
            let text = "another load of the collection has begun, or its documents are gone";
            return Err(Failure::new(Code::OperationFailed, text).into());
        }
        Ok(marks)
    }
}

fn of_load(error: LoadError) -> OperationError {
    match error {
        LoadError::Engine(error) => error.into(),
        LoadError::Usage(text) => Failure::new(Code::BadValue, text).into(),
        other => Failure::new(Code::OperationFailed, other.to_string()).into(),
    }
}

/// Opens, begins, ends or removes the marks of a load. The reply tells where it continues.
pub(super) fn marks(run: &mut Run<'_, '_>) -> Done {
    let (args, database) = (run.args(), &run.service.db);
    let namespace = run.asked_namespace()?;
    let Some(resumed) = Resumed::asked(&args)? else {
        return match run.existing(&namespace)? {
            Some(collection) => remove_marks(database, &collection, None).map_err(of_load),
            None => Ok(()),
        };
    };
    in_created(run, |run, collection| put_marks(run, &collection, &resumed))
}

fn put_marks(run: &mut Run<'_, '_>, collection: &Collection, resumed: &Resumed) -> Done {
    let (args, database) = (run.args(), &run.service.db);
    let mut marks = resumed.marks(database, collection)?;
    if args.is("begins")? {
        marks.begin(database, 1).map_err(of_load)?;
    }
    if let (Some(input), Some(offset)) = (args.count("input")?, args.count("offset")?) {
        let input = usize::try_from(input).unwrap_or(usize::MAX);
        let sum = args.int("sum")?.unwrap_or(0).cast_unsigned();
        let (place, is_repeatable) = (Position { input, offset }, args.is("isRepeatable")?);
        let completed = marks.complete_sent(database, collection, place, sum, is_repeatable);
        completed.map_err(of_load)?;
    }
    let Continued { load: (began, number), place, sum, is_complete, is_continued } =
        marks.continued();
    for (name, number) in [
        ("began", began),
        ("number", number),
        ("input", place.input as u64),
        ("offset", place.offset),
        ("sum", sum),
    ] {
        run.reply.long(name, number.cast_signed())?;
    }
    run.reply.bool("isComplete", is_complete)?;
    Ok(run.reply.bool("isContinued", is_continued)?)
}

/// How documents are loaded.
struct LoadOptions {
    collection: Collection,
    mode: Mode,
    expires: Option<Moment>,
    durability: Option<Durability>,
    marks: Option<Marks>,
    /// Notes for readers of changes that documents are replaced, with their keyspace.
    replacing: Option<(Replacing, String)>,
}

/// A load of documents.
struct Load<'r, 'a, 'o> {
    run: &'r Run<'a, 'o>,
    asked: LoadOptions,
}

impl Load<'_, '_, '_> {
    /// Puts into a batch that everything up to a document is loaded with it.
    fn mark(&self, batch: &mut Batch, loaded: &Loaded) -> flagstone::Result<()> {
        match (&self.asked.marks, loaded.end) {
            (Some(marks), Some((place, sum))) => marks.put_sent(batch, place, sum),
            _ => Ok(()),
        }
    }

    fn add(&self, batch: &mut Batch, key: &Value, document: &Document) -> flagstone::Result<()> {
        if self.asked.mode == Mode::Insert {
            batch.expect(&self.asked.collection, key, Expect::Absent)?;
        }
        put_in(batch, &self.asked.collection, key, document.expires(self.asked.expires))?;
        match &self.asked.replacing {
            Some((replacing, keyspace)) => replacing.note_in(batch, keyspace, key),
            None => Ok(()),
        }
    }

    /// Inserts documents into a cluster. Returns of each whether it was; if it is to stop at a key
    /// that exists, up to that one.
    fn insert_there(
        &self,
        remote: &Arc<dyn Remote>,
        documents: &[Loaded],
        stops: bool,
    ) -> Vec<flagstone::Result<bool>> {
        let LoadOptions { collection, expires, .. } = &self.asked;
        let row = |loaded: &Loaded| {
            let document = stored_form(collection, &loaded.document)?;
            let row = Row { document: document.into(), expiry: *expires };
            Ok((super::super::id::key_bytes(&loaded.key), row))
        };
        let mut rows: Vec<flagstone::Result<_>> = documents.iter().map(row).collect();
        if stops {
            let keys = documents.iter().map(|loaded| super::super::id::key_bytes(&loaded.key));
            let keys: Vec<_> = keys.collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            match remote.first_there(&keys) {
                Ok(Some(end)) => rows.truncate(end + 1),
                Ok(None) => {}
                Err(error) => return vec![Err(error)],
            }
        }
        let good = rows.iter().flatten().cloned().collect();
        let mut inserted = remote.insert_many(good).into_iter();
        let lost = || Err(Error::new(ErrorKind::Unknown, "a document without an answer"));
        let result = |row: flagstone::Result<_>| match row {
            Ok(_sent) => inserted.next().unwrap_or_else(lost),
            Err(error) => Err(error),
        };
        rows.into_iter().map(result).collect()
    }

    /// Puts all documents by one commit. Returns false if the database refuses some.
    fn together(&self, documents: &[Loaded]) -> Done<bool> {
        // The second of two documents of one key would replace the first.
        let mut keys = HashSet::new();
        let is_new = |key: &Value| keys.insert(super::super::id::key_bytes(key));
        let inserts = self.asked.mode == Mode::Insert;
        if inserts && !documents.iter().map(|loaded| &loaded.key).all(is_new) {
            return Ok(false);
        }
        let database = &self.run.service.db;
        let mut batch = database.batch();
        if let Some(last) = documents.last() {
            self.mark(&mut batch, last)?;
        }
        for Loaded { key, document, .. } in documents {
            match self.add(&mut batch, key, document) {
                Ok(()) => {}
                Err(error) if is_refusal(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(durability) = self.asked.durability {
            batch = batch.durability(durability);
        }
        match database.commit(batch) {
            Ok(()) => Ok(true),
            Err(error) if is_refusal(&error) || error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts one document. Returns false if its key exists.
    fn alone(&self, loaded: &Loaded) -> flagstone::Result<bool> {
        let Loaded { key, document, .. } = loaded;
        if self.asked.mode == Mode::Merge {
            let patch = MergePatch::from_value(document.to_value())?.upsert();
            return self.asked.collection.patch_if(key, &patch)?.applied().map(|_found| true);
        }
        let database = &self.run.service.db;
        let mut batch = database.batch();
        self.add(&mut batch, key, document)?;
        self.mark(&mut batch, loaded)?;
        if let Some(durability) = self.asked.durability {
            batch = batch.durability(durability);
        }
        match database.commit(batch) {
            Ok(()) => Ok(true),
            Err(error)
                if self.asked.mode == Mode::Insert && error.kind() == ErrorKind::Conflict =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
