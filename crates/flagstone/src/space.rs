//! The trait of the three kinds of keyspaces: bytes, Rust types, documents.

pub use crate::args::{Expiring, Key, KeyBound, KeyPrefix, KeyRange, NewValue};
use crate::keyspace::{self, Keyspace};
pub use crate::scan::Entries;
use crate::scan::{Scan, Source};
use crate::write::{Destination, KeyChange};
use flagstone_base::key::check_key;
use flagstone_base::{Moment, Result, Slice};
use flagstone_engine::{Batch, Effect, TryGet, VersionToken};

/// A [`Keyspace`] of bytes, a [`Typed`] keyspace of Rust types, or a [`Collection`] of documents,
/// and what all three can do. Programs import the trait to call its methods.
///
/// A [`Batch`](crate::Batch), a [`Transaction`](crate::Transaction) and a
/// [`Snapshot`](crate::Snapshot) read and write all three by methods of the same names. The types
/// of keys and values follow from the space:
///
/// | | [`Keyspace`] | [`Typed<K, V>`](crate::Typed) | [`Collection`] |
/// |---|---|---|---|
/// | [`Key`] | bytes | `&K` | `impl Into<Value>` |
/// | [`NewValue`] | bytes | `&V` | `&Document`, `Value`, [`Json`], [`As`] |
/// | get returns | [`Slice`] | `V` | [`Document`](crate::Document) |
/// | scan returns | `(Slice, Slice)` | `(K, V)` | `(Value, Document)` |
/// | update's closure gets | `Option<&[u8]>` | `Option<V>` | `&mut DocumentMut` |
/// | and returns | `Option<Vec<u8>>` | `Option<V>` | `Result<()>` |
///
/// [`Collection`]: crate::Collection
/// [`Json`]: crate::Json
/// [`Typed`]: crate::Typed
/// [`As`]: crate::As
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// # #[cfg(feature = "serde")] {
/// use flagstone::{Expires, Space, doc};
/// let kv = db.keyspace("kv")?;
/// let ages = db.typed::<String, u8>("ages")?;
/// let users = db.collection("users")?;
///
/// let mut batch = db.batch();
/// batch.put(&kv, "seen", "ada".expires(db.now().after(std::time::Duration::from_secs(60))))?;
/// batch.put(&ages, "ada", &36)?;
/// batch.put(&users, "ada", doc!({ "name": "Ada" }))?;
/// db.commit(batch)?;
///
/// db.transaction(|tx| -> flagstone::Result<()> {
///     tx.update(&ages, "ada", |age| age.map(|age| age + 1))?;
///     tx.update(&users, "ada", |user| user.set("age", 37))?;
///     tx.delete(&kv, "seen")
/// })?;
///
/// assert_eq!((kv.get("seen")?, ages.get("ada")?), (None, Some(37)));
/// assert_eq!(users.get("ada")?.and_then(|user| user.int("age")), Some(37));
/// # }
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// # Errors
/// These may happen to every call, so the methods name only what they add:
/// - InvalidInput for a key that cannot be stored, of 0 or more than 65,535 bytes, and for a space
///   that was dropped;
/// - for a read: Io, Corruption, Closed;
/// - for a write: OutOfSpace, Io, Poisoned, Closed. An error other than Poisoned means that nothing
///   was written. After Poisoned this is unknown until the database is opened again.
///
/// The trait is sealed: these three types implement it, and no others can.
pub trait Space: Entries + Sized + sealed::Sealed {
    /// What the closure of an update gets.
    type Old<'a>;

    /// What the closure of an update returns.
    type New;

    /// Returns the name as of now:
    /// [`Database::rename_keyspace`](crate::Database::rename_keyspace) changes it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// assert_eq!(db.keyspace("sessions")?.name(), "sessions");
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    fn name(&self) -> String {
        self.space_name()
    }

