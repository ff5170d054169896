//! Reading a part of a document where its bytes lie.

use super::Collection;
use crate::sort_keys;
use flagstone_base::{Error, ErrorKind, Malformed, Result};
use flagstone_doc::{Value, View};

impl Collection {
    /// What stands at the dotted `path` (`id`, `a.b`, `tags.0`) of the document of `key`; `None` when
    /// there is no such document or place.
    ///
    /// Nothing else of the document is decoded, checked or copied.
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

    /// Lets `look` look at the document of `key` where its bytes lie, and hands out its answer; `None`
    /// when there is no such document. For several parts of it, or parts that need no copy.
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
    /// As [`Collection::get`]; Corruption where `look` meets bytes that are no document.
    pub fn look<R>(
        &self,
        key: impl Into<Value>,
        look: impl FnOnce(&View<'_>) -> Result<R, Malformed>,
    ) -> Result<Option<R>> {
        let Some(bytes) = self.bytes().get(&sort_keys::of_primary(&key.into())?)? else {
            return Ok(None);
        };
        let root = View::of(&bytes, Some(self.names()));
        root.and_then(|root| look(&root)).map(Some).map_err(|malformed| {
            Error::new(
                ErrorKind::Corruption,
                format!("a stored document of {:?}, {malformed}", self.name()),
            )
        })
    }
}
