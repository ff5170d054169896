//! A keyspace: a named, ordered map of byte keys to byte values, spread over partitions.

use crate::args::{Key, KeyBound, KeyPrefix, KeyRange, NewValue};
use crate::scan::{Entries, Scan, Source};
use flagstone_base::key::check_key;
use flagstone_base::{Kind, Moment, Result, Slice};
use flagstone_engine::{Effect, Routing, TryGet, VersionToken};
use std::fmt;

/// What a keyspace of bytes holds, as the catalog says it.
pub(crate) const BYTES: &str = "bytes";

/// A handle of a keyspace. Cheap to clone; usable from any thread; keeps the database open.
#[derive(Clone)]
pub struct Keyspace(pub(crate) flagstone_engine::Keyspace);

impl Keyspace {
    /// Returns the name of the keyspace as of now:
    /// [`Database::rename_keyspace`](crate::Database::rename_keyspace) changes it.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Returns how the keys are spread over partitions.
    #[inline]
    pub fn routing(&self) -> Routing {
        self.0.routing()
    }

    /// Sets `key` to `value`, with the database's [`Durability`](crate::Durability). The value is
    /// bytes, or `bytes.expires(moment)`: see [`Expires`](crate::Expires).
    ///
    /// The key has 1 to 65,535 bytes; the value has at most 512 MiB and a quarter of the memory
    /// budget. Takes about a microsecond; longer when writers are slowed because flushes or
    /// compactions lag.
    ///
    /// # Errors
    /// InvalidInput for a size out of bounds or a dropped keyspace; OutOfSpace, Io, Poisoned,
    /// Closed. An error other than Poisoned means that nothing was written. After Poisoned this is
    /// unknown until the database is opened again.
    #[inline]
    pub fn put(&self, key: impl Key<Self>, value: impl NewValue<Self>) -> Result<()> {
        let effect = Effect::put(value.expiry());
        let value = value.value_bytes(self)?;
        self.0.write_one(effect, key.key_bytes()?.as_ref(), value.as_ref())
    }

