//! What the tools and tests of this repository need. It is no part of the interface: anything here
//! may change or go at any time.

use crate::args::NewValue;
use crate::batch::Batch;
pub use crate::carry::{Carried, Carrier};
use crate::changes::{Change, ChangeBatch};
pub use crate::collection::DocumentCheck;
use crate::collection::Stored;
pub use crate::collection::index::DuplicateValue;
pub use crate::collection::query::ValuePart;
use crate::collection::query::WriteIn;
use crate::collection::{BuildProgress, Collection, IndexInfo, decode, index, query, write};
use crate::database::Database;
#[cfg(feature = "doubles")]
pub use crate::elsewhere::{Collections, Redirected};
use crate::index::Index;
use crate::keyspace::Keyspace;
use crate::remote::{Remote, RemoteBatch, RemoteIndex, Row, Write};
pub use crate::shard::Shard;
use crate::space::{Key, Space};
use crate::spill::{self, SortOptions};
use crate::transaction::Transaction;
pub use flagstone_base::interrupt::{check as interrupt_check, interrupted, interruptible};
use flagstone_base::{Error, Moment, Result, SeqNo, Slice};
use flagstone_doc::{Document, FieldPath, Filter, Value};
pub use flagstone_doc::{is_one_path, split_paths};
pub use flagstone_engine::QueryMemory;
pub use flagstone_engine::inspect;
use flagstone_engine::{CompactProgress, Expect};
pub use flagstone_env as env;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The binary form of documents, for conversions from and to other formats.
pub mod document {
    pub use flagstone_doc::json::append_relaxed_json;
    pub use flagstone_doc::{
        DEPTH_MAX, Direction, DocumentWriter, Encoder, IndexKeys, JsonParser, Names, NumberType,
        Patcher, StoredNumber, accumulated, accumulated_both, base64, decimal, encoded,
        exact_product, exact_sum, extended_scalar, is_marked_decimal, long, marked_decimal,
        prints_as, put_base64, sort_key, validate,
    };
}

/// What the tool shows of a database.
pub mod summary {
    pub use crate::summary::{Event, KnownIndex, collections, indexes, stats};
}

/// Returns the distinct values at `path`, as [`query::Find::distinct`], but maps with another order
/// of fields are other values. Fields come in the order in which they are stored.
///
/// # Errors
/// As [`query::Find::distinct`].
pub fn distinct_ordered(find: &query::Find<'_>, path: &str) -> Result<query::Distinct> {
    let ordered = true;
    find.distinct_as(path, ordered)
}

/// Gives up the memory of groups and keeps the position, for a slow reader.
pub fn park_groups(groups: &mut query::Groups) {
    groups.park();
}

/// Gives up the memory of distinct values and keeps the position, for a slow reader.
pub fn park_distinct(values: &mut query::Distinct) {
    values.park();
}

/// Returns the error for the document `key`, which cannot have the value of the entry `entry` of a
/// unique index because the document `holder` has it.
#[cold]
pub fn duplicate(index: &RemoteIndex, entry: &[u8], holder: &[u8], key: &[u8]) -> Error {
    index::duplicate_of(&index.state.definition, entry, key, holder)
}

/// Returns a handle of the collection that `remote` holds. Sorts and groups that do not fit in
/// memory spill to the directory of `scratch`, which holds nothing else.
pub fn remote_collection(remote: Arc<dyn Remote>, scratch: &Database) -> Collection {
    Collection(Stored::remote_of(remote, scratch.engine()))
}

/// Returns a handle of the collection that also checks what is written through it, but for patches
/// that are written without a read.
pub fn checked(collection: &Collection, check: DocumentCheck) -> Collection {
    Collection(collection.0.checked(check))
}

/// Returns what holds the collection, if that is no embedded database.
pub fn remote_of(collection: &Collection) -> Option<&Arc<dyn Remote>> {
    collection.0.remote()
}

