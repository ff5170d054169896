//! Commands that write documents.

use super::args::Args;
use super::filter;
use super::id::ID;
use super::name::Namespace;
use super::read::put_count;
use super::run::Run;
use super::service::Counters;
use super::target::Target;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::wire::DOCUMENT_BYTES_MAX;
use flagstone::doc::Map;
use flagstone::{Collection, Document, Slice, Value};

/// The most documents of one commit.
const CHUNK_DOCUMENTS: usize = 1000;
/// The bytes after which a commit ends.
const CHUNK_BYTES: usize = 4 << 20;

/// What failed, by the numbers of the statements.
#[derive(Default)]
pub(super) struct Failures {
    list: Vec<(usize, Failure)>,
    /// The bytes of their texts.
    bytes: usize,
}

/// The most bytes of texts in a reply. Later failures have their codes alone, so that 100,000 large
/// keys that are there already fit a message.
const TEXT_BYTES_MAX: usize = 1 << 20;

impl Failures {
    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn push(&mut self, index: usize, mut failure: Failure) {
        // The key of a document that is there already is in the text and twice in the details.
        self.bytes += 3 * failure.message.len();
        if self.bytes > TEXT_BYTES_MAX {
            failure.message = String::new();
            failure.duplicate = None;
        }
        self.list.push((index, failure));
    }

