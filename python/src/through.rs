//! What a handle reads and writes: the database as it is, a snapshot, a transaction or a batch.
//!
//! `snapshot[kv]`, `transaction[kv]` and `batch[kv]` are handles of the same classes as `kv`: what
//! is read and written goes through the one or the other.

use crate::fork::OfProcess;
use flagstone::{Batch, Database, Error, Result, Snapshot, Transaction, TransactionOptions};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone)]
pub(crate) enum Through {
    Live,
    Snapshot(Arc<OfProcess<Mutex<Option<Snapshot>>>>),
    Transaction(Arc<Current>),
    Batch(Arc<Pending>),
}

impl Through {
    /// Returns the end of the name of a handle.
    pub(crate) const fn suffix(&self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Snapshot(_) => " of a snapshot",
            Self::Transaction(_) => " of a transaction",
            Self::Batch(_) => " of a batch",
        }
    }

    /// Refuses what only the database itself can do.
    pub(crate) fn live(&self, what: &str) -> Result<()> {
        match self {
            Self::Live => Ok(()),
            other => {
                let text = format!(
                    "{what} is done by the database itself, not by a handle{}",
                    other.suffix()
                );
                Err(Error::invalid(text))
            }
        }
    }
}

impl Through {
    /// Runs `change` in a transaction: in that of the handle, or of a live one in its own, again
    /// after each conflict until it has its way. Each conflict is the success of another writer.
    pub(crate) fn transact<T>(
        &self,
        database: &Database,
        change: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Live => {
                let options = TransactionOptions::new().retries(u32::MAX);
                options.run(database, change)
            }
            Self::Snapshot(_) => Err(no_writes()),
            Self::Transaction(tx) => tx.with(change),
            Self::Batch(_) => Err(no_reads()),
        }
    }
}

/// Returns the snapshot, unless it was released.
pub(crate) fn read_snapshot<T>(
    snapshot: &Mutex<Option<Snapshot>>,
    read: impl FnOnce(&Snapshot) -> Result<T>,
) -> Result<T> {
    let guard = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
    read(guard.as_ref().ok_or_else(|| Error::invalid("the snapshot was released"))?)
}

/// A transaction that has not ended, or one that has.
pub(crate) struct Current(pub(crate) OfProcess<Mutex<Option<Transaction>>>);

impl Current {
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_mut().ok_or_else(|| Error::invalid("the transaction has ended"))?)
    }

    pub(crate) fn take(&self) -> Option<Transaction> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A batch that was not committed, or one that was.
pub(crate) struct Pending(pub(crate) OfProcess<Mutex<Option<Batch>>>);

impl Pending {
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Batch) -> Result<T>) -> Result<T> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_mut().ok_or_else(|| Error::invalid("the batch has ended"))?)
    }

    pub(crate) fn take(&self) -> Option<Batch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The error of a write through a snapshot.
pub(crate) fn no_writes() -> Error {
    Error::invalid("a snapshot is read, not written")
}

/// The error of a read through a batch.
pub(crate) fn no_reads() -> Error {
    Error::invalid("a batch is written, not read: use a transaction to do both")
}
