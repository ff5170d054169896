//! The handle of a collection: documents by primary key.
//!
//! Key: the sort key of the primary key's value. Value: the document's binary form, its field names
//! as ids of the collection's table of names.

use super::decode;
use super::stored::Stored;
use crate::args::Key;
use flagstone_base::{Malformed, Result};
use flagstone_doc::{JsonPath, Value, View};
use flagstone_engine::{Engine, Keyspace, TryGet};
use std::fmt;

/// A handle of a collection: documents by primary key. Cheap to clone; usable from any thread;
/// keeps the database open. Many of its methods are those of the trait [`Space`](crate::Space):
/// put, get, scan and others.
///
/// A primary key is any document value, such as text, a number, or an array of them: a compound
/// key, which a tuple or a list writes. Documents are in the total order of their keys.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Json, Space};
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
/// use flagstone::{Json, Space};
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

    /// Returns a number that identifies the collection in its database. A rename keeps it, and no
    /// other collection ever has it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let users = db.collection("users")?;
    /// let id = users.id();
    /// db.rename_keyspace("users", "members")?;
    /// assert_eq!(db.collection("members")?.id(), id);
    /// assert_ne!(db.collection("users")?.id(), id);               // a new one
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the document of `key` as a Rust value, or `None` if there is none. Fields that the
    /// type lacks are skipped without decoding. To borrow text from the document instead of copying
    /// it, use [`Space::get`](crate::Space::get) and [`Document::to`](crate::Document::to).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{As, Space};
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct User { name: String, born: u16 }
    /// let users = db.collection("users")?;
    /// users.put("ada", As(&User { name: "Ada".into(), born: 1815 }))?;
    /// let ada: User = users.get_as("ada")?.expect("it was put");
    /// assert_eq!((ada.name.as_str(), ada.born), ("Ada", 1815));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if the document does not fit the type, with the path of the part that does not;
    /// else as [`Space::get`](crate::Space::get).
    #[cfg(feature = "serde")]
    pub fn get_as<T: serde::de::DeserializeOwned>(&self, key: impl Key<Self>) -> Result<Option<T>> {
        let found = self.0.get(key.key_bytes()?.as_ref())?;
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
    /// use flagstone::{Json, Space};
    /// let comments = db.collection("comments")?;
    /// comments.put("evn2i5p", Json(r#"{"author":{"name":"x"},"score":1}"#))?;
    /// assert_eq!(comments.get_path("evn2i5p", "author.name")?, Some("x".into()));
    /// assert_eq!(comments.get_path("evn2i5p", "author.age")?, None);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space::get`](crate::Space::get).
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
    /// use flagstone::{Json, JsonPath, Space, Value};
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
    /// As [`Space::get`](crate::Space::get).
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
    /// use flagstone::{Json, Space};
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
    /// As [`Space::get`](crate::Space::get); Corruption if `read` returns [`Malformed`], as views
    /// do for damaged bytes.
    pub fn look<R>(
        &self,
        key: impl Key<Self>,
        read: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
    ) -> Result<Option<R>> {
        let key = key.key_bytes()?;
        if let Some(remote) = self.0.remote() {
            let row = remote.get(key.as_ref())?;
            return row.map(|row| decode::look(&self.0, &row.document, read)).transpose();
        }
        self.0.keyspace()?.look(key, |bytes| decode::look(&self.0, bytes, read))?.transpose()
    }

    /// Calls `read` with a view of the stored document of `key` from memory alone, as
    /// [`Space::try_get`](crate::Space::try_get).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Space, TryGet};
    /// let comments = db.collection("comments")?;
    /// comments.put("a", Json(r#"{"score":7}"#))?;
    /// let read = |key| comments.try_look(key, |d| Ok(d.get("score")?.map(|n| n.to_string())));
    /// assert_eq!(read("a")?, TryGet::Found(Some("7".into())));  // in a memtable
    /// assert_eq!(read("b")?, TryGet::Absent);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::look`].
    pub fn try_look<R>(
        &self,
        key: impl Key<Self>,
        read: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
    ) -> Result<TryGet<R>> {
        let look = |bytes: &[u8]| decode::look(&self.0, bytes, read);
        let found = self.0.keyspace()?.try_look(key.key_bytes()?, look)?;
        found.and_then(|read| read)
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collection({:?})", self.0.name())
    }
}