    /// Sets `key` to `value`, with the database's [`Durability`](crate::Durability). A later put of
    /// the key replaces the value. [`Expires`](crate::Expires) gives a value an expiry.
    ///
    /// The key takes 1 to 65,535 bytes as it is stored; the value at most 512 MiB and a quarter of
    /// the memory budget; a document at most
    /// [`Options::document_bytes_max`](crate::Options::document_bytes_max), 16 MiB by default.
    ///
    /// Takes about a microsecond for a few bytes; longer while writers are slowed because flushes
    /// or compactions lag. In a collection with indexes it reads the old document first.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Space, doc};
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// kv.put([0xFF, 0x00], vec![1, 2, 3])?;
    ///
    /// # #[cfg(feature = "serde")] {
    /// let ages = db.typed::<String, u8>("ages")?;
    /// ages.put("ada", &36)?;
    /// # }
    ///
    /// let rooms = db.collection("rooms")?;
    /// rooms.put(1, doc!({ "beds": 2 }))?;
    /// rooms.put(2, Json(r#"{"beds":3}"#))?;
    /// let first = rooms.get(1)?.expect("it was put");
    /// rooms.put("copy", &first)?;
    /// assert_eq!(rooms.count()?, 3);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a value over its limit, and for one that cannot be encoded: a text that is
    /// not JSON (with line and column), a value nested too deep, a Rust value that the codec
    /// refuses. Duplicate for a value that a unique index has already.
    #[inline]
    fn put(&self, key: impl Key<Self>, value: impl NewValue<Self>) -> Result<()> {
        self.put_value(key.key_bytes()?.as_ref(), value)
    }

    /// Returns the moment from which on `key` is absent; `None` if it has no expiry, or is absent
    /// now. Costs as much as a get.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Expires, Space};
    /// let kv = db.keyspace("kv")?;
    /// let soon = db.now().after(std::time::Duration::from_secs(60));
    /// kv.put("a", "1".expires(soon))?;
    /// kv.put("b", "2")?;
    /// assert_eq!((kv.expiry("a")?, kv.expiry("b")?, kv.expiry("c")?), (Some(soon), None, None));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space`] says.
    fn expiry(&self, key: impl Key<Self>) -> Result<Option<Moment>> {
        self.expiry_of(key.key_bytes()?.as_ref())
    }

