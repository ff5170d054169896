//! A keyspace of Rust keys and values.

use crate::args::{Key, KeyBound, KeyPrefix, KeyRange, NewValue};
use crate::codec::{AsKey, Codec, KeyCodec, Serde};
use crate::keyspace::Keyspace;
use crate::scan::{Entries, Scan, Source};
use flagstone_base::key::check_key;
use flagstone_base::{Error, Kind, Moment, Result};
use flagstone_engine::{TryGet, VersionToken};
use std::fmt;
use std::marker::PhantomData;

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
/// for entry in users.scan("a".to_owned()..) {
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
    /// lack: [`Keyspace::multi_get`], [`Keyspace::merge`], [`Keyspace::look`],
    /// [`Keyspace::approximate_count`]. [`Typed::key_bytes`] returns its keys. Bytes written here
    /// that the codecs did not encode are reported as Corruption when they are read.
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
    /// names.put(&7, &"Ada".into())?;
    /// let len = names.keyspace().look(names.key_bytes(&7)?, |bytes| bytes.len())?;
    /// assert!(len.is_some_and(|len| len < 10));
    /// # }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a value that cannot be a key.
    pub fn key_bytes(&self, key: impl Key<Self>) -> Result<Vec<u8>> {
        Ok(key.key_bytes()?.as_ref().to_vec())
    }

    /// Sets the value of `key`, with the database's [`Durability`](crate::Durability). The value is
    /// `&V`, or `(&value).expires(moment)`: see [`Expires`](crate::Expires).
    ///
    /// The encoded key has 1 to 65,535 bytes; the encoded value has at most 512 MiB and a quarter
    /// of the memory budget.
    ///
    /// # Errors
    /// The error of the codec for a value that it cannot store, such as one nested deeper than 512:
    /// InvalidInput, and nothing is written. Else as [`Keyspace::put`].
    pub fn put(
        &self,
        key: impl Key<Self>,
        value: impl NewValue<Self, Bytes = Vec<u8>>,
    ) -> Result<()> {
        let key = key.key_bytes()?;
        let expiry = value.expiry();
        let mut value = value.value_bytes(self)?;
        self.keyspace.0.put_encoded(key.as_ref(), (&mut value, expiry), None)
    }

    /// Returns the moment from which on `key` is absent; `None` if it has no expiry, or is absent
    /// now.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn expiry(&self, key: impl Key<Self>) -> Result<Option<Moment>> {
        self.keyspace.expiry(key.key_bytes()?)
    }

    /// Returns the value of `key`, or `None` if there is none.
    ///
    /// # Errors
    /// InvalidInput if the stored value does not fit the type `V`, with the path of the part that
    /// does not; Corruption if the codec cannot decode the bytes. Else as [`Keyspace::get`].
    pub fn get(&self, key: impl Key<Self>) -> Result<Option<V>> {
        let found = self.keyspace.get(key.key_bytes()?)?;
        found.map(|bytes| self.decode_value(&bytes)).transpose()
    }

    /// Returns the value of `key` from memory alone, as [`Keyspace::try_get`].
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn try_get(&self, key: impl Key<Self>) -> Result<TryGet<V>> {
        self.keyspace.try_get(key.key_bytes()?)?.and_then(|bytes| self.decode_value(&bytes))
    }

    /// Returns the value of `key` with a token of the write that set it, for
    /// [`Batch::expect`](crate::Batch::expect).
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn get_versioned(&self, key: impl Key<Self>) -> Result<Option<(VersionToken, V)>> {
        let found = self.keyspace.get_versioned(key.key_bytes()?)?;
        found.map(|(version, bytes)| Ok((version, self.decode_value(&bytes)?))).transpose()
    }

    /// Removes `key`, whether it is there or not. Costs as much as a put.
    ///
    /// # Errors
    /// As [`Keyspace::delete`].
    pub fn delete(&self, key: impl Key<Self>) -> Result<()> {
        self.keyspace.delete(key.key_bytes()?)
    }

    /// Removes `key` and returns whether it was there. Costs a get and, if it was, a delete.
    ///
    /// # Errors
    /// As [`Keyspace::remove`].
    pub fn remove(&self, key: impl Key<Self>) -> Result<bool> {
        self.keyspace.remove(key.key_bytes()?)
    }

    /// Removes all keys of `range`, however many, as [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// InvalidInput for a bound that cannot be a key; else as [`Keyspace::put`].
    pub fn delete_range(&self, range: impl KeyRange<Self>) -> Result<()> {
        self.keyspace.0.delete_keys(range.key_range()?)
    }

    /// Reads the value of `key`, passes it to `change`, and writes what `change` returns; `None`
    /// means no value, in both directions. No other write of the key comes between. An expiry is
    /// kept. Returns whether the key has a value now.
    ///
    /// Writes of this key wait while `change` runs. A write to the same database inside `change`
    /// returns InvalidInput; `change` must not wait for another thread that writes. It may be
    /// called more than once.
    ///
    /// # Errors
    /// As [`Typed::put`] and [`Typed::get`].
    pub fn update(
        &self,
        key: impl Key<Self>,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<bool> {
        let key = key.key_bytes()?;
        check_key(key.as_ref())?;
        let mut is_there = false;
        self.keyspace
            .0
            .read_modify_write(key.as_ref(), |old| self.changed(old, &mut change, &mut is_there))?;
        Ok(is_there)
    }

    /// Returns what is to be written after `change` of the stored value `old`. Notes in `is_there`
    /// whether there is a value then.
    pub(crate) fn changed(
        &self,
        old: Option<&[u8]>,
        change: impl FnOnce(Option<V>) -> Option<V>,
        is_there: &mut bool,
    ) -> Result<Option<(Kind, Vec<u8>)>> {
        let existed = old.is_some();
        let old = old.map(|bytes| self.decode_value(bytes)).transpose()?;
        let new = change(old);
        *is_there = new.is_some();
        Ok(match new {
            Some(value) => Some((Kind::Put, self.encode_value(&value)?)),
            None if existed => Some((Kind::Delete, Vec::new())),
            None => None,
        })
    }

    /// Returns the entries of `range` in the order of their keys, as of one moment: pairs of `K`
    /// and `V`. Errors come from the iterator: see [`Scan`].
    pub fn scan(&self, range: impl KeyRange<Self>) -> Scan<'static, Self> {
        let range = range.key_range();
        Scan::new(range.map(|range| self.keyspace.0.scan_range(range)), self.clone())
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

    fn encode_value(&self, value: &V) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(C::size_hint(value));
        C::encode(value, &mut out)
            .map_err(|error| error.context(format_args!("a value for {:?}", self.name())))?;
        Ok(out)
    }

    pub(crate) fn decode_value(&self, bytes: &[u8]) -> Result<V> {
        C::decode(bytes).map_err(|error| self.refused("value", &C::name(), error))
    }

    fn decode_key(&self, bytes: &[u8]) -> Result<K> {
        K::decode_key(bytes).map_err(|error| self.refused("key", &K::key_name(), error))
    }

    fn refused(&self, what: &str, codec: &str, error: Error) -> Error {
        error.context(format_args!("a {what} of {:?} ({codec})", self.name()))
    }
}

