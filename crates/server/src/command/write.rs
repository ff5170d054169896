//! Commands that write documents.

use super::args::{Args, check_statements};
use super::filter;
use super::id::{self, ID};
use super::name::Namespace;
use super::read::put_count;
use super::run::Run;
use super::service::ServiceCounters;
use super::target::Target;
use super::variables::Variables;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome, shown_of};
use crate::wire::DOCUMENT_BYTES_MAX;
use flagstone::doc::Map;
use flagstone::internal::{DuplicateValue, names, remote_of, stored_form};
use flagstone::remote::{Remote, Row};
use flagstone::{Collection, Document, Slice, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most documents of one commit.
const CHUNK_DOCUMENTS: usize = 1000;
/// The bytes after which a commit ends.
const CHUNK_BYTES: usize = 4 << 20;
/// The new names of fields after which a commit ends: those of documents that are refused stay.
const CHUNK_NAMES: u32 = 1024;

/// What failed, by the numbers of the statements.
#[derive(Default)]
pub(super) struct Failures {
    list: Vec<(usize, Failure)>,
    /// The bytes of their texts.
    bytes: usize,
    /// Statements after the last one are left out.
    is_over: bool,
}

/// The most bytes of texts in a reply. Later failures have their codes alone, so that 100,000 large
/// keys that are there already fit a message.
const TEXT_BYTES_MAX: usize = 1 << 20;

impl Failures {
    /// Returns whether the statements that follow are left out.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns why statements failed, of those from `first` on, by their numbers.
    pub(super) fn since(&self, first: usize) -> BTreeMap<usize, &Failure> {
        let since = self.list.iter().rev().take_while(|(failed, _)| *failed >= first);
        since.map(|(failed, failure)| (*failed, failure)).collect()
    }

    /// Notes that a statement of the command has failed. `has_written`: the command has changed
    /// something, which its reply then says beside the failure.
    ///
    /// # Errors
    /// The failure, if it is one of the whole command: all of them are in a transaction of the
    /// client. One of the server is, unless something was written; but drivers send a write again
    /// after the end of the server, and are told what was done then.
    pub(super) fn note(
        &mut self,
        run: &Run<'_, '_>,
        index: usize,
        failure: Failure,
        is_ordered: bool,
        has_written: bool,
    ) -> Outcome {
        let is_of_the_server = is_of_the_server(&failure);
        let is_told = has_written && failure.code != Code::InterruptedAtShutdown;
        if run.transaction.is_some() || is_of_the_server && !is_told {
            return Err(failure);
        }
        failure.limit.iter().for_each(|limit| run.service.counters.count_limit(*limit));
        self.push(index, failure);
        self.is_over = is_ordered || is_of_the_server;
        Ok(())
    }

    fn push(&mut self, index: usize, mut failure: Failure) {
        // The key of a document that is there already is in the text and twice in the details.
        self.bytes += 3 * failure.message.len();
        if self.bytes > TEXT_BYTES_MAX {
            failure.message = String::new();
            (failure.duplicate, failure.of_unique) = (None, None);
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
    Ok(args.flag("ordered")?.unwrap_or(true))
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
    let mut failures = Failures::default();
    let mut into = Inserting::new(run, &namespace, &collection, &mut failures, is_ordered);
    for (index, bson) in statements.iter().enumerate() {
        if earlier.has(index) {
            into.pass(index)?;
        } else {
            into.add(index, bson)?;
        }
        if into.is_over() {
            break;
        }
    }
    let (inserted, _tried) = into.finish()?;
    put_count(&mut run.reply, "n", inserted)?;
    failures.list.sort_by_key(|(index, _)| *index);
    failures.write(&mut run.reply)
}

/// The documents that an earlier try of the same insert has inserted: runs of them, by the number
/// of the first.
pub(super) struct Earlier(Vec<(usize, usize)>);

impl Earlier {
    pub(super) fn read(done: impl IntoIterator<Item = (u32, Slice)>) -> Self {
        let run = |(first, count): (u32, Slice)| {
            let count = count.first_chunk().map_or(1, |count| u32::from_be_bytes(*count));
            (first as usize, first as usize + count as usize)
        };
        Self(done.into_iter().map(run).collect())
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, index: usize) -> bool {
        let before = self.0.partition_point(|(first, _)| *first <= index);
        before > 0 && index < self.0[before - 1].1
    }
}

/// Where documents are inserted, chunk by chunk.
pub(super) struct Inserting<'i, 'r, 'o> {
    run: &'i mut Run<'r, 'o>,
    namespace: &'i Namespace,
    collection: &'i Collection,
    failures: &'i mut Failures,
    is_ordered: bool,
    chunk: Vec<New>,
    /// The bytes of the chunk.
    bytes: usize,
    /// The names of the collection before the chunk.
    names: u32,
    pub(super) inserted: u64,
    /// The statements before this one were tried.
    tried: usize,
    /// Other statements of the command have written.
    pub(super) has_written: bool,
}

impl<'i, 'r, 'o> Inserting<'i, 'r, 'o> {
    pub(super) fn new(
        run: &'i mut Run<'r, 'o>,
        namespace: &'i Namespace,
        collection: &'i Collection,
        failures: &'i mut Failures,
        is_ordered: bool,
    ) -> Self {
        let (chunk, bytes, inserted, tried, has_written) = (Vec::new(), 0, 0, 0, false);
        let names = names(collection).map_or(0, |names| names.len());
        Self {
            run,
            namespace,
            collection,
            failures,
            is_ordered,
            chunk,
            bytes,
            names,
            inserted,
            tried,
            has_written,
        }
    }

    /// Returns whether the documents that follow are left out.
    pub(super) const fn is_over(&self) -> bool {
        self.failures.is_over
    }

    /// Adds a document; those of a full chunk are inserted.
    pub(super) fn add(&mut self, index: usize, bson: &[u8]) -> Outcome {
        match self.read(bson) {
            Ok((key, document)) => {
                self.bytes += bson.len();
                self.chunk.push(New { index, key, document });
                let names = names(self.collection).map_or(0, |names| names.len());
                let is_full = self.chunk.len() == CHUNK_DOCUMENTS
                    || self.bytes >= CHUNK_BYTES
                    || names >= self.names + CHUNK_NAMES;
                if is_full {
                    self.names = names;
                    self.insert()?;
                }
                Ok(())
            }
            Err(failure) => self.refuse_next(index, failure),
        }
    }

    /// Passes a document that an earlier try has inserted. The note of a chunk says its first
    /// statement, and how many there are.
    pub(super) fn pass(&mut self, index: usize) -> Outcome {
        self.insert()?;
        if !self.failures.is_over {
            (self.inserted, self.tried) = (self.inserted + 1, index + 1);
        }
        Ok(())
    }

    /// Inserts the documents that are left, and notes that the next one was refused.
    pub(super) fn refuse_next(&mut self, index: usize, failure: Failure) -> Outcome {
        self.insert()?;
        if self.failures.is_over { Ok(()) } else { self.refuse(index, failure) }
    }

    /// Inserts the documents that are left. Returns how many were inserted in all, and the number
    /// of the first statement that was not tried.
    pub(super) fn finish(mut self) -> Outcome<(u64, usize)> {
        if !self.failures.is_over {
            self.insert()?;
        }
        ServiceCounters::add(&self.run.service.counters.inserts, self.inserted);
        Ok((self.inserted, self.tried))
    }

    /// Reads a document.
    fn read(&mut self, bson: &[u8]) -> Outcome<(Value, Document)> {
        if bson.len() > DOCUMENT_BYTES_MAX {
            let text = format!("a document of {} bytes is larger than 16 MiB", bson.len());
            return Err(Failure::new(Code::BsonObjectTooLarge, text));
        }
        self.run.incoming.document_for(bson, self.collection)
    }

    fn refuse(&mut self, index: usize, failure: Failure) -> Outcome {
        let has_written = self.has_written || self.inserted > 0;
        self.tried = self.tried.max(index + 1);
        self.failures.note(self.run, index, failure, self.is_ordered, has_written)
    }

    /// Inserts the documents of a chunk in one commit, or one by one if one of them is refused.
    fn insert(&mut self) -> Outcome {
        let chunk = std::mem::take(&mut self.chunk);
        self.bytes = 0;
        if chunk.is_empty() {
            return Ok(());
        }
        if let Some(remote) = remote_of(self.collection) {
            return self.insert_there(&Arc::clone(remote), &chunk);
        }
        // In a transaction of the client, what was put before a refusal would be found again.
        if self.run.transaction.is_none() {
            match self.commit(&chunk) {
                Ok(()) => {
                    self.inserted += chunk.len() as u64;
                    self.tried = chunk.last().map_or(0, |new| new.index + 1);
                    return Ok(());
                }
                Err(failure) if chunk.len() == 1 || is_of_the_server(&failure) => {
                    let failure = self.with_index(failure, &chunk[0]);
                    return self.refuse(chunk[0].index, failure);
                }
                Err(_of_one) => {}
            }
        }
        for new in &chunk {
            match self.commit(std::slice::from_ref(new)) {
                Ok(()) => (self.inserted, self.tried) = (self.inserted + 1, new.index + 1),
                Err(failure) => {
                    let failure = self.with_index(failure, new);
                    self.refuse(new.index, failure)?;
                    if self.failures.is_over {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Inserts the documents of a chunk in a cluster, all at once. In order: those before the first
    /// one that there is already.
    fn insert_there(&mut self, remote: &Arc<dyn Remote>, chunk: &[New]) -> Outcome {
        let (mut rows, mut refused) = (Vec::with_capacity(chunk.len()), Vec::new());
        for (at, new) in chunk.iter().enumerate() {
            match stored_form(self.collection, &new.document) {
                Ok(bytes) => {
                    let row = Row { document: bytes.into(), expiry: None };
                    rows.push((at, (id::key_bytes(&new.key), row)));
                }
                Err(error) => {
                    refused.push((at, error.into()));
                    if self.is_ordered {
                        break;
                    }
                }
            }
        }
        let duplicate = |at: usize| duplicate_key(self.namespace, &chunk[at].key);
        if self.is_ordered && rows.len() > 1 {
            let keys: Vec<&[u8]> = rows.iter().map(|(_, (key, _))| key.as_slice()).collect();
            match remote.first_there(&keys) {
                Ok(Some(end)) => {
                    refused = vec![(end, duplicate(end))];
                    rows.truncate(end);
                }
                Ok(None) => {}
                // Chunks before it, and other operations, may have written.
                Err(error) => return self.refuse(chunk[0].index, error.into()),
            }
        }
        let (places, rows): (Vec<usize>, Vec<_>) = rows.into_iter().unzip();
        let (mut inserted, mut last) = (0, 0);
        for (at, added) in places.into_iter().zip(remote.insert_many(rows)) {
            match added {
                Ok(true) => (inserted, last) = (inserted + 1, at),
                Ok(false) => refused.push((at, duplicate(at))),
                Err(error) => refused.push((at, self.with_index(error.into(), &chunk[at]))),
            }
        }
        self.inserted += inserted;
        refused.sort_by_key(|(at, _)| *at);
        let is_unknown = |(_, failure): &(usize, Failure)| failure.code == Code::WriteConcernFailed;
        if !self.is_ordered || refused.is_empty() {
            self.tried = chunk.last().map_or(0, |new| new.index + 1);
        }
        if self.is_ordered {
            // All of them were sent: what may have happened behind the first one is told, too.
            let unknown = refused.iter().rposition(is_unknown);
            refused.truncate(1 + unknown.unwrap_or(0));
        }
        // A failure of the whole command says of nothing that it was not written if it may be.
        if !self.has_written
            && self.inserted == 0
            && let Some(unknown) = refused.iter().position(is_unknown)
        {
            refused.swap(0, unknown);
        }
        for (at, mut failure) in refused {
            if self.is_ordered && at < last {
                failure.message.push_str(" (some documents behind it were inserted)");
            }
            self.refuse(chunk[at].index, failure)?;
        }
        Ok(())
    }

    fn with_index(&self, failure: Failure, new: &New) -> Failure {
        with_index(failure, self.namespace, Some(&new.document))
    }

    fn commit(&mut self, documents: &[New]) -> Outcome {
        let (collection, namespace) = (self.collection, self.namespace);
        let Some(first) = documents.first() else { return Ok(()) };
        let number = self.run.statement(first.index);
        let count = self.run.statement(documents.len());
        self.run.atomically(|run, work| {
            for new in documents {
                if work.get(collection, &new.key)?.is_some() {
                    return Err(duplicate_key(namespace, &new.key));
                }
                work.put(collection, &new.key, &new.document, None)?;
            }
            run.note(work, number, || Ok(count.to_be_bytes().to_vec()))
        })
    }
}

/// Returns whether a failure is about the server, not about a document: it ends the command.
fn is_of_the_server(failure: &Failure) -> bool {
    matches!(
        failure.code,
        Code::Interrupted
            | Code::InterruptedAtShutdown
            | Code::InternalError
            | Code::MaxTimeMSExpired
            | Code::OutOfDiskSpace
            | Code::WriteConflict
            | Code::TransactionTooOld
            | Code::HostUnreachable
            | Code::WriteConcernFailed
    ) || failure.is_of_dropped
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
    namespace: &Namespace,
    document: Option<&Document>,
) -> Failure {
    let found = failure.of_unique.as_ref().and_then(DuplicateValue::of);
    let Some(found) = found.filter(|_| failure.code == Code::DuplicateKey) else {
        return failure;
    };
    let (pattern, values) = shown_of(found, document);
    let index = found.index();
    let text = format!(
        "E11000 duplicate key error collection: {namespace} index: {index} dup key: {values}"
    );
    let mut named = Failure::new(Code::DuplicateKey, text);
    named.duplicate = Some(Box::new((pattern, values)));
    named
}

pub(super) fn delete(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let is_ordered = is_ordered(&args)?;
    let variables = Variables::parse(&args, "let")?;
    let statements = run.statements("deletes")?;
    let known = ["q", "limit", "collation", "hint"];
    check_statements("delete.deletes", statements, &known, &["q", "limit"])?;
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
            let is_one = match args.int("limit")? {
                Some(limit @ (0 | 1)) => limit == 1,
                None => return Err(args.missing("limit")),
                Some(limit) => {
                    let text = format!("delete.deletes.limit: expected 0 or 1, found {limit}");
                    return Err(Failure::new(Code::FailedToParse, text));
                }
            };
            let removal = Removal { filter: "q", is_one, number, variables: &variables };
            removal.carry_out(run, &args, collection.as_ref(), &mut removed)
        });
        if let Err(failure) = done {
            failures.note(run, index, failure, is_ordered, removed > 0)?;
            if failures.is_over {
                break;
            }
        }
    }
    put_count(&mut run.reply, "n", removed)?;
    failures.write(&mut run.reply)
}

/// A statement that removes documents.
pub(super) struct Removal<'a> {
    /// The argument that is the filter.
    pub(super) filter: &'static str,
    /// It removes one document at most.
    pub(super) is_one: bool,
    pub(super) number: u32,
    pub(super) variables: &'a Variables,
}

impl Removal<'_> {
    /// Carries the statement out, and adds to `removed` how many documents were removed, also
    /// before an error.
    pub(super) fn carry_out(
        &self,
        run: &mut Run<'_, '_>,
        statement: &Args<'_>,
        collection: Option<&Collection>,
        removed: &mut u64,
    ) -> Outcome {
        let before = *removed;
        let done = self.remove(run, statement, collection, removed);
        ServiceCounters::add(&run.service.counters.deletes, *removed - before);
        done
    }

    fn remove(
        &self,
        run: &mut Run<'_, '_>,
        statement: &Args<'_>,
        collection: Option<&Collection>,
        removed: &mut u64,
    ) -> Outcome {
        statement.refuse_collation()?;
        let q = statement.required_map(self.filter)?;
        let Some(collection) = collection else {
            return filter::split(Some(&q), self.variables).map(drop);
        };
        let target = Target::parse(statement, self.filter, collection, self.variables)?;
        if self.is_one || target.key.is_some() {
            let number = self.number;
            *removed += run.atomically(|run, work| {
                let Some(key) = target.first(work)? else { return Ok(0) };
                target.end_loads_there(run, work)?;
                if target.read(work, &key)?.is_none() {
                    return Ok(0);
                }
                target.remove(work, &key)?;
                run.note(work, number, || Ok(Vec::new()))?;
                Ok(1)
            })?;
            return Ok(());
        }
        if !target.is_plain() {
            return delete_by_expression(run, &target, removed);
        }
        if let Some(tx) = &mut run.transaction {
            *removed += tx.delete_many(collection, target.filter.clone())?.modified;
            return Ok(());
        }
        let delete = collection.delete_many(target.filter.clone());
        let delete = match target.hint {
            Some(hint) => delete.hint(hint),
            None => delete,
        };
        run.has_one_commit = false;
        let (done, error) = match delete.run() {
            Ok(done) => (done, None),
            Err(interrupted) => (*interrupted.done, Some(interrupted.error)),
        };
        *removed += done.modified;
        error.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Removes all documents of a target one by one.
fn delete_by_expression(run: &mut Run<'_, '_>, target: &Target<'_>, removed: &mut u64) -> Outcome {
    target.each(run, |run, key| {
        *removed += run.atomically(|run, work| {
            target.end_loads_there(run, work)?;
            if target.read(work, key)?.is_none() {
                return Ok(0);
            }
            target.remove(work, key)?;
            Ok(1)
        })?;
        Ok(())
    })
}
