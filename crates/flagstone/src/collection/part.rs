//! Reading parts of a stored document without decoding the rest.

use super::Collection;
use crate::sort_keys;
use flagstone_base::{Error, ErrorKind, Malformed, Result};
use flagstone_doc::{Value, View};

impl Collection {
    /// Returns the value at the dotted `path` (`id`, `a.b`, `tags.0`) of the document of `key`, or `None`
    /// if there is no such document or no such value.
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

    /// Calls `read` with a view of the stored document of `key` and returns its result, or `None` if there
    /// is no such document. For several parts of a document, or parts that need no copy.
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
    /// As [`Collection::get`]; Corruption if `read` returns [`Malformed`], as views do for damaged bytes.
    pub fn look<R>(
        &self,
        key: impl Into<Value>,
        read: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
    ) -> Result<Option<R>> {
        let Some(bytes) = self.bytes().get(&sort_keys::of_primary(&key.into())?)? else {
            return Ok(None);
        };
        let root = View::of(&bytes, Some(self.names()));
        root.and_then(|root| read(&root)).map(Some).map_err(|malformed| {
            Error::new(
                ErrorKind::Corruption,
                format!("a stored document of {:?}, {malformed}", self.name()),
            )
        })
    }
}
