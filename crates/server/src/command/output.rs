//! `$out` and `$merge`: the last stage of a pipeline writes its rows into a collection.
//!
//! `$out` fills a hidden collection, and puts it into the place of the other one when all rows are
//! there: after a failure that one is as it was. `$merge` commits a chunk of rows at a time.

use super::args::FORMS;
use super::dropped::discard_alone;
use super::id;
use super::index::index_of;
use super::name::Namespace;
use super::notes::Replacing;
use super::run::Run;
use super::service::Service;
use super::variables::Variables;
use super::work::Work;
use super::write::{duplicate_key, with_index};
use crate::access::Need;
use crate::bson::is_longer;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, Map};
use flagstone::{Collection, Database, Document, Filter, Space, Value};
use flagstone_pipeline::{PipelineError, RowStages, is_same};
use std::sync::PoisonError;

/// The most rows of one commit.
const CHUNK_ROWS: usize = 500;
/// The bytes after which a commit ends.
const CHUNK_BYTES: usize = 4 << 20;
/// The field of primary keys.
const ID: &str = "_id";

/// How the names of collections begin while `$out` fills them. Such collections are hidden: see
/// `Namespace`.
const FILLED: &str = "system.out.";
/// How the names of collections begin whose place another one takes; an identity and their own name
/// follow.
const REPLACED: &str = "system.old.";

/// Ends what a server that ended has left: drops what is half-filled, and puts a collection back
/// that was taken from its place and not replaced.
pub(super) fn clean(db: &Database) -> flagstone::Result<()> {
    for keyspace in db.keyspaces() {
        let Some((database, collection)) = keyspace.name.split_once('.') else { continue };
        let replaced = collection.strip_prefix(REPLACED).and_then(|rest| rest.split_once('.'));
        if let Some((_identity, name)) = replaced {
            let (database, collection) = (database.to_owned(), name.to_owned());
            let name = Namespace { database, collection }.keyspace();
            if !db.keyspaces().iter().any(|there| there.name == name) {
                db.rename_keyspace(&keyspace.name, &name)?;
                continue;
            }
        }
        if replaced.is_some() || collection.starts_with(FILLED) {
            db.drop_keyspace(&keyspace.name)?;
        }
    }
    Ok(())
}

/// Puts the keyspace `from` into the place of a collection, if there is one. If that fails, the
/// collection is as it was: nobody creates another one meanwhile, and `clean` ends what a crash
/// has interrupted.
pub(super) fn put_in_place(service: &Service, from: &str, into: &Namespace) -> Outcome {
    service.refuse_there("another name of a collection", "$merge into another collection")?;
    let db = &service.db;
    let name = into.keyspace();
    let _alone = service.replacing.write().unwrap_or_else(PoisonError::into_inner);
    service.mark_time();
    if db.space(&name).existing().collection()?.is_none() {
        return Ok(db.rename_keyspace(from, &name)?);
    }
    let Namespace { database, collection } = into;
    let old = format!("{database}.{REPLACED}{}.{collection}", id::new_id());
    db.rename_keyspace(&name, &old)?;
    if let Err(error) = db.rename_keyspace(from, &name) {
        db.rename_keyspace(&old, &name)?;
        return Err(error.into());
    }
    discard_alone(service, &old)?;
    Ok(())
}

/// Where the rows of a pipeline go.
pub(super) enum Output {
    /// They take the place of the documents of a collection.
    Out(Namespace),
    Merge(Box<Merge>),
}

/// A `$merge`.
pub(super) struct Merge {
    into: Namespace,
    /// The fields whose values say which document a row stands for.
    on: Vec<String>,
    matched: Matched,
    unmatched: Unmatched,
}

/// What becomes of a document that a row stands for.
enum Matched {
    Replace,
    Keep,
    Merge,
    Fail,
    /// Stages make the new document; other stages make a map of their variables of the row.
    Stages(Vec<Value>, RowStages),
}

/// The stages that may make a new document.
const ALLOWED: [&str; 6] =
    ["$addFields", "$set", "$project", "$unset", "$replaceRoot", "$replaceWith"];