impl<K: KeyCodec, V, C: Codec<V>> Entries for Typed<K, V, C> {
    type Key = K;
    type Value = V;
    type Decoder = Self;

    fn decode_key(typed: &Self, source: &Source<'_>) -> Result<K> {
        typed.decode_key(source.key())
    }

    fn decode_value(typed: &Self, source: &Source<'_>) -> Result<V> {
        typed.decode_value(source.value_bytes())
    }
}

impl<K: KeyCodec, V, C, Q: AsKey<K> + ?Sized> Key<Typed<K, V, C>> for &Q {
    type Bytes = Vec<u8>;

    fn key_bytes(self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.append_hint());
        self.append_key(&mut out)?;
        Ok(out)
    }
}

impl<K: KeyCodec, V, C> KeyBound<Typed<K, V, C>> for K {
    fn bound_bytes(self) -> Result<Vec<u8>> {
        Key::<Typed<K, V, C>>::key_bytes(&self)
    }
}

impl<V, C, P: AsRef<str>> KeyPrefix<Typed<String, V, C>> for P {
    fn prefix_bytes(self) -> Vec<u8> {
        self.as_ref().as_bytes().to_vec()
    }
}

impl<V, C, P: AsRef<[u8]>> KeyPrefix<Typed<Vec<u8>, V, C>> for P {
    fn prefix_bytes(self) -> Vec<u8> {
        self.as_ref().to_vec()
    }
}

impl<K: KeyCodec, V, C: Codec<V>> NewValue<Typed<K, V, C>> for &V {
    type Bytes = Vec<u8>;

    fn value_bytes(self, typed: &Typed<K, V, C>) -> Result<Vec<u8>> {
        typed.encode_value(self)
    }
}

impl<K, V, C> fmt::Debug for Typed<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Typed({:?})", self.keyspace.name())
    }
}
