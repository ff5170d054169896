//! A batch: writes over any keyspaces and collections that happen together or not at all.

use crate::args::{Key, KeyRange, NewValue};
#[cfg(feature = "documents")]
use crate::collection::{Collection, update};
#[cfg(feature = "documents")]
use crate::remote::RemoteBatch;
use crate::space::{Space, Unindexed};
use crate::write::KeyChange;
use flagstone_base::Result;
#[cfg(feature = "documents")]
use flagstone_doc::Patch;
use flagstone_engine::{Durability, Expect};

#[cfg(not(feature = "documents"))]
use NoRemote as RemoteBatch;

/// Writes that happen together or not at all. [`Database::batch`](crate::Database::batch) creates a
/// batch, [`Database::commit`](crate::Database::commit) takes it. Of several writes of one key the
/// last one counts.
///
/// All methods take a [`Space`]: a [`Keyspace`](crate::Keyspace), a [`Typed`](crate::Typed)
/// keyspace or a [`Collection`](crate::Collection).
///
/// A batch takes at most a quarter of the memory budget, never over 1 GiB, conditions included. It
/// writes nothing and checks no condition before it is committed.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// # #[cfg(feature = "serde")] {
/// use flagstone::doc;
/// let users = db.collection("users")?;
/// let names = db.typed::<u64, String>("names")?;
/// let by_name = db.typed::<(String, u64), ()>("by_name")?;
/// let mut batch = db.batch();
/// batch.put(&users, 7, doc!({ "name": "Ada" }))?;
/// batch.put(&names, &7, &"Ada".into())?;
/// batch.put(&by_name, &("Ada".into(), 7), &())?;
/// db.commit(batch)?;
/// # }
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// A loop that commits by size:
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::Space;
/// let kv = db.keyspace("imported")?;
/// let mut batch = db.batch();
/// for n in 0..1_000 {
///     batch.put(&kv, format!("{n:04}"), [7; 100])?;
///     if batch.bytes() > 16 << 10 {                           // a commit for each 16 KiB
///         db.commit(std::mem::take(&mut batch))?;
///     }
/// }
/// assert!(!batch.is_empty() && batch.len() < 200);
/// db.commit(batch)?;
/// assert_eq!(kv.count()?, 1_000);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Default)]
pub struct Batch {
    pub(crate) inner: flagstone_engine::Batch,
    /// Documents of a load into a collection of a cluster.
    pub(crate) remote: Option<RemoteBatch>,
    /// `None`: that of the database.
    durability: Option<Durability>,
}

/// Stands for `RemoteBatch` in a build without `documents`, which has no clusters. There are no
/// values of it.
#[cfg(not(feature = "documents"))]
pub(crate) enum NoRemote {}

#[cfg(not(feature = "documents"))]
impl NoRemote {
    const fn refuse_start(&self) -> Result<()> {
        match *self {}
    }

    const fn len(&self) -> usize {
        match *self {}
    }

    const fn bytes(&self) -> usize {
        match *self {}
    }

    pub(crate) fn commit(self) -> Result<()> {
        match self {}
    }
}

impl Batch {
    /// Sets when the commit of the batch returns. The default is the durability of the database.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Durability;
    /// let kv = db.keyspace("payments")?;
    /// let mut batch = db.batch();
    /// batch.put(&kv, "7", "20 EUR")?;
    /// db.commit(batch.durability(Durability::Group))?;         // it survives a power cut
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// An interval that is out of range is refused by the commit.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Refuses documents of a cluster where a commit does not wait.
    pub(crate) fn check_is_here(&self) -> Result<()> {
        self.remote.as_ref().map_or(Ok(()), RemoteBatch::refuse_start)
    }

    /// Returns the durability of the batch in a database that has `usual`.
    pub(crate) const fn durability_or(&self, usual: Durability) -> Durability {
        match self.durability {
            Some(durability) => durability,
            None => usual,
        }
    }

    /// Sets `key` to `value`. [`NewValue`] says what a value is; with
    /// [`Expires`](crate::Expires) it has an expiry.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Space};
    /// let (kv, users) = (db.keyspace("kv")?, db.collection("users")?);
    /// let mut batch = db.batch();
    /// batch.put(&kv, "newest", "ada")?;
    /// batch.put(&users, "ada", Json(r#"{"age":36}"#))?;
    /// db.commit(batch)?;
    /// assert_eq!((kv.count()?, users.count()?), (1, 1));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or more than 65,535 bytes, a value of more than 512 MiB, a value
    /// that cannot be encoded, or a batch that would exceed 1 GiB. The batch stays as it was.
    #[inline]
    pub fn put<S: Space>(
        &mut self,
        space: &S,
        key: impl Key<S>,
        value: impl NewValue<S>,
    ) -> Result<()> {
        let (key, bytes) = (key.key_bytes()?, value.value_bytes(space)?);
        space.write_in_batch(&mut self.inner, key.as_ref(), KeyChange::Put(&bytes, value.expiry()))
    }

    /// Removes `key`, whether it is there or not.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("old", "1")?;
    /// let mut batch = db.batch();
    /// batch.put(&kv, "new", "1")?;
    /// batch.delete(&kv, "old")?;
    /// db.commit(batch)?;
    /// assert_eq!((kv.get("old")?, kv.count()?), (None, 1));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::put`].
    #[inline]
    pub fn delete<S: Space>(&mut self, space: &S, key: impl Key<S>) -> Result<()> {
        space.write_in_batch(&mut self.inner, key.key_bytes()?.as_ref(), KeyChange::Delete)
    }