/// Returns a document as `collection` stores it.
///
/// # Errors
/// InvalidInput if it is too large.
pub fn stored_form(collection: &Collection, document: &Document) -> Result<Vec<u8>> {
    document.value_bytes(collection).map(std::borrow::Cow::into_owned)
}

/// Puts the mark of a load into a batch, or removes it, after the documents of the batch.
///
/// # Errors
/// Unsupported for a batch of another collection.
pub fn put_remote_mark(
    batch: &mut Batch,
    remote: &Arc<dyn Remote>,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
) -> Result<()> {
    RemoteBatch::mark(&mut batch.remote, remote, key, value)
}

/// Writes the documents of a batch for a collection of a cluster, which has no marks. Returns, of
/// those that are to be inserted, which were: the keys of the others exist.
///
/// # Errors
/// Those of the cluster. Some may be written.
pub fn write_remote(mut batch: Batch) -> Result<Vec<bool>> {
    batch.remote.as_mut().map_or(Ok(Vec::new()), RemoteBatch::write)
}

/// Puts a document into a batch, as [`Batch::put`]. A batch for a collection of a cluster takes
/// documents of no other one, and an error of its commit may leave some of them put.
///
/// # Errors
/// As [`Batch::put`].
pub fn put_in(
    batch: &mut Batch,
    collection: &Collection,
    key: impl Key<Collection>,
    value: impl NewValue<Collection>,
) -> Result<()> {
    let Some(remote) = collection.0.remote() else { return batch.put(collection, key, value) };
    let (key, row) = remote_row(collection, key, value)?;
    RemoteBatch::put(&mut batch.remote, remote, &key, row)
}

/// As [`put_in`], but the commit returns Conflict if the key exists.
///
/// # Errors
/// As [`Batch::put`].
pub fn insert_in(
    batch: &mut Batch,
    collection: &Collection,
    key: Value,
    value: impl NewValue<Collection>,
) -> Result<()> {
    let Some(remote) = collection.0.remote() else {
        batch.put(collection, key.clone(), value)?;
        return batch.expect(collection, key, Expect::Absent);
    };
    let (key, row) = remote_row(collection, key, value)?;
    RemoteBatch::insert(&mut batch.remote, remote, &key, row)
}

fn remote_row(
    collection: &Collection,
    key: impl Key<Collection>,
    value: impl NewValue<Collection>,
) -> Result<(Vec<u8>, Row)> {
    let (key, expiry) = (key.key_bytes()?.as_ref().to_vec(), value.expiry());
    let document = collection.0.check_document(value.value_bytes(collection)?)?;
    Ok((key, Row { document: Slice::copy_of(&document), expiry }))
}

/// The collections of a cluster by their names, for servers of them.
///
/// # Errors
/// Of all calls: as those of [`Remote`].
pub trait RemoteDatabase: Send + Sync {
    /// Returns a collection, if there is one.
    fn existing(&self, name: &str) -> Result<Option<Collection>>;

    /// Returns a collection, which is created if there is none.
    fn collection(&self, name: &str) -> Result<Collection>;

    /// Returns the names of all collections, sorted.
    fn names(&self) -> Result<Vec<String>>;

    /// Drops a collection. Returns false if there is none.
    fn drop_collection(&self, name: &str) -> Result<bool>;

    /// Returns what is known of the machines, for people.
    fn facts(&self) -> Result<Value>;

    /// Returns the empty database in whose directory queries spill.
    fn scratch(&self) -> Result<Database>;

    /// Ends the connections. Handles of collections fail with Closed from then on.
    fn close(&self) -> Result<()>;
}

