//! The handle of a collection: documents by primary key.
//!
//! Key: the sort key of the primary key's value. Value: the document's binary form, its field names
//! as ids of the collection's table of names.

use super::stored::Stored;
use super::write::{self, Change, Destination};
use super::{DocumentScan, StoredView, decode, encode, update};
use crate::entry::EntryOptions;
use crate::sort_keys;
use flagstone_base::key::KeyRange;
use flagstone_base::{Malformed, Moment, Result};
use flagstone_doc::{Document, DocumentMut, JsonPath, Value, View};
use flagstone_engine::{Engine, Keyspace, TryGet, VersionToken};
use std::fmt;
use std::ops::RangeBounds;

/// A handle of a collection: documents by primary key. Cheap to clone; usable from any thread;
/// keeps the database open.
///
/// A primary key is any document value, such as text, a number, or an array of them: a compound
/// key, which a tuple or a list writes. Documents are in the total order of their keys.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let rooms = db.collection("rooms")?;
/// let (city, number) = ("berlin".to_owned(), 7);
/// rooms.put_json((&city, number), r#"{"beds":2}"#)?;
/// rooms.put_json(&city, r#"{"rooms":1}"#)?;
/// rooms.put_json(["berlin", "attic"], r#"{"beds":1}"#)?;
/// assert!(rooms.get(flagstone::doc!(["berlin", 7]))?.is_some());
/// assert_eq!(rooms.scan(("berlin", 0)..("berlin", 100))?.count(), 1);
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let comments = db.collection("comments")?;
/// comments.put_json("evn2i5p", br#"{"author":"x","score":1}"#)?;
/// comments.update("evn2i5p", |d| d.inc("score", 1))?;
/// let document = comments.get("evn2i5p")?.expect("it was put");
/// assert_eq!(document.to_json().unwrap(), r#"{"author":"x","score":2}"#);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone)]
pub struct Collection(pub(crate) Stored);

impl Collection {
    pub(crate) fn new(engine: &Engine, keyspace: Keyspace) -> Result<Self> {
        Stored::new(engine, keyspace).map(Self)
    }

    /// Returns the name of the collection as of now:
    /// [`Database::rename_keyspace`](crate::Database::rename_keyspace) changes it.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Returns a number that identifies the collection in its database. A rename keeps it, and no
    /// other collection ever has it.
    pub fn id(&self) -> u32 {
        self.0.bytes().id().0
    }

    /// Counts a writer of `key` as one that had to wait for others. For tests of splits by load.
    #[doc(hidden)]
    pub fn note_wait(&self, key: impl Into<Value>) {
        if let Ok(key) = sort_keys::of_primary(&key.into()) {
            self.0.bytes().note_wait(&key);
        }
    }

    /// Sets the document of `key`. The encoded key has at most 65,535 bytes; the document has at
    /// most [`Options::document_bytes_max`](crate::Options::document_bytes_max), 16 MiB by default.
    ///
    /// # Errors
    /// InvalidInput for a key or a document over its limit; else as
    /// [`Keyspace::put`](crate::Keyspace::put).
    pub fn put(&self, key: impl Into<Value>, document: &Document) -> Result<()> {
        self.put_with(key, document, EntryOptions::new())
    }

    /// As [`Collection::put`], with options of its own.
    ///
    /// # Errors
    /// As [`Collection::put`].
    pub fn put_with(
        &self,
        key: impl Into<Value>,
        document: &Document,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let admission = write::admission_for(&self.0, &key, document.as_bytes().len())?;
        let bytes = encode::document(&self.0, document)?;
        write::put(&self.0, &key, (bytes, options), admission)
    }

    /// Returns the moment from which on the document of `key` is absent; `None` if it has no
    /// expiry, or is absent now.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get).
    pub fn expiry(&self, key: impl Into<Value>) -> Result<Option<Moment>> {
        self.0.bytes().expiry(&sort_keys::of_primary(&key.into())?)
    }

    /// Sets the document of `key` to `value`.
    ///
    /// # Errors
    /// As [`Collection::put`]; InvalidInput for a value nested too deep.
    pub fn put_value(&self, key: impl Into<Value>, value: &Value) -> Result<()> {
        self.put_value_with(key, value, EntryOptions::new())
    }

    /// As [`Collection::put_value`], with options of its own.
    ///
    /// # Errors
    /// As [`Collection::put_value`].
    pub fn put_value_with(
        &self,
        key: impl Into<Value>,
        value: &Value,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = encode::value(&self.0, value)?;
        write::put(&self.0, &key, (bytes, options), None)
    }

