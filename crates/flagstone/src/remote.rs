//! Another engine of bytes below the handles of collections: a cluster of machines that stores the
//! documents and the entries of indexes.
//!
//! ```text
//! Collection, Find, Cursor, Group, WriteMany
//!        |                        \
//!        v                         v
//! flagstone-engine: one machine    Remote: rows of a cluster, see crate flagstone-cluster
//! ```
//! A [`Remote`] stores sort keys, documents in their self-contained binary form (their field names
//! are in them), and entries of indexes in the form of docs/format/index.md. This crate decides
//! what is stored: it makes the documents, their entries and the plans. The remote decides where,
//! and keeps a document and its entries in agreement.
//!
//! What an engine on one machine promises and a cluster cannot is refused as Unsupported:
//! snapshots, transactions, batches over several documents, the change feed.
//!
//! Nothing here is for users: the functions and types may change at any time.

use crate::index::{
    Definition, DocumentEntries, DocumentState, Ends, EntryDifference, IndexState, Refusal, Status,
    differences, encode_note, parts, value_of,
};
use crate::scan::ForeignScan;
pub use crate::shard::Shard;
pub use flagstone_base::KeyRange;
use flagstone_base::{Error, ErrorKind, Moment, Result, Slice};
use flagstone_doc::{Direction, View, sort_key};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A stored document, and when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub document: Slice,
    pub expiry: Option<Moment>,
}

/// What a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// The documents, by their stored keys.
    Documents,
    /// The entries of the index of this number, by their keys.
    Index(u32),
}

/// The order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanOrder {
    Ascending,
    Descending,
    /// The one that costs least.
    Any,
}

/// What a look at a part of an index tells of ranges of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How many entries there are, about, or at least: there are more than were looked at.
    pub entries: u64,
    pub is_least: bool,
    /// How many were looked at.
    pub sampled: u64,
}

/// What a write does to a document that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The document stays as it is.
    Nothing,
    Delete,
    /// The document is set to these bytes, with this expiry.
    Put(Vec<u8>, Option<Moment>),
}

/// What decides what is written: it gets the stored row, and may be called several times, each time
/// with what is stored then. What it returns for the last call is written.
pub type Decide<'d> = &'d mut dyn FnMut(Option<&Row>) -> Result<Write>;

/// A scan. Rows that have expired are left out.
pub trait RemoteScan: Send {
    /// Moves to the next row. Returns false at the end.
    fn advance(&mut self) -> Result<bool>;

    /// The key of the current row.
    fn key(&self) -> &[u8];

    /// The document, or the value of the entry.
    fn value(&self) -> &Slice;

    /// When the row expires.
    fn expiry(&self) -> Option<Moment>;
}

/// One collection of a cluster. Its calls block.
///
/// # Errors
/// Of all calls: Unavailable if the cluster cannot be reached and nothing was written; Unknown if a
/// write may have happened, or may still happen; Corruption; Closed; InvalidInput for a collection
/// that was dropped.
pub trait Remote: Send + Sync {
    /// The name of the collection.
    fn name(&self) -> String;

    /// A number that identifies the collection in the cluster. A new one of the same name has
    /// another.
    fn id(&self) -> u32;

    /// A random number, which the page tokens of the collection carry. Collections of the same
    /// [`Remote::id`] in other clusters have others.
    fn history(&self) -> u64;

    /// The most bytes of a document.
    fn document_bytes_max(&self) -> usize;

    /// What is known of the catalog.
    fn catalog(&self) -> Arc<Catalog>;

    /// Reads the catalog again, and returns it. Everything that was committed before the call is in
    /// it: which indexes there are, and what was seen in documents that were committed before.
    fn refresh(&self) -> Result<Arc<Catalog>>;

    /// Returns the same collection for one query, which is planned by what is known of the catalog
    /// without a read of it. The query calls [`Remote::settle`] before it returns anything.
    fn for_query(&self) -> Result<Arc<dyn Remote>>;

