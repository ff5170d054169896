//! Commands that write documents.

use super::args::Args;
use super::filter;
use super::id::{self, ID};
use super::name::Namespace;
use super::read::put_count;
use super::run::Run;
use super::service::Counters;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::wire::DOCUMENT_BYTES_MAX;
use flagstone::doc::Map;
use flagstone::{Collection, Document, Durability, ErrorKind, Expect, Space, Value};
use std::collections::HashSet;

/// The most documents of one commit.
const CHUNK_DOCUMENTS: usize = 1000;
/// The bytes after which a commit ends.
const CHUNK_BYTES: usize = 4 << 20;

/// What failed, by the numbers of the statements.
#[derive(Default)]
struct Failures(Vec<(usize, Failure)>);

impl Failures {
    fn write(&self, reply: &mut BsonWriter<'_>) -> Outcome {
        if self.0.is_empty() {
            return Ok(());
        }
        reply.begin_array("writeErrors")?;
        for (index, failure) in &self.0 {
            reply.begin_document("")?;
            put_count(reply, "index", *index as u64)?;
            failure.write_details(reply)?;
            reply.text("errmsg", &failure.message)?;
            reply.end()?;
        }
        Ok(reply.end()?)
    }
}

/// Returns whether statements after one that failed are left out.
fn is_ordered(args: &Args<'_>) -> Outcome<bool> {
    Ok(args.bool("ordered")?.unwrap_or(true))
}

/// Returns the durability that the write concern of a command asks for; `None` for that of the
/// database.
pub(super) fn durability(args: &Args<'_>) -> Outcome<Option<Durability>> {
    let Some(concern) = args.map("writeConcern")? else { return Ok(None) };
    let concern = Args::new(concern, "writeConcern");
    let is_majority = match concern.get("w")? {
        Some(w) if w.as_str().is_some() => true,
        // More members than one: there is one.
        Some(w) => w.as_i64().is_some_and(|members| members > 1),
        None => false,
    };
    let syncs = is_majority || concern.is("j")? || concern.is("fsync")?;
    Ok(syncs.then_some(Durability::Group))
}

/// A document to insert.
struct New {
    index: usize,
    key: Value,
    document: Document,
}

pub(super) fn insert(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let (is_ordered, durability) = (is_ordered(&args)?, durability(&args)?);
    let statements = run.statements("documents")?;
    let collection = run.created(&namespace)?;
    let into = Into { run, collection: &collection, namespace: &namespace, durability };
    let (mut inserted, mut failures) = (0, Failures::default());
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    for (index, bson) in statements.iter().enumerate() {
        let read = if bson.len() > DOCUMENT_BYTES_MAX {
            let text = format!("a document of {} bytes is larger than 16 MiB", bson.len());
            Err(Failure::new(Code::BsonObjectTooLarge, text))
        } else {
            into.run.incoming.document(bson)
        };
        match read {
            Ok((key, document)) => {
                bytes += bson.len();
                chunk.push(New { index, key, document });
            }
            Err(failure) => {
                inserted += into.insert(&mut chunk, is_ordered, &mut failures)?;
                if is_ordered && !failures.0.is_empty() {
                    break;
                }
                failures.0.push((index, failure));
                if is_ordered {
                    break;
                }
            }
        }
        if chunk.len() == CHUNK_DOCUMENTS || bytes >= CHUNK_BYTES {
            inserted += into.insert(&mut chunk, is_ordered, &mut failures)?;
            bytes = 0;
            if is_ordered && !failures.0.is_empty() {
                break;
            }
        }
    }
    inserted += into.insert(&mut chunk, is_ordered, &mut failures)?;
    Counters::add(&into.run.service.counters.inserts, inserted);
    put_count(&mut into.run.reply, "n", inserted)?;
    failures.write(&mut into.run.reply)
}

/// Where documents are inserted.
struct Into<'i, 'r, 'o> {
    run: &'i mut Run<'r, 'o>,
    collection: &'i Collection,
    namespace: &'i Namespace,
    durability: Option<Durability>,
}