    /// Sets the document of `key` to the document in the JSON text `json`. Numbers are kept
    /// exactly.
    ///
    /// # Errors
    /// InvalidInput with line and column if the text is not JSON; else as [`Collection::put`].
    pub fn put_json(&self, key: impl Into<Value>, json: impl AsRef<[u8]>) -> Result<()> {
        self.put_json_with(key, json, EntryOptions::new())
    }

    /// As [`Collection::put_json`], with options of its own.
    ///
    /// # Errors
    /// As [`Collection::put_json`].
    pub fn put_json_with(
        &self,
        key: impl Into<Value>,
        json: impl AsRef<[u8]>,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let json = json.as_ref();
        let admission = write::admission_for(&self.0, &key, json.len())?;
        let bytes = encode::json(&self.0, json)?;
        write::put(&self.0, &key, (bytes, options), admission)
    }

    /// Sets the document of `key` to a Rust value, which serde writes directly in the binary form.
    /// The result is a document like any other: JSON functions, patches and other types read and
    /// change it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Patch;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Comment {
    ///     author: String,
    ///     score: i64,
    ///     #[serde(default)]
    ///     tags: Vec<String>,
    /// }
    ///
    /// let comments = db.collection("comments")?;
    /// comments.put_as("evn2i5p", &Comment { author: "x".into(), score: 1, tags: vec![] })?;
    /// comments.patch("evn2i5p", &Patch::new().inc("score", 1).push("tags", "hot"))?;
    /// let comment: Comment = comments.get_as("evn2i5p")?.expect("it was put");
    /// assert_eq!((comment.score, comment.tags), (2, vec!["hot".to_owned()]));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput with the path of a part that no document can hold (a field twice, nesting
    /// beyond 512): nothing is written then. Else as [`Collection::put`].
    #[cfg(feature = "serde")]
    pub fn put_as<T: serde::Serialize + ?Sized>(
        &self,
        key: impl Into<Value>,
        value: &T,
    ) -> Result<()> {
        self.put_as_with(key, value, EntryOptions::new())
    }

    /// As [`Collection::put_as`], with options of its own.
    ///
    /// # Errors
    /// As [`Collection::put_as`].
    #[cfg(feature = "serde")]
    pub fn put_as_with<T: serde::Serialize + ?Sized>(
        &self,
        key: impl Into<Value>,
        value: &T,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = encode::rust_value(&self.0, value)?;
        write::put(&self.0, &key, (bytes, options), None)
    }

    /// Returns the document of `key`, or `None` if there is none. The document does not depend on
    /// the database: keep it as long as you like.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get); Corruption if the stored bytes are not a
    /// document.
    pub fn get(&self, key: impl Into<Value>) -> Result<Option<Document>> {
        let key = sort_keys::of_primary(&key.into())?;
        let found = self.0.bytes().get(&key)?;
        found.map(|bytes| decode::document(&self.0, bytes)).transpose()
    }

    /// Returns the document of `key` from memory alone, as
    /// [`Keyspace::try_get`](crate::Keyspace::try_get).
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn try_get(&self, key: impl Into<Value>) -> Result<TryGet<Document>> {
        let key = sort_keys::of_primary(&key.into())?;
        self.0.bytes().try_get(&key)?.and_then(|bytes| decode::document(&self.0, bytes))
    }