    /// Returns the moment from which on `key` is absent; `None` if it has no expiry, or is absent
    /// now.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn expiry(&self, key: impl Key<Self>) -> Result<Option<Moment>> {
        self.0.expiry(key.key_bytes()?.as_ref())
    }

    /// Returns the value of `key`, or `None` if there is none. Takes one or two microseconds if its
    /// block is cached.
    ///
    /// # Errors
    /// InvalidInput for a key of 0 or more than 65,535 bytes, or a dropped keyspace; Io,
    /// Corruption, Closed.
    #[inline]
    pub fn get(&self, key: impl Key<Self>) -> Result<Option<Slice>> {
        self.0.get(key.key_bytes()?.as_ref())
    }

    /// Returns the value of `key` from memory alone: memtables, filters and the block cache. Reads
    /// no file and never waits. So a thread that serves many clients may call it, and pass to
    /// another thread only the gets that would read a file.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::TryGet;
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
    /// As [`Keyspace::get`].
    #[inline]
    pub fn try_get(&self, key: impl Key<Self>) -> Result<TryGet<Slice>> {
        self.0.try_get(key.key_bytes()?.as_ref())
    }

    /// Calls `read` with the value of `key` where it is stored, and returns what it returns.
    /// Returns `None` if the key is absent; `read` is not called then.
    ///
    /// A [`Keyspace::get`] copies a value that is still in a memtable. This does not: a value of 16
    /// KB there is read about 1.6 times as fast. A value that is folded of merge operands is made
    /// first, and a block that is not cached is read from its file, as by a get.
    ///
    /// `read` may call the database. It should be short: while it runs, the memtables and tables of
    /// that moment cannot be freed. If it panics, the panic goes on to the caller, and the database
    /// is as before.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "one,two,three")?;
    /// let commas = kv.look("a", |value| value.iter().filter(|byte| **byte == b',').count())?;
    /// assert_eq!(commas, Some(2));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn look<R>(&self, key: impl Key<Self>, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.0.look(key.key_bytes()?.as_ref(), read)
    }

    /// As [`Keyspace::look`], from memory alone, as [`Keyspace::try_get`]. Returns
    /// [`TryGet::WouldRead`] without a call of `read` if a table must be read.
    ///
    /// ```
    /// # use flagstone::TryGet;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "one")?;
    /// assert_eq!(kv.try_look("a", |value| value.len())?, TryGet::Found(3));
    /// assert_eq!(kv.try_look("b", |value| value.len())?, TryGet::Absent);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn try_look<R>(
        &self,
        key: impl Key<Self>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<TryGet<R>> {
        self.0.try_look(key.key_bytes()?.as_ref(), read)
    }

    /// Returns the value of `key` with a token of the write that set it, for
    /// [`Batch::expect`](crate::Batch::expect).
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn get_versioned(&self, key: impl Key<Self>) -> Result<Option<(VersionToken, Slice)>> {
        self.0.get_versioned(key.key_bytes()?.as_ref())
    }

    /// Returns the values of many keys, all as of one moment, in the order in which the keys are
    /// given.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn multi_get<K: Key<Self>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let snapshot = self.0.snapshot();
        keys.into_iter().map(|key| snapshot.get(&self.0, key.key_bytes()?.as_ref())).collect()
    }

    /// Removes `key`, whether it is there or not. Costs as much as a put.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn delete(&self, key: impl Key<Self>) -> Result<()> {
        self.0.delete(key.key_bytes()?.as_ref())
    }

    /// Removes `key` and returns whether it was there. Costs a get and, if it was, a delete.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn remove(&self, key: impl Key<Self>) -> Result<bool> {
        self.0.remove(key.key_bytes()?.as_ref())
    }

    /// Removes all keys of `range`, however many: writes one entry for each partition.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn delete_range(&self, range: impl KeyRange<Self>) -> Result<()> {
        self.0.delete_keys(range.key_range()?)
    }

    /// Removes all keys. The log gets one entry for each partition, at its place among all writes:
    /// earlier writes are gone, later ones stay, also after a crash. Then the memtables are
    /// flushed, and one edit removes all tables without reading them: the cost is that of the
    /// memtables and of the number of tables. A table that a snapshot or a scan still reads is
    /// removed when they have ended. When this returns, the emptying survives a power cut, whatever
    /// the database's durability; so do the writes that were acknowledged before, unless the disk
    /// is full, because they may have been copied elsewhere.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let cache = db.keyspace("cache")?;
    /// cache.put("a", "1")?;
    /// cache.clear()?;
    /// cache.put("b", "2")?;
    /// assert_eq!(cache.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a dropped keyspace, or inside a callback; OutOfSpace, Io, Poisoned, Closed.
    /// An error other than Poisoned means that the keys are still there. After Poisoned this is
    /// unknown until the database is opened again.
    pub fn clear(&self) -> Result<()> {
        self.0.clear()
    }

    /// Folds `operand` into the value of `key` by the keyspace's fold, without reading it: as cheap
    /// as a put. If the fold cannot combine operands
    /// ([`Fold::partial`](crate::fold::Fold::partial)), every 32nd merge of a key reads and folds
    /// the value, so that a get folds about 32 operands at most. If the value is large, this
    /// happens less often. After the first expiry of the keyspace every merge reads the value: see
    /// [`Expires::expires`](crate::Expires::expires).
    ///
    /// # Errors
    /// InvalidInput if the keyspace has no fold; else as [`Keyspace::put`].
    #[inline]
    pub fn merge(&self, key: impl Key<Self>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.0.merge(key.key_bytes()?.as_ref(), operand.as_ref())
    }

    /// Reads the value of `key`, passes it to `change`, and writes what `change` returns; `None`
    /// means no value, in both directions. No other write of the key comes between. An expiry is
    /// kept. Returns whether the key has a value now.
    ///
    /// Writes of this key wait while `change` runs. A write to the same database inside `change`
    /// returns InvalidInput; `change` must not wait for another thread that writes. It may be
    /// called more than once.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let kv = db.keyspace("kv")?;
    /// let push = |old: Option<&[u8]>| Some([old.unwrap_or_default(), b"x"].concat());
    /// assert!(kv.update("a", push)? && kv.update("a", push)?);
    /// assert_eq!(kv.get("a")?.as_deref(), Some(b"xx".as_slice()));
    /// assert!(!kv.update("a", |_old| None)?);
    /// assert_eq!(kv.get("a")?, None);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`] and [`Keyspace::get`].
    pub fn update(
        &self,
        key: impl Key<Self>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let key = key.key_bytes()?;
        check_key(key.as_ref())?;
        let mut is_there = false;
        self.0
            .read_modify_write(key.as_ref(), |old| Ok(changed(old, &mut change, &mut is_there)))?;
        Ok(is_there)
    }

    /// Returns the entries of `range` in the order of their keys, as of one moment over all
    /// partitions: pairs of [`Slice`]s. Errors come from the iterator: see [`Scan`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Prefix;
    /// let kv = db.keyspace("sessions")?;
    /// for key in ["a", "ab", "b"] {
    ///     kv.put(key, "1")?;
    /// }
    /// assert_eq!((kv.scan(..).count(), kv.scan("ab"..).count()), (3, 2));
    /// assert_eq!(kv.scan(Prefix("a")).rev().count(), 2);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    #[inline]
    pub fn scan(&self, range: impl KeyRange<Self>) -> Scan<'static, Self> {
        Scan::new(range.key_range().map(|range| self.0.scan_range(range)), ())
    }

    /// Returns the number of keys. Reads all of them, on this thread and as many others as
    /// [`compaction_workers`](crate::Options::compaction_workers) says, each with a partition. The
    /// blocks that are read do not enter the cache.
    ///
    /// # Errors
    /// Io, Corruption, Closed.
    #[inline]
    pub fn count(&self) -> Result<u64> {
        self.0.count()
    }

    /// Returns about how many keys there are, from counters alone. Overwritten and expired entries
    /// count until compactions remove them. A delete in a table counts as one key less: too few if
    /// it deletes nothing older. A put that has expired when it is flushed becomes such a delete.
    #[inline]
    pub fn approximate_count(&self) -> u64 {
        self.0.approximate_count()
    }
}

