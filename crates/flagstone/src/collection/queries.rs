//! Queries over a collection, and writes by filter.

use super::handle::Collection;
use super::query::{Action, Find, IntoFilter, Reads, WriteMany};
use flagstone_doc::Patch;

/// Queries.
impl Collection {
    /// Begins a query for the documents that match `filter`: a [`Filter`](crate::Filter), or its
    /// text. See [`Find`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Filter, Json, Space};
    /// let comments = db.collection("comments")?;
    /// comments.put("a", Json(r#"{"subreddit":"rust","score":7}"#))?;
    /// comments.put("b", Json(r#"{"subreddit":"rust","score":12}"#))?;
    ///
    /// let good = Filter::field("score").gte(10);
    /// assert_eq!(comments.find(&good).count()?, 1);
    /// assert_eq!(comments.find(r#"{"subreddit":"rust"}"#).count()?, 2);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn find(&self, filter: impl IntoFilter) -> Find<'static> {
        Find::new(&self.0, Reads::Now, filter.into_filter())
    }

    /// Changes all documents that match `filter` by `patch`, when [`WriteMany::run`] is called.
    /// Each document is read, checked and changed under its lock, as by
    /// [`Collection::patch_if`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Patch, Space};
    /// let posts = db.collection("posts")?;
    /// for n in 0..10 {
    ///     posts.put(n, Json(format!(r#"{{"score":{n}}}"#)))?;
    /// }
    /// let tag = Patch::new().push("tags", "hot");
    /// let hot = || posts.update_many(r#"{"score":{"$gte":7}}"#, &tag);
    /// let mut done = hot().limit(2).run()?;
    /// assert_eq!((done.matched, done.modified), (2, 2));
    /// while let Some(token) = &done.next {
    ///     done = hot().limit(2).after(token).run()?;
    /// }
    /// assert_eq!(posts.find(r#"{"tags":"hot"}"#).count()?, 3);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn update_many(&self, filter: impl IntoFilter, patch: &Patch) -> WriteMany {
        WriteMany::new(&self.0, filter.into_filter(), Action::Patch(patch.clone()))
    }

    /// Removes all documents that match `filter`, when [`WriteMany::run`] is called. Each document
    /// is checked again under its lock.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # let posts = db.collection("posts")?;
    /// # posts.put(1, Json(r#"{"score":-1}"#))?;
    /// use flagstone::{Json, Space};
    /// let done = posts.delete_many(r#"{"score":{"$lt":0}}"#).run()?;
    /// assert_eq!(done.modified, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn delete_many(&self, filter: impl IntoFilter) -> WriteMany {
        WriteMany::new(&self.0, filter.into_filter(), Action::Delete)
    }
}