/// The variable that is the row.
const NEW: &str = "new";

/// The databases that pipelines do not write into.
const RESERVED: [&str; 3] = ["admin", "config", "local"];
/// The most bytes of the name of a collection that `$out` makes, with that of its database.
const NAME_BYTES_MAX: usize = 255;

/// What becomes of a row that stands for no document.
enum Unmatched {
    Insert,
    Discard,
    Fail,
}

/// Returns a stage of a pipeline.
pub(super) fn stage(name: &str, value: impl Into<Value>) -> Value {
    let mut stage = Map::new();
    stage.insert(name, value);
    Value::Map(stage)
}

/// A failure of a malformed stage.
fn wrong(code: i32, place: &str, expected: &str) -> Failure {
    Failure::numbered(code, format!("{place}: expected {expected}"))
}

impl Output {
    /// Takes a stage that writes from the end of a pipeline of `database`.
    /// `variables` are those of the command.
    pub(super) fn take(
        pipeline: &mut Vec<Value>,
        database: &str,
        variables: &Variables,
    ) -> Outcome<Option<Self>> {
        let Some(Value::Map(map)) = pipeline.last() else { return Ok(None) };
        let Some((name, value)) = map.iter().next().filter(|_| map.len() == 1) else {
            return Ok(None);
        };
        let place = format!("pipeline[{}].{}", pipeline.len() - 1, name.as_str().unwrap_or(""));
        let output = match name.as_str() {
            Some("$out") => Self::Out(out_of(value, database, &place)?),
            Some("$merge") => {
                Self::Merge(Box::new(Merge::parse(value, database, variables, &place)?))
            }
            _ => return Ok(None),
        };
        pipeline.pop();
        Ok(Some(output))
    }

    const fn namespace(&self) -> &Namespace {
        match self {
            Self::Out(into) => into,
            Self::Merge(merge) => &merge.into,
        }
    }

    /// Checks that the client may write there.
    pub(super) fn check(&self, run: &Run<'_, '_>) -> Outcome {
        if run.transaction.is_some() {
            let text = "$out and $merge write on their own: expected them outside of a transaction";
            return Err(Failure::new(Code::OperationNotSupportedInTransaction, text));
        }
        run.require(Need::Write, &self.namespace().database)?;
        match self {
            Self::Out(_) => run.service.refuse_there("$out", "$merge into an empty collection"),
            Self::Merge(merge) => merge.has_null(run).map(drop),
        }
    }

    /// Writes the rows.
    pub(super) fn write(
        &self,
        run: &mut Run<'_, '_>,
        rows: impl Iterator<Item = Result<Document, PipelineError>>,
    ) -> Outcome {
        match self {
            Self::Out(into) => replace(run, into, rows),
            Self::Merge(merge) => merge.write(run, rows),
        }
    }
}

/// Parses the target of a `$out`.
fn out_of(value: &Value, database: &str, place: &str) -> Outcome<Namespace> {
    let target = |database: &str, name: &str| {
        if RESERVED.contains(&database) {
            return Err(wrong(31321, place, &format!("another database than {database}")));
        }
        if name.starts_with("system.") {
            return Err(wrong(17385, place, "a collection that is not of the system"));
        }
        if name.starts_with('$') || database.len() + 1 + name.len() > NAME_BYTES_MAX {
            let text = format!(
                "{place}: expected a name of at most {NAME_BYTES_MAX} bytes with that of the \
                 database, which does not begin with $"
            );
            return Err(Failure::new(Code::IllegalOperation, text));
        }
        Namespace::new(database, name)
    };
    match value {
        Value::Text(name) => target(database, name),
        Value::Map(map) if !is_form(map) => {
            let (mut db, mut coll) = (None, None);
            for (name, value) in map {
                match name.as_str() {
                    Some("db" | "coll") if value.is_null() => {}
                    Some(name @ ("db" | "coll")) => {
                        let text = value.as_str().ok_or_else(|| {
                            Failure::new(
                                Code::TypeMismatch,
                                format!("{place}.{name}: expected text, found {value}"),
                            )
                        })?;
                        *(if name == "db" { &mut db } else { &mut coll }) = Some(text);
                    }
                    Some("timeseries") => {
                        return Err(Failure::unsupported(format_args!("{place}.timeseries")));
                    }
                    _ => return Err(wrong(40415, place, &format!("db and coll, found {name}"))),
                }
            }
            let db = db.ok_or_else(|| wrong(40414, place, "db"))?;
            let coll = coll.ok_or_else(|| wrong(40414, place, "coll"))?;
            target(db, coll)
        }
        _ => Err(wrong(16990, place, "the name of a collection, or a map with db and coll")),
    }
}

