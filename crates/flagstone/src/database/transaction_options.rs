//! How a transaction is begun, and run again after conflicts.

use super::handle::Database;
use crate::transaction::Transaction;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_engine::{Durability, Isolation};

/// The default number of retries.
const RETRIES: u32 = 100;

/// How a transaction is begun or run: with which isolation, durability and number of retries.
/// `TransactionOptions::new()` has the defaults: snapshot isolation, the durability of the
/// database, 100 retries.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Durability, Isolation, Space, TransactionOptions};
/// let kv = db.keyspace("kv")?;
/// TransactionOptions::new()
///     .isolation(Isolation::Serializable)
///     .durability(Durability::Group)
///     .retries(10)
///     .run(&db, |tx| tx.put(&kv, "a", "1"))?;
/// assert_eq!(kv.count()?, 1);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "options begin no transaction until `begin` or `run` is called"]
pub struct TransactionOptions {
    /// See [`TransactionOptions::isolation`].
    pub isolation: Isolation,
    /// See [`TransactionOptions::retries`].
    pub retries: u32,
    /// See [`TransactionOptions::durability`].
    pub durability: Option<Durability>,
}

impl TransactionOptions {
    /// Returns the defaults.
    pub const fn new() -> Self {
        Self { isolation: Isolation::Snapshot, retries: RETRIES, durability: None }
    }

    /// Sets what the transaction promises beside others.
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets how often [`TransactionOptions::run`] calls its closure again, on a new snapshot, after
    /// the commit returned Conflict.
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets when the commit returns. The default is the durability of the database.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Begins a transaction that its owner commits. Nothing is tried again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{ErrorKind, Isolation, Space, TransactionOptions};
    /// let kv = db.keyspace("kv")?;
    /// let mut tx = TransactionOptions::new().isolation(Isolation::Serializable).begin(&db)?;
    /// assert_eq!(tx.get(&kv, "a")?, None);
    /// tx.put(&kv, "b", "there is no a")?;
    /// kv.put("a", "1")?;
    /// assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Closed; InvalidInput for a serializable transaction inside a listener.
    pub fn begin(self, database: &Database) -> Result<Transaction> {
        Transaction::begin(&database.0, self.isolation, self.durability)
    }

    /// Runs `body` in a transaction, commits it, and does so again after each conflict up to the
    /// number of retries: see [`Database::transaction`].
    ///
    /// # Errors
    /// As [`Database::transaction`].
    pub fn run<T, E: From<Error>>(
        self,
        database: &Database,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let engine = &database.0;
        let mut tries = 0;
        loop {
            tries += 1;
            let inside = engine.enter_transaction()?;
            let mut transaction = self.begin(database)?;
            let value = body(&mut transaction)?;
            drop(inside);
            match transaction.commit() {
                Ok(()) => return Ok(value),
                Err(error) if error.kind() != ErrorKind::Conflict => return Err(error.into()),
                Err(error) if tries > self.retries => {
                    return Err(error.context(format_args!("a transaction, try {tries}")).into());
                }
                Err(_conflict) => engine.pause_before_retry(tries)?,
            }
        }
    }
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self::new()
    }
}