    /// Returns the value of `key`, or `None` if there is none. Takes one or two microseconds if its
    /// block is cached.
    ///
    /// The value does not depend on the database: keep it as long as you like. Bytes and documents
    /// may share the memory of a cached block.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// assert_eq!(kv.get("a")?.as_deref(), Some(b"1".as_slice()));
    /// assert_eq!(kv.get("b")?, None);
    ///
    /// let users = db.collection("users")?;
    /// users.put("ada", doc!({ "age": 36 }))?;
    /// let ada = users.get("ada")?.expect("it was put");
    /// assert_eq!(ada.int("age"), Some(36));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if a stored value does not fit the Rust type `V`, with the path of the part
    /// that does not; Corruption if stored bytes are no document, or the codec cannot decode them.
    #[inline]
    fn get(&self, key: impl Key<Self>) -> Result<Option<Self::Value>> {
        match self.get_bytes(key.key_bytes()?.as_ref())? {
            Some(bytes) => self.read(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the value of `key` from memory alone: memtables, filters and the block cache. Reads
    /// no file and never waits. So a thread that serves many clients may call it, and pass to
    /// another thread only the gets that would read a file.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, TryGet};
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// let value = match kv.try_get("a")? {
    ///     TryGet::Found(value) => Some(value),
    ///     TryGet::Absent => None,
    ///     TryGet::WouldRead => std::thread::scope(|threads| {
    ///         threads.spawn(|| kv.get("a")).join().expect("the thread does not panic")
    ///     })?,
    /// };
    /// assert_eq!(value.as_deref(), Some(b"1".as_slice()));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space::get`].
    #[inline]
    fn try_get(&self, key: impl Key<Self>) -> Result<TryGet<Self::Value>> {
        self.engine_keyspace()?
            .try_get(key.key_bytes()?.as_ref())?
            .and_then(|bytes| self.read(bytes))
    }

    /// Returns the value of `key` with a token of the write that set it, for
    /// [`Expect::Version`](crate::Expect::Version); `None` if there is no value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Expect, Json, Space};
    /// let accounts = db.collection("accounts")?;
    /// accounts.put("alice", Json(r#"{"balance":100}"#))?;
    /// let Some((version, document)) = accounts.get_versioned("alice")? else { return Ok(()) };
    ///
    /// let mut edited = document.edit();
    /// edited.inc("balance", -10)?;
    /// let mut batch = db.batch();
    /// batch.expect(&accounts, "alice", Expect::Version(version))?;
    /// batch.put(&accounts, "alice", edited.value())?;
    /// db.commit(batch)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space::get`].
    #[inline]
    fn get_versioned(&self, key: impl Key<Self>) -> Result<Option<(VersionToken, Self::Value)>> {
        match self.engine_keyspace()?.get_versioned(key.key_bytes()?.as_ref())? {
            Some((version, bytes)) => Ok(Some((version, self.read(bytes)?))),
            None => Ok(None),
        }
    }

    /// Returns the values of many keys, all as of one moment, in the order in which the keys are
    /// given. Costs a get for each.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let users = db.collection("users")?;
    /// users.put("ada", doc!({ "age": 36 }))?;
    /// users.put("bob", doc!({ "age": 40 }))?;
    /// let found = users.multi_get(["bob", "eve", "ada"])?;
    /// let ages: Vec<_> = found.iter().map(|user| user.as_ref()?.int("age")).collect();
    /// assert_eq!(ages, [Some(40), None, Some(36)]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space::get`].
    fn multi_get<K: Key<Self>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Self::Value>>> {
        let keys = keys.into_iter().map(|key| key.key_bytes()).collect::<Result<Vec<_>>>()?;
        let found = self.get_all(&keys.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
        found.into_iter().map(|found| found.map(|bytes| self.read(bytes)).transpose()).collect()
    }

    /// Removes `key`, whether it is there or not. Costs as much as a put.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// kv.delete("a")?;
    /// kv.delete("b")?;
    /// assert_eq!(kv.get("a")?, None);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space`] says.
    #[inline]
    fn delete(&self, key: impl Key<Self>) -> Result<()> {
        self.write(Destination::Database, key.key_bytes()?.as_ref(), KeyChange::Delete)
    }

    /// Removes `key` and returns whether it was there. Costs a get and, if it was, a delete.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// assert!(kv.remove("a")?);
    /// assert!(!kv.remove("a")?);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space`] says.
    #[inline]
    fn remove(&self, key: impl Key<Self>) -> Result<bool> {
        self.remove_key(key.key_bytes()?.as_ref())
    }

    /// Removes all keys of `range`, however many, by one entry for each partition. In a collection
    /// with indexes it reads the documents and removes them by several commits: an error may leave
    /// some of them removed.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Prefix, Space};
    /// let kv = db.keyspace("kv")?;
    /// for key in ["a", "user/1", "user/2", "z"] {
    ///     kv.put(key, "")?;
    /// }
    /// kv.delete_range(Prefix("user/"))?;
    /// kv.delete_range("x"..)?;
    /// assert_eq!(kv.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for an end that cannot be a key.
    fn delete_range(&self, range: impl KeyRange<Self>) -> Result<()> {
        self.delete_keys(Destination::Database, range.key_range()?)
    }

    /// Removes all keys. The names of fields of a collection stay defined.
    ///
    /// The log gets one entry for each partition, at its place among all writes: earlier writes are
    /// gone, later ones stay, also after a crash. Then the memtables are flushed, and one edit
    /// removes all tables without reading them: the cost is that of the memtables and of the number
    /// of tables. A table that a snapshot or a scan still reads is removed when they have ended.
    ///
    /// When this returns, the emptying survives a power cut, whatever the database's durability; so
    /// do the writes that were acknowledged before, unless the disk is full, because they may have
    /// been copied elsewhere.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let cache = db.keyspace("cache")?;
    /// cache.put("a", "1")?;
    /// cache.clear()?;
    /// cache.put("b", "2")?;
    /// assert_eq!(cache.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput also inside a callback.
    fn clear(&self) -> Result<()> {
        self.clear_all()
    }

    /// Reads the value of `key`, passes it to `change`, and writes what `change` makes of it. No
    /// other write of the key comes between, so concurrent increments are never lost. An expiry is
    /// kept. Returns whether the key has a value now.
    ///
    /// For bytes and Rust types, `change` gets an `Option` and returns one; `None` means no value.
    /// For documents, it changes the document in place. If there is none, `change` is not called;
    /// if nothing was changed, nothing is written.
    ///
    /// Writes of this key wait while `change` runs. A write to the same database inside `change`
    /// returns InvalidInput; `change` must not wait for another thread that writes. It may be
    /// called more than once, each time with the stored value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let kv = db.keyspace("kv")?;
    /// let push = |old: Option<&[u8]>| Some([old.unwrap_or_default(), b"x"].concat());
    /// assert!(kv.update("a", push)? && kv.update("a", push)?);
    /// assert_eq!(kv.get("a")?.as_deref(), Some(b"xx".as_slice()));
    /// assert!(!kv.update("a", |_old| None)?);
    /// assert_eq!(kv.get("a")?, None);
    ///
    /// # #[cfg(feature = "serde")] {
    /// let hits = db.typed::<String, u64>("hits")?;
    /// hits.update("/index.html", |n| Some(n.unwrap_or(0) + 1))?;
    /// # }
    ///
    /// let users = db.collection("users")?;
    /// users.put("ada", doc!({ "logins": 1 }))?;
    /// users.update("ada", |user| user.inc("logins", 1))?;
    /// assert_eq!(users.get("ada")?.and_then(|user| user.int("logins")), Some(2));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error that `change` returns: nothing is written then. Else as [`Space::put`] and
    /// [`Space::get`].
    fn update(
        &self,
        key: impl Key<Self>,
        change: impl for<'a> FnMut(Self::Old<'a>) -> Self::New,
    ) -> Result<bool> {
        let key = key.key_bytes()?;
        check_key(key.as_ref())?;
        self.update_key(Destination::Database, key.as_ref(), change)
    }

    /// Returns the entries of `range` in the order of their keys, as of one moment over all
    /// partitions. Errors come from the iterator: see [`Scan`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Prefix, Space, doc};
    /// let kv = db.keyspace("sessions")?;
    /// for key in ["a", "ab", "b"] {
    ///     kv.put(key, "1")?;
    /// }
    /// assert_eq!((kv.scan(..).count(), kv.scan("ab"..).count()), (3, 2));
    /// assert_eq!(kv.scan(Prefix("a")).rev().count(), 2);
    ///
    /// let pages = db.collection("pages")?;
    /// for key in ["/a", "/a/b", "/c"] {
    ///     pages.put(key, doc!({ "visits": 1 }))?;
    /// }
    /// for page in pages.scan("/a/".."/d") {
    ///     let (key, document) = page?;
    ///     println!("{key} {document}");
    /// }
    /// let keys: Vec<_> = pages.scan(Prefix("/a")).keys().collect::<Result<_, _>>()?;
    /// assert_eq!(keys, ["/a".into(), "/a/b".into()]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    #[inline]
    fn scan(&self, range: impl KeyRange<Self>) -> Scan<'static, Self> {
        let source = range.key_range().and_then(|range| self.scan_source(range));
        Scan::new(source, self.decoder())
    }

    /// Returns the number of keys. Reads all of them, on this thread and as many others as
    /// [`compaction_workers`](crate::Options::compaction_workers) says, each with a partition. The
    /// blocks that are read do not enter the cache.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// kv.put("a", "2")?;
    /// assert_eq!(kv.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space`] says.
    fn count(&self) -> Result<u64> {
        self.count_all()
    }

    /// Returns about how many keys there are, from counters alone. Overwritten and expired entries
    /// count until compactions remove them. A delete in a table counts as one key less: too few if
    /// it deletes nothing older. A put that has expired when it is flushed becomes such a delete.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// kv.put("b", "1")?;
    /// assert_eq!(kv.approximate_count(), 2);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    #[inline]
    fn approximate_count(&self) -> u64 {
        self.count_about()
    }

    /// The keyspace of the stored bytes.
    ///
    /// # Errors
    /// Unsupported for a collection of a cluster.
    #[doc(hidden)]
    fn engine_keyspace(&self) -> Result<&flagstone_engine::Keyspace>;

    #[doc(hidden)]
    fn space_name(&self) -> String {
        self.engine_keyspace().map_or_else(|_remote| String::new(), |keyspace| keyspace.name())
    }

    #[doc(hidden)]
    #[inline]
    fn get_bytes(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.engine_keyspace()?.get(key)
    }

    #[doc(hidden)]
    fn get_all(&self, keys: &[&[u8]]) -> Result<Vec<Option<Slice>>> {
        let keyspace = self.engine_keyspace()?;
        let snapshot = keyspace.snapshot();
        keys.iter().map(|key| snapshot.get(keyspace, key)).collect()
    }

    #[doc(hidden)]
    fn expiry_of(&self, key: &[u8]) -> Result<Option<Moment>> {
        self.engine_keyspace()?.expiry(key)
    }

    #[doc(hidden)]
    #[inline]
    fn scan_source(&self, range: flagstone_base::KeyRange) -> Result<Source<'static>> {
        Ok(Source::Database(self.engine_keyspace()?.scan_range(range)))
    }

    #[doc(hidden)]
    fn count_all(&self) -> Result<u64> {
        self.engine_keyspace()?.count()
    }

    #[doc(hidden)]
    #[inline]
    fn count_about(&self) -> u64 {
        self.engine_keyspace().map_or(0, |keyspace| keyspace.approximate_count())
    }

    #[doc(hidden)]
    fn decoder(&self) -> Self::Decoder;

    #[doc(hidden)]
    fn read(&self, bytes: Slice) -> Result<Self::Value>;

    #[doc(hidden)]
    fn put_value(&self, key: &[u8], value: impl NewValue<Self>) -> Result<()>;

    #[doc(hidden)]
    fn write(&self, to: Destination<'_>, key: &[u8], change: KeyChange<'_>) -> Result<()>;

    #[doc(hidden)]
    fn write_in_batch(&self, batch: &mut Batch, key: &[u8], change: KeyChange<'_>) -> Result<()>;

    #[doc(hidden)]
    fn remove_key(&self, key: &[u8]) -> Result<bool>;

    #[doc(hidden)]
    fn delete_keys(&self, to: Destination<'_>, range: flagstone_base::KeyRange) -> Result<()>;

    #[doc(hidden)]
    fn clear_all(&self) -> Result<()>;

    #[doc(hidden)]
    fn update_key(
        &self,
        to: Destination<'_>,
        key: &[u8],
        change: impl for<'a> FnMut(Self::Old<'a>) -> Self::New,
    ) -> Result<bool>;
}

/// A [`Space`] without indexes: a [`Keyspace`] or a [`Typed`](crate::Typed) keyspace. Their keys
/// can be removed and merged without a look at the old values, so a [`Batch`](crate::Batch) can do
/// it.
pub trait Unindexed: Space {}

impl Unindexed for Keyspace {}

pub(crate) mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Keyspace {}
}

/// The writes of bytes and of typed values are those of the engine.
macro_rules! plain_writes {
    () => {
        #[inline]
        fn write(
            &self,
            to: $crate::write::Destination<'_>,
            key: &[u8],
            change: $crate::write::KeyChange<'_>,
        ) -> flagstone_base::Result<()> {
            let (effect, value) = change.entry();
            match to {
                $crate::write::Destination::Database => {
                    self.engine_keyspace()?.write_one(effect, key, value)
                }
                $crate::write::Destination::Transaction(own) => {
                    own.transaction.write(self.engine_keyspace()?, effect, key, value)
                }
            }
        }

        #[inline]
        fn write_in_batch(
            &self,
            batch: &mut flagstone_engine::Batch,
            key: &[u8],
            change: $crate::write::KeyChange<'_>,
        ) -> flagstone_base::Result<()> {
            let (effect, value) = change.entry();
            batch.push(self.engine_keyspace()?, effect, key, value)
        }

        #[inline]
        fn remove_key(&self, key: &[u8]) -> flagstone_base::Result<bool> {
            self.engine_keyspace()?.remove(key)
        }

        fn delete_keys(
            &self,
            to: $crate::write::Destination<'_>,
            range: flagstone_base::KeyRange,
        ) -> flagstone_base::Result<()> {
            match to {
                $crate::write::Destination::Database => self.engine_keyspace()?.delete_keys(range),
                $crate::write::Destination::Transaction(own) => {
                    own.transaction.delete_range(self.engine_keyspace()?, range)
                }
            }
        }

        fn clear_all(&self) -> flagstone_base::Result<()> {
            self.engine_keyspace()?.clear()
        }
    };
}

#[cfg(feature = "documents")]
pub(crate) use plain_writes;

impl Space for Keyspace {
    type Old<'a> = Option<&'a [u8]>;
    type New = Option<Vec<u8>>;

    #[inline]
    fn engine_keyspace(&self) -> Result<&flagstone_engine::Keyspace> {
        Ok(&self.0)
    }

    #[inline]
    fn decoder(&self) {}

    #[inline]
    fn read(&self, bytes: Slice) -> Result<Slice> {
        Ok(bytes)
    }

    #[inline]
    fn put_value(&self, key: &[u8], value: impl NewValue<Self>) -> Result<()> {
        self.0.write_one(Effect::put(value.expiry()), key, &value.value_bytes(self)?)
    }

    fn update_key(
        &self,
        to: Destination<'_>,
        key: &[u8],
        mut change: impl for<'a> FnMut(Option<&'a [u8]>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let mut is_there = false;
        let change = |old: Option<&[u8]>| Ok(keyspace::changed(old, &mut change, &mut is_there));
        match to {
            Destination::Database => self.0.read_modify_write(key, change),
            Destination::Transaction(own) => {
                own.transaction.read_modify_write(&self.0, key, change)
            }
        }?;
        Ok(is_there)
    }

    plain_writes!();
}