/// Puts rows into the place of all documents of a collection, which keeps its options and indexes.
fn replace(
    run: &mut Run<'_, '_>,
    into: &Namespace,
    rows: impl Iterator<Item = Result<Document, PipelineError>>,
) -> Outcome {
    let db = run.service.db.clone();
    let hidden = format!("{}.{FILLED}{}", into.database, id::new_id());
    let filled = fill(run, into, &hidden, rows);
    let done = filled.and_then(|()| put_in_place(run.service, &hidden, into));
    if done.is_err() {
        // Nothing is left of it, unless it is in its place and the old one could not be dropped.
        db.drop_keyspace(&hidden)?;
    }
    done
}

fn fill(
    run: &mut Run<'_, '_>,
    into: &Namespace,
    hidden: &str,
    rows: impl Iterator<Item = Result<Document, PipelineError>>,
) -> Outcome {
    let (db, old) = (&run.service.db, run.existing(into)?);
    let mut space = db.space(hidden);
    if old.is_some() {
        let name = into.keyspace();
        let mut known = db.keyspaces().into_iter();
        if let Some(info) = known.find(|info| info.name == name) {
            // Partitions, compression, blocks, filters.
            space = space.options(info.options);
        }
    }
    let collection = space.collection()?;
    let keeps_old = old
        .as_ref()
        .map_or_else(|| run.service.db.stats().changes.is_some(), Collection::keeps_old_documents);
    if keeps_old {
        collection.keep_old_documents(true)?;
    }
    for info in old.iter().flat_map(Collection::indexes) {
        collection.create_index(&info.name, index_of(&info)?)?;
    }
    in_chunks(run, rows, None, |work, row| {
        let (key, document) = stored(row.clone(), work)?;
        if work.get(&collection, &key)?.is_some() {
            return Err(duplicate_key(into, &key));
        }
        let put = work.put(&collection, &key, &document, None);
        put.map_err(|failure| with_index(failure, into, Some(&document)))
    })
}

