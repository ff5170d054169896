//! Rust values as documents, by serde.

use super::Collection;
use super::write::Change;
use crate::batch::Batch;
use crate::entry::EntryOptions;
use crate::{encoders, sort_keys};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_doc::{Value, View};
use serde::Serialize;
use serde::de::DeserializeOwned;

impl Collection {
    /// Sets the document of `key` to a Rust value, which serde writes directly in the binary form. The
    /// result is a document like any other: JSON functions, patches and other types read and change it.
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
    /// InvalidInput with the path of a part that no document can hold (a field twice, nesting beyond 512):
    /// nothing is written then. Else as [`Collection::put`].
    pub fn put_as<T: Serialize + ?Sized>(&self, key: impl Into<Value>, value: &T) -> Result<()> {
        self.put_as_with(key, value, EntryOptions::new())
    }

    /// As [`Collection::put_as`], with options of its own.
    ///
    /// # Errors
    /// As [`Collection::put_as`].
    pub fn put_as_with<T: Serialize + ?Sized>(
        &self,
        key: impl Into<Value>,
        value: &T,
        options: EntryOptions,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = self.encode_as(value)?;
        self.write_put(&key, (bytes, options), None)
    }

    /// Returns the document of `key` as a Rust value, or `None` if there is none. Fields that the type lacks
    /// are skipped without decoding. To borrow text from the document instead of copying it, use
    /// [`Collection::get`] and [`Document::to`](crate::Document::to).
    ///
    /// # Errors
    /// InvalidInput if the document does not fit the type, with the path of the part that does not; else as
    /// [`Collection::get`].
    pub fn get_as<T: DeserializeOwned>(&self, key: impl Into<Value>) -> Result<Option<T>> {
        let found = self.bytes().get(&sort_keys::of_primary(&key.into())?)?;
        found.map(|bytes| self.read_as(&bytes)).transpose()
    }

    /// Reads a stored document as a Rust value.
    pub(crate) fn read_as<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        let root = View::of(bytes, Some(self.names()));
        let root =
            root.map_err(|malformed| Error::new(ErrorKind::Corruption, malformed.to_string()));
        root.and_then(|root| root.to())
            .map_err(|error| error.context(format_args!("a stored document of {:?}", self.name())))
    }

    fn encode_as<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let names = Some(self.names());
        encoders::for_collections(|encoder| encoder.encode_serialize(value, names, &mut out))?;
        self.check_size(out)
    }
}

impl Batch {
    /// Sets the document of `key` in `collection` to a Rust value.
    ///
    /// # Errors
    /// As [`Collection::put_as`]. The batch stays as it was.
    pub fn put_as<T: Serialize + ?Sized>(
        &mut self,
        collection: &Collection,
        key: impl Into<Value>,
        value: &T,
    ) -> Result<()> {
        let key = sort_keys::of_primary(&key.into())?;
        let bytes = collection.encode_as(value)?;
        collection.write_in(self, &key, Change::Put(&bytes))
    }
}