    /// Returns the document of `key` with a token of the write that set it, for
    /// [`Batch::expect_document_version`](crate::Batch::expect_document_version); `None` if there
    /// is no document.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let accounts = db.collection("accounts")?;
    /// accounts.put_json("alice", r#"{"balance":100}"#)?;
    /// let Some((version, document)) = accounts.get_versioned("alice")? else { return Ok(()) };
    ///
    /// let mut edited = document.edit();
    /// edited.inc("balance", -10)?;
    /// let mut batch = db.batch();
    /// batch.expect_document_version(&accounts, "alice", version)?;
    /// batch.put_value(&accounts, "alice", edited.value())?;
    /// db.commit(batch)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn get_versioned(&self, key: impl Into<Value>) -> Result<Option<(VersionToken, Document)>> {
        let found = self.0.bytes().get_versioned(sort_keys::of_primary(&key.into())?)?;
        found.map(|(version, bytes)| Ok((version, decode::document(&self.0, bytes)?))).transpose()
    }

    /// Returns the document of `key` as a Rust value, or `None` if there is none. Fields that the
    /// type lacks are skipped without decoding. To borrow text from the document instead of copying
    /// it, use [`Collection::get`] and [`Document::to`](crate::Document::to).
    ///
    /// # Errors
    /// InvalidInput if the document does not fit the type, with the path of the part that does not;
    /// else as [`Collection::get`].
    #[cfg(feature = "serde")]
    pub fn get_as<T: serde::de::DeserializeOwned>(
        &self,
        key: impl Into<Value>,
    ) -> Result<Option<T>> {
        let found = self.0.bytes().get(&sort_keys::of_primary(&key.into())?)?;
        found.map(|bytes| decode::rust_value(&self.0, &bytes)).transpose()
    }

    /// Returns the value at the dotted `path` (`id`, `a.b`, `tags.0`) of the document of `key`, or
    /// `None` if there is no such document or no such value.
    ///
    /// Decodes, checks and copies nothing else of the document.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let comments = db.collection("comments")?;
    /// comments.put_json("evn2i5p", r#"{"author":{"name":"x"},"score":1}"#)?;
    /// assert_eq!(comments.get_path("evn2i5p", "author.name")?, Some("x".into()));
    /// assert_eq!(comments.get_path("evn2i5p", "author.age")?, None);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn get_path(&self, key: impl Into<Value>, path: &str) -> Result<Option<Value>> {
        let found = self.look(key, |root| root.path(path)?.map(|view| view.to_value()).transpose());
        Ok(found?.flatten())
    }

    /// Returns the values that each of `paths` selects in the document of `key`, in order, or
    /// `None` if there is no such document.
    ///
    /// Reads the document once. Decodes and copies what is selected, and looks at what the paths
    /// have to look at. For the places of the values, or values that need no copy, use
    /// [`Collection::look`] and [`JsonPath::nodes`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{JsonPath, Value};
    /// let posts = db.collection("posts")?;
    /// posts.put_json("p1", r#"{"title":"Weaving","votes":[{"by":"x","n":1},{"by":"y","n":0}]}"#)?;
    /// let paths = [JsonPath::parse("$.title")?, JsonPath::parse("$.votes[?@.n > 0].by")?];
    /// let found = posts.get_paths("p1", &paths)?.expect("it was put");
    /// assert_eq!(found, [vec![Value::from("Weaving")], vec![Value::from("x")]]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn get_paths<'p>(
        &self,
        key: impl Into<Value>,
        paths: impl IntoIterator<Item = &'p JsonPath>,
    ) -> Result<Option<Vec<Vec<Value>>>> {
        self.look(key, |root| {
            let values = |path: &JsonPath| {
                path.nodes(root).map(|node| node?.view().to_value()).collect::<Result<Vec<_>, _>>()
            };
            paths.into_iter().map(values).collect()
        })
    }

    /// Calls `read` with a view of the stored document of `key` and returns its result, or `None`
    /// if there is no such document. For several parts of a document, or parts that need no copy.
    /// `read` should be short, as for [`Keyspace::look`](crate::Keyspace::look).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let comments = db.collection("comments")?;
    /// comments.put_json("evn2i5p", r#"{"body":"some text","score":7}"#)?;
    /// let found = comments.look("evn2i5p", |document| {
    ///     let body = document.path("body")?.and_then(|view| view.as_str()).map_or(0, str::len);
    ///     Ok((body, document.path("score")?.and_then(|view| view.as_i64())))
    /// })?;
    /// assert_eq!(found, Some((9, Some(7))));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::get`]; Corruption if `read` returns [`Malformed`], as views do for damaged
    /// bytes.
    pub fn look<R>(
        &self,
        key: impl Into<Value>,
        read: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
    ) -> Result<Option<R>> {
        let key = sort_keys::of_primary(&key.into())?;
        self.0.bytes().look(&key, |bytes| decode::look(&self.0, bytes, read))?.transpose()
    }

    /// Calls `read` with a view of the stored document of `key` from memory alone, as
    /// [`Keyspace::try_get`](crate::Keyspace::try_get).
    ///
    /// # Errors
    /// As [`Collection::look`].
    pub fn try_look<R>(
        &self,
        key: impl Into<Value>,
        read: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
    ) -> Result<TryGet<R>> {
        let key = sort_keys::of_primary(&key.into())?;
        let found = self.0.bytes().try_look(&key, |bytes| decode::look(&self.0, bytes, read))?;
        found.and_then(|read| read)
    }

    /// Reads the document of `key`, lets `change` change it, and writes it. No other write of the
    /// key comes between, so concurrent increments are never lost. Returns false if there is no
    /// such document. Nothing is written if nothing was changed.
    ///
    /// Writes of this key wait while `change` runs. A write to the same database inside `change`
    /// returns InvalidInput.
    ///
    /// # Errors
    /// The error that `change` returns: nothing is written then. Else as [`Collection::put`].
    pub fn update(
        &self,
        key: impl Into<Value>,
        change: impl FnOnce(&mut DocumentMut) -> Result<()>,
    ) -> Result<bool> {
        update::update(&self.0, Destination::Database, &sort_keys::of_primary(&key.into())?, change)
    }

    /// Removes the document of `key`, whether it is there or not. Costs as much as a put.
    ///
    /// # Errors
    /// As [`Keyspace::put`](crate::Keyspace::put).
    pub fn delete(&self, key: impl Into<Value>) -> Result<()> {
        write::one(&self.0, &sort_keys::of_primary(&key.into())?, Change::Delete)
    }

    /// Removes the document of `key` and returns whether it was there.
    ///
    /// # Errors
    /// As [`Keyspace::remove`](crate::Keyspace::remove).
    pub fn remove(&self, key: impl Into<Value>) -> Result<bool> {
        update::remove(&self.0, &sort_keys::of_primary(&key.into())?)
    }

    /// Removes all documents with keys in `range`, however many: writes one entry for each
    /// partition.
    ///
    /// # Errors
    /// InvalidInput for a bound of more than 65,535 bytes encoded; else as [`Collection::put`].
    pub fn delete_range<K: Into<Value> + Clone>(&self, range: impl RangeBounds<K>) -> Result<()> {
        write::range(&self.0, sort_keys::of_range(range)?)
    }

    /// Removes all documents, as [`Keyspace::clear`](crate::Keyspace::clear). Names of fields stay
    /// defined.
    ///
    /// # Errors
    /// As [`Keyspace::clear`](crate::Keyspace::clear).
    pub fn clear(&self) -> Result<()> {
        write::clear(&self.0)
    }

    /// Returns the documents with keys in `range`, in the order of their keys, as of one moment.
    ///
    /// # Errors
    /// InvalidInput for a bound over 65,535 bytes encoded.
    pub fn scan<K: Into<Value> + Clone>(&self, range: impl RangeBounds<K>) -> Result<DocumentScan> {
        Ok(self.scan_keys(sort_keys::of_range(range)?))
    }

    /// Returns all documents in the order of their keys, as of one moment.
    pub fn scan_all(&self) -> DocumentScan {
        self.scan_keys(KeyRange::ALL)
    }

    /// Returns the documents whose keys are text that begins with `prefix`, in the order of their
    /// keys.
    pub fn prefix(&self, prefix: &str) -> DocumentScan {
        self.scan_keys(KeyRange::prefix(&sort_keys::of_text_prefix(prefix)))
    }

    fn scan_keys(&self, range: KeyRange) -> DocumentScan {
        DocumentScan::new(&self.0, self.0.bytes().scan_range(range))
    }

    /// Returns the number of documents. Reads all keys: see
    /// [`Keyspace::count`](crate::Keyspace::count).
    ///
    /// # Errors
    /// As [`Keyspace::count`](crate::Keyspace::count).
    pub fn count(&self) -> Result<u64> {
        self.0.bytes().count()
    }

    /// Returns about how many documents there are, from counters alone: see
    /// [`Keyspace::approximate_count`](crate::Keyspace::approximate_count).
    pub fn approximate_count(&self) -> u64 {
        self.0.bytes().approximate_count()
    }

    /// Returns a view of the sort keys and binary documents that are stored, for reading only. A
    /// snapshot has [`Snapshot::get_stored`](crate::Snapshot::get_stored) and
    /// [`Snapshot::scan_stored`](crate::Snapshot::scan_stored).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let comments = db.collection("comments")?;
    /// comments.put_json("evn2i5p", r#"{"score":1}"#)?;
    /// let bytes: usize = comments.stored().scan_all().map(|entry| entry.unwrap().1.len()).sum();
    /// assert!(bytes < 11);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn stored(&self) -> StoredView<'_> {
        StoredView::new(self.0.bytes())
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collection({:?})", self.name())
    }
}