/// Calls `work` with each row; a chunk of rows is one commit, in a cluster each row. With `failed`
/// a row that fails does not hold up those behind it, and the first such failure is put there.
fn in_chunks(
    run: &mut Run<'_, '_>,
    rows: impl Iterator<Item = Result<Document, PipelineError>>,
    mut failed: Option<&mut Option<Failure>>,
    work: impl Fn(&mut Work<'_>, &Value) -> Outcome,
) -> Outcome {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    let chunk_rows = if run.service.home.cluster().is_some() { 1 } else { CHUNK_ROWS };
    run.has_one_commit = false;
    let mut commit = |chunk: &[Value]| {
        let done = run.atomically(|_run, tx| chunk.iter().try_for_each(|row| work(tx, row)));
        match (done, &mut failed) {
            (Err(failure), Some(failed)) if is_of_row(&failure) => {
                for row in chunk {
                    match run.atomically(|_run, tx| work(tx, row)) {
                        Err(failure) if is_of_row(&failure) => {
                            failed.get_or_insert(failure);
                        }
                        done => done?,
                    }
                }
                Ok(())
            }
            (done, _) => done,
        }
    };
    for row in rows {
        let row = row.map_err(super::aggregate::of_rows)?;
        bytes += row.as_bytes().len();
        chunk.push(row.to_value());
        if chunk.len() == chunk_rows || bytes >= CHUNK_BYTES {
            commit(&chunk)?;
            chunk.clear();
            bytes = 0;
        }
    }
    commit(&chunk)
}

/// Returns the key and the stored form of a row; a row without a key gets a new one.
fn stored(row: Value, work: &mut Work<'_>) -> Outcome<(Value, Document)> {
    let (key, rest) = id::without_id(row)?;
    let key = key.unwrap_or_else(|| Value::ObjectId(work.new_id()));
    let document = Document::from_value(&rest)?;
    if is_longer(&document, crate::wire::DOCUMENT_BYTES_MAX) {
        let text = format!("the row with the key {key} is larger than 16 MiB");
        return Err(Failure::new(Code::BsonObjectTooLarge, text));
    }
    Ok((key, document))
}

impl Merge {
    fn parse(value: &Value, database: &str, outer: &Variables, place: &str) -> Outcome<Self> {
        let target = |database: &str, name: &str| {
            if RESERVED.contains(&database) {
                return Err(wrong(31320, place, &format!("another database than {database}")));
            }
            if name.starts_with("system.") {
                return Err(wrong(31319, place, "a collection that is not of the system"));
            }
            Namespace::new(database, name)
        };
        let into = |value: &Value| match value {
            Value::Text(name) => target(database, name),
            Value::Map(map) if !is_form(map) => {
                let part = |name: &str| match map.get(name) {
                    None | Some(Value::Null) => Ok(None),
                    Some(Value::Text(text)) => Ok(Some(text.as_str())),
                    Some(other) => Err(Failure::new(
                        Code::TypeMismatch,
                        format!("{place}.into.{name}: expected text, found {other}"),
                    )),
                };
                let is_known = |name: &Value| matches!(name.as_str(), Some("db" | "coll"));
                if let Some((name, _)) = map.iter().find(|(name, _)| !is_known(name)) {
                    let expected = format!("db and coll, found {name}");
                    return Err(wrong(40415, &format!("{place}.into"), &expected));
                }
                let db = part("db")?.filter(|name| !name.is_empty());
                let code = if map.get("coll").is_some() { 5786801 } else { 51178 };
                let coll = part("coll")?;
                let coll = coll.ok_or_else(|| wrong(code, &format!("{place}.into"), "coll"))?;
                target(db.unwrap_or(database), coll)
            }
            _ => Err(wrong(51178, place, "into to be a name, or a map with db and coll")),
        };
        let map = match value {
            Value::Map(map) if !is_form(map) => map,
            Value::Text(_) => {
                let (on, into) = (vec![ID.to_owned()], into(value)?);
                let (matched, unmatched) = (Matched::Merge, Unmatched::Insert);
                return Ok(Self { into, on, matched, unmatched });
            }
            other => {
                let text = format!("{place}: expected a collection or a map, found {other}");
                return Err(Failure::new(Code::TypeMismatch, text));
            }
        };
        let (mut named, mut on) = (None, vec![ID.to_owned()]);
        let (mut matched, mut unmatched, mut variables) = (None, Unmatched::Insert, None);
        for (name, value) in map {
            match name.as_str().unwrap_or_default() {
                "into" if value.as_str() == Some("") => {
                    return Err(wrong(5786800, place, "into to be a name that is not empty"));
                }
                "into" => named = Some(into(value)?),
                "on" => on = fields(value, place)?,
                "let" | "whenNotMatched" if value.is_null() => {}
                "let" => variables = Some(value),
                "whenMatched" => matched = Some(value),
                "whenNotMatched" => {
                    unmatched = match value.as_str() {
                        Some("insert") => Unmatched::Insert,
                        Some("discard") => Unmatched::Discard,
                        Some("fail") => Unmatched::Fail,
                        None => {
                            let text =
                                format!("{place}.whenNotMatched: expected text, found {value}");
                            return Err(Failure::new(Code::TypeMismatch, text));
                        }
                        Some(_) => {
                            let text = format!(
                                "{place}.whenNotMatched: expected insert, discard or fail, \
                                 found {value}"
                            );
                            return Err(Failure::new(Code::BadValue, text));
                        }
                    };
                }
                other => {
                    let expected =
                        format!("into, on, let, whenMatched or whenNotMatched, found {other:?}");
                    return Err(wrong(40415, place, &expected));
                }
            }
        }
        let into = named.ok_or_else(|| wrong(40414, place, "into"))?;
        let matched = Matched::parse(matched, variables, outer, place)?;
        let keeps = matches!(matched, Matched::Keep | Matched::Fail);
        if keeps && !matches!(unmatched, Unmatched::Insert) {
            let expected = "whenNotMatched insert beside whenMatched fail or keepExisting";
            return Err(wrong(51181, place, expected));
        }
        Ok(Self { into, on, matched, unmatched })
    }

    /// Checks that a unique index has the fields of `on`. Returns whether these may be missing.
    fn has_null(&self, run: &Run<'_, '_>) -> Outcome<bool> {
        if self.on == [ID] {
            return Ok(false);
        }
        let mut wanted: Vec<&str> = self.on.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        let existing = run.existing(&self.into)?;
        let indexes = existing.iter().flat_map(Collection::indexes);
        let mut unique = indexes.filter(|index| {
            let fields = index.fields.iter().map(|field| field.trim_start_matches('-'));
            let mut fields: Vec<&str> = fields.collect();
            fields.sort_unstable();
            index.is_unique && index.is_ready && index.only.is_none() && fields == wanted
        });
        let Some(first) = unique.next() else {
            let text = format!("$merge: expected a unique index on {}", self.on.join(", "));
            return Err(Failure::numbered(51183, text));
        };
        Ok(!first.is_sparse || unique.any(|index| !index.is_sparse))
    }

    fn write(
        &self,
        run: &mut Run<'_, '_>,
        rows: impl Iterator<Item = Result<Document, PipelineError>>,
    ) -> Outcome {
        let (existing, has_null) = (run.existing(&self.into)?, self.has_null(run)?);
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let collection = match (existing, &self.unmatched) {
            (Some(collection), _) => collection,
            (None, Unmatched::Insert) => run.created(&self.into)?,
            (None, Unmatched::Discard) => return rows.try_for_each(|row| Ok(row.map(drop)?)),
            (None, Unmatched::Fail) => {
                let row = rows.next().transpose()?;
                return Err(unmatched(row.map(|row| row.to_value()).unwrap_or_default()));
            }
        };
        let now = DateTime::from_micros(super::service::now_millis().saturating_mul(1000));
        let mut failed = None;
        let keyspace = self.into.keyspace();
        let replacing = match self.matched {
            Matched::Replace => Replacing::new(run.service)?,
            _ => None,
        };
        in_chunks(run, rows, Some(&mut failed), |work, row| {
            // A dropped collection lives on under a hidden name, unless it is in a cluster.
            if collection.name() != keyspace {
                let text = format!("{} was dropped or renamed", self.into);
                return Err(Failure::new(Code::NamespaceNotFound, text));
            }
            self.one(work, &collection, row, now, has_null, replacing.as_ref())
        })
        .and_then(|()| failed.map_or(Ok(()), Err))
        .map_err(|failure| with_index(failure, &self.into, None))
    }

    /// Writes a row.
    fn one(
        &self,
        work: &mut Work<'_>,
        collection: &Collection,
        row: &Value,
        now: DateTime,
        has_null: bool,
        replacing: Option<&Replacing>,
    ) -> Outcome {
        let (mut filter, mut matcher) = (Filter::everything(), None);
        let mut found = None;
        for path in &self.on {
            let value = path.split('.').try_fold(row, |value, name| value.get(name));
            match (value, path == ID) {
                (Some(Value::Array(_)), _) => {
                    let text = format!("$merge: expected no array in the field {path} of a row");
                    return Err(Failure::numbered(51185, text));
                }
                (value, true) => found = value.cloned(),
                (None | Some(Value::Null), false) if has_null => {
                    let mut null = Map::new();
                    null.insert(path.as_str(), Value::Null);
                    filter = filter.and(Filter::from_value(&Value::Map(null))?);
                }
                (None | Some(Value::Null), false) => {
                    let text = format!("$merge: expected a value in the field {path} of each row");
                    return Err(Failure::numbered(51132, text));
                }
                (Some(value), false) => {
                    let field = Filter::field(super::filter::path(path)?);
                    filter = filter.and(field.eq(value.clone()));
                }
            }
        }
        let key = if filter.is_everything() {
            found
        } else {
            let filter = match found {
                Some(key) => filter.and(Filter::key().one_of([key])),
                None => filter,
            };
            // In a cluster the document may have changed since it was found.
            if work.transaction().is_none() {
                matcher = Some(filter.compile_with_key()?);
            }
            work.found_by(|work| {
                let mut cursor = work.find(collection, filter).limit(1).run()?;
                Ok(if cursor.advance()? { Some(cursor.key()?) } else { None })
            })?
        };
        let mut old = match &key {
            Some(key) => work.get(collection, key)?.map(|document| (key.clone(), document)),
            None => None,
        };
        if let (Some((key, document)), Some(matcher)) = (&old, &matcher)
            && !matcher.matches_with_key(&document.root(), &id::key_bytes(key))?
        {
            work.note_unmatched(key);
            old = None;
        }
        let Some((key, document)) = old else {
            return match self.unmatched {
                Unmatched::Discard => Ok(()),
                Unmatched::Fail => Err(unmatched(row.clone())),
                Unmatched::Insert => {
                    let (key, document) = stored(row.clone(), work)?;
                    if work.get(collection, &key)?.is_some() {
                        return Err(duplicate_key(&self.into, &key));
                    }
                    let put = work.put(collection, &key, &document, None);
                    put.map_err(|failure| with_index(failure, &self.into, Some(&document)))
                }
            };
        };
        let old = id::shown(&key, &document)?;
        let Some(mut new) = self.matched.made(&old, row, &key, &self.into, now)? else {
            return Ok(());
        };
        if let Value::Map(map) = &mut new {
            if map.get(ID).is_some_and(|new| Some(new) != old.get(ID)) {
                let text = format!("$merge: the _id {key} of a document cannot change");
                return Err(Failure::new(Code::ImmutableField, text));
            }
            if map.get(ID).is_none() {
                *map = id::id_first(key.clone(), std::mem::take(map));
            }
        }
        if is_same(&old, &new) {
            return Ok(());
        }
        let (_key, document) = stored(new, work)?;
        let expiry = work.expiry(collection, &key)?;
        work.put(collection, &key, &document, expiry)
            .map_err(|failure| with_index(failure, &self.into, Some(&document)))?;
        match (replacing, work.transaction()) {
            (Some(replacing), Some(tx)) => Ok(replacing.note(tx, &self.into.keyspace(), &key)?),
            _ => Ok(()),
        }
    }
}

/// The failure of a row that stands for no document.
fn unmatched(row: Value) -> Failure {
    Failure::numbered(13113, format!("$merge: expected a document for each row, found none: {row}"))
}

/// Returns whether a row alone has failed, before anything was written of it.
fn is_of_row(failure: &Failure) -> bool {
    failure.is_numbered() || matches!(failure.code, Code::DuplicateKey | Code::ImmutableField)
}

/// Returns whether a map stands for a value of another type.
fn is_form(map: &Map) -> bool {
    let first = map.iter().next().and_then(|(name, _)| name.as_str());
    first.is_some_and(|name| FORMS.contains(&name))
        && (map.len() == 1 || map.get("$scope").is_some())
}

/// Checks the path of a field of `on`.
fn check_path(path: &str, place: &str) -> Outcome {
    let code = if path.is_empty() {
        40352
    } else if path.ends_with('.') {
        40353
    } else if path.split('.').any(str::is_empty) {
        15998
    } else if path.split('.').any(|name| name.starts_with('$')) {
        16410
    } else if path.contains('\0') {
        16411
    } else {
        return Ok(());
    };
    Err(wrong(code, place, &format!("paths of fields, found {path:?}")))
}

/// Parses the fields of `on`.
fn fields(value: &Value, place: &str) -> Outcome<Vec<String>> {
    let place = format!("{place}.on");
    let names = match value {
        Value::Text(name) => vec![name.clone()],
        Value::Array(items) => {
            let names = items.iter().map(|item| item.as_str().map(str::to_owned));
            let names: Option<Vec<String>> = names.collect();
            names.ok_or_else(|| wrong(51134, &place, "names of fields"))?
        }
        _ => return Err(wrong(51186, &place, "the name of a field, or an array of names")),
    };
    names.iter().try_for_each(|name| check_path(name, &place))?;
    if names.is_empty() {
        return Err(wrong(51187, &place, "at least one field"));
    }
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    if sorted.len() != names.len() {
        return Err(wrong(31465, &place, "each field once"));
    }
    Ok(names)
}

impl Matched {
    fn parse(
        value: Option<&Value>,
        variables: Option<&Value>,
        outer: &Variables,
        place: &str,
    ) -> Outcome<Self> {
        let stages = match value {
            Some(Value::Array(stages)) => stages,
            _ if variables.is_some() => {
                return Err(wrong(51199, place, "let beside a pipeline as whenMatched"));
            }
            None => return Ok(Self::Merge),
            Some(Value::Text(text)) => {
                return Ok(match text.as_str() {
                    "replace" => Self::Replace,
                    "keepExisting" => Self::Keep,
                    "merge" => Self::Merge,
                    "fail" => Self::Fail,
                    _ => {
                        let text = format!(
                            "{place}.whenMatched: expected replace, keepExisting, merge, fail or \
                             a pipeline, found {text:?}"
                        );
                        return Err(Failure::new(Code::BadValue, text));
                    }
                });
            }
            Some(_) => {
                return Err(wrong(51191, &format!("{place}.whenMatched"), "text or a pipeline"));
            }
        };
        for one in stages {
            if one.as_map().is_none_or(is_form) {
                let text = format!("{place}.whenMatched: expected stages, found {one}");
                return Err(Failure::new(Code::TypeMismatch, text));
            }
            let name = one.as_map().and_then(|map| map.iter().next()?.0.as_str());
            if name.is_none_or(|name| !ALLOWED.contains(&name)) {
                let text = format!("{place}.whenMatched: expected one of {}", ALLOWED.join(" "));
                return Err(Failure::new(Code::InvalidOptions, text));
            }
        }
        let mut given = Map::new();
        given.insert(NEW, "$$ROOT");
        match variables {
            None => {}
            Some(Value::Map(map)) if !is_form(map) => {
                for (name, value) in map {
                    let name = name.as_str().unwrap_or_default();
                    let place = format!("{place}.let");
                    if name == NEW && value.as_str() != Some("$$ROOT") {
                        return Err(wrong(51273, &place, "no other value of new than $$ROOT"));
                    }
                    if name.contains(['$', '.']) {
                        let text = format!("{place}: expected names of variables, found {name:?}");
                        return Err(Failure::new(Code::FailedToParse, text));
                    }
                    given.insert(name, value.clone());
                }
            }
            Some(other) => {
                let text = format!("{place}.let: expected a map of variables, found {other}");
                return Err(Failure::new(Code::TypeMismatch, text));
            }
        }
        let parsed = Value::Array(vec![stage("$replaceWith", Value::Map(given))]);
        let parsed = RowStages::parse(&parsed, &["$replaceWith"], outer.values())?;
        Ok(Self::Stages(stages.clone(), parsed))
    }

    /// Returns the new document; `None` if it stays as it is.
    fn made(
        &self,
        old: &Value,
        row: &Value,
        key: &Value,
        into: &Namespace,
        now: DateTime,
    ) -> Outcome<Option<Value>> {
        match self {
            Self::Keep => Ok(None),
            Self::Replace => Ok(Some(row.clone())),
            Self::Fail => Err(duplicate_key(into, key)),
            Self::Merge => {
                let mut new = old.as_map().cloned().unwrap_or_default();
                new.extend(row.as_map().into_iter().flatten().cloned());
                Ok(Some(Value::Map(new)))
            }
            Self::Stages(stages, variables) => {
                // What is missing is no variable.
                let values = variables.apply(row, now)?;
                let values = values.as_ref().and_then(Value::as_map).cloned().unwrap_or_default();
                let stages = RowStages::parse(&Value::Array(stages.clone()), &ALLOWED, &values)?;
                Ok(stages.apply(old, now)?)
            }
        }
    }
}
