//! A keyspace of Rust keys and values.

use crate::codec::{AsKey, Codec, KeyCodec, Serde};
use crate::entry::EntryOptions;
use crate::keyspace::Keyspace;
use flagstone_base::key::{KeyRange, check_key};
use flagstone_base::{Error, Kind, Moment, Result};
use flagstone_engine::{Scan, TryGet};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A handle of a keyspace whose keys are `K` and whose values are `V`, stored by the codec `C`.
/// Cheap to clone; usable from any thread; keeps the database open.
///
/// [`Database::typed`](crate::Database::typed) opens one with the default codec, serde. Entries are
/// in the order of `K`.
///
/// ```
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct User {
///     name: String,
///     #[serde(default)]
///     logins: u64,
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// # #[cfg(feature = "serde")] {
/// let users = db.typed::<String, User>("users")?;
/// users.put("ada", &User { name: "Ada".into(), logins: 1 })?;
/// users.update("ada", |user| user.map(|user| User { logins: user.logins + 1, ..user }))?;
/// assert_eq!(users.get("ada")?.map(|user| user.logins), Some(2));
///
/// for entry in users.scan("a".to_owned()..)? {
///     let (id, user) = entry?;
///     println!("{id}: {} ({} logins)", user.name, user.logins);
/// }
/// # }
/// # Ok::<(), flagstone::Error>(())
/// ```
pub struct Typed<K, V, C = Serde> {
    keyspace: Keyspace,
    types: PhantomData<Types<K, V, C>>,
}

/// A handle holds no values of these types, so it can be sent to other threads whatever they are.
type Types<K, V, C> = fn() -> (K, V, C);

impl<K, V, C> Clone for Typed<K, V, C> {
    fn clone(&self) -> Self {
        Self { keyspace: self.keyspace.clone(), types: PhantomData }
    }
}

impl<K: KeyCodec, V, C: Codec<V>> Typed<K, V, C> {
    pub(crate) const fn new(keyspace: Keyspace) -> Self {
        Self { keyspace, types: PhantomData }
    }

    /// Returns the name of the keyspace.
    pub fn name(&self) -> String {
        self.keyspace.name()
    }

    /// Returns the keyspace of bytes in which the entries are stored, for what typed keyspaces
    /// lack: conditions of a [`Batch`](crate::Batch) with [`Keyspace::get_versioned`],
    /// [`Keyspace::multi_get`], [`Keyspace::merge`], [`Keyspace::delete_range`],
    /// [`Keyspace::prefix`], [`Keyspace::scan_unordered`], [`Keyspace::approximate_count`].
    /// [`Typed::key_bytes`] returns its keys. Bytes written here that the codecs did not encode are
    /// reported as Corruption when they are read.
    pub const fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns the bytes under which `key` is stored in [`Typed::keyspace`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # #[cfg(feature = "serde")] {
    /// let names = db.typed::<u64, String>("names")?;
    /// let mut batch = db.batch();
    /// batch.expect_absent(names.keyspace(), names.key_bytes(&7)?)?;
    /// batch.put_typed(&names, &7, &"Ada".into())?;
    /// db.commit(batch)?;
    /// # }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a value that cannot be a key.
    pub fn key_bytes<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(key.append_hint());
        key.append_key(&mut out)?;
        Ok(out)
    }

    /// Sets the value of `key`, with the database's [`Durability`](crate::Durability).
    ///
    /// The encoded key has 1 to 65,535 bytes; the encoded value has at most 512 MiB and a quarter
    /// of the memory budget.
    ///
    /// # Errors
    /// The error of the codec for a value that it cannot store, such as one nested deeper than 512:
    /// InvalidInput, and nothing is written. Else as [`Keyspace::put`].
    pub fn put<Q: AsKey<K> + ?Sized>(&self, key: &Q, value: &V) -> Result<()> {
        self.put_with(key, value, EntryOptions::new())
    }

    /// As [`Typed::put`], with options of its own.
    ///
    /// # Errors
    /// As [`Typed::put`].
    pub fn put_with<Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        value: &V,
        options: EntryOptions,
    ) -> Result<()> {
        let key = self.key_bytes(key)?;
        let mut value = self.value_bytes(value)?;
        self.keyspace.0.put_encoded(&key, (&mut value, options.expires), None)
    }

    /// Returns the moment from which on `key` is absent; `None` if it has no expiry, or is absent
    /// now.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn expiry<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Option<Moment>> {
        self.keyspace.expiry(self.key_bytes(key)?)
    }

    /// Returns the value of `key`, or `None` if there is none.
    ///
    /// # Errors
    /// InvalidInput if the stored value does not fit the type `V`, with the path of the part that
    /// does not; Corruption if the codec cannot decode the bytes. Else as [`Keyspace::get`].
    pub fn get<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Option<V>> {
        let found = self.keyspace.get(self.key_bytes(key)?)?;
        found.map(|bytes| self.decode_value(&bytes)).transpose()
    }

    /// Returns the value of `key` from memory alone, as [`Keyspace::try_get`].
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn try_get<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<TryGet<V>> {
        self.keyspace.try_get(self.key_bytes(key)?)?.and_then(|bytes| self.decode_value(&bytes))
    }

    /// Removes `key`, whether it is there or not. Costs as much as a put.
    ///
    /// # Errors
    /// As [`Keyspace::delete`].
    pub fn delete<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<()> {
        self.keyspace.delete(self.key_bytes(key)?)
    }

    /// Removes `key` and returns whether it was there. Costs a get and, if it was, a delete.
    ///
    /// # Errors
    /// As [`Keyspace::remove`].
    pub fn remove<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<bool> {
        self.keyspace.remove(self.key_bytes(key)?)
    }

    /// Reads the value of `key`, passes it to `change`, and writes what `change` returns; `None`
    /// means no value, in both directions. No other write of the key comes between.
    ///
    /// Writes of this key wait while `change` runs. A write to the same database inside `change`
    /// returns InvalidInput; `change` must not wait for another thread that writes.
    ///
    /// # Errors
    /// As [`Typed::put`] and [`Typed::get`].
    pub fn update<Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<()> {
        let key = self.key_bytes(key)?;
        check_key(&key)?;
        self.keyspace.0.read_modify_write(&key, |old| self.changed(old, change))?;
        Ok(())
    }

    /// Returns what is to be written after `change` of the stored value `old`.
    pub(crate) fn changed(
        &self,
        old: Option<&[u8]>,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<Option<(Kind, Vec<u8>)>> {
        let existed = old.is_some();
        let old = old.map(|bytes| self.decode_value(bytes)).transpose()?;
        Ok(match change(old) {
            Some(value) => Some((Kind::Put, self.value_bytes(&value)?)),
            None if existed => Some((Kind::Delete, Vec::new())),
            None => None,
        })
    }

    /// Returns the entries of `range` in the order of their keys, as of one moment.
    ///
    /// # Errors
    /// InvalidInput for a bound that cannot be a key. Errors of reading come from the iterator.
    pub fn scan(&self, range: impl RangeBounds<K>) -> Result<TypedScan<K, V, C>> {
        let scan = self.keyspace.0.scan_range(self.key_range(range)?);
        Ok(TypedScan::new(self, scan))
    }

    /// Removes all keys, as [`Keyspace::clear`].
    ///
    /// # Errors
    /// As [`Keyspace::clear`].
    pub fn clear(&self) -> Result<()> {
        self.keyspace.clear()
    }

    /// Returns the number of keys. Reads all of them: see [`Keyspace::count`].
    ///
    /// # Errors
    /// As [`Keyspace::count`].
    pub fn count(&self) -> Result<u64> {
        self.keyspace.count()
    }

    pub(crate) fn key_range(&self, range: impl RangeBounds<K>) -> Result<KeyRange> {
        let bound = |bound: Bound<&K>| -> Result<Bound<Vec<u8>>> {
            Ok(match bound {
                Bound::Included(key) => Bound::Included(self.key_bytes(key)?),
                Bound::Excluded(key) => Bound::Excluded(self.key_bytes(key)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok(KeyRange { start: bound(range.start_bound())?, end: bound(range.end_bound())? })
    }

    pub(crate) fn value_bytes(&self, value: &V) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(C::size_hint(value));
        C::encode(value, &mut out)
            .map_err(|error| error.context(format_args!("a value for {:?}", self.name())))?;
        Ok(out)
    }

    pub(crate) fn decode_value(&self, bytes: &[u8]) -> Result<V> {
        C::decode(bytes).map_err(|error| self.refused("value", &C::name(), error))
    }

    pub(crate) fn decode_entry(&self, key: &[u8], value: &[u8]) -> Result<(K, V)> {
        Ok((self.decode_key(key)?, self.decode_value(value)?))
    }

    fn decode_key(&self, bytes: &[u8]) -> Result<K> {
        K::decode_key(bytes).map_err(|error| self.refused("key", &K::key_name(), error))
    }

    fn refused(&self, what: &str, codec: &str, error: Error) -> Error {
        error.context(format_args!("a {what} of {:?} ({codec})", self.name()))
    }
}

/// An iterator over the entries of a typed keyspace, as of one moment. An entry that cannot be
/// decoded is an error, and the entries after it follow; after an error of reading the iterator
/// ends. It may be kept for as long as you like: see [`Scan`].
pub struct TypedScan<K, V, C = Serde> {
    scan: Scan,
    typed: Typed<K, V, C>,
}

impl<K, V, C> TypedScan<K, V, C> {
    pub(crate) fn new(typed: &Typed<K, V, C>, scan: Scan) -> Self {
        Self { scan, typed: typed.clone() }
    }

    /// Returns the same entries from the last to the first. Call it before the first entry is
    /// taken.
    #[must_use]
    pub fn rev(self) -> Self {
        Self { scan: self.scan.rev(), ..self }
    }
}

impl<K: KeyCodec, V, C: Codec<V>> Iterator for TypedScan<K, V, C> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.scan.advance() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        Some(self.typed.decode_entry(self.scan.key(), self.scan.value_bytes()))
    }
}

impl<K, V, C> fmt::Debug for Typed<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Typed({:?})", self.keyspace.name())
    }
}
