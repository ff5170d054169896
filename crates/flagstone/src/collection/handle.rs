//! The handle of a collection: documents by primary key.
//!
//! Key: the sort key of the primary key's value. Value: the document's binary form, its field names
//! as ids of the collection's table of names.

use super::stored::Stored;
use super::write::{self, Change, Destination};
use super::{decode, update};
use crate::args::{Key, KeyRange, NewValue};
use crate::scan::Scan;
use flagstone_base::{Malformed, Moment, Result};
use flagstone_doc::{Document, DocumentMut, JsonPath, Value, View};
use flagstone_engine::{Engine, Keyspace, TryGet, VersionToken};
use std::fmt;

/// A handle of a collection: documents by primary key. Cheap to clone; usable from any thread;
/// keeps the database open.
///
/// A primary key is any document value, such as text, a number, or an array of them: a compound
/// key, which a tuple or a list writes. Documents are in the total order of their keys.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::Json;
/// let rooms = db.collection("rooms")?;
/// let (city, number) = ("berlin".to_owned(), 7);
/// rooms.put((&city, number), Json(r#"{"beds":2}"#))?;
/// rooms.put(&city, Json(r#"{"rooms":1}"#))?;
/// rooms.put(["berlin", "attic"], Json(r#"{"beds":1}"#))?;
/// assert!(rooms.get(flagstone::doc!(["berlin", 7]))?.is_some());
/// assert_eq!(rooms.scan(("berlin", 0)..("berlin", 100)).count(), 1);
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::Json;
/// let comments = db.collection("comments")?;
/// comments.put("evn2i5p", Json(br#"{"author":"x","score":1}"#))?;
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

    /// Sets the document of `key`. `document` is a `&Document`, a [`Value`] or a reference to one,
    /// [`Json`](crate::Json)`(text)`, or [`As`](crate::As)`(&struct)`; each may have an expiry:
    /// [`Expires`](crate::Expires).
    ///
    /// The encoded key has at most 65,535 bytes; the document has at most
    /// [`Options::document_bytes_max`](crate::Options::document_bytes_max), 16 MiB by default.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, doc};
    /// let rooms = db.collection("rooms")?;
    /// rooms.put(1, doc!({ "beds": 2 }))?;
    /// rooms.put(2, Json(r#"{"beds":3}"#))?;
    /// let first = rooms.get(1)?.expect("it was put");
    /// rooms.put("copy", &first)?;
    /// assert_eq!(rooms.get("copy")?.and_then(|room| room.int("beds")), Some(2));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a key or a document over its limit, for a value nested too deep, for a text
    /// that is not JSON (with line and column), or for a Rust value that no document can hold;
    /// nothing is written then. Else as [`Keyspace::put`](crate::Keyspace::put).
    pub fn put(
        &self,
        key: impl Key<Self>,
        document: impl NewValue<Self, Bytes = Vec<u8>>,
    ) -> Result<()> {
        let key = key.key_bytes()?;
        let admission = match document.bytes_hint() {
            Some(bytes) => write::admission_for(&self.0, key.as_ref(), bytes)?,
            None => None,
        };
        let expiry = document.expiry();
        let bytes = document.value_bytes(self)?;
        write::put(&self.0, key.as_ref(), (bytes, expiry), admission)
    }

    /// Returns the moment from which on the document of `key` is absent; `None` if it has no
    /// expiry, or is absent now.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get).
    pub fn expiry(&self, key: impl Key<Self>) -> Result<Option<Moment>> {
        self.0.bytes().expiry(key.key_bytes()?.as_ref())
    }

    /// Returns the document of `key`, or `None` if there is none. The document does not depend on
    /// the database: keep it as long as you like.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get); Corruption if the stored bytes are not a
    /// document.
    pub fn get(&self, key: impl Key<Self>) -> Result<Option<Document>> {
        let found = self.0.bytes().get(key.key_bytes()?)?;
        found.map(|bytes| decode::document(&self.0, bytes)).transpose()
    }

    /// Returns the document of `key` from memory alone, as
    /// [`Keyspace::try_get`](crate::Keyspace::try_get).
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn try_get(&self, key: impl Key<Self>) -> Result<TryGet<Document>> {
        self.0.bytes().try_get(key.key_bytes()?)?.and_then(|bytes| decode::document(&self.0, bytes))
    }

    /// Returns the document of `key` with a token of the write that set it, for
    /// [`Batch::expect`](crate::Batch::expect); `None` if there is no document.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Expect, Json};
    /// let accounts = db.collection("accounts")?;
    /// accounts.put("alice", Json(r#"{"balance":100}"#))?;
    /// let Some((version, document)) = accounts.get_versioned("alice")? else { return Ok(()) };
    ///
    /// let mut edited = document.edit();
    /// edited.inc("balance", -10)?;
    /// let mut batch = db.batch();
    /// batch.expect(&accounts, "alice", Expect::Version(version))?;
    /// batch.put(&accounts, "alice", edited.value())?;
    /// db.commit(batch)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn get_versioned(&self, key: impl Key<Self>) -> Result<Option<(VersionToken, Document)>> {
        let found = self.0.bytes().get_versioned(key.key_bytes()?)?;
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
    pub fn get_as<T: serde::de::DeserializeOwned>(&self, key: impl Key<Self>) -> Result<Option<T>> {
        let found = self.0.bytes().get(key.key_bytes()?)?;
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
    /// use flagstone::Json;
    /// let comments = db.collection("comments")?;
    /// comments.put("evn2i5p", Json(r#"{"author":{"name":"x"},"score":1}"#))?;
    /// assert_eq!(comments.get_path("evn2i5p", "author.name")?, Some("x".into()));
    /// assert_eq!(comments.get_path("evn2i5p", "author.age")?, None);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn get_path(&self, key: impl Key<Self>, path: &str) -> Result<Option<Value>> {
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
    /// use flagstone::{Json, JsonPath, Value};
    /// let posts = db.collection("posts")?;
    /// let votes = r#"{"title":"Weaving","votes":[{"by":"x","n":1},{"by":"y","n":0}]}"#;
    /// posts.put("p1", Json(votes))?;
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
        key: impl Key<Self>,
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
    /// use flagstone::Json;
    /// let comments = db.collection("comments")?;
    /// comments.put("evn2i5p", Json(r#"{"body":"some text","score":7}"#))?;
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
        key: impl Key<Self>,
        read: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
    ) -> Result<Option<R>> {
        self.0
            .bytes()
            .look(key.key_bytes()?, |bytes| decode::look(&self.0, bytes, read))?
            .transpose()
    }

    /// Calls `read` with a view of the stored document of `key` from memory alone, as
    /// [`Keyspace::try_get`](crate::Keyspace::try_get).
    ///
    /// # Errors
    /// As [`Collection::look`].
    pub fn try_look<R>(
        &self,
        key: impl Key<Self>,
        read: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
    ) -> Result<TryGet<R>> {
        let look = |bytes: &[u8]| decode::look(&self.0, bytes, read);
        let found = self.0.bytes().try_look(key.key_bytes()?, look)?;
        found.and_then(|read| read)
    }

    /// Reads the document of `key`, lets `change` change it, and writes it. No other write of the
    /// key comes between, so concurrent increments are never lost. Returns false if there is no
    /// such document. Nothing is written if nothing was changed. An expiry is kept.
    ///
    /// Writes of this key wait while `change` runs. A write to the same database inside `change`
    /// returns InvalidInput. `change` may be called more than once, each time with the stored
    /// document.
    ///
    /// # Errors
    /// The error that `change` returns: nothing is written then. Else as [`Collection::put`].
    pub fn update(
        &self,
        key: impl Key<Self>,
        change: impl FnMut(&mut DocumentMut) -> Result<()>,
    ) -> Result<bool> {
        update::update(&self.0, Destination::Database, key.key_bytes()?.as_ref(), change)
    }

    /// Removes the document of `key`, whether it is there or not. Costs as much as a put.
    ///
    /// # Errors
    /// As [`Keyspace::put`](crate::Keyspace::put).
    pub fn delete(&self, key: impl Key<Self>) -> Result<()> {
        write::one(&self.0, key.key_bytes()?.as_ref(), Change::Delete)
    }

    /// Removes the document of `key` and returns whether it was there.
    ///
    /// # Errors
    /// As [`Keyspace::remove`](crate::Keyspace::remove).
    pub fn remove(&self, key: impl Key<Self>) -> Result<bool> {
        update::remove(&self.0, key.key_bytes()?.as_ref())
    }

    /// Removes all documents with keys in `range`, however many: writes one entry for each
    /// partition.
    ///
    /// # Errors
    /// InvalidInput for a bound of more than 65,535 bytes encoded; else as [`Collection::put`].
    pub fn delete_range(&self, range: impl KeyRange<Self>) -> Result<()> {
        write::range(&self.0, range.key_range()?)
    }

    /// Removes all documents, as [`Keyspace::clear`](crate::Keyspace::clear). Names of fields stay
    /// defined.
    ///
    /// # Errors
    /// As [`Keyspace::clear`](crate::Keyspace::clear).
    pub fn clear(&self) -> Result<()> {
        write::clear(&self.0)
    }

    /// Returns the documents with keys in `range`, in the order of their keys, as of one moment:
    /// pairs of a key ([`Value`]) and a [`Document`]. Errors come from the iterator: see [`Scan`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Prefix, doc};
    /// let pages = db.collection("pages")?;
    /// for key in ["/a", "/a/b", "/c"] {
    ///     pages.put(key, doc!({ "visits": 1 }))?;
    /// }
    /// for page in pages.scan("/a/".."/d") {
    ///     let (key, document) = page?;
    ///     println!("{key} {document}");
    /// }
    /// let keys: Vec<_> = pages.scan(Prefix("/a")).keys().collect::<Result<_, _>>()?;
    /// assert_eq!(keys, ["/a".into(), "/a/b".into()]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn scan(&self, range: impl KeyRange<Self>) -> Scan<'static, Self> {
        let range = range.key_range();
        Scan::new(range.map(|range| self.0.bytes().scan_range(range)), self.0.clone())
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
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collection({:?})", self.name())
    }
}