/// Returns what is to be written after `change` of the value `old`. Notes in `is_there` whether
/// there is a value then.
pub(crate) fn changed(
    old: Option<&[u8]>,
    change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    is_there: &mut bool,
) -> Option<(Kind, Vec<u8>)> {
    let new = change(old);
    *is_there = new.is_some();
    match new {
        Some(value) => Some((Kind::Put, value)),
        None => old.map(|_there| (Kind::Delete, Vec::new())),
    }
}

impl Entries for Keyspace {
    type Key = Slice;
    type Value = Slice;
    type Decoder = ();

    #[inline]
    fn decode_key(_: &(), source: &Source<'_>) -> Result<Slice> {
        Ok(Slice::copy_of(source.key()))
    }

    #[inline]
    fn decode_value(_: &(), source: &Source<'_>) -> Result<Slice> {
        Ok(source.value())
    }
}

impl<T: AsRef<[u8]>> Key<Keyspace> for T {
    type Bytes = T;

    #[inline]
    fn key_bytes(self) -> Result<T> {
        Ok(self)
    }
}

impl<T: AsRef<[u8]>> KeyBound<Keyspace> for T {
    #[inline]
    fn bound_bytes(self) -> Result<Vec<u8>> {
        Ok(self.as_ref().to_vec())
    }
}

impl<T: AsRef<[u8]>> KeyPrefix<Keyspace> for T {
    #[inline]
    fn prefix_bytes(self) -> Vec<u8> {
        self.as_ref().to_vec()
    }
}

impl<T: AsRef<[u8]>> NewValue<Keyspace> for T {
    type Bytes = T;

    #[inline]
    fn value_bytes(self, _: &Keyspace) -> Result<T> {
        Ok(self)
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyspace({:?})", self.name())
    }
}
