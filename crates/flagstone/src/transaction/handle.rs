//! The handle of a transaction: its begin and end, and reads and writes of bytes.

use super::options::TransactionOptions;
use crate::collection::index::{Own, Pending};
use crate::entry::EntryOptions;
use crate::keyspace::Keyspace;
use flagstone_base::key::KeyRange;
use flagstone_base::{Kind, Result, SeqNo, Slice};
use flagstone_engine::{Durability, Engine, TransactionScan, owned_range};
use std::fmt;
use std::ops::RangeBounds;

/// Reads and writes over any keyspaces and collections that happen together or not at all, as if
/// nothing else happened between the first read and the commit.
///
/// All reads are of one snapshot, taken when the transaction begins, and see what the transaction
/// itself has written, scans included. Writes are kept in memory until the commit: like a batch, a
/// transaction takes at most a quarter of the memory budget. The commit returns Conflict if another
/// commit came between: [`Isolation`](crate::Isolation) says when.
///
/// [`Database::transaction`](crate::Database::transaction) runs a closure and tries it again after
/// a Conflict. [`Database::begin`](crate::Database::begin) returns a transaction that its owner
/// commits. A transaction that is dropped without a commit has no effect.
///
/// A transaction costs a snapshot, a map of its own writes, and for each written key a look for
/// newer writes at the commit; a serializable one a set of its reads instead of that look.
///
/// **Expiry**: all of a transaction happens at the moment of its snapshot. What had not expired
/// then is there for all of its reads, and for the merges and updates that it writes.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let stock = db.typed::<String, u64>("stock")?;
/// let orders = db.collection("orders")?;
/// stock.put("lamp", &3)?;
///
/// let left = db.transaction(|tx| -> flagstone::Result<_> {
///     let left = tx.get_typed(&stock, "lamp")?.unwrap_or(0);
///     if left == 0 {
///         return Ok(None);
///     }
///     tx.put_typed(&stock, "lamp", &(left - 1))?;
///     tx.put_value(&orders, 1, &flagstone::doc!({"item": "lamp"}))?;
///     tx.get_typed(&stock, "lamp")
/// })?;
/// assert_eq!(left, Some(2));
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// A scan borrows the transaction, so nothing is written while there is one:
///
/// ```compile_fail,E0502
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// # let kv = db.keyspace("kv")?;
/// db.transaction(|tx| -> flagstone::Result<()> {
///     for entry in tx.scan::<&str>(&kv, ..)? {
///         tx.delete(&kv, entry?.0)?;
///     }
///     Ok(())
/// })?;
/// # Ok::<(), flagstone::Error>(())
/// ```
#[must_use = "a transaction has no effect before it is committed"]
pub struct Transaction {
    engine: Engine,
    pub(super) inner: flagstone_engine::Transaction,
    /// What the commit does for the indexes of collections, if one with indexes was written.
    pending: Option<Box<Pending>>,
    durability: Durability,
}

impl Transaction {
    pub(crate) fn begin(engine: &Engine, options: TransactionOptions) -> Result<Self> {
        let inner = engine.begin(options.isolation)?;
        let durability = options.durability.unwrap_or(engine.options().durability);
        Ok(Self { engine: engine.clone(), inner, pending: None, durability })
    }

    /// Returns the transaction as writes of documents need it.
    pub(super) fn own(&mut self) -> Own<'_> {
        Own { transaction: &mut self.inner, pending: &mut self.pending }
    }

    /// Makes all writes of the transaction visible together. A transaction without writes needs no
    /// check, and its commit writes nothing: it waits until what was read is as durable as a write
    /// would be.
    ///
    /// # Errors
    /// Conflict if another commit came between: begin again, since what was read is out of date.
    /// Else as [`Database::commit`](crate::Database::commit). After an error nothing was written;
    /// only after Poisoned that is unknown until the database is opened again.
    pub fn commit(self) -> Result<()> {
        let started = match self.pending {
            Some(pending) => pending.commit(&self.engine, self.inner, self.durability)?,
            None => self.engine.start_transaction(self.inner, self.durability)?,
        };
        started.map_or(Ok(()), |ticket| ticket.wait())
    }

    /// Returns the SeqNo of the last write that the transaction's snapshot sees.
    pub fn seqno(&self) -> SeqNo {
        self.inner.seqno()
    }

    /// Returns the number of keys that the transaction has written.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Returns whether the transaction has written nothing.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Returns how many bytes the writes take, as the limit counts them: at most what they take in
    /// the log is counted.
    pub const fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; InvalidInput for a keyspace of another database.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.inner.get(&keyspace.0, key)
    }

    /// Returns the values of many keys, in the order in which the keys are given.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        keys.into_iter().map(|key| self.get(keyspace, key)).collect()
    }

    /// Returns the entries of `range` in the order of their keys.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// kv.put("b", "2")?;
    /// let mut tx = db.begin()?;
    /// tx.delete(&kv, "a")?;
    /// tx.put(&kv, "c", "3")?;
    /// let mut keys = Vec::new();
    /// for entry in tx.scan(&kv, "a"..)?.rev() {
    ///     keys.push(entry?.0);
    /// }
    /// assert_eq!(keys, [b"c", b"b"]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database. Errors of reading come from the iterator.
    pub fn scan<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionScan<'_>> {
        self.inner.scan(&keyspace.0, owned_range(&range))
    }

    /// Returns the entries whose keys begin with `prefix`, in the order of their keys.
    ///
    /// # Errors
    /// As [`Transaction::scan`].
    pub fn prefix(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<TransactionScan<'_>> {
        self.inner.scan(&keyspace.0, KeyRange::prefix(prefix.as_ref()))
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// InvalidInput for a size out of bounds, a dropped keyspace or one of another database, or
    /// more writes than a quarter of the memory budget. Everything is as before then.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_with(keyspace, key, value, EntryOptions::new())
    }

    /// As [`Transaction::put`], with options of its own.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_with(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: EntryOptions,
    ) -> Result<()> {
        self.inner.write(&keyspace.0, options.effect(), key.as_ref(), value.as_ref())
    }

    /// Removes `key`, whether it is there or not.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.write(&keyspace.0, Kind::Delete, key.as_ref(), b"")
    }

    /// Removes the keys of `range` that the transaction sees, one by one: costs a scan and a delete
    /// for each. A key that another commit puts into the range meanwhile stays, or, if the
    /// transaction is serializable, is a conflict. To empty large ranges use
    /// [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// As [`Transaction::put`]; errors of reading. Nothing is removed then.
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        self.inner.delete_range(&keyspace.0, owned_range(&range))
    }

    /// Folds `operand` into the value of `key` by the fold of the keyspace, without reading the
    /// value. After the first expiry of the keyspace it is read. A merge conflicts as a put does.
    ///
    /// # Errors
    /// As [`Transaction::put`]; InvalidInput if the keyspace has no fold.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner.write(&keyspace.0, Kind::Merge, key.as_ref(), operand.as_ref())
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction({} keys written, at {})", self.len(), self.seqno())
    }
}