impl Into<'_, '_, '_> {
    /// Inserts the documents of a chunk in one commit, or one by one if one of them is refused.
    /// Returns how many were inserted.
    fn insert(
        &self,
        chunk: &mut Vec<New>,
        is_ordered: bool,
        failures: &mut Failures,
    ) -> Outcome<u64> {
        let chunk = std::mem::take(chunk);
        if chunk.is_empty() {
            return Ok(0);
        }
        let mut keys = HashSet::with_capacity(chunk.len());
        // A batch would take two documents of one key.
        let are_distinct = chunk.len() == 1 || chunk.iter().all(|new| keys.insert(&new.key));
        if are_distinct {
            match self.commit(&chunk) {
                Ok(()) => return Ok(chunk.len() as u64),
                Err(error) if chunk.len() > 1 && is_of_a_document(&error) => {}
                Err(error) => {
                    let new = &chunk[0];
                    failures.0.push((new.index, self.failure(error, &new.key)));
                    return Ok(0);
                }
            }
        }
        let mut inserted = 0;
        for new in &chunk {
            match self.commit(std::slice::from_ref(new)) {
                Ok(()) => inserted += 1,
                Err(error) => {
                    failures.0.push((new.index, self.failure(error, &new.key)));
                    if is_ordered {
                        break;
                    }
                }
            }
        }
        Ok(inserted)
    }

    fn commit(&self, documents: &[New]) -> flagstone::Result<()> {
        let mut batch = self.run.service.db.batch();
        if let Some(durability) = self.durability {
            batch = batch.durability(durability);
        }
        for new in documents {
            batch.expect(self.collection, &new.key, Expect::Absent)?;
            batch.put(self.collection, &new.key, &new.document)?;
        }
        self.run.service.db.commit(batch)
    }

    fn failure(&self, error: flagstone::Error, key: &Value) -> Failure {
        if error.kind() == ErrorKind::Conflict {
            duplicate_key(self.namespace, key)
        } else {
            error.into()
        }
    }
}

/// Returns whether an error of a commit is about one of its documents.
fn is_of_a_document(error: &flagstone::Error) -> bool {
    use ErrorKind::{Conflict, Duplicate, InvalidInput};
    matches!(error.kind(), Conflict | Duplicate | InvalidInput)
}

/// The failure of a document whose key another has.
pub(super) fn duplicate_key(namespace: &Namespace, key: &Value) -> Failure {
    let text = format!(
        "E11000 duplicate key error collection: {namespace} index: _id_ dup key: {{ _id: {key} }}"
    );
    let one = |value: Value| {
        let mut map = Map::default();
        map.insert(ID, value);
        Value::Map(map)
    };
    let duplicate = Some(Box::new((one(Value::from(1)), one(key.clone()))));
    Failure { duplicate, ..Failure::new(Code::DuplicateKey, text) }
}

pub(super) fn delete(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let (is_ordered, durability) = (is_ordered(&args)?, durability(&args)?);
    let statements = run.statements("deletes")?;
    let collection = run.existing(&namespace)?;
    let (mut removed, mut failures) = (0, Failures::default());
    for (index, bson) in statements.iter().enumerate() {
        let statement = run.incoming.any(bson)?;
        let done = delete_one(&Args::new(statement.root(), "delete.deletes"), collection.as_ref());
        match done {
            Ok(n) => removed += n,
            Err(failure) => {
                failures.0.push((index, failure));
                if is_ordered {
                    break;
                }
            }
        }
    }
    if durability.is_some() {
        run.service.db.sync()?;
    }
    Counters::add(&run.service.counters.deletes, removed);
    put_count(&mut run.reply, "n", removed)?;
    failures.write(&mut run.reply)
}

/// Carries out one statement. Returns how many documents were removed.
fn delete_one(statement: &Args<'_>, collection: Option<&Collection>) -> Outcome<u64> {
    statement.check(&["q", "limit", "collation", "hint"])?;
    statement.refuse_collation()?;
    let q = statement.required_map("q")?;
    let limit = statement.int("limit")?;
    let Some(limit @ (0 | 1)) = limit else {
        let text = format!("delete.deletes.limit: expected 0 or 1, found {limit:?}");
        return Err(Failure::new(Code::FailedToParse, text));
    };
    let filter = filter::filter(Some(&q))?;
    let Some(collection) = collection else { return Ok(0) };
    let hint = filter::hint(statement, collection)?;
    if let (None, Some(key)) = (&hint, id::only_key(&q)?) {
        return Ok(u64::from(collection.remove(key)?));
    }
    let mut delete = collection.delete_many(filter);
    if let Some(hint) = hint {
        delete = delete.hint(hint);
    }
    if limit == 0 {
        return Ok(delete.run().map_err(|interrupted| interrupted.error)?.modified);
    }
    // One that others change meanwhile does not match any more; then it is the turn of the next.
    let mut delete = delete.limit(1);
    loop {
        let done = delete.run().map_err(|interrupted| interrupted.error)?;
        match done.next {
            Some(next) if done.modified == 0 => delete = delete.after(&next),
            _ => return Ok(done.modified),
        }
    }
}