/// Removes a document of a cluster and returns it, if it is there.
///
/// # Errors
/// As [`Space::remove`]; Unsupported for a directory.
pub fn take_remote(collection: &Collection, key: &Value) -> Result<Option<Document>> {
    let remote = collection.0.remote();
    let remote = remote.ok_or_else(|| Error::invalid("take_remote: expected a cluster"))?;
    let (key, mut found) = (Key::<Collection>::key_bytes(key)?, None);
    remote.rewrite(key.as_ref(), &mut |row| {
        found = row.map(|row| row.document.clone());
        Ok(if row.is_some() { Write::Delete } else { Write::Nothing })
    })?;
    found.map(|document| decode::document(&collection.0, document)).transpose()
}

/// Leaves the documents of other shards out of a query.
pub fn sharded<'t>(find: query::Find<'t>, shard: Shard) -> query::Find<'t> {
    find.shard(shard)
}

/// Returns what creates an index with the definition of `info`.
///
/// # Errors
/// InvalidInput for a filter that cannot be read.
pub fn index_of(info: &IndexInfo) -> Result<Index> {
    let mut fields = info.fields.iter();
    let mut index = Index::on(fields.next().map_or("", String::as_str));
    for field in fields {
        index = index.then(field);
    }
    if info.is_unique {
        index = index.unique();
    }
    if info.is_sparse {
        index = index.sparse();
    }
    if let Some(only) = &info.only {
        index = index.only(Filter::parse(only)?);
    }
    if let Some(time) = info.expires_after {
        index = index.expire_after(time);
    }
    Ok(match &info.label {
        Some(label) => index.label(label),
        None => index,
    })
}

/// Lets the collections of an open database be those of `collections`, for tests.
#[cfg(feature = "doubles")]
pub fn redirect(database: &Database, collections: Collections) -> Redirected {
    crate::elsewhere::redirect(database.address(), collections)
}

/// Drops a collection if nothing was written to it since it was created, and it has no index.
/// Returns whether it did. For loads, which leave nothing when they fail: other handles may write
/// meanwhile.
///
/// # Errors
/// As [`Database::drop_keyspace`].
pub fn drop_unwritten(database: &Database, collection: &Collection) -> Result<bool> {
    database.drop_unwritten(collection)
}

/// As [`Database::compact_with`], of one collection and its indexes.
///
/// # Errors
/// As [`Database::compact`].
pub fn compact(
    collection: &Collection,
    watch: impl FnMut(CompactProgress) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    collection.0.engine().compact_keyspace(collection.0.keyspace()?, watch)
}

/// Ends the marks of loads into `collection` that were stopped, as a part of a transaction. For
/// those who remove documents by key that a filter of their own has found.
///
/// # Errors
/// As [`Transaction::delete`].
pub fn end_loads(transaction: &mut Transaction, collection: &Collection) -> Result<()> {
    write::end_loads_in(&collection.0, WriteIn::own(transaction))
}

/// Counts a writer of `key` as one that had to wait for others. For tests of splits by load.
///
/// # Errors
/// InvalidInput for what cannot be a key.
pub fn note_wait<S: Space>(space: &S, key: impl Key<S>) -> Result<()> {
    space.engine_keyspace()?.note_wait(key.key_bytes()?.as_ref());
    Ok(())
}

/// As [`query::Find::values`], in at most `most` parts that several threads can read at once. All
/// of them see one moment, and each document that matches is in one of them. A query with a sort, a
/// limit, a skip or a token has one part, and so has one of few documents.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Space, doc};
/// use flagstone::doc::FieldPath;
/// use flagstone::internal::value_parts;
/// let posts = db.collection("posts")?;
/// for n in 0..100 {
///     posts.put(n, doc!({ "n": n }))?;
/// }
/// let parts = value_parts(&posts.find("{}"), &[FieldPath::parse("n")?], 4)?;
/// let count = |part: flagstone::internal::ValuePart<'static>| -> flagstone::Result<u64> {
///     let (mut values, mut rows) = (part.run()?, 0);
///     while values.advance()? {
///         rows += 1;
///     }
///     Ok(rows)
/// };
/// let rows = std::thread::scope(|scope| {
///     let threads = parts.into_iter().map(|part| scope.spawn(move || count(part)));
///     let threads: Vec<_> = threads.collect();                // all run before one is awaited
///     threads.into_iter().map(|thread| thread.join().unwrap()).sum::<flagstone::Result<u64>>()
/// })?;
/// assert_eq!(rows, 100);                                      // each is in one part
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// # Errors
/// As [`query::Find::run`].
pub fn value_parts<'t>(
    find: &query::Find<'t>,
    paths: &[FieldPath],
    most: usize,
) -> Result<Vec<ValuePart<'t>>> {
    find.value_parts(paths, most)
}