    /// Called on a collection for one query. Returns once it is certain that the catalog has not
    /// changed from before the query began until after its last read so far. It asks the cluster
    /// only if no read of the query has found that out already.
    ///
    /// # Errors
    /// InvalidInput if the catalog has changed: the query must be planned again.
    fn settle(&self) -> Result<()>;

    fn get(&self, key: &[u8]) -> Result<Option<Row>>;

    /// Returns the rows of the first of several keys, in their order: at least of one, and of as
    /// many as do not take much memory.
    fn get_first(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>>;

    /// Calls `take` with the rows of all keys, in their order, until it returns `Break`. No more
    /// are in memory at once than [`Remote::get_first`] returns.
    fn get_many(
        &self,
        keys: &[&[u8]],
        take: &mut dyn FnMut(Option<Row>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut rest = keys;
        while !rest.is_empty() {
            let rows = self.get_first(rest)?;
            rest = rest.get(rows.len()..).unwrap_or_default();
            if rows.into_iter().try_for_each(&mut *take).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the place of the first key that has a document, or was there before in `keys`:
    /// where inserts in their order end.
    fn first_there(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut known = HashSet::with_capacity(keys.len());
        let twice = keys.iter().position(|key| !known.insert(*key));
        let (mut place, mut is_there) = (0, false);
        self.get_many(&keys[..twice.unwrap_or(keys.len())], &mut |row| {
            is_there = row.is_some();
            if is_there {
                return ControlFlow::Break(());
            }
            place += 1;
            ControlFlow::Continue(())
        })?;
        Ok(if is_there { Some(place) } else { twice })
    }

    /// Reads the rows of a range. `most` is how many rows the caller will take, if it is known.
    /// A scan of an index that is dropped meanwhile ends with InvalidInput.
    fn scan(
        &self,
        area: Area,
        range: &KeyRange,
        order: ScanOrder,
        most: Option<u64>,
    ) -> Result<Box<dyn RemoteScan>>;

    /// Returns the same collection for queries of the documents of a shard: its scans may leave out
    /// what belongs to others.
    fn part(&self, shard: Shard) -> Arc<dyn Remote>;

    /// Returns the number of rows of a range that have not expired.
    fn count(&self, area: Area, range: &KeyRange) -> Result<u64>;

    /// About how many rows there are, without reading many.
    fn about(&self, area: Area) -> u64;

    /// About how many entries each of some indexes has in its ranges, by a look at a part of the
    /// collection: all at once, at the cost of one small read. `None` for what is not known.
    fn sample(&self, asked: &[(u32, Vec<KeyRange>)]) -> Vec<Option<Sample>>;

    /// Refuses where nothing can be written, whatever the document: in the closure of an update.
    fn check_may_write(&self) -> Result<()>;

    /// Sets a document. The old one is read only where its entries are needed.
    fn put(&self, key: &[u8], document: &[u8], expiry: Option<Moment>) -> Result<()>;

    /// Sets several documents. Of two with one key the later one counts. Each is set by itself: an
    /// error may leave some of them set.
    fn put_many(&self, rows: Vec<(Vec<u8>, Row)>) -> Result<()>;

    /// Adds the documents whose keys have none. Returns of each whether it was added: of two with
    /// one key the first one is. Each is added by itself.
    fn insert_many(&self, rows: Vec<(Vec<u8>, Row)>) -> Vec<Result<bool>>;

    /// Reads the row of `key` and writes what `decide` returns; no other write of the key comes
    /// between. Returns whether something was written.
    fn rewrite(&self, key: &[u8], decide: Decide<'_>) -> Result<bool>;

    /// Calls `work` with each number below `count`, some at once: each write waits for nodes.
    fn side_by_side(&self, count: usize, work: &(dyn Fn(usize) + Sync));

    /// Removes the documents of a range, one by one or several at once: an error may leave some.
    fn delete_range(&self, range: &KeyRange) -> Result<()>;

    /// Ends the marks of loads that were stopped, whose documents are removed.
    fn end_loads(&self) -> Result<()>;

    /// Returns the mark of a load.
    fn mark(&self, key: &[u8]) -> Result<Option<Slice>>;

    /// Sets or removes marks, after all that was written before.
    fn put_marks(&self, marks: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<()>;

    /// As [`Remote::rewrite`], of a mark.
    fn rewrite_mark(&self, key: &[u8], decide: Decide<'_>) -> Result<bool>;

    /// Removes all documents. The indexes stay.
    fn clear(&self) -> Result<()>;

    /// Creates an index and returns when it is complete, or `Break` if `watch` did.
    fn create_index(
        &self,
        index: &NewIndex,
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>>;

    /// Removes an index. Returns false if there is none of this name.
    fn drop_index(&self, name: &str) -> Result<bool>;
}

/// What a collection's catalog says of its indexes. Never changes: a newer one replaces it.
pub struct Catalog {
    /// Rises with every change of the catalog.
    pub version: u64,
    indexes: Vec<Arc<RemoteIndex>>,
}

/// One index of a catalog.
pub struct RemoteIndex {
    /// Its number in the collection, which no other index ever has.
    pub id: u32,
    pub(crate) state: IndexState,
}

/// An index that is to be created.
pub struct NewIndex {
    pub name: String,
    pub is_unique: bool,
    /// Its note, as the catalog stores it while the index is being built.
    pub note: Vec<u8>,
}

/// A change of one entry of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    /// The number of the index.
    pub index: u32,
    pub key: Vec<u8>,
    /// The value that the entry gets, with the expiry of its document; `None` removes it.
    pub value: Option<Vec<u8>>,
}

/// What changes with a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub entries: Vec<EntryChange>,
    /// The notes that indexes must have in the catalog before the document is written: it has
    /// arrays where there were none, or values that are cut.
    pub notes: Vec<(u32, Vec<u8>)>,
}

impl RemoteIndex {
    /// Returns the index of a note.
    ///
    /// # Errors
    /// Unsupported for a note of another version, Corruption for one that is damaged.
    pub fn new(id: u32, name: &str, note: &[u8]) -> Result<Self> {
        Ok(Self { id, state: IndexState::open(name, note)? })
    }

    pub fn name(&self) -> &str {
        &self.state.definition.name
    }

    /// Returns the stored key of the document of an entry, which is its key and value.
    ///
    /// # Errors
    /// Corruption if the entry is damaged.
    pub fn primary_key(&self, entry: (&[u8], &[u8])) -> Result<Vec<u8>> {
        let mut ends = Ends::default();
        let directions = self.state.definition.directions();
        let parts = parts(entry, directions, self.is_unique(), b"", &mut ends);
        parts.map(|parts| parts.primary_key.to_vec()).map_err(corrupt)
    }

    /// Returns whether no two documents may have one value.
    pub fn is_unique(&self) -> bool {
        self.state.definition.is_unique
    }

    /// Returns whether the index has all documents.
    pub fn is_complete(&self) -> bool {
        self.state.usable_from().is_some()
    }

    /// Returns the note of the index when it is complete.
    ///
    /// # Errors
    /// InvalidInput if it is too long.
    pub fn complete_note(&self) -> Result<Vec<u8>> {
        let status = Status { usable_from: Some(flagstone_base::SeqNo::new(0)), ..self.status() };
        encode_note(&self.state.definition, &status)
    }

    /// Returns the note of the index now.
    ///
    /// # Errors
    /// InvalidInput if it is too long.
    pub fn note(&self) -> Result<Vec<u8>> {
        encode_note(&self.state.definition, &self.status())
    }

    /// Returns the note of an index that has seen what this one and `other`, another note of it,
    /// have seen. It is complete if either is.
    ///
    /// # Errors
    /// As [`RemoteIndex::new`]; InvalidInput if it is too long.
    pub fn united(&self, other: &[u8]) -> Result<Vec<u8>> {
        let other = IndexState::open(self.name(), other)?;
        let usable_from = self.state.usable_from().or(other.usable_from());
        let seen = self.state.seen().with(other.seen());
        encode_note(&self.state.definition, &Status { usable_from, seen, built: None })
    }

    /// Refuses a new index of the same name that has another definition.
    ///
    /// # Errors
    /// InvalidInput; as [`RemoteIndex::new`].
    pub fn check_same(&self, new: &NewIndex) -> Result<()> {
        let text = |definition: &Definition| encode_note(definition, &Status::default());
        let other = IndexState::open(&new.name, &new.note)?;
        if text(&self.state.definition)? == text(&other.definition)? {
            return Ok(());
        }
        let name = self.name();
        Err(Error::invalid(format!("there is an index {name:?} already, with another definition")))
    }

    fn status(&self) -> Status {
        let (usable_from, seen) = (self.state.usable_from(), self.state.seen());
        Status { usable_from, seen, built: None }
    }
}

impl NewIndex {
    /// Returns what the catalog is to store of an index.
    ///
    /// # Errors
    /// Unsupported for an index that a cluster cannot keep.
    pub(crate) fn of(definition: &Definition) -> Result<Self> {
        let refused = match definition {
            Definition { expires: Some(_), .. } => "an index by which documents expire",
            _ => "",
        };
        if !refused.is_empty() {
            return Err(unsupported(refused, "an index without it, and checks by the application"));
        }
        let note = encode_note(definition, &Status::default())?;
        Ok(Self { name: definition.name.clone(), is_unique: definition.is_unique, note })
    }
}

impl Catalog {
    /// Returns the catalog of these indexes, in the order of their creation.
    pub fn new(version: u64, indexes: Vec<Arc<RemoteIndex>>) -> Self {
        Self { version, indexes }
    }

    pub fn indexes(&self) -> &[Arc<RemoteIndex>] {
        &self.indexes
    }

    /// Returns what changes in the indexes when the document of `key` goes from `old` to `new`.
    ///
    /// # Errors
    /// InvalidInput if an index cannot hold `new`, or the indexes together; Corruption if one of
    /// them is no document.
    pub fn changes(&self, key: &[u8], old: Option<&Row>, new: Option<&Row>) -> Result<Changes> {
        let mut changes = Changes::default();
        if self.indexes.is_empty() {
            return Ok(changes);
        }
        let old_root = old.map(root).transpose()?;
        let new_root = new.map(root).transpose()?;
        let mut entries = 0;
        for index in &self.indexes {
            let definition = &index.state.definition;
            let of = |root: &Option<View<'_>>, bytes_max| {
                root.as_ref()
                    .map(|root| DocumentEntries::of(definition, root, key, bytes_max))
                    .transpose()
            };
            let before = match of(&old_root, None) {
                Ok(entries) => entries,
                Err(Refusal::Malformed(malformed)) => return Err(corrupt(malformed)),
                // It was written before the index, which cannot hold it: its build will fail.
                Err(Refusal::Unfit(_)) => None,
            };
            let after = of(&new_root, Some(ENTRY_BYTES_MAX)).map_err(|refusal| match refusal {
                Refusal::Malformed(malformed) => corrupt(malformed),
                // What limits them here is no budget.
                Refusal::Unfit(error) => {
                    let budget = " (a quarter of the memory budget)";
                    Error::invalid(error.to_string().replace(budget, ""))
                }
            })?;
            if let Some(after) = &after {
                entries += after.iter().len();
                if entries > ENTRIES_MAX {
                    return Err(Error::invalid(format!(
                        "the document has more than {ENTRIES_MAX} entries in the indexes of the \
                         collection: one batch of a cluster writes them all"
                    )));
                }
                let (known, seen) = (index.state.seen(), index.state.seen().with(after.seen));
                if seen != known {
                    let status = Status { seen, ..index.status() };
                    changes.notes.push((index.id, encode_note(definition, &status)?));
                }
            }
            let expiry = |row: Option<&Row>| row.and_then(|row| row.expiry);
            let old = before.as_ref().map(|entries| DocumentState { entries, expiry: expiry(old) });
            let new = after.as_ref().map(|entries| DocumentState { entries, expiry: expiry(new) });
            differences(old, new, definition.is_unique, |change| {
                let (entry, value) = match change {
                    EntryDifference::Delete(entry) => (entry, None),
                    EntryDifference::Put(entry, flags) => {
                        let mut value = Vec::new();
                        value_of(definition, flags, key, &mut value);
                        (entry, Some(value))
                    }
                };
                changes.entries.push(EntryChange { index: index.id, key: entry.to_vec(), value });
                Ok::<(), Error>(())
            })?;
        }
        Ok(changes)
    }
}

/// The most bytes of the entries of one document in an index, and its most entries in all indexes:
/// a batch of a cluster takes them all, and may remove as many.
const ENTRY_BYTES_MAX: u64 = 4 << 20;
const ENTRIES_MAX: usize = 30_000;

fn root(row: &Row) -> Result<View<'_>> {
    View::of(&row.document, None).map_err(corrupt)
}

fn corrupt(malformed: flagstone_base::Malformed) -> Error {
    Error::new(ErrorKind::Corruption, format!("a stored document, {malformed}"))
}

/// Returns a stored key as errors show it.
pub fn shown_key(key: &[u8]) -> String {
    let value = sort_key::decode(key, Direction::Ascending);
    value.map_or_else(|_damaged| key.escape_ascii().to_string(), |value| value.to_string())
}

/// Returns the error of what a cluster cannot do. `instead` says what to use.
#[cold]
pub fn unsupported(what: &str, instead: &str) -> Error {
    let text = format!("{what} needs an embedded database: on a cluster use {instead}");
    Error::new(ErrorKind::Unsupported, text)
}

/// Documents that a load puts into a collection of a cluster, and how far it has come. They are no
/// batch in the sense of an embedded database: an error may leave some of them put.
pub(crate) struct RemoteBatch {
    remote: Arc<dyn Remote>,
    rows: Vec<(Vec<u8>, Row)>,
    /// Documents that are put if there are none of their keys.
    inserts: Vec<(Vec<u8>, Row)>,
    bytes: usize,
    marks: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl RemoteBatch {
    /// Returns the documents that a batch has for the collection in `remote`.
    fn of<'b>(batch: &'b mut Option<Self>, remote: &Arc<dyn Remote>) -> Result<&'b mut Self> {
        let found = batch.get_or_insert_with(|| Self {
            remote: Arc::clone(remote),
            rows: Vec::new(),
            inserts: Vec::new(),
            bytes: 0,
            marks: Vec::new(),
        });
        if found.remote.id() == remote.id() {
            Ok(found)
        } else {
            Err(unsupported("a batch of several collections", "a batch for each"))
        }
    }

    /// Adds a document.
    pub(crate) fn put(
        batch: &mut Option<Self>,
        remote: &Arc<dyn Remote>,
        key: &[u8],
        row: Row,
    ) -> Result<()> {
        let found = Self::of(batch, remote)?;
        found.bytes += key.len() + row.document.len();
        found.rows.push((key.to_vec(), row));
        Ok(())
    }

    /// Adds a document that is put if there is none of its key.
    pub(crate) fn insert(
        batch: &mut Option<Self>,
        remote: &Arc<dyn Remote>,
        key: &[u8],
        row: Row,
    ) -> Result<()> {
        let found = Self::of(batch, remote)?;
        found.bytes += key.len() + row.document.len();
        found.inserts.push((key.to_vec(), row));
        Ok(())
    }

    /// Sets or removes the mark of a load, after the documents.
    pub(crate) fn mark(
        batch: &mut Option<Self>,
        remote: &Arc<dyn Remote>,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) -> Result<()> {
        Self::of(batch, remote)?.marks.push((key, value));
        Ok(())
    }

    /// Refuses a commit that does not wait.
    pub(crate) fn refuse_start(&self) -> Result<()> {
        Err(unsupported("a commit that does not wait", "Database::commit"))
    }

    pub(crate) const fn len(&self) -> usize {
        self.rows.len() + self.inserts.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the documents, then the marks. Conflict if one is to be inserted whose key exists:
    /// the others are written, the marks are not.
    pub(crate) fn commit(mut self) -> Result<()> {
        if !self.write()?.into_iter().all(|is_inserted| is_inserted) {
            let text = "a document with this key exists";
            return Err(Error::new(ErrorKind::Conflict, text));
        }
        if self.marks.is_empty() { Ok(()) } else { self.remote.put_marks(self.marks) }
    }

    /// Writes the documents. Returns which of those were inserted that were to be.
    pub(crate) fn write(&mut self) -> Result<Vec<bool>> {
        let (rows, inserts) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.inserts));
        if !rows.is_empty() {
            self.remote.put_many(rows)?;
        }
        if inserts.is_empty() {
            return Ok(Vec::new());
        }
        self.remote.insert_many(inserts).into_iter().collect()
    }
}

/// The rows of a range, whose scan begins when the first one is asked for.
pub struct RemoteRows {
    remote: Arc<dyn Remote>,
    area: Area,
    range: KeyRange,
    order: ScanOrder,
    most: Option<u64>,
    scan: Option<Box<dyn RemoteScan>>,
    /// The value before the first row.
    nothing: Slice,
}

impl RemoteRows {
    pub(crate) fn new(remote: &Arc<dyn Remote>, area: Area, range: KeyRange) -> Self {
        let (remote, order) = (Arc::clone(remote), ScanOrder::Ascending);
        Self { remote, area, range, order, most: None, scan: None, nothing: Slice::EMPTY }
    }

    /// Says how many rows will be taken.
    pub(crate) fn most(self, most: Option<u64>) -> Self {
        Self { most, ..self }
    }

    pub(crate) fn rev(self) -> Self {
        let order = match self.order {
            ScanOrder::Ascending => ScanOrder::Descending,
            ScanOrder::Descending => ScanOrder::Ascending,
            ScanOrder::Any => ScanOrder::Any,
        };
        Self { order, ..self }
    }

    pub(crate) fn unordered(self) -> Self {
        Self { order: ScanOrder::Any, ..self }
    }

    pub(crate) fn advance(&mut self) -> Result<bool> {
        let Self { remote, area, range, order, most, scan, .. } = self;
        let scan = match scan {
            Some(scan) => scan,
            none => none.insert(remote.scan(*area, range, *order, *most)?),
        };
        scan.advance()
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.scan.as_ref().map_or(&[], |scan| scan.key())
    }

    pub(crate) fn value(&self) -> &Slice {
        self.scan.as_ref().map_or(&self.nothing, |scan| scan.value())
    }

    pub(crate) fn expiry(&self) -> Option<Moment> {
        self.scan.as_ref().and_then(|scan| scan.expiry())
    }
}

impl ForeignScan for RemoteRows {
    fn advance(&mut self) -> Result<bool> {
        self.advance()
    }

    fn key(&self) -> &[u8] {
        self.key()
    }

    fn value(&self) -> &Slice {
        self.value()
    }

    fn rev(self: Box<Self>) -> Box<dyn ForeignScan> {
        Box::new((*self).rev())
    }

    fn unordered(self: Box<Self>) -> Box<dyn ForeignScan> {
        Box::new((*self).unordered())
    }
}
