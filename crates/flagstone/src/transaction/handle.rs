//! The handle of a transaction: its begin and end, and reads and writes of bytes.

use crate::args::{Key, KeyRange, NewValue};
#[cfg(feature = "documents")]
use crate::collection::index::AtCommit;
#[cfg(feature = "documents")]
use crate::index::Pending;
use crate::scan::Scan;
use crate::space::{Space, Unindexed};
use crate::write::{Destination, KeyChange, Own};
use flagstone_base::{Kind, Result};
use flagstone_engine::{Durability, Engine, Expect, Isolation, VersionToken};
use std::fmt;

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
/// use flagstone::Space;
/// let stock = db.typed::<String, u64>("stock")?;
/// let orders = db.collection("orders")?;
/// stock.put("lamp", &3)?;
///
/// let left = db.transaction(|tx| -> flagstone::Result<_> {
///     let left = tx.get(&stock, "lamp")?.unwrap_or(0);
///     if left == 0 {
///         return Ok(None);
///     }
///     tx.put(&stock, "lamp", &(left - 1))?;
///     tx.put(&orders, 1, flagstone::doc!({"item": "lamp"}))?;
///     tx.get(&stock, "lamp")
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
///     for entry in tx.scan(&kv, ..) {
///         tx.delete(&kv, entry?.0)?;
///     }
///     Ok(())
/// })?;
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// What it has seen and written so far:
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::Space;
/// let kv = db.keyspace("kv")?;
/// kv.put("a", "1")?;
/// let mut tx = db.begin()?;
/// assert!(tx.bytes() == 0 && tx.version() == db.snapshot().version());
/// tx.put(&kv, "b", "2")?;
/// assert!(tx.bytes() >= 2);
/// drop(tx);
/// assert_eq!(kv.get("b")?, None);                             // it was not committed
/// # Ok::<(), flagstone::Error>(())
/// ```
#[must_use = "a transaction has no effect before it is committed"]
pub struct Transaction {
    engine: Engine,
    pub(super) inner: flagstone_engine::Transaction,
    /// What the commit does for the indexes of collections, if one with indexes was written.
    #[cfg(feature = "documents")]
    pending: Option<Box<Pending>>,
    durability: Durability,
}

impl Transaction {
    pub(crate) fn begin(
        engine: &Engine,
        isolation: Isolation,
        durability: Option<Durability>,
    ) -> Result<Self> {
        let inner = engine.begin(isolation)?;
        let durability = durability.unwrap_or(engine.options().durability);
        Ok(Self {
            engine: engine.clone(),
            inner,
            #[cfg(feature = "documents")]
            pending: None,
            durability,
        })
    }