    pub(super) fn write(&self, reply: &mut BsonWriter<'_>) -> Outcome {
        if self.list.is_empty() {
            return Ok(());
        }
        reply.begin_array("writeErrors")?;
        for (index, failure) in &self.list {
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
pub(super) fn is_ordered(args: &Args<'_>) -> Outcome<bool> {
    Ok(args.bool("ordered")?.unwrap_or(true))
}

/// A document to insert.
struct New {
    index: usize,
    key: Value,
    document: Document,
}

pub(super) fn insert(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let is_ordered = is_ordered(&args)?;
    let statements = run.statements("documents")?;
    let earlier = Earlier::read(run.done()?);
    if !earlier.is_empty() && (0..statements.len()).all(|index| earlier.has(index)) {
        // The collection may have been dropped since.
        return put_count(&mut run.reply, "n", statements.len() as u64);
    }
    let collection = run.created(&namespace)?;
    // What an earlier try has done may not have been synced when its connection ended.
    run.has_one_commit = statements.len() == 1 && earlier.is_empty();
    let mut into = Inserting { run, collection: &collection, namespace: &namespace, is_ordered };
    let (mut inserted, mut failures) = (0, Failures::default());
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    for (index, bson) in statements.iter().enumerate() {
        let is_done = earlier.has(index);
        // The note of a chunk says its first statement, and how many there are.
        if is_done || chunk.len() == CHUNK_DOCUMENTS || bytes >= CHUNK_BYTES {
            inserted += into.insert(&mut chunk, &mut failures)?;
            bytes = 0;
        }
        let is_over = is_ordered && !failures.is_empty();
        if is_over {
            break;
        }
        if is_done {
            inserted += 1;
            continue;
        }
        match into.read(bson) {
            Ok((key, document)) => {
                bytes += bson.len();
                chunk.push(New { index, key, document });
            }
            Err(failure) => {
                inserted += into.insert(&mut chunk, &mut failures)?;
                if failures.is_empty() || !is_ordered {
                    into.refuse(&mut failures, index, failure)?;
                }
            }
        }
    }
    inserted += into.insert(&mut chunk, &mut failures)?;
    Counters::add(&run.service.counters.inserts, inserted);
    put_count(&mut run.reply, "n", inserted)?;
    failures.list.sort_by_key(|(index, _)| *index);
    failures.write(&mut run.reply)
}

/// The documents that an earlier try of the same insert has inserted: runs of them, by the number
/// of the first.
struct Earlier(Vec<(usize, usize)>);

impl Earlier {
    fn read(done: Vec<(u32, Slice)>) -> Self {
        let run = |(first, count): (u32, Slice)| {
            let count = count.first_chunk().map_or(1, |count| u32::from_be_bytes(*count));
            (first as usize, first as usize + count as usize)
        };
        Self(done.into_iter().map(run).collect())
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, index: usize) -> bool {
        let before = self.0.partition_point(|(first, _)| *first <= index);
        before > 0 && index < self.0[before - 1].1
    }
}

/// Where documents are inserted.
struct Inserting<'i, 'r, 'o> {
    run: &'i mut Run<'r, 'o>,
    collection: &'i Collection,
    namespace: &'i Namespace,
    is_ordered: bool,
}

impl Inserting<'_, '_, '_> {
    /// Reads a document.
    fn read(&mut self, bson: &[u8]) -> Outcome<(Value, Document)> {
        if bson.len() > DOCUMENT_BYTES_MAX {
            let text = format!("a document of {} bytes is larger than 16 MiB", bson.len());
            return Err(Failure::new(Code::BsonObjectTooLarge, text));
        }
        self.run.incoming.document(bson)
    }

    /// Notes that a document was refused. In a transaction of the client that ends the command,
    /// and so does a failure of the server.
    fn refuse(&self, failures: &mut Failures, index: usize, failure: Failure) -> Outcome {
        if self.run.transaction.is_some() || is_of_the_server(&failure) {
            return Err(failure);
        }
        failures.push(index, failure);
        Ok(())
    }

    /// Inserts the documents of a chunk in one commit, or one by one if one of them is refused.
    /// Returns how many were inserted.
    fn insert(&mut self, chunk: &mut Vec<New>, failures: &mut Failures) -> Outcome<u64> {
        let chunk = std::mem::take(chunk);
        if chunk.is_empty() {
            return Ok(0);
        }
        // In a transaction of the client, what was put before a refusal would be found again.
        if self.run.transaction.is_none() {
            match self.commit(&chunk) {
                Ok(()) => return Ok(chunk.len() as u64),
                Err(failure) if chunk.len() == 1 || is_of_the_server(&failure) => {
                    let failure = self.with_index(failure, &chunk[0]);
                    self.refuse(failures, chunk[0].index, failure)?;
                    return Ok(0);
                }
                Err(_of_one) => {}
            }
        }
        let mut inserted = 0;
        for new in &chunk {
            match self.commit(std::slice::from_ref(new)) {
                Ok(()) => inserted += 1,
                Err(failure) => {
                    let failure = self.with_index(failure, new);
                    self.refuse(failures, new.index, failure)?;
                    if self.is_ordered {
                        break;
                    }
                }
            }
        }
        Ok(inserted)
    }

    fn with_index(&self, failure: Failure, new: &New) -> Failure {
        with_index(failure, (self.namespace, self.collection), Some(&new.document))
    }

    fn commit(&mut self, documents: &[New]) -> Outcome {
        let (collection, namespace) = (self.collection, self.namespace);
        let Some(first) = documents.first() else { return Ok(()) };
        let number = self.run.statement(first.index);
        let count = self.run.statement(documents.len());
        self.run.atomically(|run, tx| {
            for new in documents {
                if tx.get(collection, &new.key)?.is_some() {
                    return Err(duplicate_key(namespace, &new.key));
                }
                tx.put(collection, &new.key, &new.document)?;
            }
            run.note(tx, number, || Ok(count.to_be_bytes().to_vec()))
        })
    }
}

/// Returns whether a failure is about the server, not about a document: it ends the command.
pub(super) const fn is_of_the_server(failure: &Failure) -> bool {
    matches!(
        failure.code,
        Code::InterruptedAtShutdown
            | Code::InternalError
            | Code::MaxTimeMSExpired
            | Code::OutOfDiskSpace
            | Code::WriteConflict
            | Code::TransactionTooOld
    )
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
    let mut failure = Failure::new(Code::DuplicateKey, text);
    failure.duplicate = duplicate;
    failure
}

/// Says which index has the value that a document was refused for, as drivers read it, with the
/// values of `document` if it is known.
pub(super) fn with_index(
    failure: Failure,
    (namespace, collection): (&Namespace, &Collection),
    document: Option<&Document>,
) -> Failure {
    if failure.code != Code::DuplicateKey || failure.duplicate.is_some() {
        return failure;
    }
    let is_named = |name: &str| failure.message.contains(&format!("unique index {name:?} "));
    let indexes = collection.indexes();
    let Some(index) = indexes.iter().find(|index| index.is_unique && is_named(&index.name)) else {
        return failure;
    };
    let (mut pattern, mut values) = (Map::new(), Map::new());
    for field in &index.fields {
        let (path, direction) = match field.strip_prefix('-') {
            Some(path) => (path, -1),
            None => (field.as_str(), 1),
        };
        pattern.insert(path, direction);
        if let Some(document) = document {
            let value = document.get(path).and_then(|value| value.to_value().ok());
            values.insert(path, value.unwrap_or(Value::Null));
        }
    }
    let (pattern, values) = (Value::Map(pattern), Value::Map(values));
    let text = format!(
        "E11000 duplicate key error collection: {namespace} index: {} dup key: {values}",
        index.name
    );
    let mut named = Failure::new(Code::DuplicateKey, text);
    named.duplicate = Some(Box::new((pattern, values)));
    named
}

pub(super) fn delete(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let is_ordered = is_ordered(&args)?;
    args.refuse_if("let", |values| !values.is_empty().unwrap_or(false))?;
    let statements = run.statements("deletes")?;
    let earlier = run.done()?;
    let collection = run.existing(&namespace)?;
    run.has_one_commit = statements.len() == 1 && earlier.is_empty();
    let (mut removed, mut failures) = (0, Failures::default());
    for (index, bson) in statements.iter().enumerate() {
        let number = run.statement(index);
        if earlier.binary_search_by_key(&number, |(number, _)| *number).is_ok() {
            removed += 1;
            continue;
        }
        let done = run.incoming.any(bson).and_then(|statement| {
            let args = Args::new(statement.root(), "delete.deletes");
            delete_one(run, &args, collection.as_ref(), number)
        });
        match done {
            Ok(n) => removed += n,
            Err(failure) if run.transaction.is_some() || is_of_the_server(&failure) => {
                return Err(failure);
            }
            Err(failure) => {
                failures.push(index, failure);
                if is_ordered {
                    break;
                }
            }
        }
    }
    Counters::add(&run.service.counters.deletes, removed);
    put_count(&mut run.reply, "n", removed)?;
    failures.write(&mut run.reply)
}

/// Carries out one statement. Returns how many documents were removed.
fn delete_one(
    run: &mut Run<'_, '_>,
    statement: &Args<'_>,
    collection: Option<&Collection>,
    number: u32,
) -> Outcome<u64> {
    statement.check(&["q", "limit", "collation", "hint"])?;
    statement.refuse_collation()?;
    let q = statement.required_map("q")?;
    let limit = statement.int("limit")?;
    let Some(limit @ (0 | 1)) = limit else {
        let found = limit.map_or("none".to_owned(), |limit| limit.to_string());
        let text = format!("delete.deletes.limit: expected 0 or 1, found {found}");
        return Err(Failure::new(Code::FailedToParse, text));
    };
    let Some(collection) = collection else {
        filter::filter(Some(&q))?;
        return Ok(0);
    };
    let target = Target::parse(statement, "q", collection)?;
    if limit == 1 || target.key.is_some() {
        return run.atomically(|run, tx| {
            let Some(key) = target.first(tx)? else { return Ok(0) };
            if target.read(tx, &key)?.is_none() {
                return Ok(0);
            }
            tx.delete(collection, &key)?;
            run.note(tx, number, || Ok(Vec::new()))?;
            Ok(1)
        });
    }
    if !target.is_plain() {
        return delete_by_expression(run, &target);
    }
    if let Some(tx) = &mut run.transaction {
        return Ok(tx.delete_many(collection, target.filter.clone())?.modified);
    }
    let delete = collection.delete_many(target.filter.clone());
    let delete = match target.hint {
        Some(hint) => delete.hint(hint),
        None => delete,
    };
    run.has_one_commit = false;
    Ok(delete.run().map_err(|interrupted| interrupted.error)?.modified)
}

/// Removes all documents of a target one by one.
fn delete_by_expression(run: &mut Run<'_, '_>, target: &Target<'_>) -> Outcome<u64> {
    run.has_one_commit = false;
    let keys = run.atomically(|_run, tx| target.all(tx))?;
    let mut removed = 0;
    for key in &keys {
        removed += run.atomically(|_run, tx| {
            if target.read(tx, key)?.is_none() {
                return Ok(0);
            }
            tx.delete(target.collection, key)?;
            Ok(1)
        })?;
    }
    Ok(removed)
}