    /// Removes all keys of `range`, however many: writes one entry for each partition. For spaces
    /// without indexes; [`Space::delete_range`](crate::Space::delete_range) is a commit of its own.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Prefix, Space};
    /// let kv = db.keyspace("kv")?;
    /// kv.put("user/1", "a")?;
    /// let mut batch = db.batch();
    /// batch.delete_range(&kv, Prefix("user/"))?;
    /// batch.put(&kv, "user/2", "b")?;
    /// db.commit(batch)?;
    /// assert_eq!(kv.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::put`].
    #[inline]
    pub fn delete_range<S: Unindexed>(&mut self, space: &S, range: impl KeyRange<S>) -> Result<()> {
        self.inner.delete_keys(space.engine_keyspace()?, range.key_range()?)
    }

    /// Folds `operand` into the value of `key` by the fold of the keyspace, without reading the
    /// value. After the first expiry of the keyspace the commit reads it: see
    /// [`Expires::expires`](crate::Expires::expires).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{KeyspaceOptions, Space};
    /// let options = KeyspaceOptions::new().fold("add-i64/1");
    /// let hits = db.space("hits").options(options).keyspace()?;
    /// let mut batch = db.batch();
    /// for page in ["/a", "/b", "/a"] {
    ///     batch.merge(&hits, page, 1_i64.to_le_bytes())?;
    /// }
    /// db.commit(batch)?;
    /// assert_eq!(hits.get("/a")?.as_deref(), Some(2_i64.to_le_bytes().as_slice()));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::put`]; InvalidInput when the keyspace has no fold.
    #[inline]
    pub fn merge<S: Unindexed>(
        &mut self,
        space: &S,
        key: impl Key<S>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner.merge(space.engine_keyspace()?, key.key_bytes()?, operand.as_ref())
    }

    /// Changes the document of `key` in `collection` by `patch` without reading it; after the first
    /// expiry of the collection the commit reads it. A patch that does not apply changes nothing
    /// and is counted: see [`Collection::patch`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Patch, Space, doc};
    /// let accounts = db.collection("accounts")?;
    /// accounts.put("ada", doc!({ "balance": 100 }))?;
    /// accounts.put("bob", doc!({ "balance": 0 }))?;
    /// let mut batch = db.batch();
    /// batch.patch(&accounts, "ada", &Patch::new().inc("balance", -30))?;
    /// batch.patch(&accounts, "bob", &Patch::new().inc("balance", 30))?;
    /// db.commit(batch)?;
    /// assert_eq!(accounts.get("bob")?.and_then(|account| account.int("balance")), Some(30));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::patch`]; InvalidInput for a collection with another fold, or none. The
    /// batch stays as it was.
    #[cfg(feature = "documents")]
    pub fn patch(
        &mut self,
        collection: &Collection,
        key: impl Key<Collection>,
        patch: &Patch,
    ) -> Result<()> {
        update::patch_in_batch(&collection.0, &mut self.inner, key.key_bytes()?.as_ref(), patch)
    }

    /// Makes the commit return Conflict unless `key` is as `expected` then: [`Expect`] says how.
    ///
    /// A token of the value that was read:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path().join("data"))?;
    /// use flagstone::{Expect, Space};
    /// let kv = db.keyspace("accounts")?;
    /// kv.put("alice", "100")?;
    /// let Some((version, balance)) = kv.get_versioned("alice")? else { return Ok(()) };
    ///
    /// let mut batch = db.batch();
    /// batch.expect(&kv, "alice", Expect::Version(version))?;
    /// batch.put(&kv, "alice", [&balance[..], b"0"].concat())?;
    /// db.commit(batch)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// A token of a snapshot:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path().join("data"))?;
    /// use flagstone::Expect;
    /// let kv = db.keyspace("rooms")?;
    /// let snapshot = db.snapshot();
    /// if snapshot.get(&kv, "monday")?.is_none() && snapshot.get(&kv, "tuesday")?.is_none() {
    ///     let unchanged = Expect::UnchangedSince(snapshot.version());
    ///     let mut batch = db.batch();
    ///     batch.expect(&kv, "monday", unchanged)?;
    ///     batch.expect(&kv, "tuesday", unchanged)?;
    ///     batch.put(&kv, "monday", "alice")?;
    ///     db.commit(batch)?;
    /// }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or over 65,535 bytes, or a batch that grows over 1 GiB. The
    /// batch stays as it was.
    #[inline]
    pub fn expect<S: Space>(
        &mut self,
        space: &S,
        key: impl Key<S>,
        expected: Expect,
    ) -> Result<()> {
        self.inner.expect(space.engine_keyspace()?, key.key_bytes()?, expected)
    }

    /// Returns the number of writes in the batch. Conditions do not count.
    #[inline]
    pub fn len(&self) -> usize {
        self.inner.len() + self.remote.as_ref().map_or(0, RemoteBatch::len)
    }

    /// Returns whether the batch holds no writes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty() && self.remote.is_none()
    }

    /// Returns how many bytes the batch takes, as its limit counts them: those of its writes in the
    /// log, and those of its conditions in memory.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.inner.bytes() + self.remote.as_ref().map_or(0, RemoteBatch::bytes)
    }

    /// Removes all writes and conditions. The durability stays, and the memory for the next.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// let mut batch = db.batch();
    /// batch.put(&kv, "a", "1")?;
    /// assert!(batch.len() == 1 && batch.bytes() > 2);
    /// batch.clear();
    /// assert!(batch.is_empty());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    #[inline]
    pub fn clear(&mut self) {
        self.inner.clear();
        self.remote = None;
    }
}