/// Returns the least and the greatest value of each type but null that the documents have at
/// `path`, for readers that choose a type for all of them. `None` if nothing tells, without
/// reading the documents: the query has a filter, or no index begins with `path` that has an
/// entry for each document, or one of them has an array there. Of a type with values over 1 KiB
/// there may be none.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Index, Json, Space};
/// use flagstone::doc::FieldPath;
/// use flagstone::internal::extremes;
/// let comments = db.collection("comments")?;
/// for (key, score) in ["7", "9", "-2", "\"none\"", "null"].iter().enumerate() {
///     comments.put(key, Json(format!(r#"{{"score":{score}}}"#)))?;
/// }
/// let score = FieldPath::parse("score")?;
/// assert_eq!(extremes(&comments.find("{}"), &score)?, None);
/// comments.create_index("by_score", Index::on("score"))?;
/// let found = extremes(&comments.find("{}"), &score)?.unwrap();
/// assert_eq!(found, [(-2).into(), 9.into(), "none".into(), "none".into()]);
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// # Errors
/// As [`query::Find::run`].
pub fn extremes(find: &query::Find<'_>, path: &FieldPath) -> Result<Option<Vec<Value>>> {
    find.extremes(path)
}

/// As [`query::Find::explain`], for [`query::Find::values`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Index, Space, doc};
/// use flagstone::doc::FieldPath;
/// use flagstone::internal::explain_values;
/// let posts = db.collection("posts")?;
/// posts.put(1, doc!({ "author": "x", "body": "long" }))?;
/// posts.create_index("authors", Index::on("author"))?;
/// let read = |path| -> flagstone::Result<_> {
///     let explain = explain_values(&posts.find("{}").analyze(), &[FieldPath::parse(path)?])?;
///     Ok(explain.actual.expect("it was run").documents)
/// };
/// assert_eq!((read("author")?, read("body")?), (0, 1));
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// # Errors
/// As [`query::Find::run`].
pub fn explain_values(find: &query::Find<'_>, paths: &[FieldPath]) -> Result<query::Explain> {
    find.explain_values(paths)
}

/// Returns how many bytes the document at a cursor has as it is stored, before a projection.
pub fn stored_len(cursor: &query::Cursor<'_>) -> usize {
    cursor.stored_len()
}

/// Returns when the value of `key` expires that a transaction sees.
///
/// # Errors
/// As [`Transaction::get`].
pub fn expiry_in<S: Space>(
    transaction: &Transaction,
    space: &S,
    key: impl Key<S>,
) -> Result<Option<Moment>> {
    transaction.expiry(space, key)
}

/// Returns the number of keys that a transaction has written.
pub fn keys_written(transaction: &Transaction) -> usize {
    transaction.keys_written()
}

/// Returns a handle of the stored bytes of `space`: of a collection sort keys and binary documents.
/// Bytes that are written through it reach no index.
///
/// # Errors
/// Unsupported for a collection of a cluster.
pub fn stored<S: Space>(space: &S) -> Result<Keyspace> {
    Ok(Keyspace(space.engine_keyspace()?.clone()))
}

/// Returns the table of a collection's field names; `None` where each document has its own, in a
/// cluster. A document with ids of this table is put
/// without being encoded again.
pub fn names(collection: &Collection) -> Option<Arc<document::Names>> {
    collection.0.shared_names()
}

