//! Options of a transaction.

use flagstone_engine::{Durability, Isolation};

/// The default number of retries.
const RETRIES: u32 = 100;

/// Options of a transaction. `TransactionOptions::new()` has the defaults: snapshot isolation, 100
/// retries, the durability of the database.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Durability, Isolation, TransactionOptions};
/// let options = TransactionOptions::new()
///     .isolation(Isolation::Serializable)
///     .durability(Durability::Group)
///     .retries(10);
/// let kv = db.keyspace("kv")?;
/// db.transaction_with(options, |tx| tx.put(&kv, "a", "1"))?;
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    #[must_use]
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets how often the closure of [`Database::transaction`](crate::Database::transaction) is run
    /// again, on a new snapshot, after its commit returned Conflict.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets when the commit returns. The default is the durability of the database.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self::new()
    }
}
