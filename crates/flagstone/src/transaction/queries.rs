//! Queries in a transaction, and writes by filter.

use super::handle::Transaction;
use crate::collection::Collection;
use crate::collection::query::{Action, Changed, Find, IntoFilter, Reads, WriteMany};
use flagstone_base::Result;
use flagstone_doc::Patch;

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

    /// Changes all documents that match `filter` by `patch`, as the transaction sees them.
    ///
    /// # Errors
    /// InvalidInput for a malformed filter, if the patch does not apply to a document, or if more
    /// documents match than a transaction can write; else as [`Transaction::put`]. After an error
    /// some of the documents may be changed: give the transaction up.
    pub fn update_many(
        &mut self,
        collection: &Collection,
        filter: impl IntoFilter,
        patch: &Patch,
    ) -> Result<Changed> {
        let action = Action::Patch(patch.clone());
        WriteMany::new(&collection.0, filter.into_filter(), action).run_in(self.own())
    }

    /// Removes all documents that match `filter`, as the transaction sees them.
    ///
    /// # Errors
    /// As [`Transaction::update_many`].
    pub fn delete_many(
        &mut self,
        collection: &Collection,
        filter: impl IntoFilter,
    ) -> Result<Changed> {
        let action = Action::Delete;
        WriteMany::new(&collection.0, filter.into_filter(), action).run_in(self.own())
    }
}
