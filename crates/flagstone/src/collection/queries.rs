//! Queries over a collection, and writes by filter.

use super::handle::Collection;
use super::query::{Action, Find, IntoChange, IntoFilter, Reads, WriteMany};

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

    /// Changes all documents that match `filter`, when [`WriteMany::run`] is called: by a
    /// [`Patch`](crate::Patch), or by a function of the primary key and the document. Each document
    /// is read, checked and changed under its lock, as by [`Collection::patch_if`] and
    /// [`Space::update`](crate::Space).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{DocumentMut, Json, Patch, Space, Value};
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
    ///
    /// let half = |_key: &Value, post: &mut DocumentMut| {
    ///     post.set("score", post.int("score").unwrap_or(0) / 2)
    /// };
    /// assert_eq!(posts.update_many(r#"{"score":{"$gt":0}}"#, half).run()?.modified, 9);
    /// assert_eq!(posts.get(9)?.and_then(|post| post.int("score")), Some(4));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn update_many<'a>(
        &self,
        filter: impl IntoFilter,
        change: impl IntoChange<'a>,
    ) -> WriteMany<'a> {
        WriteMany::new(&self.0, filter.into_filter(), change.into_change())
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
    pub fn delete_many(&self, filter: impl IntoFilter) -> WriteMany<'static> {
        WriteMany::new(&self.0, filter.into_filter(), Action::Delete)
    }
}