    /// Returns the transaction as writes of documents need it.
    pub(super) fn own(&mut self) -> Own<'_> {
        Own {
            transaction: &mut self.inner,
            #[cfg(feature = "documents")]
            pending: &mut self.pending,
        }
    }

    pub(super) fn destination(&mut self) -> Destination<'_> {
        Destination::Transaction(self.own())
    }

    /// Makes all writes of the transaction visible together. A transaction without writes needs no
    /// check, and its commit writes nothing: it waits until what was read is as durable as a write
    /// would be.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&kv, "a", "1")?;
    /// assert_eq!(kv.get("a")?, None);
    /// tx.commit()?;
    /// assert!(kv.get("a")?.is_some());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Conflict if another commit came between: begin again, since what was read is out of date.
    /// Else as [`Database::commit`](crate::Database::commit). After an error nothing was written;
    /// only after Poisoned that is unknown until the database is opened again.
    pub fn commit(self) -> Result<()> {
        #[cfg(feature = "documents")]
        if let Some(pending) = self.pending {
            let started = AtCommit(pending).commit(&self.engine, self.inner, self.durability)?;
            return started.map_or(Ok(()), |ticket| ticket.wait());
        }
        let started = self.engine.start_transaction(self.inner, self.durability)?;
        started.map_or(Ok(()), |ticket| ticket.wait())
    }

    /// Returns a token of the last write that the transaction's snapshot sees, for
    /// [`Expect::UnchangedSince`].
    pub fn version(&self) -> VersionToken {
        self.inner.version()
    }

    /// See [`crate::internal::keys_written`].
    pub(crate) fn keys_written(&self) -> usize {
        self.inner.len()
    }

    /// Returns how many bytes the writes and conditions take, as the limit counts them: of writes
    /// at most what they take in the log.
    pub const fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    /// Returns the value of `key` in `space`: a [`Slice`](crate::Slice), a `V`, or a
    /// [`Document`](crate::Document).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&kv, "mine", "1")?;
    /// kv.put("other", "1")?;
    /// assert!(tx.get(&kv, "mine")?.is_some());
    /// assert!(tx.get(&kv, "other")?.is_none());                   // it came after the begin
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As the get of the space; InvalidInput for a space of another database.
    #[inline]
    pub fn get<S: Space>(&self, space: &S, key: impl Key<S>) -> Result<Option<S::Value>> {
        let found = self.inner.get(space.engine_keyspace()?, key.key_bytes()?)?;
        found.map(|bytes| space.read(bytes)).transpose()
    }

    /// Returns the entries of `range` in `space`, in the order of their keys. Errors come from the
    /// iterator: see [`Scan`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// kv.put("b", "2")?;
    /// let mut tx = db.begin()?;
    /// tx.delete(&kv, "a")?;
    /// tx.put(&kv, "c", "3")?;
    /// let mut keys = Vec::new();
    /// for entry in tx.scan(&kv, "a"..).rev() {
    ///     keys.push(entry?.0);
    /// }
    /// assert_eq!(keys, [b"c", b"b"]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn scan<S: Space>(&self, space: &S, range: impl KeyRange<S>) -> Scan<'_, S> {
        let scan =
            range.key_range().and_then(|range| self.inner.scan(space.engine_keyspace()?, range));
        Scan::new(scan, space.decoder())
    }

    /// Sets `key` to `value`. [`NewValue`] says what a value is; with
    /// [`Expires`](crate::Expires) it has an expiry.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let (kv, users) = (db.keyspace("kv")?, db.collection("users")?);
    /// let mut tx = db.begin()?;
    /// tx.put(&kv, "newest", "ada")?;
    /// tx.put(&users, "ada", doc!({ "age": 36 }))?;
    /// tx.commit()?;
    /// assert_eq!((kv.count()?, users.count()?), (1, 1));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a size out of bounds, a value that cannot be encoded, a dropped keyspace or
    /// one of another database, or more writes than a quarter of the memory budget; Duplicate for a
    /// value that a unique index has already. Everything is as before then.
    pub fn put<S: Space>(
        &mut self,
        space: &S,
        key: impl Key<S>,
        value: impl NewValue<S>,
    ) -> Result<()> {
        let (key, bytes) = (key.key_bytes()?, value.value_bytes(space)?);
        space.write(self.destination(), key.as_ref(), KeyChange::Put(&bytes, value.expiry()))
    }

    /// Removes `key`, whether it is there or not.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// let mut tx = db.begin()?;
    /// tx.delete(&kv, "a")?;
    /// assert_eq!(tx.get(&kv, "a")?, None);
    /// tx.commit()?;
    /// assert_eq!(kv.count()?, 0);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete<S: Space>(&mut self, space: &S, key: impl Key<S>) -> Result<()> {
        space.write(self.destination(), key.key_bytes()?.as_ref(), KeyChange::Delete)
    }

    /// Reads the value of `key`, passes it to `change`, and writes what `change` makes of it. An
    /// expiry is kept. Returns whether the key has a value now.
    ///
    /// Of bytes and of typed values `change` gets an `Option` and returns one: `None` means no
    /// value. A document it changes in place; if there is none, `change` is not called. `change`
    /// may be called more than once.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let accounts = db.collection("accounts")?;
    /// let visits = db.typed::<String, u64>("visits")?;
    /// accounts.put("alice", doc!({ "balance": 100 }))?;
    /// accounts.put("bob", doc!({ "balance": 0 }))?;
    /// db.transaction(|tx| -> flagstone::Result<()> {
    ///     tx.update(&accounts, "alice", |d| d.inc("balance", -30))?;
    ///     tx.update(&accounts, "bob", |d| d.inc("balance", 30))?;
    ///     tx.update(&visits, "alice", |n| Some(n.unwrap_or(0) + 1))?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(accounts.get("bob")?.and_then(|account| account.int("balance")), Some(30));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error that `change` returns: everything is as before then. Else as [`Transaction::put`]
    /// and [`Transaction::get`].
    pub fn update<S: Space>(
        &mut self,
        space: &S,
        key: impl Key<S>,
        change: impl for<'a> FnMut(S::Old<'a>) -> S::New,
    ) -> Result<bool> {
        let key = key.key_bytes()?;
        space.update_key(self.destination(), key.as_ref(), change)
    }

    /// Removes the keys of `range` that the transaction sees, one by one: costs a scan and a delete
    /// for each. A key that another commit puts into the range meanwhile stays, or, if the
    /// transaction is serializable, is a conflict. To empty large ranges use
    /// [`Space::delete_range`](crate::Space::delete_range).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Prefix, Space};
    /// let kv = db.keyspace("kv")?;
    /// kv.put("user/1", "a")?;
    /// kv.put("user/2", "b")?;
    /// let mut tx = db.begin()?;
    /// tx.delete_range(&kv, Prefix("user/"))?;
    /// assert!(tx.bytes() > 0);
    /// tx.commit()?;
    /// assert_eq!(kv.count()?, 0);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`]; errors of reading. Nothing is removed then. If more documents of a
    /// collection are to be removed than a transaction can write, some may be: give it up.
    pub fn delete_range<S: Space>(&mut self, space: &S, range: impl KeyRange<S>) -> Result<()> {
        space.delete_keys(self.destination(), range.key_range()?)
    }

    /// Folds `operand` into the value of `key` by the fold of the keyspace, without reading the
    /// value. After the first expiry of the keyspace it is read. A merge conflicts as a put does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{KeyspaceOptions, Space};
    /// let options = KeyspaceOptions::new().fold("add-i64/1");
    /// let hits = db.space("hits").options(options).keyspace()?;
    /// let mut tx = db.begin()?;
    /// tx.merge(&hits, "/a", 1_i64.to_le_bytes())?;
    /// tx.merge(&hits, "/a", 1_i64.to_le_bytes())?;
    /// assert_eq!(tx.get(&hits, "/a")?.as_deref(), Some(2_i64.to_le_bytes().as_slice()));
    /// tx.commit()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`]; InvalidInput if the keyspace has no fold.
    pub fn merge<S: Unindexed>(
        &mut self,
        space: &S,
        key: impl Key<S>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let key = key.key_bytes()?;
        self.inner.write(space.engine_keyspace()?, Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Checks that `key` is as `expected`, as the transaction sees it, and guards it from then on:
    /// the commit returns Conflict if another commit has written the key, although the transaction
    /// only reads it. So a decision that rests on one key needs no
    /// [`Isolation::Serializable`](crate::Isolation::Serializable).
    ///
    /// For a key that the transaction itself has written, `Version` and `UnchangedSince` are a
    /// Conflict, and `Absent` judges by what was written. The commit of a transaction without
    /// writes checks nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{ErrorKind, Expect, Space, doc};
    /// let (users, posts) = (db.collection("users")?, db.collection("posts")?);
    /// users.put("ada", doc!({ "may_post": true }))?;
    /// let Some((version, _ada)) = users.get_versioned("ada")? else { return Ok(()) };
    ///
    /// let mut tx = db.begin()?;
    /// tx.expect(&users, "ada", Expect::Version(version))?;
    /// tx.expect(&posts, 1, Expect::Absent)?;
    /// tx.put(&posts, 1, doc!({ "by": "ada" }))?;
    /// users.put("ada", doc!({ "may_post": false }))?;
    /// assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Conflict if the key is not as expected. [`Database::transaction`](
    /// crate::Database::transaction) does not try again then, since its closure returns the error.
    /// InvalidInput for more writes and conditions than a quarter of the memory budget. Else as
    /// [`Transaction::get`].
    pub fn expect<S: Space>(
        &mut self,
        space: &S,
        key: impl Key<S>,
        expected: Expect,
    ) -> Result<()> {
        self.inner.expect(space.engine_keyspace()?, key.key_bytes()?.as_ref(), expected)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction({} keys written, at {})", self.keys_written(), self.inner.seqno())
    }
}
