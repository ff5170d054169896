//! Transactions of a database.

use super::handle::Database;
use super::transaction_options::TransactionOptions;
use crate::transaction::Transaction;
use flagstone_base::{Error, Result};

/// Transactions.
impl Database {
    /// Runs `body` in a [`Transaction`] and commits what it has written, with snapshot isolation;
    /// with another isolation or durability see [`TransactionOptions::run`].
    ///
    /// If another commit came between, `body` runs again on a new snapshot, up to 100 times. If it
    /// returns an error or panics, nothing is written.
    ///
    /// So `body` should have no effects but through the transaction. Every other write that it
    /// makes to the database returns InvalidInput: it would happen at once, and again with each
    /// try.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let accounts = db.typed::<String, i64>("accounts")?;
    /// accounts.put("alice", &100)?;
    /// let is_done = db.transaction(|tx| -> flagstone::Result<bool> {
    ///     let has = tx.get(&accounts, "alice")?.unwrap_or(0);
    ///     if has < 30 {
    ///         return Ok(false);
    ///     }
    ///     tx.put(&accounts, "alice", &(has - 30))?;
    ///     tx.update(&accounts, "bob", |has| Some(has.unwrap_or(0) + 30))?;
    ///     Ok(true)
    /// })?;
    /// assert!(is_done);
    /// assert_eq!(accounts.get("bob")?, Some(30));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// The error may be of any type that an [`Error`] converts into, so a program can return its
    /// own to give up. If nothing else names the type, the closure must.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # let accounts = db.typed::<String, i64>("accounts")?;
    /// enum Refused {
    ///     TooPoor { has: i64 },
    ///     Store(flagstone::Error),
    /// }
    /// impl From<flagstone::Error> for Refused {
    ///     fn from(error: flagstone::Error) -> Self {
    ///         Self::Store(error)
    ///     }
    /// }
    /// let paid = db.transaction(|tx| {
    ///     let has = tx.get(&accounts, "alice")?.unwrap_or(0);
    ///     if has < 30 {
    ///         return Err(Refused::TooPoor { has });
    ///     }
    ///     Ok(tx.put(&accounts, "alice", &(has - 30))?)
    /// });
    /// assert!(matches!(paid, Err(Refused::TooPoor { has: 0 })));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error that `body` returns; Conflict after the last retry; InvalidInput inside a listener
    /// or the closure of an update or a transaction. Else as [`Transaction::commit`].
    pub fn transaction<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        TransactionOptions::new().run(self, body)
    }

    /// Begins a transaction that its owner commits, with snapshot isolation. Nothing is tried
    /// again. [`TransactionOptions::begin`] begins one with options.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::ErrorKind;
    /// let kv = db.keyspace("kv")?;
    /// let (mut first, mut second) = (db.begin()?, db.begin()?);
    /// first.put(&kv, "a", "1")?;
    /// second.put(&kv, "a", "2")?;
    /// first.commit()?;
    /// assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Closed.
    pub fn begin(&self) -> Result<Transaction> {
        TransactionOptions::new().begin(self)
    }
}
