//! Queries in a transaction, and writes by filter.

use super::handle::Transaction;
use crate::collection::Collection;
use crate::collection::query::{
    Action, Changed, Find, IntoChange, IntoFilter, Reads, WriteIn, WriteMany,
};
use crate::write::Own;
use flagstone_base::Result;

/// Queries.
impl Transaction {
    /// Begins a query for the documents that match `filter`, as the transaction sees them: with its
    /// own writes. What the query reads counts as read by the transaction. See
    /// [`Collection::find`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Space};
    /// let accounts = db.collection("accounts")?;
    /// accounts.put("alice", Json(r#"{"balance":100}"#))?;
    /// let rich = db.transaction(|tx| {
    ///     tx.put(&accounts, "bob", Json(r#"{"balance":200}"#))?;
    ///     tx.find(&accounts, r#"{"balance":{"$gte":100}}"#).count()
    /// })?;
    /// assert_eq!(rich, 2);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn find(&self, collection: &Collection, filter: impl IntoFilter) -> Find<'_> {
        Find::new(&collection.0, Reads::Transaction(&self.inner), filter.into_filter())
    }

    /// Changes all documents that match `filter`, as the transaction sees them: see
    /// [`Collection::update_many`]. For a sort, a limit, or to return the documents, see
    /// [`WriteMany::run_in`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Patch, Space, doc};
    /// let tasks = db.collection("tasks")?;
    /// for n in 0..5 {
    ///     tasks.put(n, doc!({ "n": n, "done": false }))?;
    /// }
    /// let mut tx = db.begin()?;
    /// let patch = Patch::new().set("done", true);
    /// let changed = tx.update_many(&tasks, r#"{"n":{"$gte":3}}"#, &patch)?;
    /// assert_eq!(changed.modified, 2);
    /// tx.commit()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a malformed filter, if the change does not apply to a document, or if more
    /// documents match than a transaction can write; else as [`Transaction::put`]. After an error
    /// some of the documents may be changed: give the transaction up.
    pub fn update_many<'a>(
        &mut self,
        collection: &Collection,
        filter: impl IntoFilter,
        change: impl IntoChange<'a>,
    ) -> Result<Changed> {
        let action = change.into_change();
        WriteMany::new(&collection.0, filter.into_filter(), action).run_in(self)
    }

    /// Removes all documents that match `filter`, as the transaction sees them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let tasks = db.collection("tasks")?;
    /// for n in 0..5 {
    ///     tasks.put(n, doc!({ "n": n }))?;
    /// }
    /// let mut tx = db.begin()?;
    /// assert_eq!(tx.delete_many(&tasks, r#"{"n":{"$lt":3}}"#)?.modified, 3);
    /// tx.commit()?;
    /// assert_eq!(tasks.count()?, 2);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::update_many`].
    pub fn delete_many(
        &mut self,
        collection: &Collection,
        filter: impl IntoFilter,
    ) -> Result<Changed> {
        let action = Action::Delete;
        WriteMany::new(&collection.0, filter.into_filter(), action).run_in(self)
    }
}

impl WriteIn for Transaction {
    fn own(&mut self) -> Own<'_> {
        self.own()
    }
}
