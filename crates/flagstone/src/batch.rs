//! A batch: writes over any keyspaces and collections that happen together or not at all.

use crate::args::{Key, KeyRange, NewValue};
use crate::collection::write::Change;
use crate::collection::{Collection, update};
use crate::space::{Space, Unindexed};
use flagstone_base::Result;
use flagstone_doc::{Patch, Value};
use flagstone_engine::VersionToken;

/// Writes that happen together or not at all. [`Database::batch`](crate::Database::batch) creates a
/// batch, [`Database::commit`](crate::Database::commit) takes it. Of several writes of one key the
/// last one counts.
///
/// All methods take a [`Space`]: a [`Keyspace`](crate::Keyspace), a [`Typed`](crate::Typed)
/// keyspace or a [`Collection`].
///
/// A batch takes at most a quarter of the memory budget, and 1 GiB. It writes nothing and checks no
/// condition before it is committed.
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
#[derive(Default)]
pub struct Batch(pub(crate) flagstone_engine::Batch);

/// What a commit expects of a key: [`Batch::expect`] takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expect {
    /// The key is absent.
    Absent,

    /// The newest write of the key is the one that `get_versioned` returned. A token of another
    /// history, such as that of the database from which this one was copied, is a conflict as well.
    Version(VersionToken),

    /// The key was not written after the token: not put, deleted, merged, or covered by a deleted
    /// range. With a snapshot this guards everything that a decision was based on, absent keys
    /// included.
    ///
    /// Flushes and compactions drop deletes, and entries that have expired. Where that cannot be
    /// ruled out for the key, the commit returns Conflict. So an absent key can be a conflict
    /// although it was not written, if tables were written or dropped since the token. That an
    /// entry expires is no write: until it is dropped, the condition holds. Read again and retry,
    /// as after any conflict.
    UnchangedSince(VersionToken),
}

impl Batch {
    /// Sets `key` to `value`. [`NewValue`] says what a value is; with
    /// [`Expires`](crate::Expires) it has an expiry.
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
        space.write_in_batch(&mut self.0, key.as_ref(), Change::Put(&bytes, value.expiry()))
    }

    /// Removes `key`, whether it is there or not.
    ///
    /// # Errors
    /// As [`Batch::put`].
    #[inline]
    pub fn delete<S: Space>(&mut self, space: &S, key: impl Key<S>) -> Result<()> {
        space.write_in_batch(&mut self.0, key.key_bytes()?.as_ref(), Change::Delete)
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
        self.0.delete_keys(space.bytes(), range.key_range()?)
    }

    /// Folds `operand` into the value of `key` by the fold of the keyspace, without reading the
    /// value. After the first expiry of the keyspace the commit reads it: see
    /// [`Expires::expires`](crate::Expires::expires).
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
        self.0.merge(space.bytes(), key.key_bytes()?, operand.as_ref())
    }

    /// Changes the document of `key` in `collection` by `patch` without reading it; after the first
    /// expiry of the collection the commit reads it. A patch that does not apply changes nothing
    /// and is counted: see [`Collection::patch`].
    ///
    /// # Errors
    /// As [`Collection::patch`]; InvalidInput for a collection with another fold, or none. The
    /// batch stays as it was.
    pub fn patch(
        &mut self,
        collection: &Collection,
        key: impl Key<Collection>,
        patch: &Patch,
    ) -> Result<()> {
        update::patch_in_batch(&collection.0, &mut self.0, key.key_bytes()?.as_ref(), patch)
    }

    /// As [`Batch::patch`], for a patch that starts from the document `default` where there is
    /// none.
    ///
    /// # Errors
    /// As [`Batch::patch`].
    pub fn upsert(
        &mut self,
        collection: &Collection,
        key: impl Key<Collection>,
        patch: &Patch,
        default: impl Into<Value>,
    ) -> Result<()> {
        self.patch(collection, key, &patch.clone().upsert_from(default))
    }

    /// Makes the commit return Conflict unless `key` is as `expected` then: [`Expect`] says how.
    /// A [`Transaction`](crate::Transaction) needs no conditions: what it has read is one.
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
    /// InvalidInput for a key of 0 or over 65,535 bytes.
    #[inline]
    pub fn expect<S: Space>(
        &mut self,
        space: &S,
        key: impl Key<S>,
        expected: Expect,
    ) -> Result<()> {
        let key = key.key_bytes()?;
        match expected {
            Expect::Absent => self.0.expect_absent(space.bytes(), key),
            Expect::Version(version) => self.0.expect_version(space.bytes(), key, version),
            Expect::UnchangedSince(version) => {
                self.0.expect_unchanged_since(space.bytes(), key, version)
            }
        }
    }

    /// Returns the number of writes in the batch. Conditions do not count.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the batch holds no writes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many bytes the batch will take in the log.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Removes all writes and conditions, and keeps the memory for the next.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