/// As [`Collection::create_index_with`], in parts of about this many bytes. For tests of builds
/// that are interrupted between two parts.
///
/// # Errors
/// As [`Collection::create_index`].
pub fn create_index_in_parts(
    collection: &Collection,
    name: &str,
    index: Index,
    part_bytes: u64,
    mut watch: impl FnMut(BuildProgress) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    index::create(&collection.0, name, &index, Some(part_bytes), &mut watch)
}

/// Returns all entries of the complete index `name` in their order: the values, of which `None` is
/// missing, and the key of the document. A value that was cut is bytes.
///
/// # Errors
/// InvalidInput if there is no such index, or it is still to be built; Io, Corruption, Closed.
pub fn index_entries(
    collection: &Collection,
    name: &str,
) -> Result<Vec<(Vec<Option<Value>>, Value)>> {
    index::entries(&collection.0, name)
}

/// Returns the change of this index of a commit: a reader that stops within one goes on there.
pub fn change_at(batch: &ChangeBatch, index: usize) -> Option<Change<'_>> {
    batch.change_at(index)
}

/// Returns the database of a collection.
pub fn database(collection: &Collection) -> Database {
    Database::of(collection.0.engine().clone())
}

/// Returns about how many keys without a live entry scans have walked over.
pub fn dead_keys(database: &Database) -> u64 {
    database.engine().dead_keys()
}

/// Returns the SeqNo of the newest write that reads see.
pub fn visible(database: &Database) -> SeqNo {
    database.engine().visible()
}

/// Returns the durability of commits that name none.
pub fn durability(database: &Database) -> flagstone_engine::Durability {
    database.engine().options().durability
}

/// Returns the bytes of memory of a query that sets none.
pub fn query_memory(database: &Database) -> usize {
    query::usual_memory(database.engine().options().memory_budget)
}

/// Begins to count the memory of a query among that of all.
pub fn held_memory(database: &Database) -> QueryMemory {
    QueryMemory::new(database.engine().scratch())
}

/// Sorts entries of key and value by key, within a bound of memory: the rest goes to spill files.
/// Entries with one key stay in the order of the pushes.
pub struct Sorter(spill::ExternalSorter);

impl Sorter {
    /// A sorter in `memory` bytes, one part in `share` of those of the caller, which returns only
    /// the first `limit` entries.
    pub fn new(database: &Database, memory: usize, share: usize, limit: Option<usize>) -> Self {
        let options = SortOptions { memory, limit, distinct: false, share };
        Self(spill::ExternalSorter::new(database.engine().scratch(), options))
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// OutOfSpace, Io, Closed; Busy if the scratch directory is in use.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.push(key, value)
    }

    /// Returns all entries in order.
    ///
    /// # Errors
    /// InvalidInput if memory was full and there is no directory to spill to; as
    /// [`Sorter::push`]; Corruption.
    pub fn finish(self) -> Result<Sorted> {
        self.0.finish().map(Sorted)
    }
}

/// Entries in the order of their keys.
pub struct Sorted(spill::SortedEntries);

impl Sorted {
    /// Moves to the next entry. Returns false at the end.
    ///
    /// # Errors
    /// Io, Corruption. The entries have ended then.
    pub fn advance(&mut self) -> Result<bool> {
        self.0.advance()
    }

    /// Gives up memory and keeps the position, for a slow reader.
    pub fn park(&mut self) {
        self.0.park();
    }

    /// The key of the current entry.
    pub fn key(&self) -> &[u8] {
        self.0.key()
    }

    /// The value of the current entry.
    pub fn value(&self) -> &[u8] {
        self.0.value()
    }

    /// The bytes that were written to spill files.
    pub const fn spilled_bytes(&self) -> u64 {
        self.0.spilled().bytes
    }
}
